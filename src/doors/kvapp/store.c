// The default store, which adds up pushed values. Keys with the same, small number of
// values are rows of a table, which is searched in batches; each other key has an array
// of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "doors/kvapp/node.h"
#include "table/table.h"

enum {
    BATCH = 512,       // number of keys that are looked up together
    ROW_MAX = 1 << 12, // keys with more values get an array of their own
};

// A key with its own array.
struct array {
    uint64_t n;
    float *values;
};

struct tug_kv_default {
    uint32_t width;      // number of values of a row; 0: the table does not exist yet
    struct table *table; // the row of a key has the sums of its values
    struct table *index; // finds keys with arrays: a row has the number of the array
    struct array *arrays;
    uint32_t n_arrays, cap_arrays;
    double most; // an upper bound of the absolute values of all sums
};

static int open_table(struct table **ret, uint32_t width, struct err *e)
{
    struct table_options o = {
        .width = width, .partition_bits = ROSTER_PARTITION_BITS, .align = 8};
    return table_open(ret, &o, e);
}

int tug_kv_default_open(struct tug_kv_default **ret)
{
    struct tug_kv_default *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(last_error(), "a store");
    int rc = open_table(&s->index, 1, last_error());
    if (rc != 0)
        tug_kv_default_close(s);
    else
        *ret = s;
    return rc;
}

void tug_kv_default_close(struct tug_kv_default *s)
{
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->n_arrays; i++)
        mem_free(s->arrays[i].values);
    mem_free(s->arrays);
    table_close(s->index);
    table_close(s->table);
    mem_free(s);
}

size_t tug_kv_default_keys(const struct tug_kv_default *s)
{
    return s->n_arrays + (s->table != NULL ? table_stats(s->table).rows : 0);
}

// ---------------------------------------------------------------- rows of the table

static void prefetch_rows(const struct table_slabs slabs, const uint32_t *handles,
                          size_t n, uint32_t width)
{
    for (size_t i = 0; i < n; i++)
        if (handles[i] != TABLE_NONE)
            table_row_prefetch(table_row(slabs, handles[i]), width * sizeof(float));
}

static void kv_store_add(float *to, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += values[i];
}

static int add_rows(struct tug_kv_default *s, const uint64_t *keys, size_t n,
                    const float *values, struct err *e)
{
    uint32_t handles[BATCH];
    uint32_t width = s->width;
    if (table_rows(s->table, keys, n, handles) != 0)
        return err_nomem(e, "rows of the store");
    struct table_slabs slabs = table_slabs(s->table);
    prefetch_rows(slabs, handles, n, width);
    if (width == 1)
        for (size_t i = 0; i < n; i++)
            *table_row(slabs, handles[i]) += values[i];
    else
        for (size_t i = 0; i < n; i++)
            kv_store_add(table_row(slabs, handles[i]), values + i * width, width);
    return 0;
}

static void copy_rows(const struct tug_kv_default *s, const uint64_t *keys, size_t n,
                      float *ret)
{
    uint32_t handles[BATCH];
    uint32_t width = s->width;
    table_find(s->table, keys, n, handles);
    struct table_slabs slabs = table_slabs(s->table);
    prefetch_rows(slabs, handles, n, width);
    for (size_t i = 0; i < n; i++) {
        if (handles[i] == TABLE_NONE)
            memset(ret + i * width, 0, width * sizeof(*ret));
        else if (width == 1)
            ret[i] = *table_row(slabs, handles[i]);
        else
            memcpy(ret + i * width, table_row(slabs, handles[i]), width * sizeof(*ret));
    }
}

// ---------------------------------------------------------------- arrays

static struct array *array_find(const struct tug_kv_default *s, uint64_t key)
{
    uint32_t handle, number;
    table_find(s->index, &key, 1, &handle);
    if (handle == TABLE_NONE)
        return NULL;
    memcpy(&number, table_row(table_slabs(s->index), handle), sizeof(number));
    return &s->arrays[number];
}

static struct array *array_new(struct tug_kv_default *s, uint64_t key, size_t n)
{
    uint32_t handle, number = s->n_arrays;
    if (mem_room(&s->arrays, &s->cap_arrays, s->n_arrays + 1) != 0)
        return NULL;
    float *values = mem_zalloc((n > 0 ? n : 1) * sizeof(*values));
    if (values == NULL || table_rows(s->index, &key, 1, &handle) != 0) {
        mem_free(values);
        return NULL;
    }
    memcpy(table_row(table_slabs(s->index), handle), &number, sizeof(number));
    s->arrays[s->n_arrays++] = (struct array){.n = n, .values = values};
    return &s->arrays[number];
}

