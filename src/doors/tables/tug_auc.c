// The AUC over the predictions of all workers (tug/table.h): labels are counted by bucket
// of probability in a table of exact counters.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/tables/auc.h"
#include "doors/tables/tug_client.h"
#include "tug/table.h"

enum { BUCKETS = AUC_BUCKETS, CLASSES = 2, PULLED = 2 * CLASSES };

static int check_table(struct tug_client *c, uint32_t table)
{
    struct tug_table_widths w;
    TRY(tug_table_widths(c, table, &w));
    if (w.push == CLASSES && w.pull == PULLED)
        return 0;
    return err_set(last_error(), TUG_EUSAGE,
                   "an AUC is counted in a table of accessor counter and dim 2, which "
                   "table %u is not",
                   table);
}

static int auc_count(const float *probabilities, const float *labels, size_t n,
                     float (*counts)[CLASSES])
{
    for (size_t i = 0; i < n; i++) {
        TRY(auc_check(probabilities[i], i, last_error()));
        counts[auc_bucket(probabilities[i], BUCKETS)][labels[i] > 0]++;
    }
    return 0;
}

// The most predictions in one push: a float counts exactly only up to 2^24.
enum { AT_ONCE = 1 << 24 };

static int auc_push_counts(struct tug_client *c, uint32_t table,
                           const float *probabilities, const float *labels, size_t n,
                           float (*counts)[CLASSES], uint64_t *keys)
{
    size_t used = 0;
    uint64_t ts;
    memset(counts, 0, BUCKETS * sizeof(*counts));
    TRY(auc_count(probabilities, labels, n, counts));
    for (size_t b = 0; b < BUCKETS; b++) {
        if (counts[b][0] == 0 && counts[b][1] == 0)
            continue;
        keys[used] = b;
        memmove(counts[used++], counts[b], sizeof(*counts));
    }
    if (used == 0)
        return 0;
    TRY(tug_push(c, table, keys, used, counts[0], NULL, NULL, &ts));
    return calls_wait_or_cancel(c, ts);
}

int tug_auc_add(struct tug_client *c, uint32_t table, const float *probabilities,
                const float *labels, size_t n)
{
    TRY(calls_may_wait(c));
    TRY(check_table(c, table));
    uint64_t *keys = mem_array(BUCKETS, sizeof(*keys));
    float(*counts)[CLASSES] = mem_array(BUCKETS, sizeof(*counts));
    int rc = 0;
    if (keys == NULL || counts == NULL)
        rc = err_nomem(last_error(), "counts of predictions");
    for (size_t at = 0, some; at < n && rc == 0; at += some) {
        some = n - at < AT_ONCE ? n - at : AT_ONCE;
        rc = auc_push_counts(c, table, probabilities + at, labels + at, some, counts,
                             keys);
    }
    mem_free(keys);
    mem_free(counts);
    return rc;
}

static void area(const float *rows, double *ret_auc, uint64_t *ret_examples)
{
    struct auc_area a = {0};
    for (size_t b = 0; b < BUCKETS; b++, rows += PULLED)
        auc_add(&a, tug_count(rows), tug_count(rows + 2));
    *ret_auc = auc_of(&a);
    if (ret_examples != NULL)
        *ret_examples = (uint64_t)(a.negatives + a.positives);
}

int tug_auc(struct tug_client *c, uint32_t table, double *ret_auc, uint64_t *ret_examples)
{
    TRY(check_table(c, table));
    float *rows = mem_array(BUCKETS, PULLED * sizeof(*rows));
    if (rows == NULL)
        return err_nomem(last_error(), "counts of predictions");
    int rc = tug_pull_range(c, table, 0, BUCKETS, rows);
    if (rc == 0)
        area(rows, ret_auc, ret_examples);
    mem_free(rows);
    return rc;
}
