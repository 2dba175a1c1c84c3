// Lines of many processes; see lines.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/lines.h"

#include <errno.h>
#include <string.h>

#include "os/log.h"

enum { HELD_MAX = 4096 }; // bytes of a line that may be held

void lines_open(struct lines *l, const char *prefix, FILE *to, FILE *log,
                const char *log_path)
{
    *l = (struct lines){.prefix = prefix, .to = to, .log = log, .log_path = log_path};
    l->part = BUF_INIT(LINES_MAX);
    l->held = BUF_INIT(16 * HELD_MAX);
}

static bool write_line(FILE *to, const char *prefix, const char *line, size_t n)
{
    // stdio writes the whole line in one call, if it fits, so that lines of other
    // processes do not mix in.
    return fprintf(to, "%s%.*s\n", prefix, (int)n, line) >= 0 && fflush(to) == 0;
}

static void put_line(struct lines *l, const char *line, size_t n)
{
    if (n > 0 && line[n - 1] == '\r')
        n--;
    bool held = l->holds != NULL && n < HELD_MAX && l->holds(line, n) &&
                buf_printf(&l->held, "%.*s\n", (int)n, line) == 0;
    if (!held && l->to != NULL)
        // main reports errors of standard output
        (void)write_line(l->to, l->prefix, line, n);
    if (l->log != NULL && !write_line(l->log, "", line, n)) {
        err_sys(&l->failed, TUG_EIO, "cannot write the log '%s'", l->log_path);
        log_warn("%s", l->failed.text);
        l->log = NULL;
    }
    if (n > 0)
        snprintf(l->last, sizeof(l->last), "%.*s", (int)n, line);
}

int lines_add(struct lines *l, const char *bytes, size_t n)
{
    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t take = end != NULL ? (size_t)(end - bytes) : n;
        size_t room = l->part.max - l->part.len;
        bool cut = take > room;
        if (cut)
            take = room;
        TRY(buf_add(&l->part, bytes, take));
        bytes += take;
        n -= take;
        if (end == NULL && !cut)
            return 0;
        put_line(l, l->part.data != NULL ? l->part.data : "", l->part.len);
        buf_clear(&l->part);
        if (!cut) { // skip the newline
            bytes++;
            n--;
        }
    }
    return 0;
}

void lines_close(struct lines *l)
{
    if (l->part.len > 0)
        put_line(l, l->part.data, l->part.len);
    buf_free(&l->part);
}

void lines_say_held(struct lines *l, bool (*said)(void *ctx, const char *line), void *ctx)
{
    char line[HELD_MAX];
    for (size_t at = 0; at < l->held.len;) {
        const char *from = l->held.data + at;
        size_t n = (size_t)((const char *)memchr(from, '\n', l->held.len - at) - from);
        memcpy(line, from, n);
        line[n] = '\0';
        at += n + 1;
        if (!said(ctx, line) && l->to != NULL)
            (void)write_line(l->to, l->prefix, line, n);
    }
    buf_free(&l->held);
}
