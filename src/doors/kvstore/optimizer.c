// Optimizers of a kvstore: updates of arrays, and their states.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "base/random.h"
#include "doors/kvstore/array.h"

enum { CHUNK = 256, STATES_MAX = 3 };

// The arguments of the formulas, besides weights and gradients.
struct step {
    // The optimizer, with the learning_rate and wd for this key and update.
    const struct kvs_optimizer *o;
    uint64_t t; // the number of this update of the key, from 1 on
    // nadam: momentum of this update and of the next one, and the product of all momenta so
    // far
    double momentum, next, product;
    uint64_t at;           // the first weight's index in the array
    uint64_t noise;        // the stream of random numbers of this update
    bool second;           // lamb: this is the second pass, which changes the weights
    double weights, steps; // lamb: sums of the squares of the weights and of the steps
};

// Returns the i-th number of a standard normal distribution (Box and Muller).
static double normal(const struct step *c, uint64_t i)
{
    uint64_t seed = (uint64_t)c->o->seed;
    double u = 1 - random_f64(seed, c->noise, 2 * i);
    double v = random_f64(seed, c->noise, 2 * i + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586477 * v);
}

#define REAL float
#include "doors/kvstore/steps.inc.h"
#undef REAL
#define REAL double
#include "doors/kvstore/steps.inc.h"
#undef REAL

static uint32_t states_of(const struct kvs_optimizer *o)
{
    switch (o->kind) {
    case KVS_SGD:
    case KVS_NAG:
    case KVS_LARS:
    case KVS_SIGNUM:
        return o->momentum != 0;
    case KVS_ADAM:
    case KVS_ADAMW:
    case KVS_ADAMAX:
    case KVS_NADAM:
    case KVS_LAMB:
    case KVS_ADADELTA:
    case KVS_FTRL:
        return 2;
    case KVS_FTML:
        return 3;
    case KVS_ADAGRAD:
        return 1;
    case KVS_DCASGD:
        return o->momentum != 0 ? 2 : 1;
    case KVS_RMSPROP:
        return o->centered != 0 ? 3 : 1;
    default:
        return 0;
    }
}

static size_t real_of(const struct tug_array *a)
{
    return a->dtype == TUG_FLOAT64 ? sizeof(double) : sizeof(float);
}

static bool wants_master(const struct kvs_optimizer *o, const struct tug_array *a)
{
    return o->multi_precision != 0 && a->dtype == TUG_FLOAT16;
}

static int optimizer_begin(struct kvs_state *s, const struct kvs_optimizer *o,
                           const struct tug_array *a, struct err *e)
{
    uint64_t elements = a->rows * a->width;
    uint32_t n = states_of(o);
    if (s->begun && s->kind == o->kind && s->n == n &&
        (s->master != NULL) == wants_master(o, a))
        return 0;
    kvs_state_free(s);
    s->kind = o->kind;
    s->n = n;
    s->real = real_of(a);
    if (n > 0 && (s->arrays = mem_zalloc(n * elements * s->real)) == NULL)
        return err_nomem(e, "states of an optimizer");
    if (wants_master(o, a)) {
        s->master = mem_array(elements, sizeof(float));
        if (s->master == NULL) {
            kvs_state_free(s);
            return err_nomem(e, "32-bit copies of 16-bit arrays");
        }
        kvs_cast(TUG_FLOAT32, s->master, a->dtype, a->data, elements);
    }
    // DCASGD's state begins as a copy of the weights.
    if (o->kind == KVS_DCASGD)
        kvs_cast(s->real == sizeof(double) ? TUG_FLOAT64 : TUG_FLOAT32, s->arrays,
                 a->dtype, a->data, elements);
    s->product = 1;
    s->begun = true;
    return 0;
}

struct update {
    struct step c;
    struct kvs_state *s;
    struct tug_array *w;
    uint64_t elements;
    // Memory for the old values of the changed elements, and the end of those saved so far.
    char *before, *at;
};

