// One update of n weights, in numbers of the type REAL: included once for each.
//
// SPDX-License-Identifier: Apache-2.0

#define NAME_(name, real) name##_##real
#define NAME(name, real) NAME_(name, real)
#define FN(name) NAME(name, REAL)

// Rescaled and clipped, with the weight's decay.
static REAL FN(gradient)(const struct kvs_optimizer *o, REAL g, REAL w)
{
    REAL clip = (REAL)o->clip_gradient;
    g *= (REAL)o->rescale_grad;
    if (clip > 0)
        g = g > clip ? clip : g < -clip ? -clip : g;
    return g + (REAL)o->wd * w;
}

static REAL FN(sign)(REAL x)
{
    return (REAL)((x > 0) - (x < 0));
}

static REAL FN(root)(REAL x)
{
    return (REAL)(sizeof(REAL) == sizeof(float) ? sqrtf((float)x) : sqrt((double)x));
}

static void FN(sgd)(const struct kvs_optimizer *o, REAL *w, const REAL *g, REAL *m,
                    size_t n)
{
    REAL lr = (REAL)o->learning_rate, momentum = (REAL)o->momentum;
    for (size_t i = 0; i < n; i++) {
        REAL step = lr * FN(gradient)(o, g[i], w[i]);
        if (m == NULL) {
            w[i] -= step;
            continue;
        }
        m[i] = momentum * m[i] - step;
        w[i] += m[i];
    }
}

static void FN(nag)(const struct kvs_optimizer *o, REAL *w, const REAL *g, REAL *m,
                    size_t n)
{
    REAL lr = (REAL)o->learning_rate, momentum = (REAL)o->momentum;
    for (size_t i = 0; i < n; i++) {
        REAL step = lr * FN(gradient)(o, g[i], w[i]);
        if (m == NULL) {
            w[i] -= step;
            continue;
        }
        m[i] = momentum * m[i] - step;
        w[i] += momentum * m[i] - step;
    }
}

static void FN(adam)(const struct kvs_optimizer *o, uint64_t t, REAL *w, const REAL *gs,
                     REAL *mean, REAL *var, size_t n)
{
    double c1 = 1 - pow(o->beta1, (double)t), c2 = 1 - pow(o->beta2, (double)t);
    REAL lr = (REAL)(o->learning_rate * sqrt(c2) / c1), epsilon = (REAL)o->epsilon;
    REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2;
    REAL r1 = (REAL)(1 - o->beta1), r2 = (REAL)(1 - o->beta2);
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        mean[i] = b1 * mean[i] + r1 * g;
        var[i] = b2 * var[i] + r2 * (g * g);
        w[i] -= lr * (mean[i] / (FN(root)(var[i]) + epsilon));
    }
}

static void FN(adagrad)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *sum,
                        size_t n)
{
    REAL lr = (REAL)o->learning_rate, epsilon = (REAL)o->epsilon;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        sum[i] += g * g;
        w[i] -= lr * (g / (FN(root)(sum[i]) + epsilon));
    }
}

static void FN(adadelta)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *ag,
                         REAL *ad, size_t n)
{
    REAL lr = (REAL)o->learning_rate, epsilon = (REAL)o->epsilon;
    REAL rho = (REAL)o->rho, rest = (REAL)(1 - o->rho);
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        ag[i] = rho * ag[i] + rest * (g * g);
        REAL d = FN(root)(ad[i] + epsilon) / FN(root)(ag[i] + epsilon) * g;
        ad[i] = rho * ad[i] + rest * (d * d);
        w[i] -= lr * d;
    }
}

