// Batches of keys: find, create, erase.
//
// The happy path of a batch: groups of keys go through three loops, each of which touches
// memory that the one before has asked for: hash the keys and prefetch their lines; match
// tags and prefetch the rows; compare keys. What is left (a tag that matched by
// chance, an entry behind its home line, a missing key) goes round again in a smaller
// group. No lock, no allocation.
//
// What is missing is settled under the locks: sorted by stripe, each stripe locked once,
// searched again (another thread, or the same batch, may have created the key), created.
//
// Failures: only memory can fail. A key that could not be created has TABLE_NONE; the row
// taken for it waits in `spare`.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/table_internal.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"

enum {
    GROUP = 128,  // keys in flight: more than a core has outstanding loads
    CHUNK = 1024, // keys between two rounds of locks
};

static_assert(CHUNK % GROUP == 0 && CHUNK <= UINT16_MAX, "which[] is 16 bits");

struct group {
    struct index_view view[TABLE_STRIPES];
    uint64_t hash[GROUP];
    const struct index_line *line[GROUP]; // the one being searched
    uint64_t match[GROUP];                // its slots not looked at yet
    uint16_t rest[GROUP];                 // keys not found yet
    uint32_t n_rest;
};

static uint64_t row_key(struct table_slabs s, uint32_t handle)
{
    return table_row_key(table_row(s, handle));
}

static void prefetch_row(struct table_slabs s, uint32_t handle)
{
    __builtin_prefetch(table_row(s, handle) - 2);
}

static void prefetch_lines(struct group *g, const uint64_t *keys, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = mix64(keys[i]);
        const struct index_view *v = &g->view[hash >> (64 - TABLE_STRIPE_BITS)];
        g->hash[i] = hash;
        g->line[i] = v->lines + index_home(v, hash);
        __builtin_prefetch(g->line[i]);
    }
}

// The first candidates; ret_handles[i] is the row whose key has to be compared.
static void match_tags(struct table_slabs s, struct group *g, uint32_t n,
                       uint32_t *ret_handles)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct index_line *line = g->line[i];
        uint64_t match = index_match(line, index_tag(g->hash[i]));
        uint32_t handle = TABLE_NONE;
        if (match != 0) {
            handle = index_handle(line, index_match_slot(match));
            match &= match - 1;
        }
        g->match[i] = match;
        ret_handles[i] = handle;
        if (handle != TABLE_NONE)
            prefetch_row(s, handle);
        else if (index_overflow(line) > 0)
            __builtin_prefetch(line + 1);
    }
}

static void compare_keys(struct table_slabs s, struct group *g, const uint64_t *keys,
                         uint32_t n, const uint32_t *handles)
{
    g->n_rest = 0;
    for (uint32_t i = 0; i < n; i++)
        if (handles[i] == TABLE_NONE || row_key(s, handles[i]) != keys[i])
            g->rest[g->n_rest++] = (uint16_t)i;
}

// The next candidate of key i: in its line, or in the lines behind. False: there is none.
static bool next_candidate(struct group *g, uint32_t i, uint32_t *ret_handle)
{
    for (;;) {
        while (g->match[i] == 0) {
            if (index_overflow(g->line[i]) == 0)
                return false;
            g->line[i]++;
            g->match[i] = index_match(g->line[i], index_tag(g->hash[i]));
        }
        *ret_handle = index_handle(g->line[i], index_match_slot(g->match[i]));
        g->match[i] &= g->match[i] - 1;
        if (*ret_handle != TABLE_NONE)
            return true;
    }
}

// Goes on with the keys in g->rest until each is found or missing; the missing ones are
// left there, in order.
static void find_rest(struct table_slabs s, struct group *g, const uint64_t *keys,
                      uint32_t *ret_handles)
{
    uint16_t missing[GROUP];
    uint32_t n_missing = 0;
    while (g->n_rest > 0) {
        uint32_t n = 0;
        for (uint32_t k = 0; k < g->n_rest; k++) {
            uint16_t i = g->rest[k];
            if (next_candidate(g, i, &ret_handles[i])) {
                prefetch_row(s, ret_handles[i]);
                g->rest[n++] = i;
            } else {
                ret_handles[i] = TABLE_NONE;
                missing[n_missing++] = i;
            }
        }
        g->n_rest = 0;
        for (uint32_t k = 0; k < n; k++) {
            uint16_t i = g->rest[k];
            if (row_key(s, ret_handles[i]) != keys[i])
                g->rest[g->n_rest++] = i;
        }
    }
    memcpy(g->rest, missing, n_missing * sizeof(missing[0]));
    g->n_rest = n_missing;
}

