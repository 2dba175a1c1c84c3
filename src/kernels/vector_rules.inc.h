// The update rules on one vector of type V (N lanes), included by vector.inc.h for each
// width. The formulas are in kernels/rule_kind.h; operations and their order are those of
// ref.c.
//
// SPDX-License-Identifier: Apache-2.0

static inline V N(load)(const float *p)
{
    V x;
    memcpy(&x, p, sizeof(x));
    return x;
}

static inline void N(store)(float *p, V x)
{
    memcpy(p, &x, sizeof(x));
}

static inline V N(select)(VI mask, V yes, V no)
{
    return (V)(((VI)yes & mask) | ((VI)no & ~mask));
}

static inline V N(abs)(V x)
{
    return (V)((VI)x & INT32_MAX);
}

static inline V N(copysign)(V magnitude, V sign)
{
    return (V)(((VI)magnitude & INT32_MAX) | ((VI)sign & INT32_MIN));
}

// Returns a mask of the lanes that take part in an update.
static inline VI N(moving)(const struct rule_params *p, V g)
{
    return VCOMPARE(g, !=) | -(int32_t)p->dense;
}

static inline VI N(finite)(V x)
{
    return VCOMPARE(x - x, ==);
}

// Returns the gradient with weight decay; 0 in lanes that take no part in the update.
static inline V N(decayed)(const struct rule_params *p, V l2, V w, V g)
{
    return N(select)(N(moving)(p, g), g + l2 * w, (V){0});
}

static inline V N(proximal)(const struct rule_params *p, V w)
{
    if (p->l1 == 0)
        return w;
    V a = N(abs)(w) - p->lr * p->l1;
    return N(copysign)(N(select)(VCOMPARE(a, >), a, (V){0}), w);
}

static inline V N(sgd)(const struct rule_params *p, V l2, V w, V g)
{
    g += l2 * w;
    return N(proximal)(p, w - p->lr * g);
}

static inline V N(sum)(const struct rule_params *p, V l2, V w, V g)
{
    (void)p, (void)l2;
    return w + g;
}

static inline V N(summary)(const struct rule_params *p, V l2, V w, V g)
{
    (void)l2;
    return p->decay * w + g;
}

static inline V N(momentum)(const struct rule_params *p, V l2, V w, V g, V *m)
{
    g += l2 * w;
    *m = p->beta1 * *m + g;
    return N(proximal)(p, w - p->lr * *m);
}

static inline V N(adagrad)(const struct rule_params *p, V l2, V w, V g, V *n)
{
    g += l2 * w;
    *n += g * g;
    return N(proximal)(p, w - p->lr * g / (p->beta + VSQRT(*n)));
}

static inline V N(adagrad_std)(const struct rule_params *p, V l2, V w, V g, V *n)
{
    g += l2 * w;
    V rate = p->lr * VSQRT(p->g0 / (p->g0 + *n));
    *n += g * g;
    return N(proximal)(p, w - rate * g);
}

static inline V N(adagrad_v2)(const struct rule_params *p, V l2, V w, V g, V *n)
{
    g += l2 * w;
    *n += g * g;
    V rate = p->lr / (p->beta + VSQRT(*n));
    return N(proximal)(p, w - rate * g);
}

static inline V N(rmsprop)(const struct rule_params *p, V l2, V w, V g, V *n)
{
    g += l2 * w;
    *n = p->beta2 * *n + (1 - p->beta2) * (g * g);
    return N(proximal)(p, w - p->lr * g / (p->beta + VSQRT(*n)));
}

static inline V N(adam)(const struct rule_params *p, V l2, V rate, V w, V g, V *m, V *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return N(proximal)(p, w - rate * *m / (VSQRT(*v) + p->beta));
}

static inline V N(adamw)(const struct rule_params *p, V l2, V rate, V w, V g, V *m, V *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    V kept = w - p->lr * p->decay * w;
    return N(proximal)(p, kept - rate * *m / (VSQRT(*v) + p->beta));
}

