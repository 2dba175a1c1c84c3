// Reports of workers as bytes: for each label a fixed number of sums (those of the whole
// worker come with the first label), then the buckets of scores that are not empty. The
// byte order is that of the machine, which all nodes of a cluster share (wire.c).
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/report.h"

#include <string.h>

#include "base/maths.h"

struct fixed {
    uint64_t examples, bad_lines, data_bytes;
    double weight, loss, predicted, observed, squares, read_seconds, wait_seconds;
    uint32_t n_buckets;
    uint32_t label;
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
    r->data_bytes = f.data_bytes;
    if (r->keys != NULL)
        numbering_join(r->keys, f.keys);
    return 1;
}
