// The public calls of a kvstore (tug/kvstore.h), and stores of a process alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/kvstore/kvstore_internal.h"
#include "os/descriptors.h"

// ---------------------------------------------------------------- opening and closing

static int open_store(struct tug_kvstore *s, const struct tug_kvstore_options *o)
{
    struct err *e = last_error();
    TRY(kvs_type_read(s, o, e));
    return s->dist ? kvs_dist_open(s, o->node) : 0;
}

static void free_store(struct tug_kvstore *s)
{
    for (size_t i = 0; i < s->entries.n; i++) {
        struct kvs_entry *x = s->entries.list[i];
        kvs_parts_free(x);
        for (size_t k = 0; k < x->n_left; k++)
            mem_free(x->left[k]);
        mem_free(x->left);
        mem_free(x);
    }
    kvs_by_key_free(&s->entries);
    kvs_values_free(&s->values);
    kvs_optimizer_free(&s->rule.optimizer);
    kvs_rows_free(&s->sum);
    kvs_rows_free(&s->coded);
    mem_free(s->words);
    mem_free(s->places);
    for (struct kvs_reply *r; (r = s->replies) != NULL; mem_free(r))
        s->replies = r->next;
    mem_free(s);
}

int tug_kvstore_open(struct tug_kvstore **ret, const struct tug_kvstore_options *o)
{
    descriptors_hold_standard();
    struct tug_kvstore *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(last_error(), "a store");
    s->workers = 1;
    s->barrier_before_exit = true;
    int rc = open_store(s, o != NULL ? o : &(struct tug_kvstore_options){0});
    if (rc != 0)
        free_store(s);
    else
        *ret = s;
    return rc;
}

int tug_kvstore_close(struct tug_kvstore *s)
{
    if (s == NULL)
        return 0;
    int rc = s->dist ? kvs_dist_close(s) : 0;
    free_store(s);
    return rc;
}

void tug_kvstore_barrier_before_exit(struct tug_kvstore *s, bool barrier)
{
    s->barrier_before_exit = barrier;
}

const char *tug_kvstore_type(const struct tug_kvstore *s)
{
    return s->type;
}

bool tug_kvstore_is_dist(const struct tug_kvstore *s)
{
    return s->dist;
}

uint32_t tug_kvstore_rank(const struct tug_kvstore *s)
{
    return s->rank;
}

uint32_t tug_kvstore_workers(const struct tug_kvstore *s)
{
    return s->workers;
}

bool tug_kvstore_recovers(const struct tug_kvstore *s)
{
    return s->recovers;
}

// ---------------------------------------------------------------- keys

// Checks that a key is of the store's kind: a store's keys are all numbers or all names.
static int check_kind(const struct tug_kvstore *s, const struct tug_kvstore_key *key,
                      struct err *e)
{
    if (!s->keys_known || s->keys_named == (key->name != NULL))
        return 0;
    if (s->keys_named)
        return err_set(e, TUG_EUSAGE,
                       "key %lld is a number, but this store's keys are names",
                       (long long)key->number);
    return err_set(e, TUG_EUSAGE,
                   "key '%.255s' is a name, but this store's keys are numbers",
                   key->name);
}

static int entry_of(const struct tug_kvstore *s, const struct tug_kvstore_key *key,
                    struct kvs_entry **ret, struct err *e)
{
    struct kvs_key k;
    TRY(check_kind(s, key, e));
    TRY(kvs_key_make(&k, key, e));
    *ret = kvs_by_key_find(&s->entries, k.id);
    if (*ret != NULL)
        return 0;
    if (s->workers > 1)
        return err_set(e, TUG_EUSAGE,
                       "%s has not been made in this worker (rank %u): every worker "
                       "calls init before push and pull, and rank 0 sets the values",
                       k.text, s->rank);
    return err_set(e, TUG_EUSAGE, "%s has not been made: call init before push and pull",
                   k.text);
}

