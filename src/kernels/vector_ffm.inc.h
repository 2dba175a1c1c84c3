// FFM on vectors, included by vector.inc.h. A feature's row is made of short vectors (4
// is usual), so 8 floats at a time is the natural width on every level; lanes 0 to 7 and
// 8 to 15 of a sum are two accumulators.
//
// If memory is stored in small parts and soon loaded as a whole, the load waits until the
// last part has reached the cache. So stores in this file are as wide as the loads that
// follow.
//
// SPDX-License-Identifier: Apache-2.0

static inline size_t nth(const uint16_t *list, size_t i)
{
    return list != NULL ? list[i] : i;
}

static inline v8 join_4(v4 a, v4 b)
{
    return (v8)_mm256_set_m128((__m128)b, (__m128)a);
}

static inline v4 low_4(v8 x)
{
    return (v4)_mm256_castps256_ps128((__m256)x);
}

static inline v4 high_4(v8 x)
{
    return (v4)_mm256_extractf128_ps((__m256)x, 1);
}

// Loads the first n <= 8 floats, followed by zeros; reads no further floats.
static inline v8 load_first(const float *p, size_t n)
{
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    __m256i mask = _mm256_loadu_si256(
        (const __m256i *)(const void *)(lanes + 8 - (n < 8 ? n : 8)));
    return (v8)_mm256_maskload_ps(p, mask);
}

// Transposes `out` into `in`, for vectors of 4 and if all fields are present. Each store
// writes two vectors. The last store of a row may overwrite the beginning of the next row,
// which is written after it.
static inline void turn_all_of_4(float *in, const float *out, size_t fields)
{
    size_t row = fields * 4;
    for (size_t f = 0; f < fields; f++, out += 4)
        for (size_t h = 0; h < fields; h += 2) {
            v4 first = load_4(out + h * row), second = {0};
            if (h + 1 < fields)
                second = load_4(out + (h + 1) * row);
            store_8(in + f * row + h * 4, join_4(first, second));
        }
}

static inline void turn(float *in, const float *out, const uint16_t *list, size_t present,
                        size_t row, size_t k)
{
    for (size_t i = 0; i < present; i++)
        for (size_t j = 0; j < present; j++) {
            size_t f = nth(list, i), h = nth(list, j);
            memcpy(in + f * row + h * k, out + h * row + f * k, k * sizeof(float));
        }
}

// Adds a feature's row, multiplied by u, to the sums of the feature's field. The first
// feature of a field overwrites the sums, so they need not be cleared.
static inline void say(float *to, const float *v, float u, size_t row, bool first)
{
    size_t c = 0;
    for (; first && c + 8 <= row; c += 8)
        store_8(to + c, (v8){0} + u * load_8(v + c));
    for (; c + 8 <= row; c += 8)
        store_8(to + c, load_8(to + c) + u * load_8(v + c));
    for (; c < row; c++)
        to[c] = (first ? 0 : to[c]) + u * v[c];
}

static void ffm_sums(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const uint16_t *list,
                     size_t present, float *out, float *in)
{
    size_t row = fields * k;
    // Bit f: field f < 64 has had a feature. Sums of fields >= 64 are cleared first.
    uint64_t said = 0;
    for (size_t i = 0; i < present; i++) {
        if (nth(list, i) >= 64)
            memset(out + nth(list, i) * row, 0, row * sizeof(float));
        if (present < fields) // else all vectors of `in` are written below
            memset(in + nth(list, i) * row, 0, row * sizeof(float));
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = slot[i] < 64 ? (uint64_t)1 << slot[i] : 0;
        say(out + slot[i] * row, rows[i] + col, u[i], row, bit != 0 && (said & bit) == 0);
        said |= bit;
    }
    for (size_t i = 0; i < present; i++)
        if (nth(list, i) < 64 && (said >> nth(list, i) & 1) == 0)
            memset(out + nth(list, i) * row, 0, row * sizeof(float));
    if (k == 4 && present == fields)
        turn_all_of_4(in, out, fields);
    else
        turn(in, out, list, present, row, k);
}

