// Metrics of predictions (tug/metric.h): counts of labels by bucket of probability, and
// sums, as states with names.
//
// One array of integers holds all states, in the order of enum state, so that they are
// found, zeroed and added up over workers in the same way. A second array is a ring of
// the histograms of the last `window` batches; batch_stat_* are their sums.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/metric.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/tables/auc.h"
#include "runtime/last_error.h"

enum {
    NAME_MAX_BYTES = 64,
    BUCKETS_MAX = 1 << 20,
    UNIT_BITS = 30, // sums are integers in units of 2^-30
};
#define RING_BYTES_MAX ((uint64_t)1 << 30)

enum state {
    STAT_NEG,
    STAT_POS,
    BATCH_STAT_NEG,
    BATCH_STAT_POS,
    ABSERR,
    SQRERR,
    PROB,
    POS_NUM,
    INS_NUM,
    STATES
};

static const char *const names[STATES] = {"stat_neg",       "stat_pos", "batch_stat_neg",
                                          "batch_stat_pos", "abserr",   "sqrerr",
                                          "prob",           "pos_num",  "ins_num"};

struct tug_metric {
    char name[NAME_MAX_BYTES];
    uint32_t buckets, window;
    uint64_t *values; // the numbers of all states, one state after the other
    uint32_t *ring;   // [window][2][buckets]
    uint32_t next;    // index in the ring for the next batch
};

static size_t size_of(const struct tug_metric *m, enum state s)
{
    return s <= BATCH_STAT_POS ? m->buckets : 1;
}

static size_t metric_place_of(const struct tug_metric *m, enum state s)
{
    return s <= BATCH_STAT_POS ? (size_t)s * m->buckets
                               : 4 * (size_t)m->buckets + (size_t)(s - ABSERR);
}

static size_t all_of(const struct tug_metric *m)
{
    return metric_place_of(m, INS_NUM) + 1;
}

static uint64_t *state_of(const struct tug_metric *m, enum state s)
{
    return m->values + metric_place_of(m, s);
}

static uint32_t *ring_at(const struct tug_metric *m, uint32_t batch, int label)
{
    return m->ring + ((size_t)batch * 2 + (size_t)label) * m->buckets;
}

int tug_metric_open(struct tug_metric **ret, const char *name,
                    const struct tug_metric_options *o)
{
    uint32_t buckets = o != NULL && o->buckets > 0 ? o->buckets : AUC_BUCKETS;
    uint32_t window = o != NULL && o->window > 0 ? o->window : 1;
    if (name == NULL || name[0] == '\0' || strlen(name) >= NAME_MAX_BYTES)
        return err_set(last_error(), TUG_EUSAGE, "a metric needs a name of 1 to %d bytes",
                       NAME_MAX_BYTES - 1);
    if (buckets < 2 || buckets > BUCKETS_MAX)
        return err_set(last_error(), TUG_EUSAGE,
                       "metric '%s': %u buckets; there can be 2 to %d", name, buckets,
                       BUCKETS_MAX);
    uint64_t bytes = (uint64_t)window * buckets * 2 * sizeof(uint32_t);
    if (bytes > RING_BYTES_MAX)
        return err_set(last_error(), TUG_EUSAGE,
                       "metric '%s': the histograms of a window of %u batches take %llu "
                       "bytes; give a shorter window, or fewer buckets",
                       name, window, (unsigned long long)bytes);
    struct tug_metric *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(last_error(), "a metric");
    snprintf(m->name, sizeof(m->name), "%s", name);
    m->buckets = buckets;
    m->window = window;
    m->values = mem_zalloc(all_of(m) * sizeof(*m->values));
    m->ring = mem_zalloc(bytes);
    if (m->values == NULL || m->ring == NULL) {
        tug_metric_close(m);
        return err_nomem(last_error(), "a metric");
    }
    *ret = m;
    return 0;
}

void tug_metric_close(struct tug_metric *m)
{
    if (m == NULL)
        return;
    mem_free(m->values);
    mem_free(m->ring);
    mem_free(m);
}

// ---------------------------------------------------------------- batches

static int metric_check(const float *probabilities, const float *labels, size_t n)
{
    if (n > UINT32_MAX)
        return err_set(last_error(), TUG_EUSAGE,
                       "a batch has %zu examples, and can have at most 2^32 - 1", n);
    for (size_t i = 0; i < n; i++) {
        TRY(auc_check(probabilities[i], i, last_error()));
        if (isnan(labels[i]))
            return err_set(last_error(), TUG_EUSAGE, "label %zu is not a number", i);
    }
    return 0;
}

// Removes the oldest batch of the window from batch_stat_* and from the ring.
static void move_window(struct tug_metric *m)
{
    for (int label = 0; label < 2; label++) {
        uint32_t *old = ring_at(m, m->next, label);
        uint64_t *sum = state_of(m, label ? BATCH_STAT_POS : BATCH_STAT_NEG);
        for (size_t b = 0; b < m->buckets; b++)
            sum[b] -= old[b];
        memset(old, 0, m->buckets * sizeof(*old));
    }
}

static uint64_t units(double x)
{
    return (uint64_t)llround(x * (double)(1 << UNIT_BITS));
}

