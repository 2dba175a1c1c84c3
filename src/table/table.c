// Batches of keys: find, create, erase.
//
// Most keys of a batch are found in blocks, by three steps; each step uses memory that
// the step before has prefetched: hash the keys and prefetch their lines; match tags and
// prefetch the rows; compare keys. The steps of three blocks alternate, so that loads are
// always in flight. The other keys (a tag matched by chance, the entry is not in its home
// line, the key is missing) are retried when there are enough of them. All this takes no
// lock and allocates nothing.
//
// Missing keys are created under locks: they are sorted by stripe, and each stripe is
// locked once. Under the lock its keys are searched again, because another thread or the
// same batch may have created them, and created if still missing.
//
// Only allocation can fail. A key that could not be created gets TABLE_NONE, and the row
// that was taken for it is kept in `spare` for the next key.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/table_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"

enum {
    CHUNK = 1024, // number of keys that are searched together, and then made rows for
                  // together
    BLOCK = 8,    // number of keys that take a step of the search together
    // Number of keys between two steps of a block, so that prefetched
    // memory has time to arrive.
    LAG = 24,
};

static_assert(CHUNK <= UINT16_MAX && LAG % BLOCK == 0, "which[] is 16 bits");

// The state of the search for a key of search.rest. `which` is the key's
// position in search.keys.
struct probe {
    const struct index_line *line; // the line that is being searched
    uint64_t match; // matching slots of the line that were not compared yet
    uint32_t which;
    uint8_t tag;
};

struct search {
    const struct table *t;
    const uint64_t *keys;
    uint32_t *handles; // the first candidates; in the end the results
    uint32_t n;
    uint32_t n_rest, n_missing;
    struct index_view view[TABLE_STRIPES];
    const struct index_line *line[CHUNK]; // each key's home line
    uint8_t tag[CHUNK];
    uint16_t rest[CHUNK];    // positions of keys whose first candidate was wrong
    uint16_t missing[CHUNK]; // positions of keys that were not found
    struct probe probe[CHUNK];
};