static void items_free(struct kvs_items *t)
{
    mem_free(t->of);
    mem_free(t->next);
}

static int check_shape(const struct kvs_entry *x, const struct tug_array *a,
                       struct err *e)
{
    if (a->rows * a->width == x->shape.rows * x->shape.width &&
        (!a->sparse || a->rows == x->shape.rows))
        return 0;
    return err_set(e, TUG_EUSAGE, "%s has %llu x %llu elements, not %llu x %llu",
                   x->key.text, (unsigned long long)x->shape.rows,
                   (unsigned long long)x->shape.width, (unsigned long long)a->rows,
                   (unsigned long long)a->width);
}

// Returns whether kvs_parts_write checks that the array is finite, while it copies it. (A
// separate pass over a large array takes a tenth of the time of a push and pull.) If a key
// has several arrays, their sum is checked, which is finite only if all of them are.
static bool looked_at_later(const struct tug_kvstore *s, const struct kvs_entry *x,
                            const struct tug_array *a)
{
    return s->dist && s->coding == KVS_UNCODED && !a->sparse &&
           a->dtype == x->shape.dtype;
}

// Checks an item's array. `out`: the array is to receive a pull, so the ids of a sparse
// array are not read.
static int check_item(const struct tug_kvstore *s, const struct kvs_entry *x,
                      const struct tug_array *a, bool out, struct err *e)
{
    struct tug_array as = a != NULL ? *a : (struct tug_array){0};
    if (out && as.sparse)
        as.n_ids = 0;
    TRY(kvs_array_check(a != NULL ? &as : NULL, x->key.text, e));
    TRY(check_shape(x, a, e));
    if (!out && s->coding != KVS_UNCODED && !a->sparse && x->shape.dtype != TUG_FLOAT32)
        return err_set(e, TUG_EUSAGE,
                       "%s is of dtype %s, but only float32 can be compressed",
                       x->key.text, kvs_dtype_name(x->shape.dtype));
    if (out || looked_at_later(s, x, a))
        return 0;
    TRY(kvs_array_finite(a, x->key.text, e));
    return kvs_array_fits(a, x->shape.dtype, x->key.text, e);
}

static int items_resolve(struct tug_kvstore *s, struct kvs_items *t, bool out,
                         struct err *e)
{
    s->calls++;
    for (size_t i = 0; i < t->n; i++) {
        struct kvs_entry *x;
        TRY(entry_of(s, &t->items[i].key, &x, e));
        TRY(check_item(s, x, t->items[i].array, out, e));
        t->of[i] = x;
        t->next[i] = KVS_NONE;
        if (x->call != s->calls) {
            x->call = s->calls;
            x->first = i;
        } else {
            t->next[x->last] = i;
        }
        x->last = i;
    }
    return 0;
}

// Finds the entries of a call's items, and links the items of each key.
static int items_open(struct tug_kvstore *s, struct kvs_items *t,
                      const struct tug_kvstore_item *items, size_t n, bool out)
{
    struct err *e = last_error();
    *t = (struct kvs_items){.items = items, .n = n};
    if (s->dist)
        TRY(kvs_dist_usable(s));
    t->of = mem_zalloc((n + 1) * sizeof(struct kvs_entry *));
    t->next = mem_array(n + 1, sizeof(*t->next));
    int rc = t->of == NULL || t->next == NULL ? err_nomem(e, "a list of keys")
                                              : items_resolve(s, t, out, e);
    if (rc != 0)
        items_free(t);
    return rc;
}

// -------------------------------------------- sums of the arrays that one process pushes

float *kvs_left(struct kvs_entry *x, size_t i)
{
    size_t n = x->shape.rows * x->shape.width;
    if (i >= x->n_left) {
        float **more = mem_realloc_array(x->left, i + 1, sizeof(*more));
        if (more == NULL)
            return NULL;
        x->left = more;
        while (x->n_left <= i)
            x->left[x->n_left++] = NULL;
    }
    if (x->left[i] == NULL)
        x->left[i] = mem_zalloc(n * sizeof(float));
    return x->left[i];
}

