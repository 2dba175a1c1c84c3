// Threads that update the rows of a store in place: see store_steps.h.
//
// There are two kinds of locks, taken in this order. A partition's lock protects its
// entry policy, its rows' statistics and its counts. The lock for making rows protects
// the table, lists, extra rows and the counts of the whole store. A batch whose keys all
// have rows takes only the first.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store_steps.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "store/store_internal.h"

struct part_lock {
    _Alignas(64) pthread_mutex_t lock;
};

struct store_steps {
    struct store *store;
    struct part_lock *parts;
    pthread_mutex_t making;
};

struct store_stepper {
    struct store_steps *steps;
    struct table_reader *reader;
    // Scratch: the arrivals that have no row yet, or that have just earned an extra row.
    size_t cap;
    uint64_t *keys;
    uint32_t *which, *handles;
};

int store_steps_open(struct store_steps **ret, struct store *s, store_removed_fn removed,
                     void *ctx, struct err *e)
{
    assert(s->cold == NULL && s->cut == NULL && s->admin_at == s->n_parts);
    struct store_steps *x = mem_zalloc(sizeof(*x));
    *ret = x;
    if (x == NULL)
        return err_nomem(e, "a table's threads");
    x->store = s;
    x->parts = mem_aligned(64, s->n_parts * sizeof(*x->parts));
    if (x->parts == NULL) {
        mem_free(x);
        *ret = NULL;
        return err_nomem(e, "a table's threads");
    }
    for (uint32_t p = 0; p < s->n_parts; p++)
        pthread_mutex_init(&x->parts[p].lock, NULL);
    pthread_mutex_init(&x->making, NULL);
    s->removed = removed;
    s->removed_ctx = ctx;
    s->steps = true;
    // The size of numbers in rows is not tracked while threads change rows.
    s->wild = true;
    return 0;
}

void store_steps_close(struct store_steps *x)
{
    if (x == NULL)
        return;
    x->store->removed = NULL;
    x->store->steps = false;
    for (uint32_t p = 0; p < x->store->n_parts; p++)
        pthread_mutex_destroy(&x->parts[p].lock);
    pthread_mutex_destroy(&x->making);
    mem_free(x->parts);
    mem_free(x);
}

int store_stepper_open(struct store_stepper **ret, struct store_steps *x, struct err *e)
{
    struct store_stepper *t = mem_zalloc(sizeof(*t));
    *ret = t;
    if (t == NULL)
        return err_nomem(e, "a table's threads");
    t->steps = x;
    int rc = table_reader_open(&t->reader, x->store->rows, e);
    if (rc != 0) {
        mem_free(t);
        *ret = NULL;
    }
    return rc;
}

void store_stepper_close(struct store_stepper *t)
{
    if (t == NULL)
        return;
    table_reader_close(t->reader);
    mem_free(t->keys);
    mem_free(t);
}

void store_stepper_pin(struct store_stepper *t)
{
    table_pin(t->reader);
}

void store_stepper_unpin(struct store_stepper *t)
{
    table_unpin(t->reader);
}

void store_steps_lock(struct store_steps *x, uint32_t partition)
{
    assert(partition < x->store->n_parts);
    pthread_mutex_lock(&x->parts[partition].lock);
}

void store_steps_unlock(struct store_steps *x, uint32_t partition)
{
    pthread_mutex_unlock(&x->parts[partition].lock);
}

struct store_views store_steps_views(const struct store_steps *x)
{
    struct store_views v = {.rows = x->store->view};
    if (x->store->accessor.extra_width > 0)
        v.extras = x->store->extra_view;
    return v;
}

static int store_steps_reserve(struct store_stepper *t, size_t n)
{
    if (n <= t->cap)
        return 0;
    size_t cap = n + n / 2 + 64;
    uint64_t *keys = mem_array(cap, sizeof(*keys) + 2 * sizeof(*t->which));
    if (keys == NULL)
        return TUG_ENOMEM;
    mem_free(t->keys);
    t->cap = cap;
    t->keys = keys;
    t->which = (uint32_t *)(void *)(keys + cap);
    t->handles = t->which + cap;
    return 0;
}

static int begin_entry(struct store *s, uint32_t p, size_t *ret_bytes, struct err *e)
{
    struct store_part *part = &s->parts[p];
    *ret_bytes = 0;
    if (part->entry == NULL)
        return entry_open(&part->entry, &s->entry, e);
    *ret_bytes = entry_bytes(part->entry);
    return 0;
}

// Moves the listed keys that the entry policy admits to the front of the lists, and
// sets *n to their number.
static int admit(struct store_stepper *t, const struct store_arriving *w,
                 const struct store_arrival *a, size_t *n, struct err *e)
{
    struct store *s = t->steps->store;
    size_t kept = 0, before;
    assert(*n <= t->cap);
    bool again = w->again && !s->config.count_all;
    TRY(begin_entry(s, w->partition, &before, e));
    struct entry *entry = s->parts[w->partition].entry;
    for (size_t k = 0; k < *n; k++) {
        const struct store_arrival *x = &a[t->which[k]];
        if (!(again ? entry_again(entry, x->key)
                    : entry_admit(entry, x->key, x->show, x->click)))
            continue;
        t->keys[kept] = x->key;
        t->which[kept++] = t->which[k];
    }
    pthread_mutex_lock(&t->steps->making);
    s->entry_bytes += entry_bytes(entry) - before;
    s->stats.refused += *n - kept;
    pthread_mutex_unlock(&t->steps->making);
    *n = kept;
    return 0;
}

