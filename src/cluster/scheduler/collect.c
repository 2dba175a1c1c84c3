// See collect.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/collect.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { VALUE = 8 }; // bytes of a value

const char *collect_fault(const struct msg_collect *m)
{
    if (m->op > WIRE_MAX || m->type > WIRE_U64 || (m->op == WIRE_GATHER && m->type != 0))
        return "a collective call of an unknown kind";
    if (m->call.n > WIRE_CALL_MAX)
        return "the name of a collective call has more than 96 bytes";
    if (m->bytes.n > WIRE_COLLECT_MAX)
        return "a worker gives at most 64 KiB to a collective call";
    if (m->op != WIRE_GATHER && m->bytes.n % VALUE != 0)
        return "the values of a collective call have 8 bytes each";
    if (m->workers != 0 && m->index >= m->workers)
        return "the worker's index is not below the number of workers";
    return NULL;
}

struct given *collect_keep(const struct msg_collect *m, size_t room)
{
    bool lost = m->bytes.n > room;
    uint32_t n = lost ? 0 : m->bytes.n;
    struct given *g = mem_zalloc(sizeof(*g) + n);
    if (g == NULL)
        return NULL;
    g->op = m->op;
    g->type = m->type;
    g->index = m->index;
    g->workers = m->workers;
    g->first = m->first;
    g->lost = lost;
    g->n = n;
    wire_words(m->call, g->call, sizeof(g->call));
    memcpy(g->bytes, m->bytes.data, n);
    return g;
}

static int by_index(const void *a, const void *b)
{
    const struct given *x, *y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x->index > y->index) - (x->index < y->index);
}

// Returns whether two workers' values have the same count and kind. If they differ in a
// call with the same name, the workers run different versions of tug.
static bool same_kind(const struct given *a, const struct given *b)
{
    return a->op == b->op && a->type == b->type && a->first == b->first &&
           a->workers == b->workers && (a->op == WIRE_GATHER || a->n == b->n);
}

static int check_calls(struct given *const *all, size_t n, int64_t at_barrier,
                       struct err *e)
{
    static const char advice[] = "all workers must make the same calls in the same order";
    if (at_barrier >= 0)
        return err_set(e, TUG_EUSAGE,
                       "workers are in different calls: worker %u in %s, worker %d at a "
                       "barrier; %s",
                       all[0]->index, all[0]->call, (int)at_barrier, advice);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(all[0]->call, all[i]->call) != 0)
            return err_set(
                e, TUG_EUSAGE,
                "workers are in different calls: worker %u in %s, worker %u in "
                "%s; %s",
                all[0]->index, all[0]->call, all[i]->index, all[i]->call, advice);
        if (!all[0]->lost && !all[i]->lost && !same_kind(all[0], all[i]))
            return err_set(e, TUG_EUSAGE,
                           "workers %u and %u give different values to %s: install the "
                           "same tug on all machines",
                           all[0]->index, all[i]->index, all[0]->call);
    }
    return 0;
}

static int check_indexes(struct given *const *all, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && all[i]->index == all[i - 1]->index)
            return err_set(e, TUG_EUSAGE,
                           "two processes are worker %u: each needs an index of its own",
                           all[i]->index);
    }
    for (uint32_t i = 0; i < all[0]->workers; i++)
        if (i >= n || all[i]->index != i)
            return err_set(e, TUG_EIO,
                           "worker %u took no part in %s: it has left the run "
                           "or died",
                           i, all[0]->call);
    return 0;
}

static int check_sizes(struct given *const *all, size_t n, struct err *e)
{
    size_t limit = all[0]->op == WIRE_GATHER ? WIRE_COLLECT_MAX : WIRE_REDUCE_MAX,
           sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += all[i]->n;
        if (all[i]->lost || sum > limit)
            return err_set(e, TUG_EUSAGE,
                           "the workers give more than %zu bytes to %s in all", limit,
                           all[0]->call);
    }
    return 0;
}

static int collect_gather(struct given *const *all, size_t n, struct buf *ret)
{
    for (size_t i = 0; i < n; i++) {
        struct wire_part p = {.index = all[i]->index,
                              .bytes = {all[i]->bytes, all[i]->n}};
        TRY(wire_put_part(ret, &p));
    }
    return 0;
}

// Combines two numbers; if one is NaN, the result is NaN.
static double combine_f64(double a, double b, uint8_t op)
{
    if (op == WIRE_SUM)
        return a + b;
    bool first = a != a || (op == WIRE_MAX ? a >= b : a <= b);
    return first ? a : b;
}

static bool combine_i64(int64_t *to, int64_t x, uint8_t op)
{
    if (op == WIRE_SUM)
        return !__builtin_add_overflow(*to, x, to);
    if (op == WIRE_MAX ? x > *to : x < *to)
        *to = x;
    return true;
}

static bool combine_u64(uint64_t *to, uint64_t x, uint8_t op)
{
    if (op == WIRE_SUM)
        return !__builtin_add_overflow(*to, x, to);
    if (op == WIRE_MAX ? x > *to : x < *to)
        *to = x;
    return true;
}

// Combines a value of the result with the value of one more worker. Returns false if the
// sum does not fit its type.
static bool combine(char to[VALUE], const char from[VALUE], const struct given *g)
{
    union {
        double f64;
        int64_t i64;
        uint64_t u64;
        char bytes[VALUE];
    } a, b;
    bool fits = true;
    memcpy(a.bytes, to, VALUE);
    memcpy(b.bytes, from, VALUE);
    if (g->type == WIRE_F64)
        a.f64 = combine_f64(a.f64, b.f64, g->op);
    else if (g->type == WIRE_I64)
        fits = combine_i64(&a.i64, b.i64, g->op);
    else
        fits = combine_u64(&a.u64, b.u64, g->op);
    memcpy(to, a.bytes, VALUE);
    return fits;
}

// Workers' values are combined in the order of their indexes, so that sums of doubles
// have the same bits in each run.
static int reduce(struct given *const *all, size_t n, struct buf *ret, struct err *e)
{
    TRY(buf_add(ret, all[0]->bytes, all[0]->n));
    for (size_t w = 1; w < n; w++)
        for (uint32_t at = 0; at < all[0]->n; at += VALUE)
            if (!combine(ret->data + at, all[w]->bytes + at, all[0]))
                return err_set(e, TUG_EUSAGE,
                               "the sum of the workers' value %llu does not fit in 64 "
                               "bits (%s)",
                               (unsigned long long)(all[0]->first + at / VALUE),
                               all[0]->call);
    return 0;
}

int collect_make(struct given **all, size_t n, int64_t at_barrier, struct buf *ret,
                 struct err *e)
{
    qsort(all, n, sizeof(struct given *), by_index);
    TRY(check_calls(all, n, at_barrier, e));
    TRY(check_sizes(all, n, e));
    TRY(check_indexes(all, n, e));
    int rc = all[0]->op == WIRE_GATHER ? collect_gather(all, n, ret)
                                       : reduce(all, n, ret, e);
    return rc == TUG_ENOMEM ? err_nomem(e, "a collective call") : rc;
}