int kvs_words(struct tug_kvstore *s, size_t n, struct err *e)
{
    if (n <= s->cap_words)
        return 0;
    uint32_t *more = mem_realloc_array(s->words, n, sizeof(*more));
    if (more == NULL)
        return err_nomem(e, "a compressed gradient");
    s->words = more;
    s->cap_words = n;
    return 0;
}

// Encodes an array and decodes it again, as if a device had sent it compressed.
static int through_coding(struct tug_kvstore *s, struct kvs_entry *x, size_t i,
                          struct tug_array *a, struct err *e)
{
    size_t n = a->rows * a->width;
    float *left = kvs_left(x, i);
    if (left == NULL)
        return err_nomem(e, "the residuals of a compression");
    TRY(kvs_words(s, kvs_coded_words(s->coding, n), e));
    TRY(kvs_rows_set(&s->coded, TUG_FLOAT32, a, e));
    kvs_encode(s->coding, s->threshold, s->coded.a.data, left, n, s->words);
    kvs_decode(s->coding, s->threshold, s->words, n, s->coded.a.data);
    *a = s->coded.a;
    return 0;
}

// Returns an item's array in the shape of its key.
static struct tug_array shaped(const struct kvs_entry *x, const struct tug_array *a)
{
    struct tug_array as = *a;
    as.rows = x->shape.rows;
    as.width = x->shape.width;
    return as;
}

int kvs_sum(struct tug_kvstore *s, const struct kvs_items *t, struct kvs_entry *x,
            struct tug_array *ret, struct err *e)
{
    bool coded = s->coding != KVS_UNCODED && !s->dist;
    size_t k = 0;
    for (size_t i = x->first; i != KVS_NONE; i = t->next[i], k++) {
        struct tug_array a = shaped(x, t->items[i].array);
        if (coded && !a.sparse)
            TRY(through_coding(s, x, k, &a, e));
        if (k == 0 && t->next[i] == KVS_NONE && a.dtype == x->shape.dtype) {
            *ret = a; // without a copy: its data is the caller's
            return 0;
        }
        if ((k == 0 ? kvs_rows_set(&s->sum, x->shape.dtype, &a, e)
                    : kvs_rows_add(&s->sum, &a, e)) != 0)
            return err_wrap(e, "%s", x->key.text);
    }
    *ret = s->sum.a;
    return 0;
}

// Copies the rows of `a` that are not all zero into the caller's sparse array.
static void give_rows(const struct tug_array *a, struct tug_array *to)
{
    to->n_ids = 0;
    for (uint64_t r = 0; r < a->rows; r++) {
        if (kvs_row_is_zero(a, r))
            continue;
        to->ids[to->n_ids] = (int64_t)r;
        kvs_cast(to->dtype, (char *)to->data + kvs_bytes(to, to->n_ids), a->dtype,
                 (char *)a->data + kvs_bytes(a, r), a->width);
        to->n_ids++;
    }
}

void kvs_give(const struct tug_array *a, struct tug_array *to)
{
    if (to->sparse)
        give_rows(a, to);
    else if (to->data != a->data)
        kvs_cast(to->dtype, to->data, a->dtype, a->data, a->rows * a->width);
}

// ---------------------------------------------------------------- init

static int add_entry(struct tug_kvstore *s, const struct kvs_key *key,
                     const struct tug_array *a, struct kvs_entry **ret, struct err *e)
{
    TRY(kvs_by_key_reserve(&s->entries, e));
    struct kvs_entry *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a key");
    x->key = *key;
    x->shape = *a;
    x->shape.data = NULL;
    x->shape.ids = NULL;
    x->shape.n_ids = 0;
    kvs_by_key_add(&s->entries, x);
    *ret = x;
    return 0;
}

