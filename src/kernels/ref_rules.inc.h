// The update rules in plain C, included by ref.c. kernels/rule_kind.h has the formulas.
//
// SPDX-License-Identifier: Apache-2.0

// Returns whether a weight takes part in an update.
static inline bool moves(const struct rule_params *p, float g)
{
    return g != 0 || p->dense;
}

static bool any_moves(const struct rule_params *p, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (moves(p, g[i]))
            return true;
    return false;
}

// Returns whether a result may be written (rule_params.bounded).
static inline bool sound(const struct rule_params *p, float x)
{
    return !p->bounded || isfinite(x);
}

// Returns the gradient with weight decay; 0 if the weight takes no part in the update.
static inline float decayed(const struct rule_params *p, float l2, float w, float g)
{
    return moves(p, g) ? g + l2 * w : 0;
}

static float proximal(const struct rule_params *p, float w)
{
    float t = p->lr * p->l1;
    float a = fabsf(w) - t;
    return p->l1 == 0 ? w : copysignf(a > 0 ? a : 0, w);
}

// For each rule, the update of one weight: returns the new w, and updates the state in
// place.

static float sgd(const struct rule_params *p, float l2, float w, float g)
{
    g += l2 * w;
    return proximal(p, w - p->lr * g);
}

static float sum(const struct rule_params *p, float l2, float w, float g)
{
    (void)p, (void)l2;
    return w + g;
}

static float summary(const struct rule_params *p, float l2, float w, float g)
{
    (void)l2;
    return p->decay * w + g;
}

static float momentum(const struct rule_params *p, float l2, float w, float g, float *m)
{
    g += l2 * w;
    *m = p->beta1 * *m + g;
    return proximal(p, w - p->lr * *m);
}

static float adagrad(const struct rule_params *p, float l2, float w, float g, float *n)
{
    g += l2 * w;
    *n += g * g;
    return proximal(p, w - p->lr * g / (p->beta + sqrtf(*n)));
}

static float adagrad_std(const struct rule_params *p, float l2, float w, float g,
                         float *n)
{
    g += l2 * w;
    float rate = p->lr * sqrtf(p->g0 / (p->g0 + *n));
    *n += g * g;
    return proximal(p, w - rate * g);
}

static float rmsprop(const struct rule_params *p, float l2, float w, float g, float *n)
{
    g += l2 * w;
    *n = p->beta2 * *n + (1 - p->beta2) * (g * g);
    return proximal(p, w - p->lr * g / (p->beta + sqrtf(*n)));
}

static float adam(const struct rule_params *p, float l2, float rate, float w, float g,
                  float *m, float *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return proximal(p, w - rate * *m / (sqrtf(*v) + p->beta));
}

static float adamw(const struct rule_params *p, float l2, float rate, float w, float g,
                   float *m, float *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    float kept = w - p->lr * p->decay * w;
    return proximal(p, kept - rate * *m / (sqrtf(*v) + p->beta));
}

static float adam_d2sum(const struct rule_params *p, float l2, float w, float g, float *d,
                        float *n, float *m)
{
    g += l2 * w;
    *d = p->beta2 * *d + 1;
    *n = p->beta2 * *n + g * g;
    *m = p->beta1 * (*m + g) - g;
    float small = *d * p->beta;
    return proximal(p, w + p->lr * *m * sqrtf((*d + small) / (*n + small)));
}

// Updates ftrl's state by one step; returns the square root of the new n.
static float ftrl_sums(const struct rule_params *p, float w, float g, float *z, float *n)
{
    float old = sqrtf(*n);
    *n += g * g;
    float root = sqrtf(*n);
    *z += g - (root - old) / p->lr * w;
    return root;
}

static float ftrl(const struct rule_params *p, float l2, float w, float g, float *z,
                  float *n)
{
    if (*n == 0) // the first step: sets z so that it corresponds to the initial w
        *z = w == 0 ? 0 : -(w * (p->beta / p->lr + l2)) - copysignf(p->l1, w);
    float root = ftrl_sums(p, w, g, z, n);
    float a = fabsf(*z) - p->l1;
    return a > 0 ? -copysignf(a, *z) / ((p->beta + root) / p->lr + l2) : 0;
}

// An update of one weight by a rule without state.
typedef float (*rule0_fn)(const struct rule_params *p, float l2, float w, float g);

static inline void apply0(rule0_fn rule, const struct rule_params *p, float l2, float *w,
                          const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!moves(p, g[i]))
            continue;
        float next = rule(p, l2, relaxed_load(w + i), g[i]);
        if (sound(p, next))
            relaxed_store(w + i, next);
    }
}

