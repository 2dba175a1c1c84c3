// See gate.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/gate.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct gate_answer {
    struct gate_answer *next;
    van_link link;
    uint16_t type;
    uint64_t request, bytes;
    union wire_any m;
    struct van_release release; // release.release NULL: the answer has no spans
    uint32_t n, met;            // all needs before number `met` are met
    struct gate_need needs[];   // followed by the answer's texts
};

void gate_open(struct gate *g, struct budget *b)
{
    *g = (struct gate){.budget = b};
    g->last = &g->first;
}

// Removes the answer at *at, and frees it. The caller has sent or released its spans.
static void remove_at(struct gate *g, struct gate_answer **at)
{
    struct gate_answer *x = *at;
    *at = x->next;
    if (g->last == &x->next)
        g->last = at;
    budget_give(g->budget, BUDGET_PENDING, x->bytes);
    mem_free(x);
}

static void drop_at(struct gate *g, struct gate_answer **at)
{
    if ((*at)->release.release != NULL)
        (*at)->release.release((*at)->release.ctx);
    remove_at(g, at);
}

void gate_close(struct gate *g)
{
    while (g->first != NULL)
        drop_at(g, &g->first);
}

static size_t struct_bytes(uint16_t type)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return sizeof(struct msg_##name);
#include "wire/messages.def"
    default:
        return 0;
    }
}

int gate_hold(struct gate *g, van_link link, uint16_t type, uint64_t request,
              const void *msg, const struct van_release *release, uint64_t bytes,
              const struct gate_need *needs, uint32_t n)
{
    union wire_any m;
    memset(&m, 0, sizeof(m));
    memcpy(&m, msg, struct_bytes(type));
    size_t texts = wire_texts(type, &m, NULL);
    size_t room = sizeof(struct gate_answer) + n * sizeof(*needs) + texts;
    assert(release != NULL || bytes == 0);
    if (!budget_take(g->budget, BUDGET_PENDING, room + bytes))
        return TUG_ENOMEM;
    struct gate_answer *x = mem_alloc(room);
    if (x == NULL) {
        budget_give(g->budget, BUDGET_PENDING, room + bytes);
        return TUG_ENOMEM;
    }
    *x = (struct gate_answer){.link = link,
                              .type = type,
                              .request = request,
                              .bytes = room + bytes,
                              .m = m,
                              .n = n};
    if (release != NULL)
        x->release = *release;
    memcpy(x->needs, needs, n * sizeof(*needs));
    wire_texts(type, &x->m, (char *)(x->needs + n));
    *g->last = x;
    g->last = &x->next;
    return 0;
}

static bool is_met(struct gate_answer *x, gate_done_fn done, void *ctx)
{
    while (x->met < x->n && done(ctx, &x->needs[x->met]))
        x->met++;
    return x->met == x->n;
}

void gate_send(struct gate *g, struct van *v, gate_done_fn done, void *ctx)
{
    for (struct gate_answer **at = &g->first; *at != NULL;) {
        struct gate_answer *x = *at;
        if (!is_met(x, done, ctx)) {
            at = &x->next;
            continue;
        }
        // An error of van_send is ignored: if the answer gets lost, the sender repeats
        // its request.
        van_send(v, x->link, x->type, x->request, &x->m,
                 x->release.release != NULL ? &x->release : NULL);
        remove_at(g, at);
    }
}

bool gate_take(struct gate *g, van_link *ret_link, uint64_t *ret_request)
{
    if (g->first == NULL)
        return false;
    *ret_link = g->first->link;
    *ret_request = g->first->request;
    drop_at(g, &g->first);
    return true;
}

void gate_raise(struct gate *g, uint64_t what, uint64_t least)
{
    for (struct gate_answer *x = g->first; x != NULL; x = x->next)
        for (uint32_t i = 0; i < x->n; i++)
            if (x->needs[i].what == what && x->needs[i].least < least) {
                x->needs[i].least = least;
                x->met = x->met < i ? x->met : i;
            }
}

void gate_drop_link(struct gate *g, van_link link)
{
    for (struct gate_answer **at = &g->first; *at != NULL;)
        if ((*at)->link == link)
            drop_at(g, at);
        else
            at = &(*at)->next;
}
