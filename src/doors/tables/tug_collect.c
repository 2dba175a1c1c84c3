// Barriers of all workers, and collective calls, which are barriers to which each worker
// brings bytes. Long arrays are sent in pieces, one call for each.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "doors/tables/tug_client.h"
#include "os/clock.h"
#include "runtime/interrupt.h"
#include "tug/metric.h"

enum { VALUE = 8 }; // size of a value of a reduction, in bytes

struct barrier {
    const struct member *member;
    uint8_t group;
};

static bool barrier_over(void *ctx)
{
    const struct barrier *b = ctx;
    return member_barrier_done(b->member, b->group, NULL) ||
           member_ended(b->member, NULL);
}

static int may_meet(struct tug_client *c)
{
    if (pump_working(c->pump))
        return err_set(last_error(), TUG_EUSAGE, "a callback must not wait at a barrier");
    if (c->o.guest)
        return err_set(last_error(), TUG_EUSAGE,
                       "a guest is not a worker: it cannot wait at barriers");
    pump_enter(c->pump);
    int rc = client_over(c->client, last_error());
    pump_leave(c->pump);
    return rc;
}

// Where the answer to a collective call is to be written.
struct answer {
    uint32_t workers;
    size_t n;      // bytes of each worker in this piece
    size_t stride; // WIRE_GATHER: distance in `to` between the bytes of two workers
    char *to;
};

static int collect_damaged(const char *call)
{
    return err_set(last_error(), TUG_EDATA, "the scheduler's answer to %s is damaged",
                   call);
}

static int take_parts(struct wire_text result, const char *call, const struct answer *a)
{
    struct wire_part p;
    uint32_t taken = 0;
    int rc;
    while ((rc = wire_next_part(&result, &p)) == 1) {
        if (p.index != taken || taken == a->workers || p.bytes.n != a->n)
            return collect_damaged(call);
        memcpy(a->to + taken++ * a->stride, p.bytes.data, a->n);
    }
    return rc == 0 && taken == a->workers ? 0 : collect_damaged(call);
}

static int collect_take(struct tug_client *c, const struct member_collect *m,
                        const struct answer *a)
{
    struct wire_text result;
    TRY(member_collected(client_member(c->client), &result, last_error()));
    if (m->op == WIRE_GATHER)
        return take_parts(result, m->call, a);
    if (result.n != a->n)
        return collect_damaged(m->call);
    memcpy(a->to, result.data, a->n);
    return 0;
}

// Waits at the barrier that the member has entered, and takes the answer to the collective
// call `k`; NULL: the barrier has no call.
static int meet(struct tug_client *c, uint8_t group, const struct member_collect *k,
                const struct answer *a)
{
    const char *what = k != NULL ? k->call : "the barrier";
    struct member *m = client_member(c->client);
    struct barrier b = {m, group};
    uint64_t until = van_now(c->van) + clock_ns_of(c->o.wait_seconds);
    (void)pump_wait(c->pump, barrier_over, &b, until);
    bool interrupted = interrupt_came();
    pump_enter(c->pump);
    int rc = member_barrier_result(m, group, what, interrupted, c->o.wait_seconds,
                                   last_error());
    if (rc == 0 && k != NULL)
        rc = collect_take(c, k, a);
    pump_leave(c->pump);
    return rc;
}

int calls_barrier(struct tug_client *c, uint8_t group)
{
    TRY(may_meet(c));
    pump_enter(c->pump);
    member_barrier(client_member(c->client), group);
    pump_leave(c->pump);
    return meet(c, group, NULL, NULL);
}

int tug_barrier(struct tug_client *c)
{
    return calls_barrier(c, WIRE_GROUP_WORKERS);
}

// ---------------------------------------------------------------- collective calls

static int collect_one(struct tug_client *c, const struct member_collect *m,
                       const struct answer *a)
{
    TRY(may_meet(c));
    pump_enter(c->pump);
    int rc = member_collect(client_member(c->client), m, last_error());
    pump_leave(c->pump);
    return rc != 0 ? rc : meet(c, WIRE_GROUP_WORKERS, m, a);
}

int calls_gather(struct tug_client *c, const struct calls_collect *k, const void *bytes,
                 size_t n, void *ret)
{
    char call[WIRE_CALL_MAX];
    size_t at = 0, some;
    if (n > 0)
        snprintf(call, sizeof(call), "%s of %zu byte%s", k->call, n, PLURAL_S(n));
    else
        snprintf(call, sizeof(call), "%s", k->call);
    do {
        some = member_collect_piece(n - at, WIRE_GATHER, k->workers);
        struct member_collect m = {
            .call = call,
            .op = WIRE_GATHER,
            .first = at,
            .index = k->index,
            .workers = k->workers,
            .bytes = (const char *)bytes + at,
            .n = some,
        };
        struct answer a = {
            .workers = k->workers, .n = some, .stride = n, .to = (char *)ret + at};
        TRY(collect_one(c, &m, &a));
    } while ((at += some) < n);
    return 0;
}

int calls_reduce(struct tug_client *c, const struct calls_collect *k,
                 enum wire_collect op, enum wire_number type, const void *values,
                 size_t n, void *ret)
{
    static const char *const ops[] = {"gather", "sum", "min", "max"};
    size_t at = 0, some;
    char call[WIRE_CALL_MAX];
    snprintf(call, sizeof(call), "%s (%s) of %zu number%s", k->call, ops[op], n,
             PLURAL_S(n));
    do {
        some = member_collect_piece(n * VALUE - at, op, k->workers);
        struct member_collect m = {
            .call = call,
            .op = op,
            .type = type,
            .first = at / VALUE,
            .index = k->index,
            .workers = k->alive ? 0 : k->workers,
            .bytes = (const char *)values + at,
            .n = some,
        };
        struct answer a = {.n = some, .to = (char *)ret + at};
        TRY(collect_one(c, &m, &a));
    } while ((at += some) < n * VALUE);
    return 0;
}

// -------------------------------------------------- sums over all workers (tug/metric.h)

#define VALUE_MAX (UINT64_C(1) << 60)

int tug_all_reduce(struct tug_client *c, uint32_t table, uint64_t *values, size_t n)
{
    (void)table;
    struct calls_collect k = {.call = "tug_all_reduce", .alive = true};
    TRY(may_meet(c));
    for (size_t i = 0; i < n; i++)
        if (values[i] >= VALUE_MAX)
            return err_set(
                last_error(), TUG_EUSAGE,
                "value %zu is %llu: values to be summed over workers must be below 2^60",
                i, (unsigned long long)values[i]);
    uint64_t *sums = mem_array(n + 1, sizeof(*sums));
    if (sums == NULL)
        return err_nomem(last_error(), "sums over workers");
    k.index = tug_client_rank(c);
    k.workers = tug_client_workers(c);
    int rc = calls_reduce(c, &k, WIRE_SUM, WIRE_U64, values, n, sums);
    if (rc == 0)
        memcpy(values, sums, n * sizeof(*values));
    mem_free(sums);
    return rc;
}