// The sixteen lanes of a sum: `low` has lanes 0 to 7, `high` has lanes 8 to 15.
struct lanes {
    v8 low, high;
};

static inline float lanes_sum(struct lanes x)
{
    return lanes_sum_8(x.low + x.high);
}

static inline void add_products(struct lanes *to, const float *a, const float *b,
                                size_t n)
{
    size_t c = 0;
    for (; c + 16 <= n; c += 16) {
        to->low += load_8(a + c) * load_8(b + c);
        to->high += load_8(a + c + 8) * load_8(b + c + 8);
    }
    if (c < n)
        to->low += load_first(a + c, n - c) * load_first(b + c, n - c);
    if (c + 8 < n)
        to->high += load_first(a + c + 8, n - c - 8) * load_first(b + c + 8, n - c - 8);
}

// Adds the squares of u * own[c] to the lanes of *to.
static inline void add_squares(struct lanes *to, float u, const float *own, size_t k)
{
    for (size_t c = 0; c < k; c += 16) {
        v8 uv = u * load_first(own + c, k - c);
        to->low += uv * uv;
        if (c + 8 < k) {
            uv = u * load_first(own + c + 8, k - c - 8);
            to->high += uv * uv;
        }
    }
}

static float ffm_score(float *const *rows, size_t col, const uint16_t *slot,
                       const float *u, size_t n, size_t fields, size_t k,
                       const uint16_t *list, size_t present, const float *out,
                       const float *in)
{
    struct lanes all = {{0}, {0}}, self = {{0}, {0}};
    size_t row = fields * k;
    for (size_t i = 0; i < present; i++)
        add_products(&all, out + nth(list, i) * row, in + nth(list, i) * row, row);
    for (size_t i = 0; i < n; i++)
        add_squares(&self, u[i], rows[i] + col + slot[i] * k, k);
    return 0.5f * (lanes_sum(all) - lanes_sum(self));
}

// Computes eight floats of a feature's gradient, from column c on. The sums for the
// feature's own field include the feature itself, which is subtracted again.
static inline v8 ffm_grad_8(v8 met, v8 v, size_t c, size_t own, size_t k, float eu,
                            float minus)
{
    const v8i lane = {0, 1, 2, 3, 4, 5, 6, 7};
    v8i at = lane + (int32_t)c - (int32_t)own;
    v8 g = eu * met;
    return select_8((at >= 0) & (at < (int32_t)k), g + minus * v, g);
}

static void ffm_grad(float *const *rows, size_t col, const uint16_t *slot, const float *u,
                     size_t n, size_t fields, size_t k, const float *in, float err,
                     float *g)
{
    size_t row = fields * k;
    for (size_t i = 0; i < n; i++, g += row) {
        const float *v = rows[i] + col, *met = in + slot[i] * row;
        size_t own = slot[i] * k, c = 0;
        float eu = err * u[i], minus = -(eu * u[i]);
        for (; c + 8 <= row; c += 8)
            store_8(g + c,
                    ffm_grad_8(load_8(met + c), load_8(v + c), c, own, k, eu, minus));
        // Also overwrites padding, or the next gradient, which is written later.
        if (c < row)
            store_8(g + c, ffm_grad_8(load_first(met + c, row - c),
                                      load_first(v + c, row - c), c, own, k, eu, minus));
    }
}

// ffm_step of adagrad-row with vectors of 4 floats, the default. Goes three times through a
// strip of rows: the second time computes the roots and quotients of all blocks, so that
// they are pipelined without stalls.
enum { STRIP_FLOATS = 2560, STRIP_ROWS = 16 };

