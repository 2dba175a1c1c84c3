// See curves.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/curves.h"

#include <math.h>

#include "base/maths.h"

static void curve_add(struct curve *c, double x, double y)
{
    if (c->n < CURVES_POINTS)
        c->point[c->n++] = (struct curve_point){x, y};
}

// Goes through the examples by falling score, and adds a point wherever a curve has moved
// far enough. The arrays are large enough, because the ROC curve moves by at most 2 in
// total, and the recall of the other curve by 1.
static void draw_lines(struct curves *c, const struct scored *s, size_t n,
                       double positives, double negatives)
{
    const double least = 2.0 / (CURVES_POINTS - 3), recall = 1.0 / (CURVES_POINTS - 3);
    double up = 0, right = 0, moved = 0, recalled = 0;
    curve_add(&c->roc, 0, 0);
    while (n > 0) {
        uint32_t score = score_order(s[n - 1].score);
        for (; n > 0 && score_order(s[n - 1].score) == score; n--) {
            up += s[n - 1].weight > 0 ? (double)s[n - 1].weight : 0;
            right -= s[n - 1].weight < 0 ? (double)s[n - 1].weight : 0;
        }
        double x = right / negatives, y = up / positives;
        if (x + y - moved >= least || n == 0) {
            curve_add(&c->roc, n > 0 ? x : 1, n > 0 ? y : 1);
            moved = x + y;
        }
        if (up > 0 && (c->precision.n == 0 || y - recalled >= recall || n == 0)) {
            curve_add(&c->precision, n > 0 ? y : 1, up / (up + right));
            recalled = y;
        }
    }
}

static void draw_bars(struct curves *c, const struct scored *s, size_t n)
{
    double low = maths_sigmoid((double)s[0].score);
    double high = maths_sigmoid((double)s[n - 1].score), width = high - low;
    c->bars = width > 0 ? CURVES_BARS : 1;
    for (uint32_t i = 0; i < c->bars; i++) {
        c->bar[i].from = low + width * i / c->bars;
        c->bar[i].to = low + width * (i + 1) / c->bars;
    }
    for (size_t i = 0; i < n; i++) {
        double p = maths_sigmoid((double)s[i].score);
        double at = width > 0 ? (p - low) / width * c->bars : 0;
        // If `at` is NaN, the comparison is false and the last bar is taken.
        struct score_bar *b = &c->bar[at < c->bars - 1 ? (uint32_t)at : c->bars - 1];
        if (s[i].weight > 0)
            b->positives += (double)s[i].weight;
        else
            b->negatives -= (double)s[i].weight;
    }
}

static void draw_lift(struct curves *c, double positives, double weight)
{
    const struct calibration *b = &c->calibration;
    double sum = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const struct calibration_bin *bin = &b->bin[b->n - 1 - i];
        double here = bin->observed * bin->weight;
        sum += here;
        c->lift[i] = (struct lift_part){.examples = bin->examples,
                                        .positives = here,
                                        .observed = bin->observed,
                                        .lift = bin->observed / (positives / weight),
                                        .captured = sum / positives};
    }
}

void curves_make(struct curves *ret, const struct scored *s, size_t n)
{
    *ret = (struct curves){0};
    if (n == 0)
        return;
    double positives = 0, negatives = 0;
    for (size_t i = 0; i < n; i++)
        *(s[i].weight > 0 ? &positives : &negatives) += fabs((double)s[i].weight);
    ret->positives = positives;
    ret->negatives = negatives;
    calibration_make(&ret->calibration, s, n);
    draw_bars(ret, s, n);
    draw_lift(ret, positives, positives + negatives);
    if (positives > 0 && negatives > 0)
        draw_lines(ret, s, n, positives, negatives);
}

static json_t *reals(double x, double y)
{
    return json_pack("[o, o]", json_real_or_null(x), json_real_or_null(y));
}

static json_t *curve_to_json(const struct curve *c)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < c->n; i++)
        json_array_append_new(all, reals(c->point[i].x, c->point[i].y));
    return all;
}

json_t *calibration_to_json(const struct calibration *c)
{
    json_t *lines = json_array();
    for (uint32_t i = 0; i < c->n; i++) {
        const struct calibration_bin *b = &c->bin[i];
        json_array_append_new(
            lines,
            json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "examples",
                      (json_int_t)b->examples, "weight", json_real_or_null(b->weight),
                      "from", json_real_or_null(b->from), "to", json_real_or_null(b->to),
                      "predicted", json_real_or_null(b->predicted), "observed",
                      json_real_or_null(b->observed), "low", json_real_or_null(b->low),
                      "high", json_real_or_null(b->high)));
    }
    return lines;
}

static json_t *bars_to_json(const struct curves *c)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < c->bars; i++)
        json_array_append_new(all, json_pack("{s:o, s:o, s:o, s:o}", "from",
                                             json_real_or_null(c->bar[i].from), "to",
                                             json_real_or_null(c->bar[i].to), "positives",
                                             json_real_or_null(c->bar[i].positives),
                                             "negatives",
                                             json_real_or_null(c->bar[i].negatives)));
    return all;
}

static json_t *lift_to_json(const struct curves *c)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < c->calibration.n; i++) {
        const struct lift_part *l = &c->lift[i];
        json_array_append_new(all, json_pack("{s:I, s:o, s:o, s:o, s:o}", "examples",
                                             (json_int_t)l->examples, "positives",
                                             json_real_or_null(l->positives), "observed",
                                             json_real_or_null(l->observed), "lift",
                                             json_real_or_null(l->lift), "captured",
                                             json_real_or_null(l->captured)));
    }
    return all;
}

void curves_add_json(json_t *to, const struct curves *c)
{
    json_object_set_new(to, "calibration", calibration_to_json(&c->calibration));
    json_object_set_new(to, "roc", curve_to_json(&c->roc));
    json_object_set_new(to, "precision_recall", curve_to_json(&c->precision));
    json_object_set_new(to, "scores", bars_to_json(c));
    json_object_set_new(to, "lift", lift_to_json(c));
}