int tug_metric_add(struct tug_metric *m, const float *probabilities, const float *labels,
                   size_t n)
{
    TRY(metric_check(probabilities, labels, n));
    move_window(m);
    for (size_t i = 0; i < n; i++) {
        double p = (double)probabilities[i];
        int label = labels[i] > 0;
        double off = fabs(p - label);
        uint32_t b = auc_bucket(probabilities[i], m->buckets);
        state_of(m, label ? STAT_POS : STAT_NEG)[b]++;
        state_of(m, label ? BATCH_STAT_POS : BATCH_STAT_NEG)[b]++;
        ring_at(m, m->next, label)[b]++;
        *state_of(m, ABSERR) += units(off);
        *state_of(m, SQRERR) += units(off * off);
        *state_of(m, PROB) += units(p);
        *state_of(m, POS_NUM) += (uint64_t)label;
    }
    *state_of(m, INS_NUM) += n;
    m->next = (m->next + 1) % m->window;
    return 0;
}

// ---------------------------------------------------------------- values

static double auc_by(const uint64_t *neg, const uint64_t *pos, size_t n)
{
    struct auc_area a = {0};
    for (size_t b = 0; b < n; b++)
        auc_add(&a, (double)neg[b], (double)pos[b]);
    return auc_of(&a);
}

static double sum_of(const struct tug_metric *m, enum state s)
{
    return ldexp((double)*state_of(m, s), -UNIT_BITS);
}

void tug_metric_read(const struct tug_metric *m, struct tug_metric_values *ret)
{
    uint64_t n = *state_of(m, INS_NUM), positives = *state_of(m, POS_NUM);
    double mean = n > 0 ? 1 / (double)n : (double)NAN, prob = sum_of(m, PROB);
    *ret = (struct tug_metric_values){
        .examples = n,
        .positives = positives,
        .auc = auc_by(state_of(m, STAT_NEG), state_of(m, STAT_POS), m->buckets),
        .batch_auc = auc_by(state_of(m, BATCH_STAT_NEG), state_of(m, BATCH_STAT_POS),
                            m->buckets),
        .mae = sum_of(m, ABSERR) * mean,
        .rmse = sqrt(sum_of(m, SQRERR) * mean),
        .predicted = prob * mean,
        .observed = (double)positives * mean,
        .copc = positives > 0 ? prob / (double)positives : (double)NAN,
    };
}

// ---------------------------------------------------------------- states by name

static int metric_find(const struct tug_metric *m, const char *state, enum state *ret)
{
    size_t prefix = strlen(m->name);
    bool ours = strncmp(state, m->name, prefix) == 0 && state[prefix] == '.';
    for (int s = 0; s < STATES && ours; s++)
        if (strcmp(state + prefix + 1, names[s]) == 0) {
            *ret = (enum state)s;
            return 0;
        }
    return err_set(last_error(), TUG_EUSAGE,
                   "'%.200s' is not a state of metric '%s'; its states are %s.stat_neg, "
                   "stat_pos, batch_stat_neg, batch_stat_pos, abserr, sqrerr, prob, "
                   "pos_num and ins_num, each with '%s.' before it",
                   state, m->name, m->name, m->name);
}

int tug_metric_state(const struct tug_metric *m, const char *state, double *ret,
                     size_t room, size_t *ret_n)
{
    enum state s = STATES;
    TRY(metric_find(m, state, &s));
    size_t n = size_of(m, s);
    if (ret_n != NULL)
        *ret_n = n;
    if (room < n)
        return err_set(last_error(), TUG_EUSAGE,
                       "state '%s' has %zu numbers, and there is room for %zu", state, n,
                       room);
    bool sum = s == ABSERR || s == SQRERR || s == PROB;
    for (size_t i = 0; i < n; i++)
        ret[i] = ldexp((double)state_of(m, s)[i], sum ? -UNIT_BITS : 0);
    return 0;
}

int tug_metric_reset(struct tug_metric *m, const char *state)
{
    enum state s = STATES;
    if (state != NULL)
        TRY(metric_find(m, state, &s));
    for (int i = 0; i < STATES; i++) {
        if (state != NULL && i != (int)s)
            continue;
        memset(state_of(m, (enum state)i), 0,
               size_of(m, (enum state)i) * sizeof(uint64_t));
        for (uint32_t b = 0;
             b < m->window && (i == BATCH_STAT_NEG || i == BATCH_STAT_POS); b++)
            memset(ring_at(m, b, i == BATCH_STAT_POS), 0, m->buckets * sizeof(uint32_t));
    }
    return 0;
}

// ---------------------------------------------------------------- all workers

int tug_metric_reduce(const struct tug_metric *m, struct tug_client *c, uint32_t table,
                      struct tug_metric_values *ret)
{
    struct tug_metric all = *m;
    size_t n = all_of(m);
    all.values = mem_array(n, sizeof(*all.values));
    if (all.values == NULL)
        return err_nomem(last_error(), "a metric");
    memcpy(all.values, m->values, n * sizeof(*all.values));
    int rc = tug_all_reduce(c, table, all.values, n);
    if (rc == 0)
        tug_metric_read(&all, ret);
    mem_free(all.values);
    return rc;
}