// Returns how many bytes of each element an update changes: weight, states and master
// weight.
static size_t changed_bytes(const struct update *u)
{
    return kvs_dtype_size(u->w->dtype) + u->s->n * u->s->real +
           (u->s->master != NULL ? sizeof(float) : 0);
}

// Saves the old values of n elements, from the at-th on, or with `back` restores them.
static void move(struct update *u, uint64_t at, size_t n, bool back)
{
    struct kvs_state *s = u->s;
    size_t each = kvs_dtype_size(u->w->dtype);
    char *from[STATES_MAX + 2] = {(char *)u->w->data + at * each};
    size_t bytes[STATES_MAX + 2] = {n * each}, k = 1;
    for (uint32_t i = 0; i < s->n; i++, k++) {
        from[k] = s->arrays + (i * u->elements + at) * s->real;
        bytes[k] = n * s->real;
    }
    if (s->master != NULL) {
        from[k] = (char *)(s->master + at);
        bytes[k++] = n * sizeof(float);
    }
    for (size_t i = 0; i < k; i++) {
        memcpy(back ? from[i] : u->at, back ? u->at : from[i], bytes[i]);
        u->at += bytes[i];
    }
}

static bool finite_reals(size_t real, const void *at, size_t n)
{
    return real == sizeof(double) ? finite_doubles(at, n) : finite_floats(at, n);
}

// Returns whether the n weights and states from the at-th on are finite after an update.
static bool sound(const struct update *u, uint64_t at, size_t n)
{
    const struct kvs_state *s = u->s;
    const char *w = (const char *)u->w->data + at * kvs_dtype_size(u->w->dtype);
    bool all = u->w->dtype == TUG_FLOAT16 ? finite_halves(w, n)
                                          : finite_reals(s->real, w, n);
    for (uint32_t i = 0; i < s->n; i++)
        all &= finite_reals(s->real, s->arrays + (i * u->elements + at) * s->real, n);
    return all && (s->master == NULL || finite_floats(s->master + at, n));
}

// Updates n weights from the at-th on by a gradient of any dtype.
static void update_chunk(struct update *u, uint64_t at, enum tug_dtype dtype,
                         const void *gradient, size_t n)
{
    double g[CHUNK], cast[CHUNK]; // hold doubles or floats
    struct kvs_state *s = u->s;
    enum tug_dtype real = s->real == sizeof(double) ? TUG_FLOAT64 : TUG_FLOAT32;
    void *states[STATES_MAX] = {NULL};
    char *w = (char *)u->w->data + at * kvs_dtype_size(u->w->dtype);
    for (uint32_t i = 0; i < s->n; i++)
        states[i] = s->arrays + (i * u->elements + at) * s->real;
    kvs_cast(real, g, dtype, gradient, n);
    void *weights = w;
    if (s->master != NULL) {
        weights = s->master + at;
    } else if (u->w->dtype != real) {
        kvs_cast(real, cast, u->w->dtype, w, n);
        weights = cast;
    }
    u->c.at = at;
    if (real == TUG_FLOAT64)
        step_double(&u->c, weights, g, states, n);
    else
        step_float(&u->c, weights, g, states, n);
    if (weights != w)
        kvs_cast(u->w->dtype, w, real, weights, n);
}

// Updates n weights in chunks. Returns false if the result is not finite.
static bool update_run(struct update *u, uint64_t at, enum tug_dtype dtype,
                       const char *gradient, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += CHUNK) {
        size_t some = n - i < CHUNK ? n - i : CHUNK;
        if (!u->c.second) // the first pass of lamb has already saved the old values
            move(u, at + i, some, false);
        update_chunk(u, at + i, dtype, gradient + i * kvs_dtype_size(dtype), some);
        if (!sound(u, at + i, some))
            return false;
    }
    return true;
}

