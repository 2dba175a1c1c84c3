// Optimizers of a kvstore: see optimizer.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kvstore/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "kvstore/array.h"

enum { CHUNK = 256, STATES_MAX = 3, NAME_MAX_BYTES = 32 };

// Names.

struct field {
    const char *name;
    size_t at;
    double low; // the least that it may be
};
#define FIELD(f, low)                                                                    \
    {                                                                                    \
#f, offsetof(struct kvs_optimizer, f), low                                       \
    }

static const struct field fields[] = {
    FIELD(learning_rate, -HUGE_VAL),
    FIELD(wd, 0),
    FIELD(rescale_grad, -HUGE_VAL),
    FIELD(clip_gradient, 0),
    FIELD(momentum, 0),
    FIELD(beta1, 0),
    FIELD(beta2, 0),
    FIELD(epsilon, 0),
    FIELD(rho, 0),
    FIELD(lamda1, 0),
    FIELD(beta, 0),
    FIELD(wd_lh, 0),
    FIELD(clip_weights, 0),
    FIELD(centered, 0),
    FIELD(multi_precision, 0),
};

static const struct {
    const char *name, *takes; // beside what all take
    struct kvs_optimizer defaults;
} optimizers[KVS_OPTIMIZERS] = {
    [KVS_SGD] = {"sgd", "momentum", {.learning_rate = 0.1}},
    [KVS_NAG] = {"nag", "momentum", {.learning_rate = 0.1, .momentum = 0.9}},
    [KVS_ADAM] =
        {"adam",
         "beta1 beta2 epsilon",
         {.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
    [KVS_ADAGRAD] = {"adagrad", "epsilon", {.learning_rate = 0.01, .epsilon = 1e-6}},
    [KVS_ADADELTA] = {"adadelta",
                      "rho epsilon",
                      {.learning_rate = 1, .rho = 0.9, .epsilon = 1e-6}},
    [KVS_RMSPROP] =
        {"rmsprop",
         "rho momentum epsilon centered clip_weights",
         {.learning_rate = 0.001, .rho = 0.9, .momentum = 0.9, .epsilon = 1e-8}},
    [KVS_FTRL] = {"ftrl",
                  "lamda1 beta",
                  {.learning_rate = 0.1, .lamda1 = 0.01, .beta = 1}},
    [KVS_SIGNUM] = {"signum", "momentum wd_lh", {.learning_rate = 0.01, .momentum = 0.9}},
    [KVS_TEST] = {"test", "", {.learning_rate = -1}},
};

#define FOR_ALL "learning_rate wd rescale_grad clip_gradient multi_precision"

// Whether `name` is one of the words, which blanks are between.
static bool among(const char *words, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = words; *at != 0; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        if (len == n && memcmp(at, name, n) == 0)
            return true;
        at += len;
    }
    return false;
}

static int set_field(struct kvs_optimizer *o, const char *name, double value,
                     struct err *e)
{
    const char *takes = optimizers[o->kind].takes;
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        if (!among(FOR_ALL, name) && !among(takes, name))
            break;
        if (!isfinite(value) || value < fields[i].low)
            return err_set(e, TUG_EUSAGE, "optimizer %s: %s cannot be %g",
                           optimizers[o->kind].name, name, value);
        memcpy((char *)o + fields[i].at, &value, sizeof(value));
        return 0;
    }
    return err_set(e, TUG_EUSAGE,
                   "optimizer %s does not take '%s'; it takes " FOR_ALL "%s%s",
                   optimizers[o->kind].name, name, takes[0] != 0 ? " " : "", takes);
}

static int copy_word(char to[NAME_MAX_BYTES], const char *from, size_t n,
                     const char *text, struct err *e)
{
    if (n == 0 || n >= NAME_MAX_BYTES)
        return err_set(
            e, TUG_EUSAGE,
            "'%.100s' is not an optimizer; write NAME, or NAME:FIELD=NUMBER,...", text);
    memcpy(to, from, n);
    to[n] = 0;
    return 0;
}

