// Changes of an index: insert, erase, and growth in place, all under the stripe's lock.
// index.h has the invariants and a drawing.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/index.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"

enum {
    TAIL_LINES = 16, // initial number of lines after the last home line
    ROWS_AHEAD = 3,  // number of lines ahead of a visit for which rows are prefetched
    LINES_AHEAD = 8,
    RISE_BITS = 16,
};

// Most bytes of addresses that an index reserves. They are fewer under sanitizers, which
// need shadow memory for all mapped addresses.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RESERVE_MAX ((uint64_t)64 << 20)
#else
#define RESERVE_MAX ((uint64_t)16 << 30) // enough for TABLE_MAX_ROWS rows in one stripe
#endif
#define RESERVE_MIN ((uint64_t)4 << 20)

enum {
    INDEXES = 4 * 16, // assumed number of indexes in a process: tables times stripes
    SHARE = 4,        // all indexes together take 1/4 of the addresses, if these are
                      // limited
};

// Returns the most bytes of addresses that the index of a stripe reserves: a quarter of
// the memory's size, because addresses cost nothing. If the process has a limit on
// addresses (ulimit -v), all indexes together reserve a quarter of the limit, in equal
// parts, which leaves most addresses for rows and data.
static uint64_t most_addresses(void)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes = memory / 4 < RESERVE_MAX ? memory / 4 : RESERVE_MAX;
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        space.rlim_cur / (INDEXES * SHARE) < bytes)
        bytes = space.rlim_cur / (INDEXES * SHARE);
    return bytes > RESERVE_MIN ? bytes : RESERVE_MIN;
}

static bool are_free(uint64_t bytes)
{
    void *p = mem_reserve(bytes);
    mem_unmap(p, bytes);
    return p != NULL;
}

// Reserves addresses for an index. Returns their number in bytes; 0 on failure.
// Under emulators and valgrind, addresses may run out even without a limit, and an
// index that took all of them would leave none for rows and answers. So an index
// reserves its full size only if SHARE times that size is free, and otherwise
// 1/SHARE of the free addresses.
static uint64_t index_reserve_addresses(void **ret)
{
    uint64_t bytes = most_addresses(), room = SHARE * bytes;
    while (room > RESERVE_MIN && !are_free(room))
        room /= 2;
    if (room < SHARE * bytes)
        bytes = room / (INDEXES * SHARE);
    if (bytes < RESERVE_MIN)
        bytes = RESERVE_MIN;
    *ret = mem_reserve(bytes);
    return *ret != NULL ? bytes : 0;
}

// Commits memory so that lines [0, end) can be used.
static int extend(struct index *ix, uint64_t end)
{
    uint64_t bytes = end * sizeof(struct index_line);
    if (bytes > ix->reserved || !mem_commit(ix->lines, ix->committed, bytes))
        return TUG_ENOMEM;
    if (bytes > ix->committed)
        ix->committed = bytes;
    ix->end = ix->committed / sizeof(struct index_line);
    return 0;
}

static void set_mapping(struct index *ix, uint64_t n, uint64_t m, uint64_t frontier)
{
    atomic_store_explicit(&ix->n, n, memory_order_release);
    atomic_store_explicit(&ix->m, m, memory_order_release);
    atomic_store_explicit(&ix->frontier, frontier, memory_order_release);
}

