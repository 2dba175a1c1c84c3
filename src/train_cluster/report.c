// Reports of workers as bytes: for each label a fixed number of sums (those of the whole
// worker come with the first label), then the buckets of scores that are not empty. The
// byte order is that of the machine, which all nodes of a cluster share (wire.c).
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/report.h"

#include <string.h>

#include "base/compare.h"
#include "base/loss.h"
#include "base/maths.h"
#include "cluster/leases/leases.h"

struct fixed {
    uint64_t examples, bad_lines, most_bad_lines, data_bytes;
    double weight, loss, predicted, observed, squares, read_seconds, wait_seconds;
    uint32_t n_buckets;
    uint32_t label;
    uint64_t total; // 1: the sum of all reports so far
    struct numbering_range keys;
};

struct bucket {
    uint32_t number, zero;
    double positive, negative;
};

static bool has(const struct metrics_stream *m, uint32_t i)
{
    return m->positive[i] != 0 || m->negative[i] != 0;
}

static int write_label(const struct report *r, uint32_t label, struct buf *b)
{
    const struct metrics_stream *m = &r->stream[label];
    bool first = label == 0;
    struct fixed f = {
        .examples = m->examples,
        .bad_lines = first ? r->bad_lines : 0,
        .most_bad_lines = first ? r->bad_lines : 0,
        .data_bytes = first ? r->data_bytes : 0,
        .weight = m->weight,
        .loss = m->loss - maths_log(m->likelihood),
        .predicted = m->predicted,
        .observed = m->observed,
        .squares = m->squares,
        .read_seconds = first ? r->read_seconds : 0,
        .wait_seconds = first ? r->wait_seconds : 0,
        .label = label,
    };
    if (first && r->keys != NULL)
        f.keys = numbering_range(r->keys);
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++)
        f.n_buckets += has(m, i);
    TRY(buf_add(b, &f, sizeof(f)));
    for (uint32_t i = 0; i < METRICS_BUCKETS; i++) {
        struct bucket k = {i, 0, m->positive[i], m->negative[i]};
        if (has(m, i))
            TRY(buf_add(b, &k, sizeof(k)));
    }
    return 0;
}

int report_write(const struct report *r, struct buf *b)
{
    for (uint32_t i = 0; i < r->labels; i++)
        TRY(write_label(r, i, b));
    return 0;
}

static int report_take(const char **bytes, size_t *n, void *ret, size_t size)
{
    if (*n < size)
        return TUG_EDATA;
    memcpy(ret, *bytes, size);
    *bytes += size;
    *n -= size;
    return 0;
}

int report_next(const char **bytes, size_t *n, struct report *r)
{
    struct fixed f;
    if (*n == 0)
        return 0;
    TRY(report_take(bytes, n, &f, sizeof(f)));
    if (f.n_buckets > METRICS_BUCKETS || f.label >= r->labels)
        return TUG_EDATA;
    struct metrics_stream *m = &r->stream[f.label];
    if (f.total != 0)
        metrics_streams_clear(m, 1);
    for (uint32_t i = 0; i < f.n_buckets; i++) {
        struct bucket k;
        TRY(report_take(bytes, n, &k, sizeof(k)));
        if (k.number >= METRICS_BUCKETS)
            return TUG_EDATA;
        m->positive[k.number] += k.positive;
        m->negative[k.number] += k.negative;
    }
    m->examples += f.examples;
    m->weight += f.weight;
    m->loss += f.loss;
    m->predicted += f.predicted;
    m->observed += f.observed;
    m->squares += f.squares;
    r->read_seconds = f.read_seconds;
    r->wait_seconds = f.wait_seconds;
    r->bad_lines = f.bad_lines;
    r->most_bad_lines = f.most_bad_lines;
    r->total = f.total != 0 && f.label == 0; // the other labels have sums only
    r->data_bytes = f.data_bytes;
    if (r->keys != NULL)
        numbering_join(r->keys, f.keys);
    return 1;
}

// ------------------------------------------------------------------------------- totals

