// The update rules on one vector of V (N lanes), included by vector.inc.h for each width.
// Formulas: kernels/rule_kind.h; the same operations in the same order as ref.c.
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

static inline V N(rmsprop)(const struct rule_params *p, V l2, V w, V g, V *n)
{
    g += l2 * w;
    *n = p->beta2 * *n + (1 - p->beta2) * (g * g);
    return N(proximal)(p, w - p->lr * g / (p->beta + VSQRT(*n)));
}

static inline V N(adam)(const struct rule_params *p, V l2, float rate, V w, V g, V *m,
                        V *v)
{
    g += l2 * w;
    *m = p->beta1 * *m + (1 - p->beta1) * g;
    *v = p->beta2 * *v + (1 - p->beta2) * (g * g);
    return N(proximal)(p, w - rate * *m / (VSQRT(*v) + p->beta));
}

static inline V N(ftrl)(const struct rule_params *p, V l2, V w, V g, V *z, V *n)
{
    V zero = {0};
    V old = VSQRT(*n);
    V begin = -(w * (p->beta / p->lr + l2)) - N(copysign)(zero + p->l1, w);
    *z = N(select)(VCOMPARE(*n, ==), N(select)(VCOMPARE(w, ==), zero, begin), *z);
    *n += g * g;
    V root = VSQRT(*n);
    *z += g - (root - old) / p->lr * w;
    V a = N(abs)(*z) - p->l1;
    V next = -N(copysign)(a, *z) / ((p->beta + root) / p->lr + l2);
    return N(select)(VCOMPARE(a, >), next, zero);
}

// Load, one step, store; elements without a gradient keep what they had. State j of
// element i lies at s[j * n + i]; s points at state 0 of the strip.

#define UPDATE0(rule)                                                                    \
    static inline void N(update_##rule)(const struct rule_params *p, float l2, float *w, \
                                        float *s, size_t n, const float *g)              \
    {                                                                                    \
        (void)s, (void)n;                                                                \
        V wv = N(load)(w), gv = N(load)(g);                                              \
        N(store)(w, N(select)(VCOMPARE(gv, !=), N(rule)(p, l2 + (V){0}, wv, gv), wv));   \
    }

#define UPDATE1(rule)                                                                    \
    static inline void N(update_##rule)(const struct rule_params *p, float l2, float *w, \
                                        float *s, size_t n, const float *g)              \
    {                                                                                    \
        (void)n;                                                                         \
        V wv = N(load)(w), gv = N(load)(g), sv = N(load)(s), old = sv;                   \
        V next = N(rule)(p, l2 + (V){0}, wv, gv, &sv);                                   \
        N(store)(w, N(select)(VCOMPARE(gv, !=), next, wv));                              \
        N(store)(s, N(select)(VCOMPARE(gv, !=), sv, old));                               \
    }

UPDATE0(sgd)
UPDATE0(sum)
UPDATE1(momentum)
UPDATE1(adagrad)
UPDATE1(rmsprop)

static inline void N(update_ftrl)(const struct rule_params *p, float l2, float *w,
                                  float *s, size_t n, const float *g)
{
    V wv = N(load)(w), gv = N(load)(g), z = N(load)(s), sum = N(load)(s + n);
    V z_old = z, sum_old = sum;
    V next = N(ftrl)(p, l2 + (V){0}, wv, gv, &z, &sum);
    N(store)(w, N(select)(VCOMPARE(gv, !=), next, wv));
    N(store)(s, N(select)(VCOMPARE(gv, !=), z, z_old));
    N(store)(s + n, N(select)(VCOMPARE(gv, !=), sum, sum_old));
}

static inline void N(update_adam)(const struct rule_params *p, float l2, float rate,
                                  float *w, float *s, size_t n, const float *g)
{
    V wv = N(load)(w), gv = N(load)(g), m = N(load)(s), v = N(load)(s + n);
    V m_old = m, v_old = v;
    V next = N(adam)(p, l2 + (V){0}, rate, wv, gv, &m, &v);
    N(store)(w, N(select)(VCOMPARE(gv, !=), next, wv));
    N(store)(s, N(select)(VCOMPARE(gv, !=), m, m_old));
    N(store)(s + n, N(select)(VCOMPARE(gv, !=), v, v_old));
}

// Gradient with its decay where there is one, else 0 (adagrad-row).
static inline V N(decayed)(float l2, V w, V g)
{
    return N(select)(VCOMPARE(g, !=), g + l2 * w, (V){0});
}

#undef UPDATE0
#undef UPDATE1
#undef V
#undef VI
#undef N
#undef VSQRT
#undef VCOMPARE