static float *kv_store_row_of(const struct tug_kv_default *s, uint64_t key)
{
    uint32_t handle = TABLE_NONE;
    if (s->table != NULL)
        table_find(s->table, &key, 1, &handle);
    return handle != TABLE_NONE ? table_row(table_slabs(s->table), handle) : NULL;
}

// Returns how many values a key has: as many as its own array, if it has one, else as many
// as a row of the table (also if the key was never pushed).
static size_t length_of(const struct tug_kv_default *s, uint64_t key)
{
    const struct array *a = array_find(s, key);
    if (a != NULL)
        return a->n;
    return s->width > 0 ? s->width : 1;
}

const float *tug_kv_default_find(const struct tug_kv_default *s, uint64_t key,
                                 size_t *ret_n)
{
    const struct array *a = array_find(s, key);
    *ret_n = a != NULL ? a->n : s->width;
    return a != NULL ? a->values : kv_store_row_of(s, key);
}

static bool is_there(const struct tug_kv_default *s, uint64_t key)
{
    return array_find(s, key) != NULL || kv_store_row_of(s, key) != NULL;
}

// ---------------------------------------------------------------- pushes

static size_t length_in(const struct tug_kv_data *d, size_t i)
{
    return d->lengths != NULL ? (size_t)d->lengths[i] : d->n_values / d->n_keys;
}

// Checks that each key has as many values as in its first push. Called before the push is
// applied, so that it is applied as a whole or not at all.
static int check_known(const struct tug_kv_default *s, const struct tug_kv_data *d,
                       struct err *e)
{
    for (size_t i = 0; i < d->n_keys; i++) {
        size_t n = length_in(d, i);
        if (is_there(s, d->keys[i]) && length_of(s, d->keys[i]) != n)
            return err_set(e, TUG_EUSAGE,
                           "key %llu is pushed with %zu values, but has %zu",
                           (unsigned long long)d->keys[i], n, length_of(s, d->keys[i]));
    }
    return 0;
}

// Checks, before a push is applied, that no sum will be infinite. Reads the sums only if
// the total of all pushed values is so large that one of them might be.
static int check_sums(struct tug_kv_default *s, const struct tug_kv_data *d,
                      struct err *e)
{
    double largest = 0;
    const float *values = d->values;
    for (size_t i = 0; i < d->n_values; i++)
        largest = fmax(largest, fabs((double)values[i]));
    if (s->most + largest < (double)FLT_MAX) {
        s->most += largest;
        return 0;
    }
    for (size_t i = 0; i < d->n_keys; i++) {
        size_t n = length_in(d, i), has;
        const float *row = tug_kv_default_find(s, d->keys[i], &has);
        for (size_t j = 0; j < n && row != NULL; j++)
            if (!isfinite(row[j] + values[j]))
                return err_set(e, TUG_EUSAGE,
                               "key %llu: value %zu would become infinite, so the push "
                               "was refused as a whole",
                               (unsigned long long)d->keys[i], j);
        values += n;
    }
    s->most = (double)FLT_MAX; // from now on each push reads the sums
    return 0;
}

// Adds a push key by key; each key has an array of its own.
static int push_keys(struct tug_kv_default *s, const struct tug_kv_data *d, struct err *e)
{
    const float *values = d->values;
    for (size_t i = 0; i < d->n_keys; i++) {
        size_t n = length_in(d, i);
        float *row = kv_store_row_of(s, d->keys[i]);
        if (row == NULL) {
            struct array *a = array_find(s, d->keys[i]);
            if (a == NULL)
                a = array_new(s, d->keys[i], n);
            if (a == NULL)
                return err_nomem(e, "an array of the store");
            row = a->values;
        }
        kv_store_add(row, values, n);
        values += n;
    }
    return 0;
}