// Restores the chunks that update_run has changed before it failed.
static void put_back_run(struct update *u, const char *end, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n && u->at < end; i += CHUNK)
        move(u, at + i, n - i < CHUNK ? n - i : CHUNK, true);
}

// Updates the weights for all elements of the gradient once. Returns false if a result is
// not finite.
static bool update_pass(struct update *u, const struct tug_array *g)
{
    uint64_t width = u->w->width, n = g->sparse ? g->n_ids : 1;
    bool fine = true;
    for (uint64_t i = 0; i < n && fine; i++)
        fine = update_run(u, g->sparse ? (uint64_t)g->ids[i] * width : 0, g->dtype,
                          (const char *)g->data + (g->sparse ? kvs_bytes(g, i) : 0),
                          g->sparse ? width : u->elements);
    return fine;
}

static void put_back(struct update *u, const struct tug_array *g)
{
    const char *end = u->at;
    u->at = u->before;
    for (uint64_t i = 0; i < (g->sparse ? g->n_ids : 1); i++)
        put_back_run(u, end, g->sparse ? (uint64_t)g->ids[i] * u->w->width : 0,
                     g->sparse ? u->w->width : u->elements);
}

// Returns lamb's learning rate, from the norms of weights and steps that the first pass
// has computed.
static double lamb_rate(const struct step *c)
{
    const struct kvs_optimizer *o = c->o;
    double weights = fmax(sqrt(c->weights), o->lower_bound), steps = sqrt(c->steps);
    if (o->upper_bound > 0)
        weights = fmin(weights, o->upper_bound);
    return weights == 0 || steps == 0 ? o->learning_rate
                                      : o->learning_rate * weights / steps;
}

static int update_all(struct update *u, const struct tug_array *g, const char *key,
                      struct err *e)
{
    struct kvs_optimizer scaled = *u->c.o;
    bool fine = update_pass(u, g);
    if (fine && scaled.kind == KVS_LAMB) {
        scaled.learning_rate = lamb_rate(&u->c);
        u->c.o = &scaled;
        u->c.second = true;
        fine = update_pass(u, g);
    }
    if (fine)
        return 0;
    put_back(u, g);
    return err_set(e, TUG_EUSAGE,
                   "%s: this push would give optimizer %s weights or states that are not "
                   "finite, so none of it is applied",
                   key, kvs_optimizer_name(scaled.kind));
}

// Updates an array. Undoes the update if a result is not finite; the memory for this is
// allocated before.
static int update(struct update *u, const struct tug_array *g, const char *key,
                  struct err *e)
{
    uint64_t n = g->sparse ? g->n_ids * u->w->width : u->elements;
    u->before = u->at = mem_array(n + 1, changed_bytes(u));
    if (u->before == NULL)
        return err_nomem(e, "a copy of weights and states, until they are known to be "
                            "finite");
    int rc = update_all(u, g, key, e);
    mem_free(u->before);
    return rc;
}

// Multiplies each element by `scale`, and returns the sum of the squares.
static double squares(enum tug_dtype t, const void *from, uint64_t n, double scale)
{
    double x[CHUNK], sum = 0;
    for (uint64_t i = 0; i < n; i += CHUNK) {
        size_t some = n - i < CHUNK ? n - i : CHUNK;
        kvs_cast(TUG_FLOAT64, x, t, (const char *)from + i * kvs_dtype_size(t), some);
        for (size_t k = 0; k < some; k++)
            sum += scale * x[k] * (scale * x[k]);
    }
    return sum;
}

// Returns whether lars scales the key's rate by norms. The field layer(KEY) says so;
// without it, lars does not scale keys whose names end in gamma, beta or bias.
static bool scales(const struct kvs_key *key, const struct kvs_mult *m)
{
    static const char *const not [] = {"gamma", "beta", "bias"};
    size_t n = strlen(key->name);
    if (m != NULL && !isnan(m->layer))
        return m->layer != 0;
    for (size_t i = 0; i < sizeof(not ) / sizeof(*not ); i++) {
        size_t len = strlen(not [i]);
        if (n >= len && strcmp(key->name + n - len, not [i]) == 0)
            return false;
    }
    return true;
}

