// Requests that arrive again. A node numbers its requests to another node, and sends
// those without an answer again after a link has broken. A request is handled only
// once: when it arrives again, it gets its earlier answer, which is stored until it
// is acknowledged. Pulled values are not stored: a push-and-pull that arrives again
// is handled as a pull.
//
// Numbers of links and ids of nodes are never reused, and a later link has a greater
// number. So an answer goes to the newest link on which its node has sent the request,
// and never to another node.
//
// The answers stored for a node are bounded by its window of open requests and by the
// budget of the process. They are freed when the node has died or left.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/kvapp/node.h"

enum { FIRST_CAP = 64, KEPT_MAX = 1 << 16 };

// A numbered request of a node, and its answer; number 0: the place is free.
struct asked {
    uint64_t number;
    struct received *q; // the request while it has no answer
    int code;           // the code of the answer
    bool has_values;    // the answer had values, which are not stored
    bool lost;          // the answer could not be stored, because memory was short
    uint32_t bytes;
    char *what; // the text of an error, or the body of the answer
};

// A node that sends numbered requests to this one.
struct asker {
    struct chained by_id; // must be the first member
    struct asker *next;
    struct tug_node *node;
    uint32_t id;
    uint64_t acked; // requests with lower numbers are acknowledged and forgotten
    uint32_t cap;
    struct asked *ring; // requests from `acked` on, at index number & (cap - 1)
};

static struct asked *at(const struct asker *k, uint64_t number)
{
    return &k->ring[number & (k->cap - 1)];
}

static void asker_forget(struct asker *k, struct asked *a)
{
    if (a->q != NULL)
        a->q->asker = NULL;
    if (a->what != NULL)
        budget_give(&k->node->process.budget, BUDGET_CLOCKS, a->bytes);
    mem_free(a->what);
    *a = (struct asked){0};
}

static void forget_to(struct asker *k, uint64_t acked)
{
    for (uint32_t i = 0; i < k->cap && k->acked < acked; i++, k->acked++)
        if (at(k, k->acked)->number == k->acked)
            asker_forget(k, at(k, k->acked));
    k->acked = acked > k->acked ? acked : k->acked;
}

static struct asker *asker_of(struct tug_node *n, uint32_t id)
{
    return (struct asker *)chains_find(&n->askers_by_id, id);
}

static struct asker *asker_new(struct tug_node *n, uint32_t id)
{
    struct asker *k = mem_zalloc(sizeof(*k));
    struct asked *ring = mem_zalloc(FIRST_CAP * sizeof(*ring));
    if (k == NULL || ring == NULL) {
        mem_free(k);
        mem_free(ring);
        return NULL;
    }
    *k = (struct asker){
        .next = n->askers, .node = n, .id = id, .cap = FIRST_CAP, .ring = ring};
    n->askers = k;
    chains_put(&n->askers_by_id, &k->by_id, id);
    return k;
}

static void asker_free(struct asker *k)
{
    for (uint32_t i = 0; i < k->cap; i++)
        asker_forget(k, &k->ring[i]);
    mem_free(k->ring);
    mem_free(k);
}

void kv_numbers_forget(struct tug_node *n, bool all)
{
    for (struct asker **link = &n->askers, *k; (k = *link) != NULL;) {
        const struct roster_node *r = all ? NULL
                                          : roster_find(member_roster(n->member), k->id);
        if (!all && (r == NULL || r->alive)) {
            link = &k->next;
            continue;
        }
        *link = k->next;
        chains_take(&n->askers_by_id, &k->by_id);
        asker_free(k);
    }
    if (all)
        chains_free(&n->askers_by_id, NULL);
}

// Enlarges the ring until `number` has a place in it.
static int numbers_make_room(struct asker *k, uint64_t number)
{
    uint32_t cap = k->cap;
    while (number - k->acked >= cap)
        cap *= 2;
    if (cap == k->cap)
        return 0;
    struct asked *ring = mem_zalloc(cap * sizeof(*ring));
    if (ring == NULL)
        return TUG_ENOMEM;
    for (uint32_t i = 0; i < k->cap; i++)
        if (k->ring[i].number != 0)
            ring[k->ring[i].number & (cap - 1)] = k->ring[i];
    mem_free(k->ring);
    k->ring = ring;
    k->cap = cap;
    return 0;
}