static int push(struct tug_kv_default *s, const struct tug_kv_data *d, struct err *e)
{
    if (d->n_keys == 0)
        return 0;
    if (!finite_floats(d->values, d->n_values))
        return err_set(e, TUG_EUSAGE, "a pushed value is not a finite number");
    size_t each = d->n_values / d->n_keys;
    if (each == 0 && d->lengths == NULL) // the keys have no values
        return check_known(s, d, e);
    if (d->lengths != NULL || each != s->width || s->n_arrays > 0)
        TRY(check_known(s, d, e)); // checked before check_sums, which needs equal lengths
    TRY(check_sums(s, d, e));
    if (d->lengths == NULL && s->width == 0 && each > 0 && each <= ROW_MAX) {
        TRY(open_table(&s->table, (uint32_t)each, e));
        s->width = (uint32_t)each;
    }
    if (d->lengths != NULL || each != s->width || s->n_arrays > 0)
        return push_keys(s, d, e);
    for (size_t i = 0; i < d->n_keys; i += BATCH) {
        size_t n = d->n_keys - i < BATCH ? d->n_keys - i : BATCH;
        TRY(add_rows(s, d->keys + i, n, d->values + i * each, e));
    }
    return 0;
}

// These functions answer pulls. An answer is one block of memory with the values and then
// the lengths.

static int kv_default_pull_rows(struct tug_kv_default *s, const struct tug_kv_data *d,
                                struct tug_kv_data *ret)
{
    float *values = mem_array(ret->n_values, sizeof(*values));
    ret->values = values;
    if (values == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < d->n_keys; i += BATCH) {
        size_t n = d->n_keys - i < BATCH ? d->n_keys - i : BATCH;
        copy_rows(s, d->keys + i, n, values + i * s->width);
    }
    return 0;
}

static int pull_keys(struct tug_kv_default *s, const struct tug_kv_data *d,
                     struct tug_kv_data *ret)
{
    size_t first = length_of(s, d->keys[0]);
    bool same = true;
    float *values = mem_array(ret->n_values + d->n_keys, sizeof(*values));
    if (values == NULL)
        return TUG_ENOMEM;
    int32_t *lengths = (int32_t *)(values + ret->n_values);
    ret->values = values;
    for (size_t i = 0; i < d->n_keys; i++) {
        size_t n = length_of(s, d->keys[i]), has;
        const float *row = tug_kv_default_find(s, d->keys[i], &has);
        lengths[i] = (int32_t)n;
        same &= n == first;
        if (row != NULL)
            memcpy(values, row, n * sizeof(*values));
        else
            memset(values, 0, n * sizeof(*values));
        values += n;
    }
    ret->lengths = same ? NULL : lengths;
    return 0;
}

// Makes the answer to a pull. Its size is computed before memory is allocated, because short
// requests may ask for many values.
static int pull(struct tug_kv_default *s, const struct tug_kv_data *d, uint64_t most,
                struct tug_kv_data *ret, struct err *e)
{
    ret->n_keys = d->n_keys;
    if (d->n_keys == 0)
        return 0;
    if (s->n_arrays == 0)
        ret->n_values = d->n_keys * (s->width > 0 ? s->width : 1);
    for (size_t i = 0; i < d->n_keys && s->n_arrays > 0; i++)
        ret->n_values += length_of(s, d->keys[i]);
    if (ret->n_values > most / sizeof(float))
        return err_set(e, TUG_EUSAGE,
                       "the %zu keys have %zu values here, more than the %llu that this "
                       "server sends in one answer: pull fewer keys at a time",
                       d->n_keys, ret->n_values,
                       (unsigned long long)(most / sizeof(float)));
    int rc = s->table != NULL && s->n_arrays == 0 ? kv_default_pull_rows(s, d, ret)
                                                  : pull_keys(s, d, ret);
    return rc != 0 ? err_nomem(e, "the answer to a pull") : 0;
}

void tug_kv_default_handle(void *ctx, struct tug_app *a, const struct tug_kv_meta *m,
                           const struct tug_kv_data *d)
{
    struct tug_kv_default *s = ctx;
    struct tug_kv_data answer = {0};
    struct err e = {0};
    int rc = d->value_bytes != 0
                 ? err_set(&e, TUG_EUSAGE, "the default store holds floats only")
                 : kv_check_keys(d,
                                 &e); // clients check the keys before, but may be faulty
    if (rc == 0 && m->push)
        rc = push(s, d, &e);
    if (rc == 0 && m->pull)
        rc = pull(s, d, kv_answer_most(a->node), &answer, &e);
    if (rc != 0)
        (void)tug_app_refuse(a, m->ticket, rc, e.text);
    else // errors are ignored: the node that sent the request may have left
        (void)tug_kv_answer(a, m->ticket, &answer, mem_free, (void *)answer.values);
}