// Updates m and v; returns the direction in which each weight moves.
static inline V N(lamb)(const struct rule_params *p, V l2, float c, V w, V g, V *m, V *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return c * *m / (VSQRT(*v) + p->beta) + p->decay * w;
}

static inline V N(adam_d2sum)(const struct rule_params *p, V l2, V w, V g, V *d, V *n,
                              V *m)
{
    g += l2 * w;
    *d = p->beta2 * *d + 1;
    *n = p->beta2 * *n + g * g;
    *m = p->beta1 * (*m + g) - g;
    V small = *d * p->beta;
    return N(proximal)(p, w + p->lr * *m * VSQRT((*d + small) / (*n + small)));
}

// Updates ftrl's state by one step; returns the square root of the new n.
static inline V N(ftrl_sums)(const struct rule_params *p, V w, V g, V *z, V *n)
{
    V old = VSQRT(*n);
    *n += g * g;
    V root = VSQRT(*n);
    *z += g - (root - old) / p->lr * w;
    return root;
}

static inline V N(ftrl)(const struct rule_params *p, V l2, V w, V g, V *z, V *n)
{
    V zero = {0};
    V begin = -(w * (p->beta / p->lr + l2)) - N(copysign)(zero + p->l1, w);
    *z = N(select)(VCOMPARE(*n, ==), N(select)(VCOMPARE(w, ==), zero, begin), *z);
    V root = N(ftrl_sums)(p, w, g, z, n);
    V a = N(abs)(*z) - p->l1;
    V next = -N(copysign)(a, *z) / ((p->beta + root) / p->lr + l2);
    return N(select)(VCOMPARE(a, >), next, zero);
}

// Loads a strip of elements, updates them by one step, and stores them. Elements that take
// no part, or whose result must not be written (rule_params.bounded), keep their values.
// State j of element i is s[j * n + i]; s points at state 0 of the strip.
#define UPDATE_HEAD(rule)                                                                \
    static inline void N(update_##rule)(const struct rule_params *p, float l2,           \
                                        float rate, float *w, float *s, size_t n,        \
                                        const float *g)

#define UPDATE0(rule)                                                                    \
    UPDATE_HEAD(rule)                                                                    \
    {                                                                                    \
        (void)rate, (void)s, (void)n;                                                    \
        V wv = VLOAD(w), gv = VLOAD(g), next = N(rule)(p, l2 + (V){0}, wv, gv);          \
        VI mask = N(moving)(p, gv);                                                      \
        if (p->bounded)                                                                  \
            mask &= N(finite)(next);                                                     \
        VSTORE(w, N(select)(mask, next, wv));                                            \
    }

#define UPDATE1(rule)                                                                    \
    UPDATE_HEAD(rule)                                                                    \
    {                                                                                    \
        (void)rate, (void)n;                                                             \
        V wv = VLOAD(w), gv = VLOAD(g), a_old = VLOAD(s), a = a_old;                     \
        V next = N(rule)(p, l2 + (V){0}, wv, gv, &a);                                    \
        VI mask = N(moving)(p, gv);                                                      \
        if (p->bounded)                                                                  \
            mask &= N(finite)(next) & N(finite)(a);                                      \
        VSTORE(w, N(select)(mask, next, wv));                                            \
        VSTORE(s, N(select)(mask, a, a_old));                                            \
    }

// CALL computes the next weights from wv, gv, l2v, &a and &b.
#define UPDATE2(rule, CALL)                                                              \
    UPDATE_HEAD(rule)                                                                    \
    {                                                                                    \
        (void)rate;                                                                      \
        V wv = VLOAD(w), gv = VLOAD(g), l2v = l2 + (V){0};                               \
        V a_old = VLOAD(s), b_old = VLOAD(s + n), a = a_old, b = b_old;                  \
        V next = CALL;                                                                   \
        VI mask = N(moving)(p, gv);                                                      \
        if (p->bounded)                                                                  \
            mask &= N(finite)(next) & N(finite)(a) & N(finite)(b);                       \
        VSTORE(w, N(select)(mask, next, wv));                                            \
        VSTORE(s, N(select)(mask, a, a_old));                                            \
        VSTORE(s + n, N(select)(mask, b, b_old));                                        \
    }

