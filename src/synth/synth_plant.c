// The planted model: distributions of the slots' values, weights of the values, and
// examples drawn from them.
//
// The layout is chosen for speed: one 64-bit random number per slot gives the quantile,
// the place in it and whether the value is missing; the weights of a value are one cache
// line, and those of a row are prefetched before they are summed.
//
// SPDX-License-Identifier: Apache-2.0
#include "synth/synth_plant.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/maths.h"
#include "base/random.h"

// The parameters of the planted model. They were chosen by training on its data, with one
// pass of AdaGrad. On 0.25, 1 and 4 million rows a factorization machine reached an AUC
// of 0.746, 0.773 and 0.784; the best possible AUC was 0.800. On 1 million rows a linear
// model reached 0.727, where 0.738 was possible.
//
// The variances are those of the two parts of the log-odds: the sum of linear weights,
// and the sum over pairs of latent vectors.
static const double linear_variance = 1.2;
static const double pair_variance = 0.62;
static const double click_rate = 0.25;
// The weights of a value that occurs in this share of examples are halved, and those of
// rarer values are reduced more, so rare values have little effect.
static const double linear_rarity = 2e-5;
static const double latent_rarity = 2e-4;

// How a slot is made: its number of values, exponent and offset of the power law (the
// frequency of value v is proportional to (v + offset)^-power), percentage of missing
// values, and strength of the slot in interactions.
static const struct recipe {
    uint32_t size;
    double power, offset;
    uint32_t missing_percent;
    double latent;
} recipes[SYNTH_SLOTS] = {
    // Numeric slots, whose values are buckets by log^2.
    {24, 1.2, 1, 12, 1},
    {50, 1.1, 3, 0, .5},
    {40, 1.2, 2, 12, .5},
    {20, 1.1, 3, 12, .5},
    {80, 1.0, 8, 2, 1},
    {60, 1.1, 4, 12, .5},
    {40, 1.3, 2, 2, .5},
    {16, 1.1, 3, 0, .5},
    {50, 1.1, 4, 2, .5},
    {10, 1.5, 1, 12, 1},
    {16, 1.3, 1, 2, .5},
    {12, 1.5, 1, 60, .5},
    {24, 1.2, 2, 12, .5},
    // Categorical slots, whose values are words.
    {1460, 1.2, 2, 0, 1},
    {580, 1.2, 3, 0, 1},
    {2000000, 1.45, 8, 3, .3},
    {600000, 1.45, 8, 3, .3},
    {305, 1.4, 1, 0, 1},
    {18, 1.3, 1, 8, 1},
    {12500, 1.2, 10, 0, .7},
    {630, 1.4, 1, 0, 1},
    {10, 1.5, 1, 0, 1},
    {60000, 1.3, 6, 0, .6},
    {5600, 1.1, 6, 0, .8},
    {1500000, 1.45, 8, 3, .3},
    {3200, 1.1, 6, 0, .8},
    {27, 1.3, 1, 0, 1},
    {14500, 1.2, 10, 0, .7},
    {1000000, 1.45, 8, 3, .3},
    {11, 1.2, 1, 0, 1},
    {4200, 1.15, 5, 0, .8},
    {2100, 1.2, 4, 44, .6},
    {12, 1.2, 1, 44, .6},
    {1300000, 1.45, 8, 3, .3},
    {17, 1.3, 1, 76, .6},
    {15, 1.3, 1, 0, 1},
    {200000, 1.35, 8, 3, .4},
    {92, 1.3, 1, 44, .6},
    {100000, 1.35, 8, 44, .4},
};

// Strengths of the latent dimensions. They differ, like the singular values of real data.
static const double dimensions[SYNTH_DIM] = {1, .9, .8, .7, .5, .4, .3, .2};

// Numbers of random streams, other than the two in enum synth_part.
enum { STREAM_CALIBRATION = 3, STREAM_WEIGHTS = 16 };

// ---------------------------------------------------------------- distributions

static double power(double x, double y)
{
    return maths_exp(y * maths_log(x));
}

// Returns the u-quantile of a slot's power law, by inverting the integral of the density.
static double quantile(const struct recipe *r, double u)
{
    double a = r->offset, b = r->offset + r->size, k = 1 - r->power;
    if (k > -1e-9 && k < 1e-9) // 1/x integrates to a logarithm
        return a * power(b / a, u) - a;
    double low = power(a, k), high = power(b, k);
    return power(low + u * (high - low), 1 / k) - a;
}