static void drop_entry(struct tug_kvstore *s, struct kvs_entry *x)
{
    kvs_by_key_remove(&s->entries, x);
    kvs_parts_free(x);
    mem_free(x);
}

static int init_again(struct tug_kvstore *s, struct kvs_entry *x, const struct kvs_key *k,
                      const struct tug_array *a, struct err *e)
{
    if (!kvs_key_same(&x->key, k))
        return err_set(e, TUG_EUSAGE,
                       "%s and %s have the same hash: give one of them another name",
                       k->text, x->key.text);
    if (!s->dist)
        return err_set(e, TUG_EUSAGE, "%s has been made before", k->text);
    if (a->rows == x->shape.rows && a->width == x->shape.width &&
        a->dtype == x->shape.dtype)
        return tug_kvstore_barrier(s);
    return err_set(
        e, TUG_EUSAGE,
        "%s was made with %llu x %llu elements of dtype %s, and cannot be made "
        "again with %llu x %llu of %s",
        k->text, (unsigned long long)x->shape.rows, (unsigned long long)x->shape.width,
        kvs_dtype_name(x->shape.dtype), (unsigned long long)a->rows,
        (unsigned long long)a->width, kvs_dtype_name(a->dtype));
}

static int init_one(struct tug_kvstore *s, const struct tug_kvstore_item *t)
{
    struct err *e = last_error();
    struct kvs_key k;
    struct kvs_entry *x;
    TRY(check_kind(s, &t->key, e));
    TRY(kvs_key_make(&k, &t->key, e));
    TRY(kvs_array_check(t->array, k.text, e));
    TRY(kvs_array_finite(t->array, k.text, e));
    x = kvs_by_key_find(&s->entries, k.id);
    if (x != NULL)
        return init_again(s, x, &k, t->array, e);
    TRY(add_entry(s, &k, t->array, &x, e));
    int rc = s->dist ? kvs_parts_init(s, x, t->array)
                     : kvs_values_make(&s->values, &k, t->array, &x->value, e);
    if (rc != 0) {
        drop_entry(s, x);
        return rc;
    }
    s->keys_known = true;
    s->keys_named = k.named;
    return 0;
}

int tug_kvstore_init(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                     size_t n)
{
    if (s->dist)
        TRY(kvs_dist_usable(s));
    for (size_t i = 0; i < n; i++)
        TRY(init_one(s, &items[i]));
    return 0;
}

// ---------------------------------------------------------------- pushes and pulls

// Pushes the items of a call. Either all keys are sent to servers, or none.
static int push_items(struct tug_kvstore *s, const struct kvs_items *t, int priority)
{
    struct err *e = last_error();
    // Settles all keys before it encodes one: a later error would lose the residual of a key
    // that is already encoded.
    for (size_t i = 0; i < t->n && s->dist; i++)
        TRY(kvs_parts_settle(s, t->of[i]));
    for (size_t i = 0; i < t->n; i++) {
        struct kvs_entry *x = t->of[i];
        struct tug_array sum;
        if (x->first != i)
            continue;
        TRY(kvs_sum(s, t, x, &sum, e));
        TRY(s->dist ? kvs_parts_write(s, x, &sum)
                    : kvs_value_update(x->value, &s->rule, &sum, e));
    }
    for (size_t i = 0; i < t->n && s->dist; i++)
        if (t->of[i]->first == i)
            TRY(kvs_parts_send(s, t->of[i], priority));
    return 0;
}

static int pull_items(struct tug_kvstore *s, const struct kvs_items *t, int priority)
{
    struct err *e = last_error();
    if (s->dist)
        return kvs_parts_pull(s, t, priority);
    for (size_t i = 0; i < t->n; i++)
        TRY(kvs_array_gives(&t->of[i]->value->a, t->items[i].array->dtype,
                            t->of[i]->key.text, e));
    for (size_t i = 0; i < t->n; i++)
        kvs_give(&t->of[i]->value->a, t->items[i].array);
    return 0;
}

