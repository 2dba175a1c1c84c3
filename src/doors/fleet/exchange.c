// Collective operations of the workers (tug/fleet.h), as collective calls of the scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/fleet/fleet_internal.h"
#include "doors/tables/tug_client.h"

// VALUE: bytes of a number, which is a double or an int64_t.
enum { SAID_MAX = 1 << 24, VALUE = 8 };

static struct calls_collect call_of(const struct tug_fleet *f, const char *name)
{
    const struct role *r = &f->roles->role;
    return (struct calls_collect){name, r->rank, r->workers, false};
}

int fleet_exchange_open(struct tug_fleet *f)
{
    struct calls_collect k = call_of(f, "tug_fleet_init_worker");
    int rc = calls_gather(f->client, &k, NULL, 0, NULL);
    if (rc == TUG_EUSAGE)
        err_add(last_error(), ". PADDLE_TRAINER_ID or DMLC_WORKER_ID sets the index");
    return rc;
}

int tug_fleet_all_gather(struct tug_fleet *f, const void *bytes, size_t n, void *ret)
{
    TRY(fleet_in_run(f));
    if (n > SAID_MAX)
        return err_set(
            last_error(), TUG_EUSAGE,
            "a worker can send the other workers at most %d bytes at a time, not %zu",
            SAID_MAX, n);
    struct calls_collect k = call_of(f, "all_gather");
    return calls_gather(f->client, &k, bytes, n, ret);
}

// Reduces n numbers over all workers. `values` changes only if no error occurs.
static int reduce(struct tug_fleet *f, void *values, size_t n, enum tug_fleet_reduce how,
                  enum wire_number type)
{
    static const enum wire_collect ops[] = {[TUG_FLEET_SUM] = WIRE_SUM,
                                            [TUG_FLEET_MAX] = WIRE_MAX,
                                            [TUG_FLEET_MIN] = WIRE_MIN};
    struct calls_collect k = call_of(f, "all_reduce");
    TRY(fleet_in_run(f));
    if (how != TUG_FLEET_SUM && how != TUG_FLEET_MAX && how != TUG_FLEET_MIN)
        return err_set(last_error(), TUG_EUSAGE,
                       "how: %d is not one of sum (0), max (1) and min (2)", (int)how);
    char *made = mem_array(n + 1, VALUE);
    if (made == NULL)
        return err_nomem(last_error(), "the numbers of all workers");
    int rc = calls_reduce(f->client, &k, ops[how], type, values, n, made);
    if (rc == 0)
        memcpy(values, made, n * VALUE);
    mem_free(made);
    return rc;
}

int tug_fleet_all_reduce(struct tug_fleet *f, double *values, size_t n,
                         enum tug_fleet_reduce how)
{
    return reduce(f, values, n, how, WIRE_F64);
}

int tug_fleet_all_reduce_whole(struct tug_fleet *f, int64_t *values, size_t n,
                               enum tug_fleet_reduce how)
{
    return reduce(f, values, n, how, WIRE_I64);
}

// -------------------------------------------------------- sharing the result of worker 0

struct agreed {
    int32_t rc;
    uint32_t unused;
    uint64_t value;
    char why[ERR_TEXT_MAX];
};

int fleet_agree(struct tug_fleet *f, int rc, const char *what, uint64_t *value)
{
    struct agreed mine = {.rc = rc, .value = value != NULL ? *value : 0};
    struct err e = *last_error();
    if (rc != 0)
        memcpy(mine.why, e.text, sizeof(mine.why));
    struct agreed *all = mem_array(f->roles->role.workers, sizeof(*all));
    if (all == NULL)
        return err_nomem(last_error(), "the values that workers exchange");
    int gathered = tug_fleet_all_gather(f, &mine, sizeof(mine), all);
    struct agreed first = gathered == 0 ? all[0] : mine;
    mem_free(all);
    if (rc != 0)
        return last_error_is(&e);
    TRY(gathered);
    if (value != NULL)
        *value = first.value;
    first.why[sizeof(first.why) - 1] = '\0';
    return first.rc != 0 ? err_set(last_error(), first.rc, "worker 0 could not %s: %s",
                                   what, first.why)
                         : 0;
}