static void slot_quantiles(struct synth_slot *slot, const struct recipe *r)
{
    const double one = 1 << SYNTH_FRACTION;
    uint32_t end = r->size << SYNTH_FRACTION, low = 0;
    for (uint32_t q = 0; q < SYNTH_QUANTILES; q++) {
        double next = quantile(r, (q + 1.0) / SYNTH_QUANTILES) * one;
        uint32_t high = q + 1 == SYNTH_QUANTILES || next > end ? end : (uint32_t)next;
        slot->quantiles[q] = (struct synth_quantile){low, high - low};
        low = high;
    }
}

// Computes the probability of each value of the head (the frequent values, with weights
// of their own) from the quantiles. Returns the probability of all other values together.
static double head_probabilities(const struct synth_slot *slot, double *ret_p)
{
    const uint32_t one = 1u << SYNTH_FRACTION;
    const double piece = 1.0 / SYNTH_QUANTILES;
    double tail = 0;
    memset(ret_p, 0, slot->head * sizeof(*ret_p));
    for (uint32_t q = 0; q < SYNTH_QUANTILES; q++) {
        uint32_t low = slot->quantiles[q].low, width = slot->quantiles[q].width;
        if (width == 0) { // the whole quantile is one value, so the value is frequent
            ret_p[low / one] += piece;
            continue;
        }
        double density = piece / width;
        while (width) {
            uint32_t value = low / one, part = one - low % one;
            if (value >= slot->head) {
                tail += density * width;
                break;
            }
            part = part < width ? part : width;
            ret_p[value] += density * part;
            low += part;
            width -= part;
        }
    }
    return tail;
}

// ---------------------------------------------------------------- weights

// Returns a nearly normal number by exact arithmetic: the sum of four uniform numbers,
// scaled to variance 1.
static double bell(uint64_t seed, uint64_t stream, uint64_t i)
{
    uint64_t bits = random_u64(seed, stream, i);
    double sum = 0;
    for (int k = 0; k < 4; k++)
        sum += (double)(bits >> (16 * k) & 0xffff) * 0x1p-16;
    return (sum - 2) * 1.7320508075688772;
}

static float *weight_at(struct synth_weights *w, int column)
{
    return column == 0 ? &w->linear : (float *)&w->latent + (column - 1);
}

// The variances and covariances of a slot's weights, over values that are drawn
// by their frequencies.
struct moments {
    double linear;                       // variance
    double latent[SYNTH_DIM][SYNTH_DIM]; // covariance
};

// Returns the probability of row i of the slot's weights.
static double row_share(const struct synth_slot *slot, const double *p, double tail,
                        uint32_t i)
{
    return i < slot->head ? p[i] : tail / SYNTH_TAIL;
}

static void slot_weights(struct synth_slot *slot, const struct recipe *r, uint64_t seed,
                         uint64_t stream, const double *p, double tail)
{
    uint32_t n = slot->head + SYNTH_TAIL;
    double tail_values = r->size > slot->head ? r->size - slot->head : 1;
    for (uint32_t i = 0; i < n; i++) {
        double share = i < slot->head ? p[i] : tail / tail_values;
        double linear = share / (share + linear_rarity);
        double latent = r->latent * share / (share + latent_rarity);
        for (int c = 0; c <= SYNTH_DIM; c++) {
            double scale = c == 0 ? linear : latent * dimensions[c - 1];
            double x = bell(seed, stream, (uint64_t)i * 16 + (uint64_t)c);
            *weight_at(&slot->weights[i], c) = (float)(scale * x);
        }
    }
}

// Subtracts the mean from each column of a slot's weights, so that a linear model cannot
// learn anything from the interactions.
static void slot_centre(struct synth_slot *slot, const double *p, double tail)
{
    uint32_t n = slot->head + SYNTH_TAIL;
    for (int c = 0; c <= SYNTH_DIM; c++) {
        double mean = 0;
        for (uint32_t i = 0; i < n; i++)
            mean += row_share(slot, p, tail, i) *
                    (double)*weight_at(&slot->weights[i], c);
        for (uint32_t i = 0; i < n; i++)
            *weight_at(&slot->weights[i], c) -= (float)mean;
    }
}

