// See peer_seen.h. Passes use two halves of the keys alternately: while one is written,
// the other is cleared. Each half has for each label
//
//   buckets  rows that all workers push to: weights by score, as floats, which are exact up to 2^24
//   sums     a row for each worker, which it sets. A double is stored as three floats, so that
//            it is not rounded and all workers read the same value. The row also has the
//            number of the pass, so that the row of a worker that has left does not count
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/peer_seen.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "client/client.h"
#include "cluster/member.h"
#include "rule/rule.h"
#include "train_cluster/peer_agree.h"

enum {
    TABLE = SPEC_MAX_TABLES - 3,
    WIDTH = 64,
    PER_ROW = WIDTH / 2, // buckets in a row
    BUCKET_ROWS = METRICS_BUCKETS / PER_ROW,
    SUMS = 8,
    PARTS = 3, // floats per double
    PASS = SUMS * PARTS,
};

static uint64_t key_of(uint64_t pass, bool is_sum, uint32_t label, uint32_t i)
{
    return (pass & 1) << 63 | (uint64_t)is_sum << 62 | (uint64_t)label << 32 | i;
}

static int wait(struct client *c, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(c, ts, e) : e->code;
}

static void keys_of(uint64_t pass, bool is_sum, uint32_t label, uint32_t n, uint64_t *ret)
{
    for (uint32_t i = 0; i < n; i++)
        ret[i] = key_of(pass, is_sum, label, i);
}

static int push(struct client *c, const uint64_t *keys, size_t n, const float *values,
                enum wire_op op, struct err *e)
{
    struct client_push p = {
        .table = TABLE, .keys = keys, .n = n, .values = values, .op = op};
    return wait(c, client_push(c, &p, e), e);
}

static int clear(struct client *c, uint64_t pass, uint32_t labels, struct err *e)
{
    uint64_t keys[BUCKET_ROWS];
    float *zeros = mem_zalloc(sizeof(float[BUCKET_ROWS][WIDTH]));
    if (zeros == NULL)
        return err_nomem(e, "what workers saw");
    int rc = 0;
    for (uint32_t k = 0; k < labels && rc == 0; k++) {
        keys_of(pass, false, k, BUCKET_ROWS, keys);
        rc = push(c, keys, BUCKET_ROWS, zeros, WIRE_ASSIGN, e);
    }
    mem_free(zeros);
    return rc;
}

static float pass_in_row(uint64_t pass)
{
    return (float)(pass & 0xffffff);
}

static bool is_first(struct client *c)
{
    return member_rank(client_member(c)) == 0;
}

int peer_seen_begin(struct client *c, uint64_t pass, uint32_t labels, struct err *e)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), "tug-peers-seen");
    t.accessor.dim = WIDTH;
    t.accessor.rule = rule_defaults(RULE_SUM);
    TRY(wait(c, client_table(c, TABLE, &t, e), e));
    return is_first(c) ? clear(c, pass, labels, e) : 0;
}

int peer_seen_clear(struct client *c, uint64_t pass, uint32_t labels, struct err *e)
{
    return is_first(c) ? clear(c, pass - 1, labels, e) : 0;
}

// Splits a double into floats. A loss that is not finite is stored as a very large one,
// since servers take finite values only.
static void split(double x, float ret[PARTS])
{
    if (!isfinite(x) || fabs(x) > (double)FLT_MAX)
        x = x < 0 ? -(double)FLT_MAX : (double)FLT_MAX;
    for (int i = 0; i < PARTS; i++) {
        ret[i] = (float)x;
        x -= (double)ret[i];
    }
}

static double joined(const float parts[PARTS])
{
    return (double)parts[0] + (double)parts[1] + (double)parts[2];
}

static int add_sums(struct client *c, const struct peer_seen *own, uint32_t label,
                    struct err *e)
{
    const struct metrics_stream *m = &own->stream[label];
    const double sums[SUMS] = {(double)m->examples,
                               m->weight,
                               m->loss - maths_log(m->likelihood),
                               m->predicted,
                               m->observed,
                               m->squares,
                               (double)own->examples,
                               (double)own->bad_lines};
    float row[WIDTH] = {0};
    uint64_t key = key_of(own->pass, true, label, member_rank(client_member(c)));
    for (int i = 0; i < SUMS; i++)
        split(sums[i], row + (size_t)i * PARTS);
    row[PASS] = pass_in_row(own->pass);
    return push(c, &key, 1, row, WIRE_ASSIGN, e);
}

