// Writes files of synthetic examples, and measures how well the true model predicts them.
//
// SPDX-License-Identifier: Apache-2.0
#include "synth/synth.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "data/input/encode.h"
#include "os/clock.h"

// ---------------------------------------------------------------- scores

// A histogram of scores in [-LIMIT, LIMIT), so that memory does not depend on the number
// of rows.
enum { LIMIT = 16, PER_UNIT = 1 << 14, BINS = 2 * LIMIT * PER_UNIT };

struct synth_score {
    uint64_t n;
    double loss;
    uint64_t count[2][BINS]; // for each label, the number of scores in each bin
};

int synth_score_open(struct synth_score **ret, struct err *e)
{
    *ret = mem_zalloc(sizeof(**ret));
    return *ret ? 0 : err_nomem(e, "a histogram of scores");
}

void synth_score_close(struct synth_score *s)
{
    mem_free(s);
}

void synth_score_add(struct synth_score *s, double score, bool label)
{
    double at = (score + LIMIT) * PER_UNIT;
    size_t bin = at < 0 ? 0 : at >= BINS ? BINS - 1 : (size_t)at;
    s->count[label][bin]++;
    s->n++;
    s->loss -= maths_log(maths_sigmoid(label ? score : -score));
}

// Sums for the AUC, which is the fraction of pairs (positive, negative) that are in
// the right order. Each bin adds its numbers of positive and negative examples, which
// may be expected numbers.
struct pairs {
    double positive, negative, right;
};

static void pairs_add(struct pairs *p, double positive, double negative)
{
    p->right += positive * (p->negative + negative / 2);
    p->positive += positive;
    p->negative += negative;
}

double synth_score_auc(const struct synth_score *s)
{
    struct pairs p = {0};
    for (size_t i = 0; i < BINS; i++)
        pairs_add(&p, (double)s->count[1][i], (double)s->count[0][i]);
    return p.right / (p.positive * p.negative); // NaN (0 / 0) without both classes
}

double synth_score_expected_auc(const struct synth_score *s)
{
    struct pairs p = {0};
    for (size_t i = 0; i < BINS; i++) {
        double n = (double)(s->count[0][i] + s->count[1][i]);
        double click = n > 0 ? maths_sigmoid(((double)i + 0.5) / PER_UNIT - LIMIT) : 0;
        pairs_add(&p, n * click, n * (1 - click));
    }
    return p.right / (p.positive * p.negative);
}

double synth_score_logloss(const struct synth_score *s)
{
    return s->n ? s->loss / (double)s->n : NAN;
}

// ---------------------------------------------------------------- files

enum { BLOCK = 1 << 18 }; // bytes of text in a write

// The file to which the rows of a part are written, and statistics over these rows.
struct output {
    const struct synth *synth;
    enum synth_part part;
    enum synth_format format;
    struct synth_score *truth, *linear; // NULL: not measured
    uint64_t positives;
    struct encoder *file;
    char *text; // BLOCK + SYNTH_LINE_MAX bytes
};

static int put_rows(struct output *out, uint64_t rows, struct err *e)
{
    const char *header = synth_header(out->format);
    size_t n = strlen(header);
    memcpy(out->text, header, n);
    char *to = out->text + n;
    for (uint64_t i = 0; i < rows; i++) {
        struct synth_example x;
        synth_draw(out->synth, out->part, i, &x);
        to = synth_print(out->synth, out->format, &x, to);
        out->positives += x.label;
        if (out->truth) {
            synth_score_add(out->truth, x.score, x.label);
            synth_score_add(out->linear, x.linear, x.label);
        }
        if (to - out->text >= BLOCK) {
            TRY(encoder_write(out->file, out->text, (size_t)(to - out->text), e));
            to = out->text;
        }
    }
    return encoder_write(out->file, out->text, (size_t)(to - out->text), e);
}

static int put_file(struct output *out, const char *path, uint64_t rows,
                    uint64_t *ret_bytes, struct err *e)
{
    out->text = mem_alloc(BLOCK + SYNTH_LINE_MAX);
    if (!out->text)
        return err_nomem(e, path);
    int rc = encoder_open(&out->file, path, e);
    if (rc == 0) {
        rc = put_rows(out, rows, e);
        if (rc == 0)
            rc = encoder_commit(out->file, ret_bytes, e);
        else
            encoder_abort(out->file);
    }
    mem_free(out->text);
    return rc;
}

static int put_parts(struct synth *synth, const struct synth_options *o,
                     struct synth_score *truth, struct synth_score *linear,
                     struct synth_summary *ret, struct err *e)
{
    bool apart = o->test_out != NULL;
    double start = clock_seconds();
    struct output train = {.synth = synth,
                           .part = SYNTH_TRAIN,
                           .format = o->format,
                           .truth = apart ? NULL : truth,
                           .linear = linear};
    TRY(put_file(&train, o->out, o->rows, &ret->bytes, e));
    ret->seconds = clock_seconds() - start;
    ret->positives = train.positives;
    struct output test = {.synth = synth,
                          .part = SYNTH_TEST,
                          .format = o->format,
                          .truth = truth,
                          .linear = linear};
    return apart ? put_file(&test, o->test_out, o->test_rows, NULL, e) : 0;
}

int synth_write(const struct synth_options *o, struct synth_summary *ret, struct err *e)
{
    struct synth *synth = NULL;
    struct synth_score *truth = NULL, *linear = NULL;
    struct synth_summary sum = {0};
    int rc = synth_open(&synth, o->seed, e);
    if (rc == 0)
        rc = synth_score_open(&truth, e);
    if (rc == 0)
        rc = synth_score_open(&linear, e);
    if (rc == 0)
        rc = put_parts(synth, o, truth, linear, &sum, e);
    if (rc == 0) {
        sum.auc = synth_score_auc(truth);
        sum.expected_auc = synth_score_expected_auc(truth);
        sum.logloss = synth_score_logloss(truth);
        sum.linear_auc = synth_score_auc(linear);
        *ret = sum;
    }
    synth_score_close(linear);
    synth_score_close(truth);
    synth_close(synth);
    return rc;
}