int tug_kvstore_push(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                     size_t n, int priority)
{
    struct kvs_items t;
    TRY(items_open(s, &t, items, n, false));
    int rc = push_items(s, &t, priority);
    items_free(&t);
    return rc;
}

int tug_kvstore_pull(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                     size_t n, int priority)
{
    struct kvs_items t;
    TRY(items_open(s, &t, items, n, true));
    int rc = pull_items(s, &t, priority);
    items_free(&t);
    return rc;
}

int tug_kvstore_push_pull(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                          size_t n, const struct tug_kvstore_item *out, size_t n_out,
                          int priority)
{
    TRY(tug_kvstore_push(s, items, n, priority));
    return tug_kvstore_pull(s, out, n_out, priority);
}

int tug_kvstore_broadcast(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                          size_t n, const struct tug_kvstore_item *out, size_t n_out,
                          int priority)
{
    TRY(tug_kvstore_init(s, items, n));
    return tug_kvstore_pull(s, out, n_out, priority);
}

static int local_rows(const struct tug_array *a, struct tug_array *to, const char *key,
                      struct err *e)
{
    for (uint64_t i = 0; i < to->n_ids; i++) {
        struct tug_array row = *a;
        row.rows = 1;
        row.data = (char *)a->data + kvs_bytes(a, (uint64_t)to->ids[i]);
        if (kvs_array_gives(&row, to->dtype, key, e) != 0)
            return err_wrap(e, "row %lld", (long long)to->ids[i]);
    }
    for (uint64_t i = 0; i < to->n_ids; i++)
        kvs_cast(to->dtype, (char *)to->data + kvs_bytes(to, i), a->dtype,
                 (char *)a->data + kvs_bytes(a, (uint64_t)to->ids[i]), a->width);
    return 0;
}

static int kvstore_pull_rows(struct tug_kvstore *s, const struct kvs_items *t,
                             int priority)
{
    struct err *e = last_error();
    for (size_t i = 0; i < t->n; i++) {
        struct kvs_entry *x = t->of[i];
        struct tug_array *to = t->items[i].array;
        TRY(kvs_array_check(to, x->key.text, e));
        if (!x->shape.sparse || !to->sparse)
            return err_set(e, TUG_EUSAGE,
                           "%s: rows are pulled from a sparse key into a sparse array, "
                           "but the %s is dense",
                           x->key.text, x->shape.sparse ? "array" : "key");
        if (!s->dist)
            TRY(local_rows(&x->value->a, to, x->key.text, e));
        else
            TRY(kvs_parts_pull_rows(s, x, to, priority));
    }
    return 0;
}

int tug_kvstore_pull_rows(struct tug_kvstore *s, const struct tug_kvstore_item *items,
                          size_t n, int priority)
{
    struct kvs_items t;
    TRY(items_open(s, &t, items, n, true));
    int rc = kvstore_pull_rows(s, &t, priority);
    items_free(&t);
    return rc;
}

int tug_kvstore_wait(struct tug_kvstore *s)
{
    struct err first = {0};
    if (s->dist)
        TRY(kvs_dist_usable(s));
    for (size_t i = 0; i < s->entries.n && s->dist; i++)
        if (kvs_parts_settle(s, s->entries.list[i]) != 0 && first.code == 0)
            first = *last_error();
    return first.code != 0 ? last_error_is(&first) : 0;
}

int tug_kvstore_rounds(struct tug_kvstore *s, const struct tug_kvstore_key *key,
                       uint64_t *ret)
{
    struct kvs_entry *x;
    TRY(entry_of(s, key, &x, last_error()));
    if (!s->dist) {
        *ret = x->value->rounds;
        return 0;
    }
    TRY(kvs_dist_usable(s));
    return kvs_parts_rounds(s, x, ret);
}
