// The index of one stripe: from a key's hash to the handle of its row. An index holds
// only tags and handles; the key is read from the row.
//
// A line is one cache line:
//
//       0        8       12         16                                       64
//       +--------+-------+----------+-----+-----+------------------------+----+
//       | 8 tags | 4 tags| overflow | s 0 | s 1 |          ...           |s 11|
//       +--------+-------+----------+-----+-----+------------------------+----+
//
// An entry is a tag (8 bits of the hash) and a word: 0 for an empty slot, else the handle
// + 1 and, in the top bit, a mark. Fresh zero pages are therefore an empty index.
//
// Of the 64 bits h of a hash:   | stripe 4 |  rest of the partition 12 |  position 48 |
// and the lowest 8 bits of the position are the tag. Partitions take only top bits, so a
// server that holds few of them still fills its index evenly.
//
// Invariants:
//
//  1. home(h, n) = floor(position / 2^48 * n): in order of position, whatever n is.
//  2. An entry lies in the first line with room at or behind its home, in [home, at].
//
//  3. overflow(line) = number of entries that lie behind the line with a home at or
//     before it. A search goes on only past a line with overflow > 0; taking an entry
//     out decrements the lines from its home on, so there are no tombstones.
//
//  4. Growing from n to m > n lines, there is a frontier. Old homes > frontier: all
//     entries lie under m, and new ones go there. Old homes < frontier: all lie under
//     n. The old home == frontier: `left` entries still lie under n, new ones go under
//     m. The frontier goes down from n to 0. Not growing: n == m == frontier, left == 0.
//
//         0                  frontier             n                    m
//         |  under n          |x|  (under m, from home(frontier, m) on)|
//
//  5. The mark of an entry says under which of the two mappings it lies: `mark` under m,
//     the other under n. (A key alone can't say it while both have entries in one line.)
//  6. Growth is by a fifth, or by more if keys are announced. One insert visits at most
//     INDEX_VISITS lines of the old mapping and stops at INDEX_MOVES moves, so it moves
//     fewer than INDEX_MOVES + INDEX_SLOTS entries. A round takes about 0.5 n inserts of
//     the 2.2 n or more until the next one. It has to be short: what lies under n grows
//     ever denser meanwhile.
//
// The lines lie at the start of a reserved range of addresses and never move. Behind the
// last home a tail grows by itself when entries pass the end.
//
// Threads: the holder of the stripe's lock changes the index between index_change_begin,
// which makes `seq` odd, and index_change_end, which makes it even again. Readers take no
// lock: an entry that they find is right if its row holds the key; "not found" is right
// if seq was even before the search and has not changed since. Loads of lines are
// acquires and stores are releases, so that a reader who saw a store of a change also
// sees its seq.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_INDEX_H
#define TUG_TABLE_INDEX_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/relaxed.h"
#include "table/table.h"

#if defined(__SSE2__) && !RELAXED_SCALAR
#include <emmintrin.h>
#endif

enum {
    INDEX_SLOTS = 12,
    INDEX_FULL = 11,  // average number of entries per line at which the index grows
    INDEX_ROOMY = 10, // average number of entries per line that index_reserve plans for
    INDEX_MOVES = 24,
    INDEX_VISITS = 16,
};

#define INDEX_MARK ((uint32_t)1 << 31)

struct index_line {
    _Atomic uint64_t tags[2]; // the high half of tags[1] is the overflow count
    _Atomic uint32_t slot[INDEX_SLOTS];
};
static_assert(sizeof(struct index_line) == 64, "a line is one cache line");

struct index {
    // Readers read these members without the stripe's lock.
    struct index_line *lines;
    _Atomic uint64_t seq;
    _Atomic uint64_t n, m, frontier;

    // The stripe's lock guards the members from here on.
    const struct table_slabs *slabs; // the rows, which hold the keys
    uint64_t reserved, committed;    // bytes of reserved addresses, and of committed
                                     // memory
    uint64_t end; // lines [0, end) may be used; their memory is committed
    uint64_t count;
    uint64_t left;
    uint64_t walk; // the line of the next visit, valid while left > 0
    uint64_t rise; // 2^16 * m / n while the index grows
    uint32_t mark;
    uint64_t moves, max_moves;
};

// Opens an index with room for at least `lines` lines.
int index_open(struct index *ix, uint64_t lines, const struct table_slabs *slabs);
void index_close(struct index *ix); // a zeroed index is fine

// Gives an index lines for this many entries, so that it need not grow in steps. An empty
// index gets them at once, any other index by a round of growth that begins now. Does
// nothing if the index is already growing or memory is out.
void index_reserve(struct index *ix, uint64_t entries);

// Returns the number of entries at which the index begins to grow.
static inline uint64_t index_capacity(const struct index *ix)
{
    return atomic_load_explicit(&ix->n, memory_order_relaxed) * INDEX_FULL;
}

