// Texts of optimizers: "NAME" or "NAME:FIELD=VALUE,...". A line of `optimizers` defines a
// name: its formula's kind, the fields that it takes, and their defaults.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvstore/optimizer.h"
#include "doors/kvstore/words.h"
#include "runtime/last_error.h"

enum { NAME_MAX_BYTES = 32, TAKES_MAX_BYTES = 512 };

struct field {
    const char *name;
    size_t at;
    double low; // the least value that the field may have
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
    FIELD(eta, 0),
    FIELD(lamda, 0),
    FIELD(schedule_decay, 0),
    FIELD(lower_bound, 0),
    FIELD(upper_bound, 0),
    FIELD(seed, 0),
    FIELD(begin_num_update, 0),
    FIELD(centered, 0),
    FIELD(multi_precision, 0),
    FIELD(lazy_update, 0),
    FIELD(correct_bias, 0),
    {"bias_correction", offsetof(struct kvs_optimizer, correct_bias), 0},
};

#define FOR_ALL                                                                          \
    ",wd=0,rescale_grad=1,clip_gradient=0,multi_precision=0,begin_num_update=0"
#define MEANS "beta1=0.9,beta2=0.999,epsilon="

// The optimizers and their fields, in the order of MXNet's arguments. A clip or bound of 0
// means none.
static const struct {
    enum kvs_optimizer_kind kind;
    const char *text;
} optimizers[] = {
    {KVS_SGD, "sgd:learning_rate=0.1,momentum=0,lazy_update=1" FOR_ALL},
    {KVS_NAG, "nag:learning_rate=0.1,momentum=0.9" FOR_ALL},
    {KVS_ADAM, "adam:learning_rate=0.001," MEANS "1e-8,lazy_update=1" FOR_ALL},
    {KVS_ADAGRAD, "adagrad:learning_rate=0.01,epsilon=1e-6" FOR_ALL},
    {KVS_ADADELTA, "adadelta:learning_rate=1,rho=0.9,epsilon=1e-6" FOR_ALL},
    {KVS_RMSPROP, "rmsprop:learning_rate=0.001,rho=0.9,momentum=0.9,epsilon=1e-8,"
                  "centered=0,clip_weights=0" FOR_ALL},
    {KVS_FTRL, "ftrl:learning_rate=0.1,lamda1=0.01,beta=1" FOR_ALL},
    {KVS_SIGNUM, "signum:learning_rate=0.01,momentum=0.9,wd_lh=0" FOR_ALL},
    {KVS_ADAMW, "adamw:learning_rate=0.001," MEANS "1e-6,correct_bias=1" FOR_ALL},
    {KVS_LAMB, "lamb:learning_rate=0.001," MEANS "1e-6,lower_bound=0,upper_bound=0,"
               "bias_correction=1" FOR_ALL},
    {KVS_LARS, "lars:learning_rate=0.1,momentum=0,eta=0.001,epsilon=1e-8,"
               "lazy_update=1" FOR_ALL},
    {KVS_FTML, "ftml:learning_rate=0.0025,beta1=0.6,beta2=0.999,epsilon=1e-8" FOR_ALL},
    {KVS_NADAM, "nadam:learning_rate=0.001," MEANS "1e-8,schedule_decay=0.004" FOR_ALL},
    {KVS_ADAMAX, "adamax:learning_rate=0.002," MEANS "1e-8" FOR_ALL},
    {KVS_DCASGD, "dcasgd:learning_rate=0.1,momentum=0,lamda=0.04" FOR_ALL},
    {KVS_SGLD, "sgld:learning_rate=0.1,seed=0" FOR_ALL},
    {KVS_TEST, "test:learning_rate=-1" FOR_ALL},
    // Names of older versions of MXNet.
    {KVS_SGD, "ccsgd:learning_rate=0.1,momentum=0,lazy_update=1" FOR_ALL},
    {KVS_SIGNUM, "signsgd:learning_rate=0.01,wd_lh=0" FOR_ALL},
};
enum { NAMES = sizeof(optimizers) / sizeof(*optimizers), OLD_NAMES = 2 };

const char *tug_kvstore_optimizer(size_t i)
{
    return i < NAMES ? optimizers[i].text : NULL;
}

