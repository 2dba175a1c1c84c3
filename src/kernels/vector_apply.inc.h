// Updates of whole rows and of columns by the rules of vector_rules.inc.h, included by
// vector.inc.h.
//
// SPDX-License-Identifier: Apache-2.0

// Calls a rule for strips along n weights, from the level's width down to 4, and for the
// end. The arguments of ALONG follow the rule and l2 in each call.
#define ALONG(rule, n, ...)                                                              \
    do {                                                                                 \
        size_t i = 0;                                                                    \
        for (; WIDE == 16 && i + 16 <= (n); i += 16)                                     \
            update_##rule##_16(p, l2, __VA_ARGS__, w + i, s + i, n, g + i);              \
        for (; i + 8 <= (n); i += 8)                                                     \
            update_##rule##_8(p, l2, __VA_ARGS__, w + i, s + i, n, g + i);               \
        if (i + 4 <= (n)) {                                                              \
            update_##rule##_4(p, l2, __VA_ARGS__, w + i, s + i, n, g + i);               \
            i += 4;                                                                      \
        }                                                                                \
        if (i < (n))                                                                     \
            update_##rule##_end(p, l2, __VA_ARGS__, w + i, s + i, n, g + i);             \
    } while (0)

#define APPLY(rule)                                                                      \
    static void apply_##rule(const struct rule_params *p, float l2, float *w, float *s,  \
                             const float *g, size_t n)                                   \
    {                                                                                    \
        ALONG(rule, n, 0);                                                               \
    }
APPLY(sgd)
APPLY(sum)
APPLY(summary)
APPLY(assign)
APPLY(momentum)
APPLY(adagrad)
APPLY(adagrad_std)
APPLY(rmsprop)
APPLY(ftrl)
APPLY(adam_d2sum)

static inline bool any_moves(const struct rule_params *p, const float *g, size_t n)
{
    size_t i = 0;
    while (i < n && g[i] == 0)
        i++;
    return i < n || (p->dense && n != 0);
}

// Updates c, which holds 1 - beta1^t and 1 - beta2^t, and returns adam's corrected rate.
static inline float next_rate(const struct rule_params *p, float lr, float *c)
{
    c[0] = p->beta1 * c[0] + (1 - p->beta1);
    c[1] = p->beta2 * c[1] + (1 - p->beta2);
    return lr * sqrtf(c[1]) / c[0];
}

#define APPLY_ADAM(rule)                                                                 \
    static void apply_##rule(const struct rule_params *p, float l2, float *w, float *s,  \
                             const float *g, size_t n)                                   \
    {                                                                                    \
        if (!any_moves(p, g, n))                                                         \
            return;                                                                      \
        float rate = next_rate(p, p->lr, s + 2 * n);                                     \
        ALONG(rule, n, rate);                                                            \
    }
APPLY_ADAM(adam)
APPLY_ADAM(adamw)

// Sums over the vector, in the order of KERNEL_LANES: lanes 0 to 7 and 8 to 15 are two
// vectors. `by` is 1 if each weight has a state of its own, else 0.
#define SUM_ALONG(what)                                                                  \
    static inline v8 tail_##what(const struct rule_params *p, float l2, float c,         \
                                 float *w, float *s, const float *g, size_t i, size_t n, \
                                 size_t by)                                              \
    {                                                                                    \
        v4 x = {0}, end = {0};                                                           \
        if (i + 4 <= n) {                                                                \
            x = of_##what##_4(p, l2, c, w + i, s + by * i, n, g + i);                    \
            i += 4;                                                                      \
        }                                                                                \
        if (i < n) {                                                                     \
            const v4i lane = {0, 1, 2, 3};                                               \
            end = of_##what##_end(p, l2, c, w + i, s + by * i, n, g + i);                \
            end = select_4(lane < (int32_t)(n % 4), end, (v4){0});                       \
        }                                                                                \
        return n % 8 < 4 ? join_4(end, x) : join_4(x, end);                              \
    }                                                                                    \
    static inline float sum_##what(const struct rule_params *p, float l2, float c,       \
                                   float *w, float *s, const float *g, size_t n,         \
                                   size_t by)                                            \
    {                                                                                    \
        v8 low = {0}, high = {0};                                                        \
        size_t i = 0;                                                                    \
        for (; i + 16 <= n; i += 16) {                                                   \
            size_t j = i + 8;                                                            \
            low += of_##what##_8(p, l2, c, w + i, s + by * i, n, g + i);                 \
            high += of_##what##_8(p, l2, c, w + j, s + by * j, n, g + j);                \
        }                                                                                \
        if (i + 8 <= n) {                                                                \
            low += of_##what##_8(p, l2, c, w + i, s + by * i, n, g + i);                 \
            i += 8;                                                                      \
            if (i < n)                                                                   \
                high += tail_##what(p, l2, c, w, s, g, i, n, by);                        \
        } else if (i < n) {                                                              \
            low += tail_##what(p, l2, c, w, s, g, i, n, by);                             \
        }                                                                                \
        return lanes_sum_8(low + high);                                                  \
    }