static uint64_t index_get(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

int index_open(struct index *ix, uint64_t lines, const struct table_slabs *slabs)
{
    void *p;
    memset(ix, 0, sizeof(*ix));
    ix->reserved = index_reserve_addresses(&p);
    ix->lines = p;
    ix->slabs = slabs;
    if (p == NULL)
        return TUG_ENOMEM;
    set_mapping(ix, lines, lines, lines);
    return extend(ix, lines + TAIL_LINES);
}

void index_close(struct index *ix)
{
    if (ix->lines != NULL)
        mem_unmap(ix->lines, ix->reserved);
    ix->lines = NULL;
}

void index_change_begin(struct index *ix)
{
    atomic_store_explicit(&ix->seq, index_get(&ix->seq) + 1, memory_order_relaxed);
}

void index_change_end(struct index *ix)
{
    atomic_store_explicit(&ix->seq, index_get(&ix->seq) + 1, memory_order_release);
}

static void add_overflow(struct index_line *line, int64_t change)
{
    uint64_t tags = index_get(&line->tags[1]) + ((uint64_t)change << 32);
    atomic_store_explicit(&line->tags[1], tags, memory_order_release);
}

static void set_slot(struct index_line *line, uint32_t slot, uint8_t tag, uint32_t word)
{
    _Atomic uint64_t *tags = &line->tags[slot / 8];
    uint32_t shift = slot % 8 * 8;
    uint64_t with = (index_get(tags) & ~(0xffull << shift)) | (uint64_t)tag << shift;
    atomic_store_explicit(&line->slot[slot], word, memory_order_release);
    atomic_store_explicit(tags, with, memory_order_release);
}

static uint32_t get_slot(const struct index_line *line, uint32_t slot)
{
    return atomic_load_explicit(&line->slot[slot], memory_order_relaxed);
}

// Returns the first free slot of a line. It has no branches, because the CPU
// could not predict them.
static uint32_t free_slot(const struct index_line *line)
{
    uint32_t empty = 1u << INDEX_SLOTS;
#pragma GCC unroll 12
    for (uint32_t slot = 0; slot < INDEX_SLOTS; slot++)
        empty |= (uint32_t)(get_slot(line, slot) == 0) << slot;
    return (uint32_t)__builtin_ctz(empty);
}

// Puts an entry into the first line with room.
static int index_put(struct index *ix, uint64_t home, uint8_t tag, uint32_t word)
{
    uint64_t at = home;
    uint32_t slot;
    while ((slot = free_slot(&ix->lines[at])) == INDEX_SLOTS)
        if (++at == ix->end)
            TRY(extend(ix, ix->end + TAIL_LINES));
    for (uint64_t line = home; line < at; line++)
        add_overflow(&ix->lines[line], 1);
    set_slot(&ix->lines[at], slot, tag, word);
    return 0;
}

static void index_take(struct index *ix, uint64_t home, uint64_t at, uint32_t slot)
{
    set_slot(&ix->lines[at], slot, 0, 0);
    for (uint64_t line = home; line < at; line++)
        add_overflow(&ix->lines[line], -1);
}

static const float *index_row_of(const struct index *ix, uint32_t word)
{
    return table_row(*ix->slabs, (word & ~INDEX_MARK) - 1);
}

static bool growing(const struct index *ix)
{
    return index_get(&ix->n) != index_get(&ix->m);
}

// Called when all entries of the bucket at the frontier have moved. Ends the round of
// growth if this was the last bucket.
static void end_round(struct index *ix)
{
    if (growing(ix) && ix->left == 0 && index_get(&ix->frontier) == 0)
        set_mapping(ix, index_get(&ix->m), index_get(&ix->m), index_get(&ix->m));
}

static int begin_round(struct index *ix, uint64_t m)
{
    uint64_t n = index_get(&ix->n);
    TRY(extend(ix, m + TAIL_LINES));
    ix->mark ^= INDEX_MARK;
    ix->rise = (m << RISE_BITS) / n;
    set_mapping(ix, n, m, n);
    return 0;
}

void index_reserve(struct index *ix, uint64_t entries)
{
    uint64_t lines = entries / INDEX_ROOMY + 1;
    if (growing(ix) || lines <= index_get(&ix->n) ||
        lines > ix->reserved / sizeof(struct index_line) ||
        extend(ix, lines + TAIL_LINES) != 0)
        return;
    index_change_begin(ix);
    if (ix->count == 0)
        set_mapping(ix, lines, lines, lines);
    else
        (void)begin_round(ix, lines);
    index_change_end(ix);
}

// The entries of the bucket at the frontier that a visit finds in one line. They are old
// entries, at the places for n lines; moved entries are at the places for m lines.
struct found {
    uint32_t n;      // number of entries in the bucket
    uint32_t before; // number of old entries whose home is before the bucket
    uint8_t slot[INDEX_SLOTS];
    uint64_t hash[INDEX_SLOTS];
};

static void index_look(const struct index *ix, const struct index_line *line,
                       uint64_t bucket, struct found *ret)
{
    uint64_t n = index_get(&ix->n);
    ret->n = ret->before = 0;
    for (uint32_t i = 0; i < INDEX_SLOTS; i++) {
        uint32_t word = get_slot(line, i);
        if (word == 0 || (word & INDEX_MARK) == ix->mark)
            continue;
        uint64_t hash = mix64(table_row_key(index_row_of(ix, word)));
        uint64_t home = index_bucket(hash, n);
        ret->slot[ret->n] = (uint8_t)i;
        ret->hash[ret->n] = hash;
        ret->n += home == bucket;
        ret->before += home < bucket;
    }
}

// Moves the frontier down to `bucket` and counts the bucket's entries, in its own line
// and in later lines. Lines up to `bucket` have only old entries, so the number in later
// lines follows from overflow counts: of the overflow(bucket) entries in later lines,
// overflow(bucket - 1) - here->before belong to earlier buckets.
static void open_bucket(struct index *ix, uint64_t bucket, const struct found *here)
{
    uint32_t coming = bucket > 0 ? index_overflow(&ix->lines[bucket - 1]) : 0;
    uint32_t behind = index_overflow(&ix->lines[bucket]) - (coming - here->before);
    ix->left = here->n + behind;
    atomic_store_explicit(&ix->frontier, bucket, memory_order_release);
}

// Prefetches the lines that later visits will read, and the lines to which they will move
// entries.
static void prefetch_visits(const struct index *ix)
{
    uint64_t at = index_get(&ix->frontier);
    if (at < LINES_AHEAD)
        return;
    __builtin_prefetch(&ix->lines[at - LINES_AHEAD]);
    __builtin_prefetch(&ix->lines[((at - ROWS_AHEAD) * ix->rise) >> RISE_BITS], 1);
    const struct index_line *line = &ix->lines[at - ROWS_AHEAD];
    for (uint32_t i = 0; i < INDEX_SLOTS; i++) {
        uint32_t word = get_slot(line, i);
        if (word != 0)
            __builtin_prefetch(index_row_of(ix, word) - 2, 0, 2);
    }
}

// Moves the entries of the bucket at the frontier that are in one line to
// their places for m lines.
static int visit(struct index *ix)
{
    bool opening = ix->left == 0;
    uint64_t bucket = index_get(&ix->frontier) - opening;
    struct found here;
    if (opening)
        ix->walk = bucket;
    assert(ix->walk < ix->end);
    struct index_line *line = &ix->lines[ix->walk];
    index_look(ix, line, bucket, &here);
    if (opening)
        open_bucket(ix, bucket, &here);
    for (uint32_t i = 0; i < here.n; i++) {
        uint64_t hash = here.hash[i];
        uint32_t word = get_slot(line, here.slot[i]) ^ INDEX_MARK;
        TRY(index_put(ix, index_bucket(hash, index_get(&ix->m)), index_tag(hash), word));
        index_take(ix, bucket, ix->walk, here.slot[i]);
        ix->left--;
        ix->moves++;
    }
    ix->walk++;
    if (opening)
        prefetch_visits(ix);
    end_round(ix);
    return 0;
}

// Does the share of the work of growing that is due at one insert.
static int move_some(struct index *ix)
{
    uint64_t before = ix->moves;
    int rc = 0;
    for (int i = 0; i < INDEX_VISITS && growing(ix) && rc == 0; i++) {
        if (ix->moves - before >= INDEX_MOVES)
            break;
        rc = visit(ix);
    }
    if (ix->moves - before > ix->max_moves)
        ix->max_moves = ix->moves - before;
    return rc;
}

int index_insert(struct index *ix, uint64_t hash, uint32_t handle)
{
    if (!growing(ix) && ix->count >= index_capacity(ix))
        TRY(begin_round(ix, index_get(&ix->n) + index_get(&ix->n) / 5));
    TRY(move_some(ix));
    uint64_t home = index_bucket(hash, index_get(&ix->n));
    uint32_t mark = ix->mark;
    if (home >= index_get(&ix->frontier))
        home = index_bucket(hash, index_get(&ix->m));
    else
        mark ^= growing(ix) ? INDEX_MARK : 0;
    TRY(index_put(ix, home, index_tag(hash), (handle + 1) | mark));
    ix->count++;
    return 0;
}

static bool search_from(const struct index *ix, uint64_t home, uint64_t hash,
                        uint64_t key, struct index_place *ret)
{
    for (uint64_t at = home;; at++) {
        const struct index_line *line = &ix->lines[at];
        for (uint64_t m = index_match(line, index_tag(hash)); m != 0; m &= m - 1) {
            uint32_t slot = index_match_slot(m);
            uint32_t word = get_slot(line, slot);
            if (word != 0 && table_row_key(index_row_of(ix, word)) == key) {
                *ret = (struct index_place){at, slot, (word & ~INDEX_MARK) - 1};
                return true;
            }
        }
        if (index_overflow(line) == 0)
            return false;
    }
}

bool index_search(const struct index *ix, uint64_t hash, uint64_t key,
                  struct index_place *ret_place)
{
    struct index_view v = index_view(ix);
    if (search_from(ix, index_home(&v, hash), hash, key, ret_place))
        return true;
    uint64_t old = index_bucket(hash, v.n);
    return ix->left > 0 && old == v.frontier &&
           search_from(ix, old, hash, key, ret_place);
}

void index_erase(struct index *ix, uint64_t hash, const struct index_place *place)
{
    uint32_t word = get_slot(&ix->lines[place->at], place->slot);
    bool old = (word & INDEX_MARK) != ix->mark;
    uint64_t home = index_bucket(hash, index_get(old ? &ix->n : &ix->m));
    index_take(ix, home, place->at, place->slot);
    ix->count--;
    if (old && home == index_get(&ix->frontier))
        ix->left--;
    end_round(ix);
}