static void tell_again(struct tug_node *n, van_link link, uint64_t request,
                       const struct asked *a, const struct msg_app *asked)
{
    struct msg_error why = {.code = a->code, .what = {a->what, a->bytes}};
    struct msg_app m = {
        .app = asked->app,
        .customer = asked->customer,
        .timestamp = asked->timestamp,
        .sender = member_id(n->member),
        .head = asked->head,
        .flags = (uint8_t)(asked->flags & ~WIRE_APP_REQUEST),
        .value_bytes = asked->value_bytes,
        .body = {a->what, a->bytes},
    };
    if (a->lost)
        why = (struct msg_error){
            .code = TUG_EIO,
            .what = wire_text("the request was handled when it first arrived, but its "
                              "answer was too long to be kept and cannot be sent again")};
    if (a->lost || a->code != 0)
        (void)van_send(n->van, link, MSG_ERROR, request, &why, NULL);
    else
        (void)van_send(n->van, link, MSG_APP, request, &m, NULL);
}

enum kv_seen kv_numbers_look(struct tug_node *n, van_link link, uint32_t from,
                             const struct van_message *m, bool *ret_pull_only,
                             struct err *e)
{
    const struct msg_app *app = &m->m->app;
    struct asker *k = from != 0 && app->number != 0 ? asker_of(n, from) : NULL;
    if (from == 0 || app->number == 0)
        return KV_NEW;
    if (app->acked > app->number || app->number - app->acked >= KV_WINDOW ||
        (k != NULL && app->number < k->acked)) {
        err_set(e, TUG_EDATA,
                "the numbers of a request contradict each other: it is request %llu, and "
                "acknowledges the answers to all below %llu",
                (unsigned long long)app->number, (unsigned long long)app->acked);
        return KV_WRONG;
    }
    if (k == NULL)
        return KV_NEW;
    forget_to(k, app->acked);
    struct asked *a = at(k, app->number);
    if (a->number != app->number)
        return KV_NEW;
    if (a->q != NULL) {
        // The answer goes to the newest link on which the request arrived. Messages of an
        // older, broken link may be read after those of a newer link.
        if (link > a->q->link) {
            a->q->link = link;
            a->q->request = m->request;
        }
        return KV_AGAIN;
    }
    *ret_pull_only = a->has_values;
    if (a->has_values)
        return KV_NEW;
    tell_again(n, link, m->request, a, app);
    return KV_AGAIN;
}

int kv_numbers_take(struct tug_node *n, uint32_t from, struct received *q)
{
    if (from == 0 || q->m.number == 0)
        return 0;
    struct asker *k = asker_of(n, from);
    if (k == NULL && (k = asker_new(n, from)) == NULL)
        return TUG_ENOMEM;
    forget_to(k, q->m.acked);
    if (numbers_make_room(k, q->m.number) != 0)
        return TUG_ENOMEM;
    struct asked *a = at(k, q->m.number);
    asker_forget(k, a);
    a->number = q->m.number;
    a->q = q;
    q->asker = k;
    return 0;
}

void kv_numbers_answered(struct received *q, int code, const void *what, size_t bytes,
                         bool has_values)
{
    struct asker *k = q->asker;
    if (k == NULL)
        return;
    struct asked *a = at(k, q->m.number);
    q->asker = NULL;
    a->q = NULL;
    a->code = code;
    a->has_values = has_values;
    if (bytes == 0)
        return;
    a->lost = true;
    if (bytes > KEPT_MAX || !budget_take(&k->node->process.budget, BUDGET_CLOCKS, bytes))
        return;
    a->bytes = (uint32_t)bytes;
    a->what = mem_alloc(bytes);
    if (a->what == NULL) {
        budget_give(&k->node->process.budget, BUDGET_CLOCKS, bytes);
        return;
    }
    memcpy(a->what, what, bytes);
    a->lost = false;
}