SUM_ALONG(squares)
SUM_ALONG(m)
SUM_ALONG(v)
SUM_ALONG(lamb)
SUM_ALONG(group)

// Updates a block of adagrad-row. If no weight takes part, sum_squares returns 0, and
// nothing changes.
static inline void adagrad_block(const struct rule_params *p, float l2, float *w,
                                 float *s, const float *g, size_t n)
{
    float next = *s + sum_squares(p, l2, 0, w, s, g, n, 0) / (float)n;
    if (p->bounded && !isfinite(next))
        return;
    float rate = p->lr / (p->beta + sqrtf(next));
    *s = next;
    ALONG(move, n, rate);
}

static void apply_adagrad_v2(const struct rule_params *p, float l2, float *w, float *s,
                             const float *g, size_t n)
{
    if (n != 0)
        adagrad_block(p, l2, w, s, g, n);
}

static void apply_adagrad_shared(const struct rule_params *p, float l2, float *w,
                                 float *s, const float *g, size_t n)
{
    if (n == 0)
        return;
    float rate = p->lr * sqrtf(p->g0 / (p->g0 + *s));
    float next = *s + sum_squares(p, l2, 0, w, s, g, n, 0) / (float)n;
    if (p->bounded && !isfinite(next))
        return;
    *s = next;
    ALONG(move, n, rate);
}

// Updates a block of adagrad-row that fits one register of W floats.
#define ADAGRAD_BLOCK(W)                                                                 \
    static inline void adagrad_block_##W(const struct rule_params *p, float l2,          \
                                         float *w, float *s, const float *g)             \
    {                                                                                    \
        v##W wv = load_##W(w), gv = load_##W(g);                                         \
        v##W d = decayed_##W(p, l2 + (v##W){0}, wv, gv);                                 \
        float old = *s, sum = old + lanes_sum_##W(d * d) / (float)W;                     \
        v##W next = proximal_##W(p, wv - p->lr / (p->beta + sqrtf(sum)) * d);            \
        store_##W(w, select_##W(gv != 0, next, wv));                                     \
        *s = sum;                                                                        \
    }
ADAGRAD_BLOCK(4)
ADAGRAD_BLOCK(8)

static void apply_adagrad_row(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    uint32_t block = p->block;
    size_t i = 0;
    if (p->dense || p->bounded || (block != 4 && block != 8)) {
        for (; i < n; i += block)
            adagrad_block(p, l2, w + i, s + i / block, g + i, block);
    } else if (block == 4) {
        for (; i < n; i += 4)
            adagrad_block_4(p, l2, w + i, s + i / 4, g + i);
    } else {
        for (; i < n; i += 8)
            adagrad_block_8(p, l2, w + i, s + i / 8, g + i);
    }
}

static void apply_adam_shared(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    if (!any_moves(p, g, n))
        return;
    float m = sum_m(p, l2, 0, w, s, g, n, 0) / (float)n;
    float v = sum_v(p, l2, 0, w, s, g, n, 0) / (float)n;
    if (p->bounded && !(isfinite(m) && isfinite(v)))
        return;
    float rate = next_rate(p, p->lr, s + 2), m_old = s[0], v_old = s[1];
    s[0] = m;
    s[1] = v;
    ALONG(adam_shared, n, rate, m_old, v_old);
}

static void apply_lamb(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    if (!any_moves(p, g, n))
        return;
    float c = next_rate(p, 1, s + 2 * n);
    float of_w = sqrtf(norm2(w, n)), of_r = sqrtf(sum_lamb(p, l2, c, w, s, g, n, 1));
    float rate = p->lr * (of_w > 0 && of_r > 0 ? of_w / of_r : 1);
    ALONG(lamb, n, c, rate);
}

static inline bool any_new(const float *s, size_t n)
{
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= s[i] == 0 && s[n + i] == 0;
    return found;
}

static void apply_ftrl_group(const struct rule_params *p, float l2, float *w, float *s,
                             const float *g, size_t n)
{
    float t = p->l21 * sqrtf((float)n);
    if (!any_moves(p, g, n))
        return;
    if (any_new(s, n))
        kernels_ftrl_group_begin(p, l2, t, w, s, n);
    float length = sqrtf(sum_group(p, l2, 0, w, s, g, n, 1));
    float stays = length <= t ? 0 : 1 - t / length;
    ALONG(group, n, stays);
}

static inline void scatter_first(float *const *rows, size_t col, v16 x, size_t n)
{
    if (n >= 16)
        scatter(rows, col, x);
    else
        scatter_some(rows, col, x, n);
}

static inline v8 gather_8(float *const *rows, size_t col)
{
    return (v8){rows[0][col], rows[1][col], rows[2][col], rows[3][col],
                rows[4][col], rows[5][col], rows[6][col], rows[7][col]};
}

