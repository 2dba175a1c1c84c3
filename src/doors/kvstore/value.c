// The stored arrays of a kvstore, and the effect of a push on them.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/value.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvstore/block.h"
#include "runtime/last_error.h"

static void value_free(struct kvs_value *v)
{
    kvs_block_release(v->a.data);
    kvs_state_free(&v->state);
    mem_free(v);
}

// Copies an array into a dense one. Rows that a sparse array lacks become zero.
static void value_fill(struct tug_array *to, const struct tug_array *a)
{
    if (!a->sparse) {
        kvs_cast(to->dtype, to->data, a->dtype, a->data, a->rows * a->width);
        return;
    }
    memset(to->data, 0, kvs_bytes(to, to->rows));
    for (uint64_t i = 0; i < a->n_ids; i++)
        kvs_cast(to->dtype, (char *)to->data + kvs_bytes(to, (uint64_t)a->ids[i]),
                 a->dtype, (const char *)a->data + kvs_bytes(a, i), a->width);
}

int kvs_values_make(struct kvs_values *v, const struct kvs_key *key,
                    const struct tug_array *a, struct kvs_value **ret, struct err *e)
{
    struct kvs_value *x = mem_zalloc(sizeof(*x));
    if (x == NULL || kvs_by_key_reserve(&v->by_key, e) != 0) {
        mem_free(x);
        return err_nomem(e, "a key");
    }
    x->key = *key;
    x->a = *a;
    x->a.ids = NULL;
    x->a.n_ids = 0;
    x->a.data = kvs_block_new(kvs_bytes(a, a->rows));
    if (x->a.data == NULL) {
        mem_free(x);
        return err_set(e, TUG_ENOMEM,
                       "%s: there is no memory for its %llu x %llu elements", key->text,
                       (unsigned long long)a->rows, (unsigned long long)a->width);
    }
    value_fill(&x->a, a);
    kvs_by_key_add(&v->by_key, x);
    *ret = x;
    return 0;
}

void kvs_values_free(struct kvs_values *v)
{
    for (size_t i = 0; i < v->by_key.n; i++)
        value_free(v->by_key.list[i]);
    kvs_by_key_free(&v->by_key);
}

// ---------------------------------------------------------------- updates

static int call_updater(struct kvs_value *v, const struct kvs_rule *r,
                        const struct tug_array *merged, struct err *e)
{
    struct tug_kvstore_key key = kvs_key_given(&v->key);
    struct tug_array stored = v->a;
    uint64_t bad;
    last_error()->text[0] = 0;
    int rc = r->updater(r->ctx, &key, merged, &stored);
    if (rc != 0)
        return err_set(e, rc < 0 ? rc : TUG_EUSAGE, "%s: its updater failed%s%s",
                       v->key.text, last_error()->text[0] != 0 ? ": " : "",
                       last_error()->text);
    if (kvs_array_is_finite(&v->a, &bad))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: its updater made element %llu not finite, so the push is refused "
                   "and the array is as it was before",
                   v->key.text, (unsigned long long)bad);
}

// Calls the program's updater. Neither the update nor its undoing moves the array, because
// programs may hold pointers to it. If the updater fails, restores the old contents.
static int update_by_program(struct kvs_value *v, const struct kvs_rule *r,
                             const struct tug_array *merged, struct err *e)
{
    size_t bytes = kvs_bytes(&v->a, v->a.rows);
    void *before = kvs_block_new(bytes);
    if (before == NULL)
        return err_nomem(e, "a value that an updater may have to restore");
    memcpy(before, v->a.data, bytes);
    int rc = call_updater(v, r, merged, e);
    if (rc != 0)
        memcpy(v->a.data, before, bytes);
    kvs_block_release(before);
    return rc;
}

// Makes sure that the array may be changed: if an answer is still being sent from its
// memory, copies the array to new memory.
static int own(struct kvs_value *v, struct err *e)
{
    size_t bytes = kvs_bytes(&v->a, v->a.rows);
    if (!kvs_block_is_held(v->a.data))
        return 0;
    void *copy = kvs_block_new(bytes);
    if (copy == NULL)
        return err_nomem(e, "an array that is changed while it is sent");
    memcpy(copy, v->a.data, bytes);
    kvs_block_release(v->a.data);
    v->a.data = copy;
    return 0;
}