// Returns the factor by which lars multiplies the learning rate (You et al. 2017).
static double lars_scale(const struct kvs_optimizer *o, const struct update *u,
                         const struct tug_array *g)
{
    uint64_t n = g->sparse ? g->n_ids * g->width : u->elements;
    double gradient = sqrt(squares(g->dtype, g->data, n, o->rescale_grad));
    double weights = sqrt(u->s->master != NULL
                              ? squares(TUG_FLOAT32, u->s->master, u->elements, 1)
                              : squares(u->w->dtype, u->w->data, u->elements, 1));
    return weights == 0 || gradient == 0
               ? 1
               : o->eta * weights / (gradient + o->wd * weights + o->epsilon);
}

// Returns the optimizer with the learning_rate and wd for the key's next update.
static struct kvs_optimizer numbers_of(const struct kvs_optimizer *o,
                                       const struct kvs_mult *m, uint64_t num_update)
{
    struct kvs_optimizer now = *o;
    now.learning_rate = kvs_optimizer_rate(o, num_update) * (m != NULL ? m->lr : 1);
    now.wd *= m != NULL ? m->wd : 1;
    return now;
}

static void count_momentum(struct step *c, const struct kvs_state *s)
{
    double beta = c->o->beta1, decay = c->o->schedule_decay, t = (double)c->t;
    c->momentum = beta * (1 - 0.5 * pow(0.96, t * decay));
    c->next = beta * (1 - 0.5 * pow(0.96, (t + 1) * decay));
    c->product = s->product * c->momentum;
}

// Returns whether a sparse gradient also changes the array's other rows, as if their
// gradients were 0.
static bool changes_all(const struct kvs_optimizer *o)
{
    switch (o->kind) {
    case KVS_LAMB: // it scales steps by norms of the whole array
        return true;
    case KVS_SGD:
    case KVS_ADAM:
    case KVS_LARS:
        return o->lazy_update == 0;
    default:
        return false;
    }
}

static int apply(struct kvs_optimizer *o, struct kvs_state *s, struct tug_array *weights,
                 const struct tug_array *g, const struct kvs_key *key, struct err *e)
{
    uint64_t t = (uint64_t)o->begin_num_update + s->updates + 1;
    uint64_t num_update = t > o->num_update ? t : o->num_update;
    const struct kvs_mult *m = kvs_by_key_find(&o->mults, key->whole);
    struct kvs_optimizer now = numbers_of(o, m, num_update);
    struct update u = {.s = s, .w = weights, .elements = weights->rows * weights->width};
    u.c = (struct step){.o = &now, .t = t};
    u.c.noise = random_u64(o->stream, key->id, t);
    count_momentum(&u.c, s);
    if (o->kind == KVS_LARS && scales(key, m))
        now.learning_rate *= lars_scale(&now, &u, g);
    // ftrl and ftml divide by the learning rate, so a rate of 0 must not reach them; it
    // leaves the weights unchanged.
    bool stays = now.learning_rate == 0 && (o->kind == KVS_FTRL || o->kind == KVS_FTML);
    if (!stays)
        TRY(update(&u, g, key->text, e));
    s->updates++;
    s->product = u.c.product;
    o->num_update = num_update;
    return 0;
}

int kvs_optimizer_apply(struct kvs_optimizer *o, struct kvs_state *s,
                        struct tug_array *weights, const struct tug_array *gradient,
                        const struct kvs_key *key, struct err *e)
{
    struct kvs_rows all = {0};
    if (!kvs_dtype_is_float(weights->dtype))
        return err_set(e, TUG_EUSAGE,
                       "%s: optimizers train floats, but its array is of dtype %s",
                       key->text, kvs_dtype_name(weights->dtype));
    TRY(optimizer_begin(s, o, weights, e));
    if (!gradient->sparse || !changes_all(o))
        return apply(o, s, weights, gradient, key, e);
    int rc = kvs_rows_set_dense(&all, gradient, e);
    if (rc == 0)
        rc = apply(o, s, weights, &all.a, key, e);
    kvs_rows_free(&all);
    return rc;
}