// The part of a report about one label, whose buckets have ascending numbers.
struct label_part {
    struct fixed f;
    const char *buckets;
};

static int take_part(struct wire_text *from, struct label_part *ret)
{
    const char *bytes = from->data;
    size_t n = from->n;
    struct bucket k;
    uint32_t least = 0;
    TRY(report_take(&bytes, &n, &ret->f, sizeof(ret->f)));
    if (ret->f.label >= LABELS_MAX || ret->f.n_buckets > METRICS_BUCKETS)
        return TUG_EDATA;
    ret->buckets = bytes;
    for (uint32_t i = 0; i < ret->f.n_buckets; i++, least = k.number + 1) {
        TRY(report_take(&bytes, &n, &k, sizeof(k)));
        if (k.number < least || k.number >= METRICS_BUCKETS)
            return TUG_EDATA;
    }
    *from = (struct wire_text){bytes, (uint32_t)n};
    return 0;
}

// Finds the part about a label. Returns 1, 0 if there is none, or TUG_EDATA.
static int find_part(struct wire_text in, uint32_t label, struct label_part *ret)
{
    while (in.n > 0) {
        TRY(take_part(&in, ret));
        if (ret->f.label == label)
            return 1;
    }
    return 0;
}

static void join_fixed(struct fixed *to, const struct fixed *x)
{
    to->examples += x->examples;
    to->bad_lines += x->bad_lines;
    to->most_bad_lines = max_u64(to->most_bad_lines, x->most_bad_lines);
    to->data_bytes = max_u64(to->data_bytes, x->data_bytes);
    to->weight += x->weight;
    to->loss += x->loss;
    to->predicted += x->predicted;
    to->observed += x->observed;
    to->squares += x->squares;
    to->read_seconds += x->read_seconds;
    to->wait_seconds += x->wait_seconds;
    numbering_range_join(&to->keys, x->keys);
}

static bool look_at_bucket(const struct label_part *p, uint32_t i, struct bucket *ret)
{
    if (i < p->f.n_buckets)
        memcpy(ret, p->buckets + i * sizeof(*ret), sizeof(*ret));
    else
        ret->number = UINT32_MAX;
    return i < p->f.n_buckets;
}

// Appends the buckets of both parts, and counts the buckets.
static int join_buckets(struct buf *to, const struct label_part *a,
                        const struct label_part *b, uint32_t *ret_n)
{
    struct bucket x, y, sum;
    uint32_t i = 0, k = 0;
    for (*ret_n = 0;; ++*ret_n) {
        bool more = look_at_bucket(a, i, &x);
        more |= look_at_bucket(b, k, &y);
        if (!more)
            return 0;
        sum = x.number <= y.number ? x : y;
        if (x.number == y.number) {
            sum.positive += y.positive;
            sum.negative += y.negative;
        }
        i += x.number == sum.number;
        k += y.number == sum.number;
        TRY(buf_add(to, &sum, sizeof(sum)));
    }
}

static int join_parts(struct buf *to, const struct label_part *a,
                      const struct label_part *b)
{
    struct fixed f = a->f;
    size_t at = to->len;
    join_fixed(&f, &b->f);
    f.total = 1;
    TRY(buf_add(to, &f, sizeof(f)));
    TRY(join_buckets(to, a, b, &f.n_buckets));
    memcpy(to->data + at, &f, sizeof(f));
    return 0;
}

int report_merge(struct buf *to, struct wire_text total, struct wire_text report)
{
    struct label_part a, b;
    int found;
    for (struct wire_text in = total; in.n > 0;) {
        TRY(take_part(&in, &a));
        if ((found = find_part(report, a.f.label, &b)) < 0)
            return found;
        TRY(join_parts(to, &a, found != 0 ? &b : &(struct label_part){0}));
    }
    for (struct wire_text in = report; in.n > 0;) {
        TRY(take_part(&in, &b));
        if ((found = find_part(total, b.f.label, &a)) < 0)
            return found;
        if (found == 0)
            TRY(join_parts(to, &b, &(struct label_part){0}));
    }
    return 0;
}