static void slot_moments(struct synth_slot *slot, const double *p, double tail,
                         struct moments *ret)
{
    uint32_t n = slot->head + SYNTH_TAIL;
    double present = 1 - slot->missing / 2048.0;
    *ret = (struct moments){0};
    for (uint32_t i = 0; i < n; i++) {
        double share = present * row_share(slot, p, tail, i);
        const struct synth_weights *w = &slot->weights[i];
        ret->linear += share * (double)w->linear * (double)w->linear;
        for (int a = 0; a < SYNTH_DIM; a++)
            for (int b = 0; b < SYNTH_DIM; b++)
                ret->latent[a][b] += share * (double)w->latent[a] * (double)w->latent[b];
    }
}

// Returns the variance of the sum over pairs of slots. Slots are independent and
// centred, so the variances of the pairs add up; each is the trace of the product of
// two covariance matrices.
static double pairs_variance(const struct moments m[SYNTH_SLOTS])
{
    double sum = 0;
    for (int i = 0; i < SYNTH_SLOTS; i++)
        for (int j = i + 1; j < SYNTH_SLOTS; j++)
            for (int a = 0; a < SYNTH_DIM; a++)
                for (int b = 0; b < SYNTH_DIM; b++)
                    sum += m[i].latent[a][b] * m[j].latent[a][b];
    return sum;
}

static void scale_weights(struct synth *s, const struct moments m[SYNTH_SLOTS])
{
    double variance = 0;
    for (int i = 0; i < SYNTH_SLOTS; i++)
        variance += m[i].linear;
    double linear = power(linear_variance / variance, 0.5);
    double latent = power(
        pair_variance / pairs_variance(m),
        // 0.25 and not 0.5, because each product of two weights contains the factor
        // twice.
        0.25);
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        struct synth_slot *slot = &s->slots[i];
        for (uint32_t k = 0; k < slot->head + SYNTH_TAIL; k++) {
            slot->weights[k].linear *= (float)linear;
            for (int d = 0; d < SYNTH_DIM; d++)
                slot->weights[k].latent[d] *= (float)latent;
        }
    }
}

enum { CALIBRATION = 1 << 14 }; // number of examples

// Finds by bisection the intercept at which a sample has the wanted click rate. `scores`
// has room for the sample.
static void calibrate(struct synth *s, double *scores)
{
    for (uint64_t i = 0; i < CALIBRATION; i++) {
        struct synth_example x;
        synth_draw(s, (enum synth_part)STREAM_CALIBRATION, i, &x);
        scores[i] = x.score;
    }
    double low = -20, high = 20;
    for (int step = 0; step < 40; step++) {
        double sum = 0, middle = (low + high) / 2;
        for (uint64_t i = 0; i < CALIBRATION; i++)
            sum += maths_sigmoid(scores[i] + middle);
        *(sum > click_rate * CALIBRATION ? &high : &low) = middle;
    }
    s->intercept = (low + high) / 2;
}

// Computes the lower bounds of the buckets. Buckets 0, 1 and 2 contain just their number;
// bucket 2 + k contains the integers n with floor(ln(n)^2) = k, which begin at e^sqrt(k).
static void bucket_bounds(uint32_t *ret_low)
{
    for (uint32_t b = 0; b <= SYNTH_BUCKETS; b++)
        ret_low[b] = b <= 2 ? b : (uint32_t)maths_exp(power(b - 2, 0.5)) + 1;
}

static void slot_init(struct synth_slot *slot, const struct recipe *r, uint64_t seed,
                      int i)
{
    slot->size = r->size;
    slot->head = r->size < SYNTH_HEAD ? r->size : SYNTH_HEAD;
    slot->missing = r->missing_percent * 2048 / 100;
    slot->scramble = (uint32_t)random_u64(seed, STREAM_WEIGHTS - 1, (uint64_t)i) &
                     0xffffff;
    slot_quantiles(slot, r);
}

// Sets all parameters of the model. `scratch` has room for the probabilities of a head
// and for the scores of the calibration.
static void plant(struct synth *s, double *scratch)
{
    double *p = scratch;
    struct moments moments[SYNTH_SLOTS];
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        struct synth_slot *slot = &s->slots[i];
        double tail = head_probabilities(slot, p);
        slot_weights(slot, &recipes[i], s->seed, STREAM_WEIGHTS + (uint64_t)i, p, tail);
        slot_centre(slot, p, tail);
        slot_moments(slot, p, tail, &moments[i]);
    }
    scale_weights(s, moments);
    calibrate(s, scratch);
}