static void apply_sgd(const struct rule_params *p, float l2, float *w, float *s,
                      const float *g, size_t n)
{
    (void)s;
    apply0(sgd, p, l2, w, g, n);
}

static void apply_sum(const struct rule_params *p, float l2, float *w, float *s,
                      const float *g, size_t n)
{
    (void)s;
    apply0(sum, p, l2, w, g, n);
}

static void apply_summary(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t n)
{
    (void)s;
    apply0(summary, p, l2, w, g, n);
}

static void apply_assign(const struct rule_params *p, float l2, float *w, float *s,
                         const float *g, size_t n)
{
    (void)l2, (void)s;
    for (size_t i = 0; i < n; i++)
        if (sound(p, g[i]))
            relaxed_store(w + i, g[i]);
}

// An update of one weight by a rule with one float of state for each weight.
typedef float (*rule1_fn)(const struct rule_params *p, float l2, float w, float g,
                          float *s);

static inline void apply1(rule1_fn rule, const struct rule_params *p, float l2, float *w,
                          float *s, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!moves(p, g[i]))
            continue;
        float state = relaxed_load(s + i);
        float next = rule(p, l2, relaxed_load(w + i), g[i], &state);
        if (!sound(p, next) || !sound(p, state))
            continue;
        relaxed_store(w + i, next);
        relaxed_store(s + i, state);
    }
}

static void apply_momentum(const struct rule_params *p, float l2, float *w, float *s,
                           const float *g, size_t n)
{
    apply1(momentum, p, l2, w, s, g, n);
}

static void apply_adagrad(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t n)
{
    apply1(adagrad, p, l2, w, s, g, n);
}

static void apply_adagrad_std(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    apply1(adagrad_std, p, l2, w, s, g, n);
}

static void apply_rmsprop(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t n)
{
    apply1(rmsprop, p, l2, w, s, g, n);
}

// Rules in which k weights share one accumulator. A weight that takes no part in the update
// (see moves) adds 0 to the accumulator and does not change.

static float squares(const struct rule_params *p, float l2, const float *w,
                     const float *g, size_t k)
{
    float lane[KERNEL_LANES] = {0};
    for (size_t i = 0; i < k; i++) {
        float d = decayed(p, l2, relaxed_load(w + i), g[i]);
        lane[i % KERNEL_LANES] += d * d;
    }
    return lanes_sum(lane);
}

static void move(const struct rule_params *p, float l2, float rate, float *w,
                 const float *g, size_t k)
{
    for (size_t i = 0; i < k; i++) {
        float old = relaxed_load(w + i);
        if (!moves(p, g[i]))
            continue;
        float next = proximal(p, old - rate * (g[i] + l2 * old));
        if (sound(p, next))
            relaxed_store(w + i, next);
    }
}

static void adagrad_block(const struct rule_params *p, float l2, float *w, float *s,
                          const float *g, size_t k)
{
    if (!any_moves(p, g, k))
        return;
    float n = relaxed_load(s) + squares(p, l2, w, g, k) / (float)k;
    if (!sound(p, n))
        return;
    move(p, l2, p->lr / (p->beta + sqrtf(n)), w, g, k);
    relaxed_store(s, n);
}

static void apply_adagrad_row(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    for (size_t b = 0; b * p->block < n; b++)
        adagrad_block(p, l2, w + b * p->block, s + b, g + b * p->block, p->block);
}

static void apply_adagrad_v2(const struct rule_params *p, float l2, float *w, float *s,
                             const float *g, size_t n)
{
    adagrad_block(p, l2, w, s, g, n);
}

static void apply_adagrad_shared(const struct rule_params *p, float l2, float *w,
                                 float *s, const float *g, size_t n)
{
    if (!any_moves(p, g, n))
        return;
    float old = relaxed_load(s);
    float next = old + squares(p, l2, w, g, n) / (float)n;
    if (!sound(p, next))
        return;
    move(p, l2, p->lr * sqrtf(p->g0 / (p->g0 + old)), w, g, n);
    relaxed_store(s, next);
}

// Updates c, which holds 1 - beta1^t and 1 - beta2^t, and returns adam's corrected rate.
static float next_rate(const struct rule_params *p, float lr, float *c)
{
    float c1 = p->beta1 * relaxed_load(c) + (1 - p->beta1);
    float c2 = p->beta2 * relaxed_load(c + 1) + (1 - p->beta2);
    relaxed_store(c, c1);
    relaxed_store(c + 1, c2);
    return lr * sqrtf(c2) / c1;
}

