// The formulas for an update of n weights in numbers of type REAL; the file is included
// once for each type.
//
// SPDX-License-Identifier: Apache-2.0

#define NAME_(name, real) name##_##real
#define NAME(name, real) NAME_(name, real)
#define FN(name) NAME(name, REAL)

// Returns the gradient rescaled and clipped.
static REAL FN(clipped)(const struct kvs_optimizer *o, REAL g)
{
    REAL clip = (REAL)o->clip_gradient;
    g *= (REAL)o->rescale_grad;
    if (clip > 0)
        g = g > clip ? clip : g < -clip ? -clip : g;
    return g;
}

// Returns the gradient rescaled, clipped and with weight decay.
static REAL FN(gradient)(const struct kvs_optimizer *o, REAL g, REAL w)
{
    return FN(clipped)(o, g) + (REAL)o->wd * w;
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

// The formula of McMahan et al. 2013. The weight decay is in the denominator, not in the
// gradient.
static void FN(ftrl)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *z,
                     REAL *sum, size_t n)
{
    REAL lr = (REAL)o->learning_rate, wd = (REAL)o->wd, beta = (REAL)o->beta;
    REAL lamda1 = (REAL)o->lamda1;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(clipped)(o, gs[i]);
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

// The formula of Loshchilov and Hutter 2019, as in MXNet's fused kernel: the weight decay
// is scaled like the step, and with rescale_grad 0 nothing changes.
static void FN(adamw)(const struct step *c, REAL *w, const REAL *gs, REAL *mean,
                      REAL *var, size_t n)
{
    const struct kvs_optimizer *o = c->o;
    double t = (double)c->t, lr = o->learning_rate;
    if (o->rescale_grad == 0)
        return;
    if (o->correct_bias != 0)
        lr *= sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t));
    REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2, wd = (REAL)o->wd;
    REAL r1 = (REAL)(1 - o->beta1), r2 = (REAL)(1 - o->beta2);
    REAL rate = (REAL)lr, epsilon = (REAL)o->epsilon;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(clipped)(o, gs[i]);
        mean[i] = b1 * mean[i] + r1 * g;
        var[i] = b2 * var[i] + r2 * (g * g);
        w[i] -= rate * (mean[i] / (FN(root)(var[i]) + epsilon) + wd * w[i]);
    }
}

// The formula of You et al. 2020. The first pass changes the states and sums the squares
// of weights and steps. The second pass computes the steps again from the states and
// applies them.
static void FN(lamb)(struct step *c, REAL *w, const REAL *gs, REAL *mean, REAL *var,
                     size_t n)
{
    const struct kvs_optimizer *o = c->o;
    bool corrects = o->correct_bias != 0;
    REAL c1 = (REAL)(corrects ? 1 - pow(o->beta1, (double)c->t) : 1);
    REAL c2 = (REAL)(corrects ? 1 - pow(o->beta2, (double)c->t) : 1);
    REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2, wd = (REAL)o->wd;
    REAL r1 = (REAL)(1 - o->beta1), r2 = (REAL)(1 - o->beta2);
    REAL lr = (REAL)o->learning_rate, epsilon = (REAL)o->epsilon;
    for (size_t i = 0; i < n; i++) {
        if (!c->second) {
            REAL g = FN(clipped)(o, gs[i]);
            mean[i] = b1 * mean[i] + r1 * g;
            var[i] = b2 * var[i] + r2 * (g * g);
        }
        REAL d = mean[i] / c1 / (FN(root)(var[i] / c2) + epsilon) + wd * w[i];
        if (c->second) {
            w[i] -= lr * d;
            continue;
        }
        c->weights += (double)w[i] * (double)w[i];
        c->steps += (double)d * (double)d;
    }
}

// The formula of Zheng and Kwok 2017.
static void FN(ftml)(const struct step *c, REAL *w, const REAL *gs, REAL *d, REAL *v,
                     REAL *z, size_t n)
{
    const struct kvs_optimizer *o = c->o;
    REAL scale = (REAL)((1 - pow(o->beta1, (double)c->t)) / o->learning_rate);
    REAL c2 = (REAL)(1 - pow(o->beta2, (double)c->t)), epsilon = (REAL)o->epsilon;
    REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2;
    REAL r1 = (REAL)(1 - o->beta1), r2 = (REAL)(1 - o->beta2);
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        v[i] = b2 * v[i] + r2 * (g * g);
        REAL now = scale * (FN(root)(v[i] / c2) + epsilon);
        z[i] = b1 * z[i] + r1 * g - (now - b1 * d[i]) * w[i];
        d[i] = now;
        w[i] = -z[i] / now;
    }
}