UPDATE0(sgd)
UPDATE0(sum)
UPDATE0(summary)
UPDATE1(momentum)
UPDATE1(adagrad)
UPDATE1(adagrad_std)
UPDATE1(rmsprop)
UPDATE2(ftrl, N(ftrl)(p, l2v, wv, gv, &a, &b))
UPDATE2(adam, N(adam)(p, l2v, rate + (V){0}, wv, gv, &a, &b))
UPDATE2(adamw, N(adamw)(p, l2v, rate + (V){0}, wv, gv, &a, &b))

UPDATE_HEAD(adam_d2sum)
{
    (void)rate;
    V wv = VLOAD(w), gv = VLOAD(g);
    V d_old = VLOAD(s), n_old = VLOAD(s + n), m_old = VLOAD(s + 2 * n);
    V d = d_old, sum = n_old, m = m_old;
    V next = N(adam_d2sum)(p, l2 + (V){0}, wv, gv, &d, &sum, &m);
    VI mask = N(moving)(p, gv);
    if (p->bounded)
        mask &= N(finite)(next) & N(finite)(sum) & N(finite)(m);
    VSTORE(w, N(select)(mask, next, wv));
    VSTORE(s, N(select)(mask, d, d_old));
    VSTORE(s + n, N(select)(mask, sum, n_old));
    VSTORE(s + 2 * n, N(select)(mask, m, m_old));
}

UPDATE_HEAD(assign)
{
    (void)l2, (void)rate, (void)s, (void)n;
    V next = VLOAD(g);
    if (p->bounded)
        next = N(select)(N(finite)(next), next, VLOAD(w));
    VSTORE(w, next);
}

// Moves a strip against the gradient with rate `rate`, for rules that have one state for
// the whole vector.
UPDATE_HEAD(move)
{
    (void)s, (void)n;
    V wv = VLOAD(w), gv = VLOAD(g);
    V next = N(proximal)(p, wv - rate * (gv + l2 * wv));
    VI mask = N(moving)(p, gv);
    if (p->bounded)
        mask &= N(finite)(next);
    VSTORE(w, N(select)(mask, next, wv));
}

// Updates a strip by adam with one m and one v for all n weights, whose old values are
// m_old and v_old.
static inline void N(update_adam_shared)(const struct rule_params *p, float l2,
                                         float rate, float m_old, float v_old, float *w,
                                         float *s, size_t n, const float *g)
{
    (void)s, (void)n;
    V wv = VLOAD(w), gv = VLOAD(g), d = N(decayed)(p, l2 + (V){0}, wv, gv);
    V m = p->beta1 * m_old + (1 - p->beta1) * d;
    V v = p->beta2 * v_old + (1 - p->beta2) * (d * d);
    V next = N(proximal)(p, wv - rate * (m / (VSQRT(v) + p->beta)));
    VI mask = N(moving)(p, gv);
    if (p->bounded)
        mask &= N(finite)(next);
    VSTORE(w, N(select)(mask, next, wv));
}

// Updates a strip by lamb. `c` is the bias correction; `rate` is lr times the ratio of the
// norms of weights and direction.
static inline void N(update_lamb)(const struct rule_params *p, float l2, float c,
                                  float rate, float *w, float *s, size_t n,
                                  const float *g)
{
    V wv = VLOAD(w), gv = VLOAD(g), m_old = VLOAD(s), v_old = VLOAD(s + n);
    V m = m_old, v = v_old;
    V next = N(proximal)(p, wv - rate * N(lamb)(p, l2 + (V){0}, c, wv, gv, &m, &v));
    VI mask = N(moving)(p, gv);
    if (p->bounded)
        mask &= N(finite)(next) & N(finite)(m) & N(finite)(v);
    VSTORE(w, N(select)(mask, next, wv));
    VSTORE(s, N(select)(mask, m, m_old));
    VSTORE(s + n, N(select)(mask, v, v_old));
}