typedef float (*adam_fn)(const struct rule_params *p, float l2, float rate, float w,
                         float g, float *m, float *v);

static inline void apply_adam_by(adam_fn rule, const struct rule_params *p, float l2,
                                 float *w, float *s, const float *g, size_t n)
{
    if (!any_moves(p, g, n))
        return;
    float rate = next_rate(p, p->lr, s + 2 * n);
    for (size_t i = 0; i < n; i++) {
        if (!moves(p, g[i]))
            continue;
        float m = relaxed_load(s + i), v = relaxed_load(s + n + i);
        float next = rule(p, l2, rate, relaxed_load(w + i), g[i], &m, &v);
        if (!sound(p, next) || !sound(p, m) || !sound(p, v))
            continue;
        relaxed_store(w + i, next);
        relaxed_store(s + i, m);
        relaxed_store(s + n + i, v);
    }
}

static void apply_adam(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    apply_adam_by(adam, p, l2, w, s, g, n);
}

static void apply_adamw(const struct rule_params *p, float l2, float *w, float *s,
                        const float *g, size_t n)
{
    apply_adam_by(adamw, p, l2, w, s, g, n);
}

// Updates one weight with the m and v that all weights of its vector share.
static float adam_shared(const struct rule_params *p, float l2, float w, float g,
                         float *m, float *v)
{
    float d = decayed(p, l2, w, g);
    *m = p->beta1 * *m + (1 - p->beta1) * d;
    *v = p->beta2 * *v + (1 - p->beta2) * (d * d);
    return *m / (sqrtf(*v) + p->beta);
}

static void apply_adam_shared(const struct rule_params *p, float l2, float *w, float *s,
                              const float *g, size_t n)
{
    float m_lane[KERNEL_LANES] = {0}, v_lane[KERNEL_LANES] = {0};
    if (!any_moves(p, g, n))
        return;
    for (size_t i = 0; i < n; i++) {
        float m = relaxed_load(s), v = relaxed_load(s + 1);
        adam_shared(p, l2, relaxed_load(w + i), g[i], &m, &v);
        m_lane[i % KERNEL_LANES] += m;
        v_lane[i % KERNEL_LANES] += v;
    }
    float m_mean = lanes_sum(m_lane) / (float)n, v_mean = lanes_sum(v_lane) / (float)n;
    if (!sound(p, m_mean) || !sound(p, v_mean))
        return;
    float rate = next_rate(p, p->lr, s + 2);
    for (size_t i = 0; i < n; i++) {
        float m = relaxed_load(s), v = relaxed_load(s + 1), old = relaxed_load(w + i);
        float next = proximal(p, old - rate * adam_shared(p, l2, old, g[i], &m, &v));
        if (moves(p, g[i]) && sound(p, next))
            relaxed_store(w + i, next);
    }
    relaxed_store(s, m_mean);
    relaxed_store(s + 1, v_mean);
}

static void apply_adam_d2sum(const struct rule_params *p, float l2, float *w, float *s,
                             const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!moves(p, g[i]))
            continue;
        float d = relaxed_load(s + i), sum = relaxed_load(s + n + i),
              m = relaxed_load(s + 2 * n + i);
        float next = adam_d2sum(p, l2, relaxed_load(w + i), g[i], &d, &sum, &m);
        if (!sound(p, next) || !sound(p, sum) || !sound(p, m))
            continue;
        relaxed_store(w + i, next);
        relaxed_store(s + i, d);
        relaxed_store(s + n + i, sum);
        relaxed_store(s + 2 * n + i, m);
    }
}

// Updates m and v of a weight; returns the direction in which the weight moves.
static float lamb(const struct rule_params *p, float l2, float c, float w, float g,
                  float *m, float *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return c * *m / (sqrtf(*v) + p->beta) + p->decay * w;
}

static void apply_lamb(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    float w_lane[KERNEL_LANES] = {0}, r_lane[KERNEL_LANES] = {0};
    if (!any_moves(p, g, n))
        return;
    float c = next_rate(p, 1, s + 2 * n);
    for (size_t i = 0; i < n; i++) {
        float m = relaxed_load(s + i), v = relaxed_load(s + n + i),
              old = relaxed_load(w + i);
        float r = moves(p, g[i]) ? lamb(p, l2, c, old, g[i], &m, &v) : 0;
        if (!sound(p, r))
            r = 0;
        w_lane[i % KERNEL_LANES] += old * old;
        r_lane[i % KERNEL_LANES] += r * r;
    }
    float of_w = sqrtf(lanes_sum(w_lane)), of_r = sqrtf(lanes_sum(r_lane));
    float rate = p->lr * (of_w > 0 && of_r > 0 ? of_w / of_r : 1);
    for (size_t i = 0; i < n; i++) {
        float m = relaxed_load(s + i), v = relaxed_load(s + n + i),
              old = relaxed_load(w + i);
        float next = proximal(p, old - rate * lamb(p, l2, c, old, g[i], &m, &v));
        if (!moves(p, g[i]) || !sound(p, next) || !sound(p, m) || !sound(p, v))
            continue;
        relaxed_store(w + i, next);
        relaxed_store(s + i, m);
        relaxed_store(s + n + i, v);
    }
}

