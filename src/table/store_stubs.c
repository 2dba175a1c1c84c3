// TEMPORARY, so that tables link until cut.c and cold.c are there: weak, they give way.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/store_internal.h"

#define WEAK __attribute__((weak))

WEAK int cut_before_change(struct store *s, uint32_t p, const uint32_t *h, size_t n,
                           struct err *e)
{
    (void)s, (void)p, (void)h, (void)n, (void)e;
    return 0;
}
WEAK int cut_before_admit(struct store *s, uint32_t p, struct err *e)
{
    (void)s, (void)p, (void)e;
    return 0;
}
WEAK int cut_row_made(struct store *s, uint32_t p, uint32_t handle)
{
    (void)s, (void)p, (void)handle;
    return 0;
}
WEAK void cut_close(struct store *s)
{
    (void)s;
}
WEAK int cold_open(struct store *s, struct err *e)
{
    (void)s;
    return err_set(e, TUG_EUSAGE, "there is no cold tier yet");
}
WEAK void cold_close(struct store *s)
{
    (void)s;
}
WEAK void cold_used(struct store *s, const uint32_t *handles, size_t n)
{
    (void)s, (void)handles, (void)n;
}
WEAK int cold_demote(struct store *s, uint32_t p, struct err *e)
{
    (void)s, (void)p, (void)e;
    return 0;
}
WEAK int cold_order(struct store *s, uint32_t p, struct err *e)
{
    (void)s, (void)p, (void)e;
    return 0;
}
WEAK int cold_each(struct store *s, uint32_t p, store_row_fn fn, void *ctx, struct err *e)
{
    (void)s, (void)p, (void)fn, (void)ctx, (void)e;
    return 0;
}
WEAK int cold_remove(struct store *s, uint32_t p, const uint64_t *keys, size_t n,
                     struct err *e)
{
    (void)s, (void)p, (void)keys, (void)n, (void)e;
    return 0;
}
WEAK void cold_stats(const struct store *s, struct store_stats *x)
{
    (void)s, (void)x;
}
WEAK int cold_fetch_runs(struct store *s, const struct store_run *runs, uint32_t n_runs,
                         const uint64_t *keys, uint32_t *handles, uint32_t *ret_runs,
                         struct err *e)
{
    (void)s, (void)runs, (void)keys, (void)handles, (void)e;
    *ret_runs = n_runs;
    return 0;
}
WEAK void cold_forget(struct store *s, uint32_t p, const uint32_t *handles, size_t n)
{
    (void)s, (void)p, (void)handles, (void)n;
}