static int add_buckets(struct client *c, const struct peer_seen *own, uint32_t label,
                       float *rows, struct err *e)
{
    const struct metrics_stream *m = &own->stream[label];
    uint64_t keys[BUCKET_ROWS];
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        float *row = rows + i / PER_ROW * WIDTH;
        row[i % PER_ROW] = (float)m->positive[i];
        row[PER_ROW + i % PER_ROW] = (float)m->negative[i];
    }
    keys_of(own->pass, false, label, BUCKET_ROWS, keys);
    return push(c, keys, BUCKET_ROWS, rows, WIRE_GRADIENT, e);
}

int peer_seen_add(struct client *c, const struct peer_seen *own, struct err *e)
{
    float *rows = mem_zalloc(sizeof(float[BUCKET_ROWS][WIDTH]));
    if (rows == NULL)
        return err_nomem(e, "what workers saw");
    int rc = 0;
    for (uint32_t k = 0; k < own->labels && rc == 0; k++) {
        rc = add_sums(c, own, k, e);
        if (rc == 0)
            rc = add_buckets(c, own, k, rows, e);
    }
    mem_free(rows);
    return rc;
}

static int pull(struct client *c, const uint64_t *keys, size_t n, float *ret,
                struct err *e)
{
    struct client_pull p = {.table = TABLE, .keys = keys, .n = n, .values = ret};
    return wait(c, client_pull(c, &p, e), e);
}

static void take_sums(struct peer_seen *to, uint32_t label, const float *row)
{
    struct metrics_stream *m = &to->stream[label];
    double sums[SUMS];
    if (row[PASS] != pass_in_row(to->pass))
        return;
    for (int i = 0; i < SUMS; i++)
        sums[i] = joined(row + (size_t)i * PARTS);
    m->examples += (uint64_t)sums[0];
    m->weight += sums[1];
    m->loss += sums[2];
    m->predicted += sums[3];
    m->observed += sums[4];
    m->squares += sums[5];
    if (label > 0)
        return;
    uint64_t examples = (uint64_t)sums[6], bad_lines = (uint64_t)sums[7];
    if (!to->all_read_all) {
        to->examples += examples;
        to->bad_lines += bad_lines;
        return;
    }
    to->examples = examples > to->examples ? examples : to->examples;
    to->bad_lines = bad_lines > to->bad_lines ? bad_lines : to->bad_lines;
}

static void take_buckets(struct metrics_stream *to, const float *rows)
{
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        const float *row = rows + i / PER_ROW * WIDTH;
        to->positive[i] = (double)row[i % PER_ROW];
        to->negative[i] = (double)row[PER_ROW + i % PER_ROW];
    }
}

int peer_seen_read(struct client *c, struct peer_seen *ret, struct err *e)
{
    uint32_t workers = peer_agree_ranks(c);
    size_t n = workers > BUCKET_ROWS ? workers : BUCKET_ROWS;
    uint64_t *keys = mem_array(n, sizeof(*keys));
    float *rows = mem_array(n, sizeof(float[WIDTH]));
    int rc = keys == NULL || rows == NULL ? err_nomem(e, "what workers saw") : 0;
    ret->examples = ret->bad_lines = 0;
    metrics_streams_clear(ret->stream, ret->labels);
    for (uint32_t k = 0; k < ret->labels && rc == 0; k++) {
        keys_of(ret->pass, true, k, workers, keys);
        rc = pull(c, keys, workers, rows, e);
        for (uint32_t i = 0; i < workers && rc == 0; i++)
            take_sums(ret, k, rows + (size_t)i * WIDTH);
        keys_of(ret->pass, false, k, BUCKET_ROWS, keys);
        if (rc == 0)
            rc = pull(c, keys, BUCKET_ROWS, rows, e);
        if (rc == 0)
            take_buckets(&ret->stream[k], rows);
    }
    mem_free(keys);
    mem_free(rows);
    return rc;
}