// At most GROUP keys. The missing ones are in g->rest.
static void find_group(const struct table *t, struct group *g, const uint64_t *keys,
                       uint32_t n, uint32_t *ret_handles)
{
    for (uint32_t i = 0; i < TABLE_STRIPES; i++)
        g->view[i] = index_view(&t->stripes[i].index);
    prefetch_lines(g, keys, n);
    match_tags(t->view, g, n, ret_handles);
    compare_keys(t->view, g, keys, n, ret_handles);
    if (g->n_rest > 0)
        find_rest(t->view, g, keys, ret_handles);
}

static uint32_t find_locked(struct stripe *s, uint64_t hash, uint64_t key)
{
    struct index_place place;
    pthread_mutex_lock(&s->lock);
    bool found = index_search(&s->index, hash, key, &place);
    pthread_mutex_unlock(&s->lock);
    return found ? place.handle : TABLE_NONE;
}

void table_find(struct table *t, const uint64_t *keys, size_t n, uint32_t *ret_handles)
{
    struct group g;
    for (size_t at = 0; at < n; at += GROUP) {
        uint32_t len = n - at < GROUP ? (uint32_t)(n - at) : GROUP;
        find_group(t, &g, keys + at, len, ret_handles + at);
        for (uint32_t k = 0; k < g.n_rest; k++) {
            uint32_t i = g.rest[k];
            struct stripe *s = table_stripe(t, g.hash[i]);
            if (!index_still(&s->index, &g.view[s - t->stripes], g.hash[i]))
                ret_handles[at + i] = find_locked(s, g.hash[i], keys[at + i]);
        }
    }
}

// Some keys of a chunk, sorted by stripe.
struct selection {
    uint32_t n;
    uint16_t which[CHUNK];
    uint16_t sorted[CHUNK];
    uint32_t begin[TABLE_STRIPES + 1]; // of each stripe in sorted
};

static void sort_by_stripe(struct selection *x, const uint64_t *keys)
{
    uint32_t at[TABLE_STRIPES] = {0};
    for (uint32_t k = 0; k < x->n; k++)
        at[mix64(keys[x->which[k]]) >> (64 - TABLE_STRIPE_BITS)]++;
    uint32_t sum = 0;
    for (uint32_t s = 0; s < TABLE_STRIPES; s++) {
        x->begin[s] = sum;
        sum += at[s];
        at[s] = x->begin[s];
    }
    x->begin[TABLE_STRIPES] = sum;
    for (uint32_t k = 0; k < x->n; k++)
        x->sorted[at[mix64(keys[x->which[k]]) >> (64 - TABLE_STRIPE_BITS)]++] =
            x->which[k];
}

// Finds a chunk without locks and selects the keys that are there, or those that are not.
static void find_chunk(const struct table *t, const uint64_t *keys, uint32_t n,
                       bool want_missing, uint32_t *ret_handles, struct selection *ret)
{
    struct group g;
    ret->n = 0;
    for (uint32_t at = 0; at < n; at += GROUP) {
        uint32_t len = n - at < GROUP ? n - at : GROUP;
        find_group(t, &g, keys + at, len, ret_handles + at);
        if (want_missing)
            for (uint32_t k = 0; k < g.n_rest; k++)
                ret->which[ret->n++] = (uint16_t)(at + g.rest[k]);
    }
    for (uint32_t i = 0; i < n && !want_missing; i++)
        ret->which[ret->n++] = (uint16_t)i;
    sort_by_stripe(ret, keys);
}

void table_first_values(const struct table *t, uint64_t key, float *ret_row)
{
    const struct table_options *o = &t->options;
    memset(ret_row, 0, o->width * sizeof(float));
    for (uint32_t i = 0; i < o->n_inits; i++) {
        const struct table_init *x = &o->inits[i];
        for (uint32_t c = x->begin; c < x->begin + x->count; c++) {
            float value = x->low +
                          (x->high - x->low) * random_f32(t->random_seed, key, c);
            ret_row[c] = value < x->high ? value : x->low; // rounding may reach high
        }
    }
}

static uint32_t take_row(struct table *t, struct stripe *s)
{
    uint32_t handle = s->spare;
    s->spare = TABLE_NONE;
    if (handle == TABLE_NONE)
        handle = limbo_pop(&s->limbo);
    if (handle != TABLE_NONE)
        return handle;
    if (s->next == s->end) {
        uint32_t first;
        if (slabs_take(&t->slabs, &first) != 0)
            return TABLE_NONE;
        s->next = first;
        s->end = first + t->slabs.chunk_rows;
    }
    return s->next++;
}