// Returns the sums of squares of the four blocks of 4 floats in two vectors.
static inline v4 sums_of_4(v8 a, v8 b)
{
    __m256 qa = (__m256)(a * a), qb = (__m256)(b * b);
    qa = _mm256_add_ps(qa, _mm256_permute_ps(qa, 0x4e));
    qb = _mm256_add_ps(qb, _mm256_permute_ps(qb, 0x4e));
    qa = _mm256_add_ps(qa, _mm256_permute_ps(qa, 0xb1));
    qb = _mm256_add_ps(qb, _mm256_permute_ps(qb, 0xb1));
    return (v4)_mm_movelh_ps(
        _mm_unpacklo_ps(_mm256_castps256_ps128(qa), _mm256_extractf128_ps(qa, 1)),
        _mm_unpacklo_ps(_mm256_castps256_ps128(qb), _mm256_extractf128_ps(qb, 1)));
}

// The first time: writes gradients with decay to d, and the new sums of squares to the
// rows' state and to n.
static inline void ffm_walk_sums(const struct rule_params *p, float l2, const float *w,
                                 float *s, float *d, float *n, size_t row)
{
    size_t c = 0;
    for (; c + 16 <= row; c += 16) {
        v8 low = decayed_8(p, l2 + (v8){0}, load_8(w + c), load_8(d + c));
        v8 high = decayed_8(p, l2 + (v8){0}, load_8(w + c + 8), load_8(d + c + 8));
        v4 sums = load_4(s + c / 4) + sums_of_4(low, high) / 4.0f;
        store_8(d + c, low);
        store_8(d + c + 8, high);
        store_4(s + c / 4, sums);
        store_4(n + c / 4, sums);
    }
    for (; c < row; c += 4) {
        v4 dv = decayed_4(p, l2 + (v4){0}, load_4(w + c), load_4(d + c));
        float sum = s[c / 4] + lanes_sum_4(dv * dv) / 4.0f;
        store_4(d + c, dv);
        s[c / 4] = n[c / 4] = sum;
    }
}

// The third time: updates the weights. If d is 0, the weight keeps its value, even if the
// rate is infinite.
static inline void ffm_walk_move(float *w, const float *d, const float *rate, size_t row)
{
    size_t c = 0;
    for (; c + 8 <= row; c += 8) {
        v8 wv = load_8(w + c), dv = load_8(d + c);
        v8 rates = join_4(rate[c / 4] + (v4){0}, rate[c / 4 + 1] + (v4){0});
        store_8(w + c, select_8(dv != 0, wv - rates * dv, wv));
    }
    for (; c < row; c += 4) {
        v4 wv = load_4(w + c), dv = load_4(d + c);
        store_4(w + c, select_4(dv != 0, wv - rate[c / 4] * dv, wv));
    }
}

static void ffm_step_of_4(const struct rule_params *p, const float *l2,
                          float *const *rows, size_t w, size_t s, const uint16_t *slot,
                          const float *u, size_t n, size_t fields, const float *in,
                          float err)
{
    size_t row = fields * 4, strip = STRIP_ROWS;
    // Halving makes strips that divide 16, so that no strip has rows of two of the groups of
    // sixteen that `repeats` compares.
    while (strip * row > STRIP_FLOATS)
        strip /= 2;
    float d[STRIP_FLOATS + KERNEL_PADDING], rate[STRIP_FLOATS / 4 + KERNEL_PADDING];
    for (size_t at = 0; at < n; at += strip) {
        size_t m = n - at < strip ? n - at : strip;
        ffm_grad(rows + at, w, slot + at, u + at, m, fields, 4, in, err, d);
        for (size_t i = 0; i < m; i++)
            ffm_walk_sums(p, l2[at + i], rows[at + i] + w, rows[at + i] + s, d + i * row,
                          rate + i * fields, row);
        for (size_t b = 0; b < m * fields; b += 8)
            store_8(rate + b, p->lr / (p->beta + SQRT8(load_8(rate + b))));
        for (size_t i = 0; i < m; i++)
            ffm_walk_move(rows[at + i] + w, d + i * row, rate + i * fields, row);
    }
}