const char *kvs_optimizer_name(enum kvs_optimizer_kind kind)
{
    static const char *const names[KVS_OPTIMIZERS] = {
        [KVS_SGD] = "sgd",         [KVS_NAG] = "nag",           [KVS_ADAM] = "adam",
        [KVS_ADAGRAD] = "adagrad", [KVS_ADADELTA] = "adadelta", [KVS_RMSPROP] = "rmsprop",
        [KVS_FTRL] = "ftrl",       [KVS_SIGNUM] = "signum",     [KVS_TEST] = "test",
        [KVS_ADAMW] = "adamw",     [KVS_LAMB] = "lamb",         [KVS_LARS] = "lars",
        [KVS_FTML] = "ftml",       [KVS_NADAM] = "nadam",       [KVS_ADAMAX] = "adamax",
        [KVS_DCASGD] = "dcasgd",   [KVS_SGLD] = "sgld",
    };
    return (size_t)kind < KVS_OPTIMIZERS ? names[kind] : "an unknown";
}

bool kvs_optimizer_whole(const struct kvs_optimizer *o)
{
    return o->kind == KVS_LAMB || o->kind == KVS_LARS;
}

// A text that is being read.
struct reading {
    struct kvs_optimizer *o;
    const char *text, *name, *at;
    const char *takes; // the optimizer's text in `optimizers`
    bool defaults;     // that text itself is being read, to set the defaults
    bool rate_given;
};

// Lists the fields that an optimizer takes, for messages.
static void list_fields(const struct reading *r, char *to, size_t max)
{
    size_t n = 0;
    for (const char *at = strchr(r->takes, ':') + 1; *at != 0;) {
        n += (size_t)snprintf(to + n, max - n, "%.*s ", (int)strcspn(at, "="), at);
        at += strcspn(at, ",");
        at += *at == ',';
    }
    (void)snprintf(to + n, max - n, "lr_scheduler%s%s lr_mult(KEY) wd_mult(KEY)%s",
                   r->o->schedule.kind != KVS_CONSTANT ? " " : "",
                   kvs_schedule_takes(&r->o->schedule),
                   r->o->kind == KVS_LARS ? " layer(KEY)" : "");
}

static int no_field(const struct reading *r, const char *name, struct err *e)
{
    char takes[TAKES_MAX_BYTES];
    list_fields(r, takes, sizeof(takes));
    return err_set(e, TUG_EUSAGE, "optimizer %s does not take '%s'; it takes %s", r->name,
                   name, takes);
}

static bool is_taken(const struct reading *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = strchr(r->takes, ':'); at != NULL; at = strchr(at + 1, ','))
        if (strncmp(at + 1, name, n) == 0 && at[1 + n] == '=')
            return true;
    return false;
}

static int not_a_number(const struct reading *r, const char *name, const char *value,
                        size_t n, struct err *e)
{
    return err_set(e, TUG_EUSAGE, "optimizer %s: '%.*s' is not a number for %s", r->name,
                   (int)(n < 40 ? n : 40), value, name);
}

// Sets a field with one number as its value.
static int set_field(struct reading *r, const char *name, const char *value, size_t n,
                     struct err *e)
{
    double x;
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (strcmp(fields[i].name, name) != 0 || !is_taken(r, name))
            continue;
        if (!kvs_number(value, n, &x))
            return not_a_number(r, name, value, n, e);
        bool whole = strcmp(name, "seed") == 0 || strcmp(name, "begin_num_update") == 0;
        if (x < fields[i].low || (whole && (x != floor(x) || x > 1e15)))
            return err_set(e, TUG_EUSAGE, "optimizer %s: %s cannot be %g", r->name, name,
                           x);
        memcpy((char *)r->o + fields[i].at, &x, sizeof(x));
        r->rate_given |= !r->defaults && strcmp(name, "learning_rate") == 0;
        return 0;
    }
    return no_field(r, name, e);
}

static int set_schedule(struct reading *r, const char *value, size_t n, struct err *e)
{
    char name[NAME_MAX_BYTES];
    if (n >= sizeof(name))
        n = sizeof(name) - 1;
    memcpy(name, value, n);
    name[n] = 0;
    return kvs_schedule_begin(&r->o->schedule, name, e);
}

// Multipliers by key: lr_mult(3)=2, or for a key with a name: lr_mult('fc1_bias')=2,
// where '' in the name stands for '.