int synth_open(struct synth **ret, uint64_t seed, struct err *e)
{
    static_assert((int)CALIBRATION <= (int)SYNTH_HEAD, "they share their memory");
    double *scratch = mem_array(SYNTH_HEAD, sizeof(*scratch));
    struct synth *s = mem_zalloc(sizeof(*s));
    if (!scratch || !s)
        goto fail;
    s->seed = seed;
    bucket_bounds(s->bucket_low);
    size_t rows = 0;
    uint32_t index = 1;
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        slot_init(&s->slots[i], &recipes[i], seed, i);
        rows += s->slots[i].head + SYNTH_TAIL;
        s->slots[i].index = index;
        index += s->slots[i].size;
    }
    s->weights = mem_aligned(64, rows * sizeof(*s->weights));
    if (!s->weights)
        goto fail;
    memset(s->weights, 0, rows * sizeof(*s->weights));
    struct synth_weights *next = s->weights;
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        s->slots[i].weights = next;
        next += s->slots[i].head + SYNTH_TAIL;
    }
    plant(s, scratch);
    mem_free(scratch);
    *ret = s;
    return 0;
fail:
    mem_free(scratch);
    synth_close(s);
    return err_nomem(e, "the planted model");
}

void synth_close(struct synth *s)
{
    if (!s)
        return;
    mem_free(s->weights);
    mem_free(s);
}

// ---------------------------------------------------------------- examples

static const struct synth_weights *weights_of(const struct synth_slot *slot,
                                              uint32_t value)
{
    if (value < slot->head)
        return &slot->weights[value];
    return &slot->weights[slot->head + (mix64(value) & (SYNTH_TAIL - 1))];
}

// Draws the values of an example, and sets rows[] to their weights. Returns the number of
// values that are present.
static int draw_values(const struct synth *s, uint64_t start, struct synth_example *x,
                       const struct synth_weights *rows[SYNTH_SLOTS])
{
    int n = 0;
    for (uint32_t i = 0; i < SYNTH_SLOTS; i++) {
        const struct synth_slot *slot = &s->slots[i];
        uint64_t bits = mix64(start + (i + 1) * 0x9e3779b97f4a7c15ull);
        struct synth_quantile q = slot->quantiles[bits >> 54];
        uint32_t inside = (uint32_t)((uint64_t)q.width * (uint32_t)(bits >> 22) >> 32);
        uint32_t value = (q.low + inside) >> SYNTH_FRACTION;
        const struct synth_weights *w = weights_of(slot, value);
        __builtin_prefetch(w);
        bool present = (bits & 2047) >= slot->missing;
        rows[n] = w;
        n += present;
        x->value[i] = present ? value : SYNTH_MISSING;
        if (i < SYNTH_NUMERIC) {
            const uint32_t *low = &s->bucket_low[value];
            x->number[i] = low[0] +
                           ((low[1] - low[0]) * (uint32_t)(bits >> 11 & 2047) >> 11);
        }
    }
    return n;
}

void synth_draw(const struct synth *s, enum synth_part part, uint64_t i,
                struct synth_example *ret_x)
{
    const struct synth_weights *rows[SYNTH_SLOTS + 1];
    uint64_t start = random_u64(s->seed, (uint64_t)part, i);
    int n = draw_values(s, start, ret_x, rows);
    synth_v8 sum = {0}, squares = {0};
    double linear = s->intercept;
    for (int k = 0; k < n; k++) {
        sum += rows[k]->latent;
        squares += rows[k]->latent * rows[k]->latent;
        linear += (double)rows[k]->linear;
    }
    // The sum over pairs <v_i, v_j> is (|sum of v|^2 - sum of |v|^2) / 2 (Rendle 2010,
    // lemma 3.1).
    synth_v8 twice = sum * sum - squares;
    double pairs = 0;
    for (int d = 0; d < SYNTH_DIM; d++)
        pairs += (double)twice[d];
    ret_x->linear = linear;
    ret_x->score = linear + pairs / 2;
    double u = (double)(mix64(start) >> 11) * 0x1p-53;
    ret_x->label = u < maths_sigmoid(ret_x->score);
}