int kvs_value_update_by_sum(struct kvs_value *v, struct kvs_rule *r, struct kvs_rows *sum,
                            struct err *e)
{
    void *was = v->a.data;
    if (r->updater != NULL || r->optimizes || sum->a.sparse || sum->a.dtype != v->a.dtype)
        return kvs_value_update(v, r, &sum->a, e);
    v->a.data = sum->a.data;
    sum->a.data = was;
    sum->cap_bytes = kvs_bytes(&v->a, v->a.rows);
    if (kvs_block_is_held(was)) {
        sum->a.data = NULL;
        sum->cap_bytes = 0;
        kvs_block_release(was);
    }
    v->rounds++;
    return 0;
}

int kvs_value_update(struct kvs_value *v, struct kvs_rule *r,
                     const struct tug_array *merged, struct err *e)
{
    TRY(own(v, e));
    if (r->updater != NULL)
        TRY(update_by_program(v, r, merged, e));
    else if (r->optimizes)
        TRY(kvs_optimizer_apply(&r->optimizer, &v->state, &v->a, merged, &v->key, e));
    else
        value_fill(&v->a, merged);
    v->rounds++;
    return 0;
}

void kvs_rule_optimize(struct kvs_rule *r, const struct kvs_optimizer *o)
{
    kvs_optimizer_replace(&r->optimizer, o);
    r->optimizes = true;
    r->updater = NULL;
    r->ctx = NULL;
}

int kvs_rule_needs_optimizer(const struct kvs_rule *r, struct err *e)
{
    return r->optimizes ? 0
                        : err_set(e, TUG_EUSAGE,
                                  "no optimizer is set, so there are no states of one");
}

bool kvs_row_is_zero(const struct tug_array *a, uint64_t row)
{
    size_t n = kvs_bytes(a, 1);
    const char *at = (const char *)a->data + kvs_bytes(a, row);
    for (size_t i = 0; i < n; i++)
        if (at[i] != 0)
            return false;
    return true;
}

// ---------------------------------------------------------------- states

int kvs_values_write_states(const struct kvs_values *v, struct buf *to, struct err *e)
{
    uint64_t n = v->by_key.n;
    int rc = buf_add(to, &n, sizeof(n));
    for (size_t i = 0; i < v->by_key.n && rc == 0; i++) {
        const struct kvs_value *x = v->by_key.list[i];
        rc = buf_add(to, &x->key.id, sizeof(x->key.id));
        if (rc == 0)
            rc = kvs_state_write(&x->state, x->a.rows * x->a.width, to);
    }
    return rc == 0 ? 0
                   : err_set(e, rc, "there is no memory for the states of %zu keys",
                             v->by_key.n);
}

static int read_one(const struct kvs_values *v, const struct kvs_rule *r, const char **at,
                    const char *end, struct kvs_state *states, struct err *e)
{
    uint64_t id;
    if ((size_t)(end - *at) < sizeof(id))
        return err_set(e, TUG_EDATA, "it is truncated");
    memcpy(&id, *at, sizeof(id));
    *at += sizeof(id);
    size_t place = kvs_by_key_place(&v->by_key, id);
    struct kvs_value *x = kvs_by_key_find(&v->by_key, id);
    if (x == NULL)
        return err_set(
            e, TUG_EDATA,
            "it has the state of a key that does not exist: make the keys first");
    int rc = kvs_state_read(&states[place], &r->optimizer, &x->a, at, end, e);
    return rc == 0 ? 0 : err_wrap(e, "%s", x->key.text);
}

static void count_on(struct kvs_optimizer *o, const struct kvs_state *s)
{
    uint64_t n = (uint64_t)o->begin_num_update + s->updates;
    if (n > o->num_update)
        o->num_update = n;
}

int kvs_values_read_states(struct kvs_values *v, struct kvs_rule *r, const char *bytes,
                           size_t n, bool keep, struct err *e)
{
    const char *at = bytes, *end = bytes + n;
    uint64_t count;
    if (n < sizeof(count))
        return err_set(e, TUG_EDATA, "it is truncated");
    memcpy(&count, at, sizeof(count));
    at += sizeof(count);
    struct kvs_state *states = mem_zalloc((v->by_key.n + 1) * sizeof(*states));
    if (states == NULL)
        return err_nomem(e, "states of an optimizer");
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0; i++)
        rc = read_one(v, r, &at, end, states, e);
    if (rc == 0 && at != end)
        rc = err_set(e, TUG_EDATA, "it has extra bytes at its end");
    for (size_t i = 0; i < v->by_key.n; i++) {
        struct kvs_value *x = v->by_key.list[i];
        if (rc == 0 && keep) {
            kvs_state_free(&x->state);
            x->state = states[i];
            count_on(&r->optimizer, &x->state);
        } else {
            kvs_state_free(&states[i]);
        }
    }
    mem_free(states);
    return rc;
}