static void apply_ftrl(const struct rule_params *p, float l2, float *w, float *s,
                       const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!moves(p, g[i]))
            continue;
        float z = relaxed_load(s + i), sum = relaxed_load(s + n + i);
        float next = ftrl(p, l2, relaxed_load(w + i), g[i], &z, &sum);
        if (!sound(p, next) || !sound(p, z) || !sound(p, sum))
            continue;
        relaxed_store(w + i, next);
        relaxed_store(s + i, z);
        relaxed_store(s + n + i, sum);
    }
}

// ---------------------------------------------------------------- ftrl-group

static bool is_new(const float *s, size_t n, size_t i)
{
    return relaxed_load(s + i) == 0 && relaxed_load(s + n + i) == 0;
}

void kernels_ftrl_group_begin(const struct rule_params *p, float l2, float t,
                              const float *w, float *s, size_t n)
{
    float lane[KERNEL_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        float wi = is_new(s, n, i) ? relaxed_load(w + i) : 0;
        lane[i % KERNEL_LANES] += wi * wi;
    }
    float length = sqrtf(lanes_sum(lane));
    for (size_t i = 0; i < n; i++) {
        float wi = relaxed_load(w + i);
        if (wi != 0 && length > 0 && is_new(s, n, i))
            relaxed_store(s + i, -(wi * (p->beta / p->lr + l2 + t / length)) -
                                     copysignf(p->l1, wi));
    }
}

// Returns z moved by l1 towards 0; 0 if |z| <= l1.
static float shrunk(const struct rule_params *p, float z)
{
    float a = fabsf(z) - p->l1;
    return a > 0 ? copysignf(a, z) : 0;
}

static void apply_ftrl_group(const struct rule_params *p, float l2, float *w, float *s,
                             const float *g, size_t n)
{
    float lane[KERNEL_LANES] = {0}, t = p->l21 * sqrtf((float)n);
    if (!any_moves(p, g, n))
        return;
    kernels_ftrl_group_begin(p, l2, t, w, s, n);
    for (size_t i = 0; i < n; i++) {
        float z = relaxed_load(s + i), sum = relaxed_load(s + n + i);
        ftrl_sums(p, relaxed_load(w + i), g[i], &z, &sum);
        if (sound(p, z) && sound(p, sum)) {
            relaxed_store(s + i, z);
            relaxed_store(s + n + i, sum);
        }
        float u = shrunk(p, relaxed_load(s + i));
        lane[i % KERNEL_LANES] += u * u;
    }
    float length = sqrtf(lanes_sum(lane)), stays = length <= t ? 0 : 1 - t / length;
    for (size_t i = 0; i < n; i++) {
        float root = sqrtf(relaxed_load(s + n + i));
        float u = stays * shrunk(p, relaxed_load(s + i));
        float next = u != 0 ? -u / ((p->beta + root) / p->lr + l2) : 0;
        if (sound(p, next))
            relaxed_store(w + i, next);
    }
}

// Updates of one weight in each of n rows: the same rules, row by row.
#define COLUMN(rule)                                                                     \
    static void column_##rule(const struct rule_params *p, const float *l2,              \
                              float *const *rows, size_t w, size_t s, const float *g,    \
                              size_t n)                                                  \
    {                                                                                    \
        for (size_t i = 0; i < n; i++)                                                   \
            apply_##rule(p, l2[i], rows[i] + w, rows[i] + s, g + i, 1);                  \
    }
COLUMN(sgd)
COLUMN(momentum)
COLUMN(adagrad)
COLUMN(rmsprop)
COLUMN(adam)
COLUMN(ftrl)
COLUMN(sum)
COLUMN(adagrad_shared)
COLUMN(adagrad_std)
COLUMN(adagrad_v2)
COLUMN(adam_shared)
COLUMN(adamw)
COLUMN(adam_d2sum)
COLUMN(ftrl_group)
COLUMN(summary)
COLUMN(assign)
COLUMN(lamb)