// Returns z moved by l1 towards 0; 0 in lanes where |z| <= l1.
static inline V N(shrunk)(const struct rule_params *p, V z)
{
    V a = N(abs)(z) - p->l1;
    return N(select)(VCOMPARE(a, >), N(copysign)(a, z), (V){0});
}

// Computes the weights of ftrl-group from their sums. The vector keeps the fraction `stays`
// of its length.
static inline void N(update_group)(const struct rule_params *p, float l2, float stays,
                                   float *w, float *s, size_t n, const float *g)
{
    (void)g;
    V u = stays * N(shrunk)(p, VLOAD(s)), root = VSQRT(VLOAD(s + n));
    V next = -u / ((p->beta + root) / p->lr + l2);
    next = N(select)(VCOMPARE(u, !=), next, (V){0});
    if (p->bounded)
        next = N(select)(N(finite)(next), next, VLOAD(w));
    VSTORE(w, next);
}

// Each of_* function returns the terms that a strip adds to a sum over the vector.

static inline V N(of_squares)(const struct rule_params *p, float l2, float c, float *w,
                              float *s, size_t n, const float *g)
{
    (void)c, (void)s, (void)n;
    V d = N(decayed)(p, l2 + (V){0}, VLOAD(w), VLOAD(g));
    return d * d;
}

static inline V N(of_m)(const struct rule_params *p, float l2, float c, float *w,
                        float *s, size_t n, const float *g)
{
    (void)c, (void)n;
    V d = N(decayed)(p, l2 + (V){0}, VLOAD(w), VLOAD(g));
    return p->beta1 * s[0] + (1 - p->beta1) * d;
}

static inline V N(of_v)(const struct rule_params *p, float l2, float c, float *w,
                        float *s, size_t n, const float *g)
{
    (void)c, (void)n;
    V d = N(decayed)(p, l2 + (V){0}, VLOAD(w), VLOAD(g));
    return p->beta2 * s[1] + (1 - p->beta2) * (d * d);
}

static inline V N(of_lamb)(const struct rule_params *p, float l2, float c, float *w,
                           float *s, size_t n, const float *g)
{
    V gv = VLOAD(g), m = VLOAD(s), v = VLOAD(s + n);
    V r = N(lamb)(p, l2 + (V){0}, c, VLOAD(w), gv, &m, &v);
    VI mask = N(moving)(p, gv);
    if (p->bounded)
        mask &= N(finite)(r);
    r = N(select)(mask, r, (V){0});
    return r * r;
}

// Updates the sums of ftrl-group by one step.
static inline V N(of_group)(const struct rule_params *p, float l2, float c, float *w,
                            float *s, size_t n, const float *g)
{
    (void)l2, (void)c;
    V z_old = VLOAD(s), n_old = VLOAD(s + n), z = z_old, sum = n_old;
    N(ftrl_sums)(p, VLOAD(w), VLOAD(g), &z, &sum);
    if (p->bounded) {
        VI mask = N(finite)(z) & N(finite)(sum);
        z = N(select)(mask, z, z_old);
        sum = N(select)(mask, sum, n_old);
    }
    VSTORE(s, z);
    VSTORE(s + n, sum);
    V u = N(shrunk)(p, z);
    return u * u;
}

#undef UPDATE_HEAD
#undef UPDATE0
#undef UPDATE1
#undef UPDATE2
#undef V
#undef VI
#undef N
#undef VSQRT
#undef VCOMPARE
#undef VLOAD
#undef VSTORE