static int bad_key(const struct reading *r, const char *field, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "optimizer %s: %s is set for one key: write %s(3)=2, or %s('name')=2, "
                   "where a ' in the name is written ''",
                   r->name, field, field, field);
}

// Reads a key in parentheses. r->at is after the opening one, and moves behind the closing
// one.
static int take_key(struct reading *r, const char *field, struct kvs_key *ret,
                    struct err *e)
{
    char name[KVS_NAME_MAX];
    struct tug_kvstore_key key = {.name = NULL};
    size_t n = 0;
    if (*r->at == '\'') {
        for (r->at++; *r->at != '\'' || r->at[1] == '\''; r->at++) {
            r->at += *r->at == '\'';
            if (*r->at == 0 || n + 1 >= sizeof(name))
                return bad_key(r, field, e);
            name[n++] = *r->at;
        }
        r->at++;
        name[n] = 0;
        key.name = name;
    } else {
        char *end;
        errno = 0;
        key.number = strtoll(r->at, &end, 10);
        if (end == r->at || errno != 0)
            return bad_key(r, field, e);
        r->at = end;
    }
    if (*r->at != ')')
        return bad_key(r, field, e);
    r->at++;
    return kvs_key_make(ret, &key, e);
}

static int mult_of(struct kvs_optimizer *o, const struct kvs_key *key,
                   struct kvs_mult **ret, struct err *e)
{
    *ret = kvs_by_key_find(&o->mults, key->id);
    if (*ret != NULL)
        return kvs_key_same(&(*ret)->key, key)
                   ? 0
                   : err_set(e, TUG_EUSAGE, "%s and %s have the same hash", key->text,
                             (*ret)->key.text);
    TRY(kvs_by_key_reserve(&o->mults, e));
    struct kvs_mult *m = mem_alloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "multipliers of an optimizer");
    *m = (struct kvs_mult){.key = *key, .lr = 1, .wd = 1, .layer = (double)NAN};
    kvs_by_key_add(&o->mults, m);
    *ret = m;
    return 0;
}

static int set_mult(struct reading *r, const char *field, const struct kvs_key *key,
                    const char *value, size_t n, struct err *e)
{
    struct kvs_mult *m;
    double x;
    bool layer = strcmp(field, "layer") == 0 && r->o->kind == KVS_LARS;
    if (!layer && strcmp(field, "lr_mult") != 0 && strcmp(field, "wd_mult") != 0)
        return no_field(r, field, e);
    if (!kvs_number(value, n, &x))
        return not_a_number(r, field, value, n, e);
    TRY(mult_of(r->o, key, &m, e));
    *(layer ? &m->layer : field[0] == 'l' ? &m->lr : &m->wd) = x;
    return 0;
}

static int no_text(const struct reading *r, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "'%.100s' is not an optimizer; write NAME, or NAME:FIELD=NUMBER,...",
                   r->text);
}

static int read_field(struct reading *r, struct err *e)
{
    char name[NAME_MAX_BYTES];
    struct kvs_key key;
    size_t n = strcspn(r->at, "=,(");
    if (n == 0 || n >= sizeof(name) || r->at[n] == 0 || r->at[n] == ',')
        return no_text(r, e);
    memcpy(name, r->at, n);
    name[n] = 0;
    bool by_key = r->at[n] == '(';
    r->at += n + by_key;
    if (by_key)
        TRY(take_key(r, name, &key, e));
    if (*r->at != '=')
        return no_text(r, e);
    const char *value = r->at + 1;
    size_t len = strcspn(value, ",");
    r->at = value + len + (value[len] == ',');
    int rc = 0;
    if (by_key)
        return set_mult(r, name, &key, value, len, e);
    if (strcmp(name, "lr_scheduler") == 0)
        return set_schedule(r, value, len, e);
    if (kvs_schedule_field(&r->o->schedule, name, value, len, &rc, e))
        return rc;
    return set_field(r, name, value, len, e);
}

static int read_fields(struct reading *r, const char *at, struct err *e)
{
    for (r->at = at; *r->at != 0;)
        TRY(read_field(r, e));
    return 0;
}