void index_change_begin(struct index *ix);
void index_change_end(struct index *ix);

// The place of an entry in an index, valid until the next change of the index.
struct index_place {
    uint64_t at;
    uint32_t slot;
    uint32_t handle;
};

// Only the holder of the stripe's lock may call these functions. index_search finds the
// entry of a key. index_insert inserts a key that the index does not have yet; if it
// returns TUG_ENOMEM, nothing was inserted. index_erase removes the entry at a place that
// index_search has returned.
bool index_search(const struct index *ix, uint64_t hash, uint64_t key,
                  struct index_place *ret_place);
int index_insert(struct index *ix, uint64_t hash, uint32_t handle);
void index_erase(struct index *ix, uint64_t hash, const struct index_place *place);

// A reader's copy of those members of an index that it needs without the lock. It is made
// once for many keys. With an outdated copy, keys may not be found; the reader notices
// this because index.seq has changed.
struct index_view {
    struct index_line *lines;
    uint64_t n, m, frontier;
    uint64_t seq;
};

static inline struct index_view index_view(const struct index *ix)
{
    struct index_view v = {.lines = ix->lines};
    v.seq = atomic_load_explicit(&ix->seq, memory_order_acquire);
    v.frontier = atomic_load_explicit(&ix->frontier, memory_order_acquire);
    v.n = atomic_load_explicit(&ix->n, memory_order_acquire);
    v.m = atomic_load_explicit(&ix->m, memory_order_acquire);
    return v;
}

static inline uint64_t index_bucket(uint64_t hash, uint64_t n_lines)
{
    return (uint64_t)(((unsigned __int128)(hash << 16) * n_lines) >> 64);
}

// Returns the home line of a hash. The function has no branch, because the CPU could not
// predict on which side of the frontier a hash is.
static inline uint64_t index_home(const struct index_view *v, uint64_t hash)
{
    uint64_t under_n = index_bucket(hash, v->n);
    uint64_t under_m = index_bucket(hash, v->m);
    return under_n >= v->frontier ? under_m : under_n;
}

// Returns whether a key that was not found is certainly not in the index. A key of the
// bucket at the frontier may be at its old or its new place.
static inline bool index_still(const struct index *ix, const struct index_view *v,
                               uint64_t hash)
{
    return (v->seq & 1) == 0 && index_bucket(hash, v->n) != v->frontier &&
           atomic_load_explicit(&ix->seq, memory_order_acquire) == v->seq;
}

static inline uint8_t index_tag(uint64_t hash)
{
    return (uint8_t)hash;
}

#if defined(__SSE2__) && !RELAXED_SCALAR

// Returns the slots whose tags match, as one bit for each slot. A concurrent change may
// tear the load of 16 bytes, but not within a tag. The reader notices a torn load by the
// change of seq, like any outdated read.
static inline uint64_t index_match(const struct index_line *line, uint8_t tag)
{
    __m128i tags = _mm_load_si128((const __m128i *)(const void *)line->tags);
    __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
    return (uint32_t)_mm_movemask_epi8(equal) & ((1u << INDEX_SLOTS) - 1);
}

static inline uint32_t index_match_slot(uint64_t match)
{
    return (uint32_t)__builtin_ctzll(match);
}

#else

// Returns a word with 0x80 in every byte in which `word` has the tag, and 0 in the
// others. This is exact, because no byte borrows from another.
static inline uint64_t index_equal_bytes(uint64_t word, uint8_t tag)
{
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7full;
    uint64_t x = word ^ (tag * 0x0101010101010101ull);
    return ~(((x & low7) + low7) | x | low7);
}

// Returns the slots whose tags match, as bits: bit 8k + 7 for slot k < 8, bit
// 8k + 6 for slot 8 + k.
static inline uint64_t index_match(const struct index_line *line, uint8_t tag)
{
    uint64_t a = atomic_load_explicit(&line->tags[0], memory_order_acquire);
    uint64_t b = atomic_load_explicit(&line->tags[1], memory_order_acquire);
    return index_equal_bytes(a, tag) | (index_equal_bytes(b, tag) & 0x80808080u) >> 1;
}

static inline uint32_t index_match_slot(uint64_t match)
{
    uint32_t bit = (uint32_t)__builtin_ctzll(match);
    return (bit >> 3) + ((~bit & 1) << 3);
}

#endif

static inline uint32_t index_overflow(const struct index_line *line)
{
    return (uint32_t)(atomic_load_explicit(&line->tags[1], memory_order_acquire) >> 32);
}

// Returns the handle in a slot; TABLE_NONE if the slot is empty.
static inline uint32_t index_handle(const struct index_line *line, uint32_t slot)
{
    uint32_t word = atomic_load_explicit(&line->slot[slot], memory_order_acquire);
    return (word & ~INDEX_MARK) - 1; // an empty slot gives 0 - 1, which is TABLE_NONE
}

#endif