// The row is complete before the index shows it (index.h: stores are releases).
static void write_row(const struct table *t, uint32_t handle, uint64_t key)
{
    float *row = table_row(t->view, handle);
    __atomic_store_n((uint64_t *)(void *)row - 1, key, __ATOMIC_RELAXED);
    table_first_values(t, key, row);
}

static int create(struct table *t, struct stripe *s, uint64_t key, uint32_t *ret_handle)
{
    uint64_t hash = mix64(key);
    struct index_place place;
    if (index_search(&s->index, hash, key, &place)) {
        *ret_handle = place.handle;
        return 0;
    }
    uint32_t handle = take_row(t, s);
    if (handle == TABLE_NONE)
        return TUG_ENOMEM;
    write_row(t, handle, key);
    if (index_insert(&s->index, hash, handle) != 0) {
        s->spare = handle;
        return TUG_ENOMEM;
    }
    slabs_set_live(&t->slabs, handle);
    s->inserts++;
    *ret_handle = handle;
    return 0;
}

static int create_in_stripe(struct table *t, struct stripe *s, const uint64_t *keys,
                            const uint16_t *which, uint32_t n, uint32_t *ret_handles)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    index_change_begin(&s->index);
    limbo_refresh(&s->limbo, &t->reclaim);
    for (uint32_t k = 0; k < n; k++) {
        int failed = create(t, s, keys[which[k]], &ret_handles[which[k]]);
        rc = rc != 0 ? rc : failed;
    }
    index_change_end(&s->index);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

static int rows_chunk(struct table *t, const uint64_t *keys, uint32_t n,
                      uint32_t *ret_handles)
{
    struct selection x;
    int rc = 0;
    find_chunk(t, keys, n, true, ret_handles, &x);
    for (uint32_t s = 0; s < TABLE_STRIPES; s++) {
        uint32_t begin = x.begin[s];
        uint32_t count = x.begin[s + 1] - begin;
        if (count == 0)
            continue;
        int failed = create_in_stripe(t, &t->stripes[s], keys, &x.sorted[begin], count,
                                      ret_handles);
        rc = rc != 0 ? rc : failed;
    }
    return rc;
}

int table_rows(struct table *t, const uint64_t *keys, size_t n, uint32_t *ret_handles)
{
    int rc = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        uint32_t len = n - at < CHUNK ? (uint32_t)(n - at) : CHUNK;
        int failed = rows_chunk(t, keys + at, len, ret_handles + at);
        rc = rc != 0 ? rc : failed;
    }
    return rc;
}

static uint32_t erase_in_stripe(struct table *t, struct stripe *s, const uint64_t *keys,
                                const uint16_t *which, uint32_t n)
{
    uint32_t gone[CHUNK];
    uint32_t n_gone = 0;
    pthread_mutex_lock(&s->lock);
    index_change_begin(&s->index);
    for (uint32_t k = 0; k < n; k++) {
        uint64_t hash = mix64(keys[which[k]]);
        struct index_place place;
        if (!index_search(&s->index, hash, keys[which[k]], &place))
            continue;
        index_erase(&s->index, hash, &place);
        slabs_clear_live(&t->slabs, place.handle);
        gone[n_gone++] = place.handle;
    }
    if (n_gone > 0) {
        uint64_t stamp = reclaim_stamp(&t->reclaim);
        for (uint32_t k = 0; k < n_gone; k++)
            limbo_push(&s->limbo, gone[k], stamp);
    }
    s->erases += n_gone;
    index_change_end(&s->index);
    pthread_mutex_unlock(&s->lock);
    return n_gone;
}

// The lock-free find only warms the caches: whether a key is there is decided under the
// lock.
size_t table_erase(struct table *t, const uint64_t *keys, size_t n)
{
    struct selection x;
    uint32_t handles[CHUNK];
    size_t gone = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        uint32_t len = n - at < CHUNK ? (uint32_t)(n - at) : CHUNK;
        find_chunk(t, keys + at, len, false, handles, &x);
        for (uint32_t s = 0; s < TABLE_STRIPES; s++)
            if (x.begin[s] < x.begin[s + 1])
                gone += erase_in_stripe(t, &t->stripes[s], keys + at,
                                        &x.sorted[x.begin[s]],
                                        x.begin[s + 1] - x.begin[s]);
    }
    return gone;
}