// Completes a schedule: as in MXNet, the optimizer's learning_rate, if it was given,
// replaces the schedule's base_lr.
static int settle_schedule(struct reading *r, struct err *e)
{
    struct kvs_schedule *s = &r->o->schedule;
    if (s->kind == KVS_CONSTANT)
        return 0;
    s->warmup_final_lr = s->base_lr;
    if (r->rate_given && (s->kind == KVS_POLY || s->kind == KVS_COSINE))
        return err_set(e, TUG_EUSAGE,
                       "optimizer %s: lr_scheduler %s begins with its base_lr, so "
                       "learning_rate has no effect: leave it out",
                       r->name, kvs_schedule_name(s));
    if (r->rate_given)
        s->base_lr = r->o->learning_rate;
    return kvs_schedule_check(s, e);
}

static int optimizer_text_check(struct reading *r, struct err *e)
{
    const struct kvs_optimizer *o = r->o;
    TRY(settle_schedule(r, e));
    if (o->kind == KVS_TEST)
        return o->clip_gradient == 0
                   ? 0
                   : err_set(
                         e, TUG_EUSAGE,
                         "optimizer test cannot clip gradients: leave clip_gradient out");
    if (o->learning_rate < 0 ||
        (o->learning_rate == 0 && (o->kind == KVS_FTRL || o->kind == KVS_FTML)))
        return err_set(e, TUG_EUSAGE, "optimizer %s: learning_rate cannot be %g", r->name,
                       o->learning_rate);
    return 0;
}

// Lists the names of all optimizers for messages: "sgd, nag and test".
static void list_optimizers(char *to, size_t max)
{
    size_t n = 0, all = NAMES - OLD_NAMES;
    for (size_t i = 0; i < all; i++) {
        const char *text = optimizers[i].text;
        n += (size_t)snprintf(to + n, max - n, "%s%.*s",
                              i == 0         ? ""
                              : i + 1 == all ? " and "
                                             : ", ",
                              (int)strcspn(text, ":"), text);
    }
}

static int optimizer_text_read_text(struct reading *r, struct err *e)
{
    char name[NAME_MAX_BYTES], all[NAMES * NAME_MAX_BYTES];
    size_t n = strcspn(r->text, ":");
    if (n == 0 || n >= sizeof(name))
        return no_text(r, e);
    memcpy(name, r->text, n);
    name[n] = 0;
    r->name = name;
    for (size_t i = 0; i < NAMES; i++) {
        r->takes = optimizers[i].text;
        if (strncmp(r->takes, name, n) != 0 || r->takes[n] != ':')
            continue;
        r->o->kind = optimizers[i].kind;
        r->defaults = true;
        TRY(read_fields(r, r->takes + n + 1, e));
        r->defaults = false;
        TRY(read_fields(r, r->text + n + (r->text[n] == ':'), e));
        return optimizer_text_check(r, e);
    }
    list_optimizers(all, sizeof(all));
    return err_set(e, TUG_EUSAGE, "there is no optimizer '%s'; there are %s", name, all);
}

int kvs_optimizer_parse(struct kvs_optimizer *ret, const char *text, struct err *e)
{
    struct kvs_optimizer o = {.kind = KVS_SGD};
    struct reading r = {.o = &o, .text = text};
    int rc = optimizer_text_read_text(&r, e);
    o.num_update = (uint64_t)o.begin_num_update;
    if (rc == 0)
        *ret = o;
    else
        kvs_optimizer_free(&o);
    return rc;
}

void kvs_optimizer_free(struct kvs_optimizer *o)
{
    for (size_t i = 0; i < o->mults.n; i++)
        mem_free(o->mults.list[i]);
    kvs_by_key_free(&o->mults);
}

void kvs_optimizer_replace(struct kvs_optimizer *was, const struct kvs_optimizer *o)
{
    uint64_t n = was->kind == o->kind ? was->num_update : 0, stream = was->stream;
    kvs_optimizer_free(was);
    *was = *o;
    was->stream = stream;
    if (n > was->num_update)
        was->num_update = n;
}

double kvs_optimizer_rate(const struct kvs_optimizer *o, uint64_t num_update)
{
    return o->schedule.kind == KVS_CONSTANT ? o->learning_rate
                                            : kvs_schedule_rate(&o->schedule, num_update);
}

int tug_kvstore_learning_rate(const char *text, uint64_t num_update, double *ret)
{
    struct kvs_optimizer o;
    TRY(kvs_optimizer_parse(&o, text != NULL ? text : "", last_error()));
    *ret = kvs_optimizer_rate(&o, num_update);
    kvs_optimizer_free(&o);
    return 0;
}