static void FN(rmsprop)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *var,
                        REAL *mean, REAL *m, size_t n)
{
    REAL lr = (REAL)o->learning_rate, epsilon = (REAL)o->epsilon;
    REAL rho = (REAL)o->rho, rest = (REAL)(1 - o->rho), clip = (REAL)o->clip_weights;
    REAL momentum = (REAL)o->momentum;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        var[i] = rho * var[i] + rest * (g * g);
        if (mean == NULL) {
            w[i] -= lr * (g / (FN(root)(var[i]) + epsilon));
        } else {
            mean[i] = rho * mean[i] + rest * g;
            m[i] = momentum * m[i] -
                   lr * g / FN(root)(var[i] - mean[i] * mean[i] + epsilon);
            w[i] += m[i];
        }
        if (clip > 0)
            w[i] = w[i] > clip ? clip : w[i] < -clip ? -clip : w[i];
    }
}

// McMahan et al. 2013; the decay stands below, not in the gradient.
static void FN(ftrl)(const struct kvs_optimizer *given, REAL *w, const REAL *gs, REAL *z,
                     REAL *sum, size_t n)
{
    struct kvs_optimizer o = *given;
    o.wd = 0;
    REAL lr = (REAL)o.learning_rate, wd = (REAL)given->wd, beta = (REAL)o.beta;
    REAL lamda1 = (REAL)o.lamda1;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(&o, gs[i], w[i]);
        REAL before = FN(root)(sum[i]), after = FN(root)(sum[i] + g * g);
        sum[i] += g * g;
        z[i] += g - (after - before) / lr * w[i];
        REAL over = (REAL)(z[i] < 0 ? -z[i] : z[i]) - lamda1;
        w[i] = over > 0 ? -FN(sign)(z[i]) * over / ((beta + after) / lr + wd) : 0;
    }
}

static void FN(signum)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *m,
                       size_t n)
{
    REAL lr = (REAL)o->learning_rate, momentum = (REAL)o->momentum;
    REAL rest = (REAL)(1 - o->momentum), shrink = (REAL)(1 - o->learning_rate * o->wd_lh);
    REAL all = (REAL)(1 - o->learning_rate * (o->wd + o->wd_lh));
    for (size_t i = 0; i < n; i++) {
        if (m == NULL) {
            w[i] = all * w[i] - lr * FN(sign)(gs[i]);
            continue;
        }
        m[i] = momentum * m[i] - rest * FN(gradient)(o, gs[i], w[i]);
        w[i] = shrink * w[i] + lr * FN(sign)(m[i]);
    }
}

static void FN(test)(const struct kvs_optimizer *o, REAL *w, const REAL *g, size_t n)
{
    REAL lr = (REAL)o->learning_rate, scale = (REAL)o->rescale_grad, wd = (REAL)o->wd;
    for (size_t i = 0; i < n; i++)
        w[i] -= lr * (scale * g[i] + wd * w[i]);
}

// s: the arrays of state, those of them that there are.
static void FN(step)(const struct kvs_optimizer *o, uint64_t t, void *weights,
                     const void *gradient, void *const s[3], size_t n)
{
    REAL *w = weights;
    const REAL *g = gradient;
    switch (o->kind) {
    case KVS_SGD:
        FN(sgd)(o, w, g, s[0], n);
        return;
    case KVS_NAG:
        FN(nag)(o, w, g, s[0], n);
        return;
    case KVS_ADAM:
        FN(adam)(o, t, w, g, s[0], s[1], n);
        return;
    case KVS_ADAGRAD:
        FN(adagrad)(o, w, g, s[0], n);
        return;
    case KVS_ADADELTA:
        FN(adadelta)(o, w, g, s[0], s[1], n);
        return;
    case KVS_RMSPROP:
        FN(rmsprop)(o, w, g, s[0], s[1], s[2], n);
        return;
    case KVS_FTRL:
        FN(ftrl)(o, w, g, s[0], s[1], n);
        return;
    case KVS_SIGNUM:
        FN(signum)(o, w, g, s[0], n);
        return;
    default:
        FN(test)(o, w, g, n);
    }
}

#undef FN
#undef NAME
#undef NAME_
