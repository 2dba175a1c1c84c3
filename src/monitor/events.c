// Server-sent events; see events_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/events_internal.h"

#include "base/alloc.h"

struct event *event_of(struct buf *json, uint64_t version)
{
    struct event *e = mem_zalloc(sizeof(*e));
    const char *line = buf_str(json);
    if (e != NULL) {
        *e = (struct event){
            .users = 1, .version = version, .text = BUF_INIT(json->max + 32)};
        if (line == NULL || buf_printf(&e->text, "event: facts\ndata: ") != 0 ||
            buf_add(&e->text, line, json->len) != 0 ||
            buf_add(&e->text, "\n\n", 2) != 0) {
            event_release(e);
            e = NULL;
        }
    }
    buf_free(json);
    return e;
}

struct event *event_use(struct event *e)
{
    e->users++;
    return e;
}

void event_release(struct event *e)
{
    if (e == NULL || --e->users > 0)
        return;
    buf_free(&e->text);
    mem_free(e);
}