// Prefetches into the second-level cache, because a core can have more pending loads
// there than in the first-level cache (measured: 5.4 instead of 8.1 ns a line).
static void prefetch(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

static const uint64_t *row_start(struct table_slabs s, uint32_t handle)
{
    return (const uint64_t *)(const void *)table_row(s, handle) - 1;
}

static uint64_t row_key(struct table_slabs s, uint32_t handle)
{
    return __atomic_load_n(row_start(s, handle), __ATOMIC_RELAXED);
}

// The functions of the three steps are inlined with a constant number of keys, so that
// the compiler unrolls their loops.
#define ALWAYS_INLINE inline __attribute__((always_inline))

// The loops that prefetch do nothing else: while a prefetch waits for the
// translation of its address, the core can start only prefetches within the next few
// hundred instructions.
static ALWAYS_INLINE void prefetch_lines(struct search *x, uint32_t at, uint32_t n)
{
    uint32_t end = at + n;
    for (uint32_t i = at; i < end; i++) {
        uint64_t hash = mix64(x->keys[i]);
        const struct index_view *v = &x->view[hash >> (64 - TABLE_STRIPE_BITS)];
        x->tag[i] = index_tag(hash);
        x->line[i] = v->lines + index_home(v, hash);
    }
    for (uint32_t i = at; i < end; i++)
        prefetch(x->line[i]);
}

// Finds the first candidate of each key. A key without a candidate in its line continues
// in the next line, if its line has overflowed.
static ALWAYS_INLINE void match_tags(struct search *x, uint32_t at, uint32_t n)
{
    struct table_slabs slabs = x->t->view;
    const void *want[BLOCK];
    uint32_t end = at + n;
    for (uint32_t i = at; i < end; i++) {
        const struct index_line *line = x->line[i];
        uint64_t match = index_match(line, x->tag[i]);
        uint32_t handle = TABLE_NONE;
        if (match != 0)
            handle = index_handle(line, index_match_slot(match));
        x->handles[i] = handle;
        want[i - at] = line + 1;
        if (handle != TABLE_NONE)
            want[i - at] = row_start(slabs, handle);
    }
    for (uint32_t i = at; i < end; i++)
        prefetch(want[i - at]);
}

static ALWAYS_INLINE void compare_keys(struct search *x, uint32_t at, uint32_t n)
{
    struct table_slabs slabs = x->t->view;
    uint32_t end = at + n;
    uint32_t rest = x->n_rest;
    for (uint32_t i = at; i < end; i++) {
        uint32_t handle = x->handles[i];
        x->rest[rest] = (uint16_t)i;
        rest += handle == TABLE_NONE || row_key(slabs, handle) != x->keys[i];
    }
    x->n_rest = rest;
}

// Begins a key's search after its first candidate.
static struct probe begin_probe(struct search *x, uint32_t i)
{
    struct probe p = {.line = x->line[i], .which = i, .tag = x->tag[i]};
    p.match = index_match(p.line, p.tag);
    p.match &= p.match - 1;
    return p;
}

// Gets the next candidate of a key; TABLE_NONE if the search has moved on to another
// line, which must be prefetched first. Returns false if no candidates are left.
static bool next_candidate(struct probe *p, uint32_t *ret_handle)
{
    if (p->match == 0) {
        if (index_overflow(p->line) == 0)
            return false;
        p->line++;
        p->match = index_match(p->line, p->tag);
    }
    *ret_handle = TABLE_NONE;
    if (p->match != 0) {
        *ret_handle = index_handle(p->line, index_match_slot(p->match));
        p->match &= p->match - 1;
    }
    return true;
}

// Does one step of the search for each of the n keys that still have candidates, and
// prefetches the memory for the next step.
static uint32_t step_probes(struct search *x, uint32_t n)
{
    struct table_slabs slabs = x->t->view;
    uint32_t left = 0;
    for (uint32_t k = 0; k < n; k++) {
        struct probe p = x->probe[k];
        uint32_t handle = x->handles[p.which];
        if (handle != TABLE_NONE && row_key(slabs, handle) == x->keys[p.which])
            continue;
        bool more = next_candidate(&p, &handle);
        x->handles[p.which] = more ? handle : TABLE_NONE;
        if (!more) {
            x->missing[x->n_missing++] = (uint16_t)p.which;
            continue;
        }
        prefetch(handle != TABLE_NONE ? (const void *)row_start(slabs, handle)
                                      : p.line + 1);
        x->probe[left++] = p;
    }
    return left;
}

static uint32_t block_length(const struct search *x, uint32_t at)
{
    return x->n - at < BLOCK ? x->n - at : BLOCK;
}

// Does the three steps at the beginning and the end of a batch, where some of the
// three blocks have no keys.
static void search_edge(struct search *x, uint32_t at)
{
    if (at < x->n)
        prefetch_lines(x, at, block_length(x, at));
    if (at >= LAG && at - LAG < x->n)
        match_tags(x, at - LAG, block_length(x, at - LAG));
    if (at >= 2 * LAG)
        compare_keys(x, at - 2 * LAG, block_length(x, at - 2 * LAG));
}

// Searches at most CHUNK keys, without a lock.
static void search_run(struct search *x, const struct table *t, const uint64_t *keys,
                       uint32_t n, uint32_t *ret_handles)
{
    x->t = t;
    x->keys = keys;
    x->handles = ret_handles;
    x->n = n;
    x->n_rest = x->n_missing = 0;
    for (uint32_t i = 0; i < TABLE_STRIPES; i++)
        x->view[i] = index_view(&t->stripes[i].index);
    for (uint32_t at = 0; at < n + 2 * LAG; at += BLOCK) {
        if (at >= 2 * LAG && at + BLOCK <= n) {
            prefetch_lines(x, at, BLOCK);
            match_tags(x, at - LAG, BLOCK);
            compare_keys(x, at - 2 * LAG, BLOCK);
        } else {
            search_edge(x, at);
        }
    }
    for (uint32_t k = 0; k < x->n_rest; k++)
        x->probe[k] = begin_probe(x, x->rest[k]);
    for (uint32_t left = x->n_rest; left > 0;)
        left = step_probes(x, left);
}

static uint32_t chunk_length(size_t n, size_t at)
{
    return n - at < CHUNK ? (uint32_t)(n - at) : CHUNK;
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
    struct search x;
    for (size_t at = 0; at < n; at += CHUNK) {
        search_run(&x, t, keys + at, chunk_length(n, at), ret_handles + at);
        for (uint32_t k = 0; k < x.n_missing; k++) {
            size_t i = at + x.missing[k];
            uint64_t hash = mix64(keys[i]);
            struct stripe *s = table_stripe(t, hash);
            if (!index_still(&s->index, &x.view[s - t->stripes], hash))
                ret_handles[i] = find_locked(s, hash, keys[i]);
        }
    }
}

// The missing keys of a chunk, sorted by stripe.
struct selection {
    uint32_t begin[TABLE_STRIPES + 1]; // index in `which` at which each stripe's keys
                                       // begin
    uint16_t which[CHUNK];
};

static void select_keys(struct selection *x, const uint64_t *keys, const uint16_t *which,
                        uint32_t n)
{
    uint32_t at[TABLE_STRIPES] = {0};
    for (uint32_t k = 0; k < n; k++)
        at[mix64(keys[which[k]]) >> (64 - TABLE_STRIPE_BITS)]++;
    x->begin[0] = 0;
    for (uint32_t s = 0; s < TABLE_STRIPES; s++) {
        x->begin[s + 1] = x->begin[s] + at[s];
        at[s] = x->begin[s];
    }
    for (uint32_t k = 0; k < n; k++)
        x->which[at[mix64(keys[which[k]]) >> (64 - TABLE_STRIPE_BITS)]++] = which[k];
}

void table_random_columns(const struct table *t, uint64_t key, uint32_t column,
                          uint32_t n, float low, float high, float *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        float value = low + (high - low) * random_f32(t->random_seed, key, column + i);
        ret[i] = value < high ? value : low; // rounding may give `high`, which is outside
    }
}