void kvs_state_free(struct kvs_state *s)
{
    mem_free(s->arrays);
    mem_free(s->master);
    *s = (struct kvs_state){0};
}

// ---------------------------------------------------------------- files

struct saved_state {
    uint32_t kind, n, real, master;
    uint64_t updates, elements;
};

int kvs_state_write(const struct kvs_state *s, uint64_t elements, struct buf *to)
{
    struct saved_state head = {
        .kind = s->kind,
        .n = s->n,
        .real = (uint32_t)s->real,
        .master = s->master != NULL,
        .updates = s->updates,
        .elements = s->begun ? elements : 0,
    };
    TRY(buf_add(to, &head, sizeof(head)));
    if (!s->begun)
        return 0;
    if (s->n > 0)
        TRY(buf_add(to, s->arrays, s->n * elements * s->real));
    if (s->kind == KVS_NADAM)
        TRY(buf_add(to, &s->product, sizeof(s->product)));
    return s->master != NULL ? buf_add(to, s->master, elements * sizeof(float)) : 0;
}

static int check_saved(const struct saved_state *h, const struct kvs_optimizer *o,
                       const struct tug_array *of, struct err *e)
{
    if (h->kind != o->kind || h->n != states_of(o))
        return err_set(e, TUG_EUSAGE, "it belongs to optimizer %s, but %s is set",
                       kvs_optimizer_name((enum kvs_optimizer_kind)h->kind),
                       kvs_optimizer_name(o->kind));
    if (h->elements != of->rows * of->width || h->real != real_of(of) || h->master > 1 ||
        (h->master == 1) != wants_master(o, of))
        return err_set(e, TUG_EDATA,
                       "it belongs to an array of %llu elements with another precision "
                       "or shape; the key's array has %llu elements of dtype %s",
                       (unsigned long long)h->elements,
                       (unsigned long long)(of->rows * of->width),
                       kvs_dtype_name(of->dtype));
    return 0;
}

int kvs_state_read(struct kvs_state *ret, const struct kvs_optimizer *o,
                   const struct tug_array *of, const char **at, const char *end,
                   struct err *e)
{
    struct saved_state h;
    struct kvs_state s = {0};
    if ((size_t)(end - *at) < sizeof(h))
        return err_set(e, TUG_EDATA, "it is truncated");
    memcpy(&h, *at, sizeof(h));
    *at += sizeof(h);
    if (h.elements == 0) { // the key had no update yet
        kvs_state_free(ret);
        return 0;
    }
    TRY(check_saved(&h, o, of, e));
    size_t arrays = h.n * h.elements * h.real, master = h.master * h.elements * 4;
    size_t product = h.kind == KVS_NADAM ? sizeof(s.product) : 0;
    if ((size_t)(end - *at) < arrays || (size_t)(end - *at) - arrays < master + product)
        return err_set(e, TUG_EDATA, "it is truncated");
    TRY(optimizer_begin(&s, o, of, e));
    if (arrays > 0)
        memcpy(s.arrays, *at, arrays);
    if (product > 0)
        memcpy(&s.product, *at + arrays, product);
    if (master > 0)
        memcpy(s.master, *at + arrays + product, master);
    s.updates = h.updates;
    if (!finite_reals(s.real, s.arrays, h.n * h.elements) || !isfinite(s.product) ||
        (master > 0 && !finite_floats(s.master, h.elements))) {
        kvs_state_free(&s);
        return err_set(e, TUG_EDATA, "it has states that are not finite");
    }
    *at += arrays + product + master;
    kvs_state_free(ret);
    *ret = s;
    return 0;
}