// Makes rows for the n listed arrivals, and sets their handles.
static int store_steps_make(struct store_stepper *t, const struct store_arriving *w,
                            struct store_arrival *a, size_t n, struct err *e)
{
    struct store *s = t->steps->store;
    pthread_mutex_lock(&t->steps->making);
    int rc = store_make_rows(s, w->partition, t->keys, n, t->handles, e);
    pthread_mutex_unlock(&t->steps->making);
    TRY(rc);
    for (size_t k = 0; k < n; k++)
        a[t->which[k]].handle = t->handles[k];
    for (size_t k = 0; k < n && s->begins_whole; k++)
        a[t->which[k]].extra = accessor_extra(&s->accessor,
                                              store_row_at(s, t->handles[k]));
    return 0;
}

static int make_missing(struct store_stepper *t, const struct store_arriving *w,
                        struct store_arrival *a, size_t n, struct err *e)
{
    size_t missing = 0;
    for (size_t i = 0; i < n; i++) {
        if (a[i].handle != TABLE_NONE)
            continue;
        t->keys[missing] = a[i].key;
        t->which[missing++] = (uint32_t)i;
    }
    if (missing > 0 && t->steps->store->admits)
        TRY(admit(t, w, a, &missing, e));
    return missing > 0 ? store_steps_make(t, w, a, missing, e) : 0;
}

// Adds the statistics of arrivals to their rows, and lists the arrivals whose rows have
// earned their extra row.
static size_t see(struct store_stepper *t, const struct store_arriving *w,
                  const struct store_arrival *a, size_t n)
{
    const struct store *s = t->steps->store;
    const struct accessor *x = &s->accessor;
    struct life_time now = {.day = s->parts[w->partition].day, .step = w->step};
    bool again = w->again && !s->config.count_all;
    bool earns = x->extra_width > 0 && s->life->earned != NULL;
    size_t earned = 0;
    for (size_t i = 0; i < n; i++) {
        if (a[i].handle == TABLE_NONE)
            continue;
        float *row = store_row_at(s, a[i].handle);
        // The thread was pinned before it read the handle, so the handle still has the
        // row of this partition.
        assert(store_partition(s, table_row_key(row)) == w->partition);
        const float stats[] = {a[i].show, a[i].click, a[i].slot};
        if (s->life->seen != NULL)
            (void)s->life->seen(x, row, stats, again, now);
        if (earns && a[i].extra == TABLE_NONE && s->life->earned(x, row))
            t->which[earned++] = (uint32_t)i;
    }
    return earned;
}

static int make_extras(struct store_stepper *t, struct store_arrival *a, size_t n,
                       struct err *e)
{
    struct store *s = t->steps->store;
    pthread_mutex_lock(&t->steps->making);
    int rc = store_reserve_extras(s, n);
    for (size_t k = 0; k < n && rc == 0; k++) {
        struct store_arrival *x = &a[t->which[k]];
        float *row = store_row_at(s, x->handle);
        (void)store_make_extra(s, row);
        uint32_t extra = accessor_extra(&s->accessor, row);
        assert(extra != TABLE_NONE); // memory for the extra row was reserved
        if (!s->accessor.life.embedx_late)
            x->extra = extra;
    }
    pthread_mutex_unlock(&t->steps->making);
    return rc == 0 ? 0 : err_nomem(e, "rows of a table");
}

int store_arrive(struct store_stepper *t, const struct store_arriving *w,
                 struct store_arrival *a, size_t n, struct err *e)
{
    bool missing = false;
    assert(w->partition < t->steps->store->n_parts);
    if (store_steps_reserve(t, n) != 0)
        return err_nomem(e, "a batch of keys");
    for (size_t i = 0; i < n; i++)
        missing |= a[i].handle == TABLE_NONE;
    if (missing)
        TRY(make_missing(t, w, a, n, e));
    size_t earned = see(t, w, a, n);
    return earned > 0 ? make_extras(t, a, earned, e) : 0;
}

// If rows beyond the budget cannot be removed now, a later call removes
// them, as in store_push.
void store_arrived(struct store_stepper *t, uint32_t partition)
{
    struct store *s = t->steps->store;
    if (store_over_budget(s, s->parts[partition].live) == 0)
        return;
    pthread_mutex_lock(&t->steps->making);
    (void)store_keep_budget(s, partition, NULL);
    pthread_mutex_unlock(&t->steps->making);
}

int store_steps_find(struct store_steps *x, const uint64_t *keys, size_t n,
                     uint32_t *ret_handles, uint32_t *ret_extras, struct err *e)
{
    struct store *s = x->store;
    table_find(s->rows, keys, n, ret_handles);
    for (size_t i = 0; i < n; i++) {
        ret_extras[i] = TABLE_NONE;
        if (ret_handles[i] == TABLE_NONE)
            continue;
        TRY(store_note(s, store_partition_of(s, keys[i]), &ret_handles[i], 1, e));
        if (s->accessor.extra_width > 0)
            ret_extras[i] = accessor_extra(&s->accessor, store_row_at(s, ret_handles[i]));
    }
    return 0;
}

void store_steps_expect(struct store_steps *x, const uint64_t *keys)
{
    const struct store *s = x->store;
    if (!s->admits && s->config.budget_rows == 0)
        table_reserve(s->rows, keys, s->o.partition_bits);
}

float *store_steps_row(struct store *s, uint64_t key)
{
    uint32_t handle;
    table_find(s->rows, &key, 1, &handle);
    return handle == TABLE_NONE ? NULL : store_row_at(s, handle);
}