void table_first_columns(const struct table *t, uint64_t key, uint32_t begin, uint32_t n,
                         float *ret)
{
    memset(ret, 0, n * sizeof(float));
    for (uint32_t i = 0; i < t->options.n_inits; i++) {
        const struct table_init *x = &t->options.inits[i];
        uint32_t first = x->begin > begin ? x->begin : begin,
                 end = x->begin + x->count < begin + n ? x->begin + x->count : begin + n;
        if (first < end)
            table_random_columns(t, key, first, end - first, x->low, x->high,
                                 ret + (first - begin));
    }
}

uint32_t table_handles(const struct table *t)
{
    return (uint32_t)slabs_end(&t->slabs);
}

bool table_is_live(const struct table *t, uint32_t handle)
{
    uint64_t word = atomic_load_explicit(&t->slabs.live[handle >> 6],
                                         memory_order_relaxed);
    return (word >> (handle & 63) & 1) != 0;
}

void table_first_values(const struct table *t, uint64_t key, float *ret_row)
{
    table_first_columns(t, key, 0, t->options.width, ret_row);
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

// Writes the key and the initial values of a new row. Readers find the row only when it
// is complete, because stores to the index have release order (index.h).
static void write_row(const struct table *t, uint32_t handle, uint64_t key, bool unset)
{
    float *row = table_row(t->view, handle);
    __atomic_store_n((uint64_t *)(void *)row - 1, key, __ATOMIC_RELAXED);
    if (!unset)
        table_first_values(t, key, row);
}

static int create(struct table *t, struct stripe *s, uint64_t key, bool unset,
                  uint32_t *ret_handle)
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
    write_row(t, handle, key, unset);
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
                            const uint16_t *which, uint32_t n, bool unset,
                            uint32_t *ret_handles)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    index_change_begin(&s->index);
    limbo_refresh(&s->limbo, &t->reclaim);
    for (uint32_t k = 0; k < n; k++) {
        int failed = create(t, s, keys[which[k]], unset, &ret_handles[which[k]]);
        rc = rc != 0 ? rc : failed;
    }
    index_change_end(&s->index);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

// Creates rows for some keys of a chunk.
static int create_some(struct table *t, const uint64_t *keys, const uint16_t *which,
                       uint32_t n, bool unset, uint32_t *ret_handles)
{
    struct selection x;
    int rc = 0;
    select_keys(&x, keys, which, n);
    for (uint32_t s = 0; s < TABLE_STRIPES; s++) {
        uint32_t count = x.begin[s + 1] - x.begin[s];
        if (count == 0)
            continue;
        int failed = create_in_stripe(t, &t->stripes[s], keys, &x.which[x.begin[s]],
                                      count, unset, ret_handles);
        rc = rc != 0 ? rc : failed;
    }
    return rc;
}

static int rows_chunk(struct table *t, const uint64_t *keys, uint32_t n,
                      uint32_t *ret_handles)
{
    struct search found;
    search_run(&found, t, keys, n, ret_handles);
    return found.n_missing == 0
               ? 0
               : create_some(t, keys, found.missing, found.n_missing, false, ret_handles);
}

int table_rows(struct table *t, const uint64_t *keys, size_t n, uint32_t *ret_handles)
{
    int rc = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        uint32_t len = chunk_length(n, at);
        int failed = rows_chunk(t, keys + at, len, ret_handles + at);
        rc = rc != 0 ? rc : failed;
    }
    return rc;
}

int table_rows_unset(struct table *t, const uint64_t *keys, size_t n,
                     uint32_t *ret_handles)
{
    uint16_t all[CHUNK];
    int rc = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        uint32_t len = chunk_length(n, at);
        for (uint32_t i = 0; i < len; i++) {
            all[i] = (uint16_t)i;
            ret_handles[at + i] = TABLE_NONE;
        }
        int failed = create_some(t, keys + at, all, len, true, ret_handles + at);
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

static size_t erase_chunk(struct table *t, const uint64_t *keys, uint32_t n)
{
    struct search found;
    struct selection x;
    uint32_t handles[CHUNK];
    uint16_t all[CHUNK];
    size_t gone = 0;
    // This search only loads the rows into the cache. The keys are looked up
    // again under the lock.
    search_run(&found, t, keys, n, handles);
    for (uint32_t i = 0; i < n; i++)
        all[i] = (uint16_t)i;
    select_keys(&x, keys, all, n);
    for (uint32_t s = 0; s < TABLE_STRIPES; s++)
        if (x.begin[s] < x.begin[s + 1])
            gone += erase_in_stripe(t, &t->stripes[s], keys, &x.which[x.begin[s]],
                                    x.begin[s + 1] - x.begin[s]);
    return gone;
}

size_t table_erase(struct table *t, const uint64_t *keys, size_t n)
{
    size_t gone = 0;
    for (size_t at = 0; at < n; at += CHUNK)
        gone += erase_chunk(t, keys + at, chunk_length(n, at));
    return gone;
}
