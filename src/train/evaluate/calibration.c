// See calibration.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/calibration.h"

#include <math.h>

#include "base/maths.h"

// Returns the end of the bin that begins at `first`: `wanted`, or a later index, so that
// all examples with the same score are in one bin.
static size_t bin_end(const struct scored *s, size_t n, size_t first, size_t wanted)
{
    size_t end = wanted > first ? wanted : first + 1;
    while (end < n && s[end].score == s[end - 1].score)
        end++;
    return end;
}

static void wilson(struct calibration_bin *b)
{
    const double z = 1.959963984540054;
    double n = (double)b->examples, p = b->observed, by = 1 + z * z / n;
    double middle = (p + z * z / (2 * n)) / by;
    double half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / by;
    b->low = fmax(0, middle - half);
    b->high = fmin(1, middle + half);
}

static struct calibration_bin bin_of(const struct scored *s, size_t n)
{
    double weight = 0, predicted = 0, positive = 0;
    for (size_t i = 0; i < n; i++) {
        double w = fabs((double)s[i].weight);
        weight += w;
        predicted += w * maths_sigmoid((double)s[i].score);
        positive += s[i].weight > 0 ? w : 0;
    }
    struct calibration_bin b = {.examples = n,
                                .weight = weight,
                                .from = maths_sigmoid((double)s[0].score),
                                .to = maths_sigmoid((double)s[n - 1].score),
                                .predicted = predicted / weight,
                                .observed = positive / weight};
    wilson(&b);
    return b;
}

void calibration_make(struct calibration *ret, const struct scored *s, size_t n)
{
    *ret = (struct calibration){0};
    size_t first = 0;
    for (size_t k = 1; k <= CALIBRATION_BINS && first < n; k++) {
        size_t wanted = (size_t)((double)n * (double)k / CALIBRATION_BINS);
        if (wanted <= first && k < CALIBRATION_BINS)
            // Earlier bins have taken the examples of this bin, because they have equal scores.
            continue;
        size_t end = bin_end(s, n, first, wanted);
        ret->bin[ret->n++] = bin_of(s + first, end - first);
        first = end;
    }
}