static int parse_fields(struct kvs_optimizer *o, const char *at, const char *text,
                        struct err *e)
{
    char name[NAME_MAX_BYTES], *end;
    while (*at != 0) {
        size_t n = strcspn(at, "=,");
        TRY(copy_word(name, at, at[n] == '=' ? n : 0, text, e));
        at += n + 1;
        double value = strtod(at, &end);
        if (end == at || (*end != 0 && *end != ','))
            return err_set(e, TUG_EUSAGE, "optimizer %s: '%.*s' is not a number for %s",
                           optimizers[o->kind].name, (int)strcspn(at, ","), at, name);
        TRY(set_field(o, name, value, e));
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static int check(const struct kvs_optimizer *o, struct err *e)
{
    const char *name = optimizers[o->kind].name;
    if (o->kind == KVS_TEST)
        return o->clip_gradient == 0
                   ? 0
                   : err_set(e, TUG_EUSAGE, "optimizer test clips no gradients");
    if (o->learning_rate < 0 || (o->kind == KVS_FTRL && o->learning_rate == 0))
        return err_set(e, TUG_EUSAGE, "optimizer %s: learning_rate cannot be %g", name,
                       o->learning_rate);
    return 0;
}

// "sgd, nag and test": all that there are.
static void list_optimizers(char *to, size_t max)
{
    size_t n = 0;
    for (int i = 0; i < KVS_OPTIMIZERS && n < max; i++)
        n += (size_t)snprintf(to + n, max - n, "%s%s",
                              i == 0                    ? ""
                              : i + 1 == KVS_OPTIMIZERS ? " and "
                                                        : ", ",
                              optimizers[i].name);
}

int kvs_optimizer_parse(struct kvs_optimizer *ret, const char *text, struct err *e)
{
    char name[NAME_MAX_BYTES];
    size_t n = strcspn(text, ":");
    TRY(copy_word(name, text, n, text, e));
    for (int i = 0; i < KVS_OPTIMIZERS; i++) {
        if (strcmp(optimizers[i].name, name) != 0)
            continue;
        struct kvs_optimizer o = optimizers[i].defaults;
        o.kind = (enum kvs_optimizer_kind)i;
        o.rescale_grad = 1;
        TRY(parse_fields(&o, text + n + (text[n] == ':'), text, e));
        TRY(check(&o, e));
        *ret = o;
        return 0;
    }
    char all[KVS_OPTIMIZERS * NAME_MAX_BYTES];
    list_optimizers(all, sizeof(all));
    return err_set(e, TUG_EUSAGE, "there is no optimizer '%s'; there are %s", name, all);
}

// Updates.

#define REAL float
#include "kvstore/steps.inc.h"
#undef REAL
#define REAL double
#include "kvstore/steps.inc.h"
#undef REAL

static uint32_t states_of(const struct kvs_optimizer *o)
{
    switch (o->kind) {
    case KVS_SGD:
    case KVS_NAG:
    case KVS_SIGNUM:
        return o->momentum != 0;
    case KVS_ADAM:
    case KVS_ADADELTA:
    case KVS_FTRL:
        return 2;
    case KVS_ADAGRAD:
        return 1;
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

static int begin(struct kvs_state *s, const struct kvs_optimizer *o,
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
    s->begun = true;
    return 0;
}

struct update {
    const struct kvs_optimizer *o;
    struct kvs_state *s;
    struct tug_array *w;
    uint64_t elements;
    char *before, *at; // what was changed so far, as it was
};

// Bytes that an update changes of an element.
static size_t changed_bytes(const struct update *u)
{
    return kvs_dtype_size(u->w->dtype) + u->s->n * u->s->real +
           (u->s->master != NULL ? sizeof(float) : 0);
}

// n elements from the at-th on are kept, or put back.
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

// Whether what an update made of them is finite.
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

// n weights from the at-th on; the gradient is of any dtype.
static void update_chunk(const struct update *u, uint64_t at, enum tug_dtype dtype,
                         const void *gradient, size_t n)
{
    double g[CHUNK], cast[CHUNK]; // room for floats, too
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
    if (real == TUG_FLOAT64)
        step_double(u->o, s->updates, weights, g, states, n);
    else
        step_float(u->o, s->updates, weights, g, states, n);
    if (weights != w)
        kvs_cast(u->w->dtype, w, real, weights, n);
}

// False: what comes of it is not finite.
static bool update_run(struct update *u, uint64_t at, enum tug_dtype dtype,
                       const char *gradient, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += CHUNK) {
        size_t some = n - i < CHUNK ? n - i : CHUNK;
        move(u, at + i, some, false);
        update_chunk(u, at + i, dtype, gradient + i * kvs_dtype_size(dtype), some);
        if (!sound(u, at + i, some))
            return false;
    }
    return true;
}

// Chunks as update_run has them, up to where it stopped.
static void put_back_run(struct update *u, const char *end, uint64_t at, uint64_t n)
{
    for (uint64_t i = 0; i < n && u->at < end; i += CHUNK)
        move(u, at + i, n - i < CHUNK ? n - i : CHUNK, true);
}

static int update_all(struct update *u, const struct tug_array *g, const char *key,
                      struct err *e)
{
    uint64_t width = u->w->width, n = g->sparse ? g->n_ids : 1, i = 0;
    uint64_t each = g->sparse ? width : u->elements;
    bool fine = true;
    u->s->updates++;
    for (; i < n && fine; i++)
        fine = update_run(u, g->sparse ? (uint64_t)g->ids[i] * width : 0, g->dtype,
                          (const char *)g->data + (g->sparse ? kvs_bytes(g, i) : 0),
                          each);
    if (fine)
        return 0;
    const char *end = u->at;
    u->s->updates--;
    u->at = u->before;
    for (i = 0; i < n; i++)
        put_back_run(u, end, g->sparse ? (uint64_t)g->ids[i] * width : 0, each);
    return err_set(e, TUG_EUSAGE,
                   "%s: by this push optimizer %s makes weights or states that are not "
                   "finite: nothing of it is taken",
                   key, optimizers[u->o->kind].name);
}

int kvs_optimizer_apply(const struct kvs_optimizer *o, struct kvs_state *s,
                        struct tug_array *weights, const struct tug_array *gradient,
                        const char *key, struct err *e)
{
    struct update u = {
        .o = o, .s = s, .w = weights, .elements = weights->rows * weights->width};
    if (!kvs_dtype_is_float(weights->dtype))
        return err_set(e, TUG_EUSAGE,
                       "%s: optimizers train floats, but its array is of dtype %s", key,
                       kvs_dtype_name(weights->dtype));
    TRY(begin(s, o, weights, e));
    uint64_t n = gradient->sparse ? gradient->n_ids * weights->width : u.elements;
    u.before = u.at = mem_array(n + 1, changed_bytes(&u));
    if (u.before == NULL)
        return err_nomem(e, "a copy of weights and states, until they are known to be "
                            "finite");
    int rc = update_all(&u, gradient, key, e);
    mem_free(u.before);
    return rc;
}

void kvs_state_free(struct kvs_state *s)
{
    mem_free(s->arrays);
    mem_free(s->master);
    *s = (struct kvs_state){0};
}

// Files.

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
    return s->master != NULL ? buf_add(to, s->master, elements * sizeof(float)) : 0;
}

static int check_saved(const struct saved_state *h, const struct kvs_optimizer *o,
                       const struct tug_array *of, struct err *e)
{
    if (h->kind != o->kind || h->n != states_of(o))
        return err_set(e, TUG_EUSAGE, "it is of optimizer %s, but %s is set",
                       h->kind < KVS_OPTIMIZERS ? optimizers[h->kind].name : "an unknown",
                       optimizers[o->kind].name);
    if (h->elements != of->rows * of->width || h->real != real_of(of) || h->master > 1 ||
        (h->master == 1) != wants_master(o, of))
        return err_set(e, TUG_EDATA,
                       "it is of an array of %llu elements and another precision, or "
                       "shape: this one has %llu of dtype %s",
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
    if (h.elements == 0) { // it had not begun
        kvs_state_free(ret);
        return 0;
    }
    TRY(check_saved(&h, o, of, e));
    size_t arrays = h.n * h.elements * h.real, master = h.master * h.elements * 4;
    if ((size_t)(end - *at) < arrays || (size_t)(end - *at) - arrays < master)
        return err_set(e, TUG_EDATA, "it is truncated");
    TRY(begin(&s, o, of, e));
    if (arrays > 0)
        memcpy(s.arrays, *at, arrays);
    if (master > 0)
        memcpy(s.master, *at + arrays, master);
    s.updates = h.updates;
    if (!finite_reals(s.real, s.arrays, h.n * h.elements) ||
        (master > 0 && !finite_floats(s.master, h.elements))) {
        kvs_state_free(&s);
        return err_set(e, TUG_EDATA, "it has states that are not finite");
    }
    *at += arrays + master;
    kvs_state_free(ret);
    *ret = s;
    return 0;
}