// Stores the first n lanes into rows.
static inline void scatter_8(float *const *rows, size_t col, v8 x, size_t n)
{
    if (n >= 8) {
        for (int i = 0; i < 8; i++)
            rows[i][col] = x[i];
        return;
    }
    float t[8];
    store_8(t, x);
    for (size_t i = 0; i < n; i++)
        rows[i][col] = t[i];
}

static inline v8 only_8(v8 x, size_t n)
{
    const v8i lane = {0, 1, 2, 3, 4, 5, 6, 7};
    return n >= 8 ? x : select_8(lane < (int32_t)n, x, (v8){0});
}

// Updates one weight in each of many rows; eight rows make one vector. CALL computes the
// next weights from wv, gv, l2v and state[]. If a result must not be written, the weight
// and its OWN states keep their old values. The states of the whole vector, which follow
// the weight's own states, are updated even then.
#define COLUMN(rule, STATES, OWN, CALL)                                                  \
    static void column_##rule(const struct rule_params *p, const float *l2,              \
                              float *const *rows, size_t w, size_t s, const float *g,    \
                              size_t n)                                                  \
    {                                                                                    \
        (void)s;                                                                         \
        for (size_t i = 0; i < n; i += 8) {                                              \
            size_t left = n - i;                                                         \
            v8 gv = only_8(load_8(g + i), left), l2v = load_8(l2 + i);                   \
            v8 wv = gather_8(rows + i, w), old[4], state[4];                             \
            for (size_t j = 0; j < STATES; j++)                                          \
                old[j] = state[j] = gather_8(rows + i, s + j);                           \
            v8 next = CALL;                                                              \
            v8i moves = moving_8(p, gv), sound = moves;                                  \
            if (p->bounded)                                                              \
                sound &= finite_8(next);                                                 \
            for (size_t j = 0; p->bounded && j < STATES; j++)                            \
                sound &= finite_8(state[j]);                                             \
            for (size_t j = 0; j < STATES; j++) {                                        \
                v8i mask = j < OWN ? sound : moves;                                      \
                if (p->bounded)                                                          \
                    mask &= finite_8(state[j]);                                          \
                scatter_8(rows + i, s + j, select_8(mask, state[j], old[j]), left);      \
            }                                                                            \
            scatter_8(rows + i, w, select_8(sound, next, wv), left);                     \
        }                                                                                \
    }

// Updates the corrections c of eight rows; returns adam's rate for each row.
static inline v8 next_rates(const struct rule_params *p, v8 *c)
{
    c[0] = p->beta1 * c[0] + (1 - p->beta1);
    c[1] = p->beta2 * c[1] + (1 - p->beta2);
    return p->lr * SQRT8(c[1]) / c[0];
}

static const size_t none = 0, one = 1, two = 2, three = 3, four = 4;
COLUMN(sgd, none, none, sgd_8(p, l2v, wv, gv))
COLUMN(sum, none, none, sum_8(p, l2v, wv, gv))
COLUMN(summary, none, none, summary_8(p, l2v, wv, gv))
COLUMN(momentum, one, one, momentum_8(p, l2v, wv, gv, &state[0]))
COLUMN(adagrad, one, one, adagrad_8(p, l2v, wv, gv, &state[0]))
COLUMN(adagrad_std, one, one, adagrad_std_8(p, l2v, wv, gv, &state[0]))
COLUMN(adagrad_shared, one, none, adagrad_std_8(p, l2v, wv, gv, &state[0]))
COLUMN(adagrad_v2, one, none, adagrad_v2_8(p, l2v, wv, gv, &state[0]))
COLUMN(rmsprop, one, one, rmsprop_8(p, l2v, wv, gv, &state[0]))
COLUMN(ftrl, two, two, ftrl_8(p, l2v, wv, gv, &state[0], &state[1]))
COLUMN(adam_d2sum, three, three,
       adam_d2sum_8(p, l2v, wv, gv, &state[0], &state[1], &state[2]))
COLUMN(adam, four, two,
       adam_8(p, l2v, next_rates(p, state + 2), wv, gv, &state[0], &state[1]))
COLUMN(adamw, four, two,
       adamw_8(p, l2v, next_rates(p, state + 2), wv, gv, &state[0], &state[1]))

// Defines the column update as a loop over rows, for rules that only copy values and for
// rules whose vectors usually have several weights.
#define COLUMN_BY_ROW(rule)                                                              \
    static void column_##rule(const struct rule_params *p, const float *l2,              \
                              float *const *rows, size_t w, size_t s, const float *g,    \
                              size_t n)                                                  \
    {                                                                                    \
        for (size_t i = 0; i < n; i++)                                                   \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g + i, 1);                  \
    }
COLUMN_BY_ROW(assign)
COLUMN_BY_ROW(adam_shared)
COLUMN_BY_ROW(ftrl_group)
COLUMN_BY_ROW(lamb)