// The formula of Dozat 2016.
static void FN(nadam)(const struct step *c, REAL *w, const REAL *gs, REAL *mean,
                      REAL *var, size_t n)
{
    const struct kvs_optimizer *o = c->o;
    REAL c2 = (REAL)(1 - pow(o->beta2, (double)c->t)), epsilon = (REAL)o->epsilon;
    REAL of_g = (REAL)((1 - c->momentum) / (1 - c->product));
    REAL of_mean = (REAL)(c->next / (1 - c->product * c->next));
    REAL b1 = (REAL)o->beta1, b2 = (REAL)o->beta2, lr = (REAL)o->learning_rate;
    REAL r1 = (REAL)(1 - o->beta1), r2 = (REAL)(1 - o->beta2);
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        mean[i] = b1 * mean[i] + r1 * g;
        var[i] = b2 * var[i] + r2 * (g * g);
        w[i] -= lr * ((of_mean * mean[i] + of_g * g) / (FN(root)(var[i] / c2) + epsilon));
    }
}

static void FN(adamax)(const struct step *c, REAL *w, const REAL *gs, REAL *mean,
                       REAL *most, size_t n)
{
    const struct kvs_optimizer *o = c->o;
    REAL lr = (REAL)(o->learning_rate / (1 - pow(o->beta1, (double)c->t)));
    REAL b1 = (REAL)o->beta1, r1 = (REAL)(1 - o->beta1), b2 = (REAL)o->beta2;
    REAL epsilon = (REAL)o->epsilon;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]), size = g < 0 ? -g : g;
        mean[i] = b1 * mean[i] + r1 * g;
        most[i] = b2 * most[i] > size ? b2 * most[i] : size;
        w[i] -= lr * (mean[i] / (most[i] + epsilon));
    }
}

// The formula of Zheng et al. 2017. A late gradient is corrected by how far the weight
// has moved since.
static void FN(dcasgd)(const struct kvs_optimizer *o, REAL *w, const REAL *gs, REAL *was,
                       REAL *m, size_t n)
{
    REAL lr = (REAL)o->learning_rate, momentum = (REAL)o->momentum;
    REAL lamda = (REAL)o->lamda;
    for (size_t i = 0; i < n; i++) {
        REAL g = FN(gradient)(o, gs[i], w[i]);
        REAL step = -lr * (g + lamda * (g * g) * (w[i] - was[i]));
        if (m != NULL)
            step = m[i] = momentum * m[i] + step;
        was[i] = w[i];
        w[i] += step;
    }
}

// The formula of Welling and Teh 2011.
static void FN(sgld)(const struct step *c, REAL *w, const REAL *gs, size_t n)
{
    const struct kvs_optimizer *o = c->o;
    REAL half = (REAL)(o->learning_rate / 2);
    double deviation = sqrt(o->learning_rate);
    for (size_t i = 0; i < n; i++) {
        w[i] -= half * FN(gradient)(o, gs[i], w[i]);
        w[i] += (REAL)(deviation * normal(c, c->at + i));
    }
}

// Updates n weights by the optimizer's formula. s has as many state arrays as the formula
// uses.
static void FN(step)(struct step *c, void *weights, const void *gradient,
                     void *const s[STATES_MAX], size_t n)
{
    const struct kvs_optimizer *o = c->o;
    REAL *w = weights;
    const REAL *g = gradient;
    switch (o->kind) {
    case KVS_SGD:
    case KVS_LARS: // as sgd; the caller has scaled the learning_rate by the norms
        FN(sgd)(o, w, g, s[0], n);
        return;
    case KVS_NAG:
        FN(nag)(o, w, g, s[0], n);
        return;
    case KVS_ADAM:
        FN(adam)(o, c->t, w, g, s[0], s[1], n);
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
    case KVS_ADAMW:
        FN(adamw)(c, w, g, s[0], s[1], n);
        return;
    case KVS_LAMB:
        FN(lamb)(c, w, g, s[0], s[1], n);
        return;
    case KVS_FTML:
        FN(ftml)(c, w, g, s[0], s[1], s[2], n);
        return;
    case KVS_NADAM:
        FN(nadam)(c, w, g, s[0], s[1], n);
        return;
    case KVS_ADAMAX:
        FN(adamax)(c, w, g, s[0], s[1], n);
        return;
    case KVS_DCASGD:
        FN(dcasgd)(o, w, g, s[0], s[1], n);
        return;
    case KVS_SGLD:
        FN(sgld)(c, w, g, n);
        return;
    default:
        FN(test)(o, w, g, n);
    }
}

#undef FN
#undef NAME
#undef NAME_
