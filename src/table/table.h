// A table: a map from a 64-bit key to a row of `width` floats.
//
// A row lies in a slab and never moves: [key, 8 bytes][width floats][padding to `align`].
// Its handle (a 31-bit number) stays valid until the key is erased and every reader that
// was pinned then has unpinned. The hash index lies apart and holds only tags and
// handles; it grows in place, a constant number of moves per insert. All functions work
// on batches: they hash all keys, prefetch all lines of the index, prefetch all rows, and
// then use the rows.
//
// Threads: find, rows and erase may be called at the same time from any threads. A find
// takes no lock; a batch with new keys takes one lock per stripe, never one per key.
// Values are read and written through base/relaxed.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_TABLE_H
#define TUG_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    TABLE_MAX_WIDTH = 1 << 20, // the most floats of a row
    TABLE_MAX_INITS = 8,
    TABLE_MAX_READERS = 1024, // the most readers that are open at the same time
};

#define TABLE_NONE UINT32_MAX // "no row" among handles; handles are below TABLE_MAX_ROWS
#define TABLE_MAX_ROWS ((uint32_t)1 << 31)

// The initial values of columns [begin, begin + count) of a row: random numbers, uniform
// in [low, high), that depend on the seed, table id, key and column only; or the constant
// `low` if low == high. All other columns begin with 0.
struct table_init {
    uint32_t begin, count;
    float low, high;
};

struct table_options {
    uint64_t seed;
    uint32_t id;    // number of the table in the model; its random numbers depend on it
    uint32_t width; // floats in a row; 0: the table is a set of keys
    uint32_t align; // alignment of rows in bytes, a power of two in 8..4096; 0 means 8
    uint32_t partition_bits; // 0..16: partition = mix64(key) >> (64 - bits)
    uint32_t n_inits;
    struct table_init inits[TABLE_MAX_INITS];
};

struct table;

// Returns the partition of a hash. With 0 bits the table has one partition.
static inline uint32_t table_partition(uint64_t hash, uint32_t bits)
{
    return bits == 0 ? 0 : (uint32_t)(hash >> (64 - bits));
}

int table_open(struct table **ret, const struct table_options *o, struct err *e);
void table_close(struct table *t); // NULL is fine; all readers must be unpinned

const struct table_options *table_options(const struct table *t);

// Reserves room in the index of an empty table, so that it need not grow in steps: for
// each i below 2^bits, for rows[i] keys whose hashes begin with the bits of i. Does
// nothing if the table is not empty or memory is out.
void table_reserve(struct table *t, const uint64_t *rows, uint32_t bits);
// Makes room in the index for `rows` new keys of one partition. About `mine` in `of`
// partitions will be added like this. The index need not be empty. Does nothing if
// memory is out.
void table_reserve_partition(struct table *t, uint32_t partition, uint64_t rows,
                             uint32_t mine, uint32_t of);

// Finds the handles of n keys; TABLE_NONE for keys without a row. Creates no rows, and
// usually takes no lock. If other threads may erase rows, the caller must be pinned
// (table_pin) while it uses the handles.
void table_find(struct table *t, const uint64_t *keys, size_t n, uint32_t *ret_handles);

// Finds the handles of n keys as table_find does, but creates missing rows. A key may
// occur several times in the batch. TUG_ENOMEM: keys without a row have TABLE_NONE, and
// the table stays valid.
int table_rows(struct table *t, const uint64_t *keys, size_t n, uint32_t *ret_handles);

// Creates rows for keys that the caller has just searched and not found. The values of
// the rows are undefined; the caller must write them before any thread reads the rows.
int table_rows_unset(struct table *t, const uint64_t *keys, size_t n,
                     uint32_t *ret_handles);

// Removes the rows of n keys; skips keys without a row. Returns the number of rows
// removed. The memory of a row is reused when no reader can have its handle any more.
size_t table_erase(struct table *t, const uint64_t *keys, size_t n);

// The part of a table that table_row needs, declared here so that table_row can be
// inlined. It is the first member of every table.
struct table_slabs {
    // Addresses of the slabs; set before the first handle into a slab is given out.
    char *const *slab;
    uint32_t shift;  // handle >> shift = number of the slab
    uint32_t mask;   // handle & mask = row in the slab
    uint32_t stride; // bytes from one row to the next
};

static inline struct table_slabs table_slabs(const struct table *t)
{
    return *(const struct table_slabs *)(const void *)t;
}

// Returns the floats of a row. The row's key is in the 8 bytes before them.
static inline float *table_row(struct table_slabs s, uint32_t handle)
{
    return (float *)(void *)(s.slab[handle >> s.shift] +
                             (size_t)(handle & s.mask) * s.stride + sizeof(uint64_t));
}

static inline uint64_t table_row_key(const float *row)
{
    return __atomic_load_n((const uint64_t *)(const void *)row - 1, __ATOMIC_RELAXED);
}

// table_row_prefetch prefetches all cache lines of the `bytes` bytes of a row, because
// most rows are too short for the hardware's prefetcher. table_row_prefetch_rest leaves
// out the first line, which is in the cache after the row's key was compared.
static inline void table_row_prefetch_rest(const float *row, size_t bytes)
{
    enum { LINE = 64, MAX_BYTES = 2048 };
    const char *p = (const char *)row;
    for (size_t at = LINE; at < bytes && at < MAX_BYTES; at += LINE)
        __builtin_prefetch(p + at, 1, 2);
    // Rows begin anywhere in a line, so the last bytes may be in one more line.
    if (bytes > 0 && bytes <= MAX_BYTES)
        __builtin_prefetch(p + bytes - 1, 1, 2);
}

static inline void table_row_prefetch(const float *row, size_t bytes)
{
    __builtin_prefetch(row, 1, 2);
    table_row_prefetch_rest(row, bytes);
}

// Returns a number above all handles given out so far, for arrays that are indexed by
// handle.
uint32_t table_handles(const struct table *t);
// Returns whether a handle that was given out has a row now.
bool table_is_live(const struct table *t, uint32_t handle);

// These functions write the initial values of the row of `key`, which a pull of a key
// without a row returns: all `width` floats, or only the columns [begin, begin + n).
void table_first_values(const struct table *t, uint64_t key, float *ret_row);
void table_first_columns(const struct table *t, uint64_t key, uint32_t begin, uint32_t n,
                         float *ret);

// Writes the random numbers, uniform in [low, high), of columns [column, column +
// n) of the row of `key`. The columns may be beyond the row's last one; extra
// rows use such columns.
void table_random_columns(const struct table *t, uint64_t key, uint32_t column,
                          uint32_t n, float low, float high, float *ret);

// A reader. While a reader is pinned, rows that are erased after the pin are not reused.
// So a thread pins its reader for one batch, not for a whole run.
struct table_reader;
int table_reader_open(struct table_reader **ret, struct table *t, struct err *e);
void table_reader_close(struct table_reader *r); // NULL is fine
void table_pin(struct table_reader *r);
void table_unpin(struct table_reader *r);

// Gets up to `max` handles of live rows, in no particular order, and returns their
// number. A caller begins with *cursor = 0 and repeats the call until it returns 0. No
// thread may insert or erase meanwhile.
size_t table_scan(const struct table *t, uint64_t *cursor, uint32_t *ret_handles,
                  size_t max);

// An entry for a live row. table_sorted gets the entries of all live rows of the
// partitions [first, first + n), sorted by partition and then by key. The caller frees
// the array with mem_free. No thread may insert or erase rows meanwhile.
struct table_entry {
    uint64_t key;
    uint32_t handle;
};
int table_sorted(const struct table *t, uint32_t first, uint32_t n,
                 struct table_entry **ret, size_t *ret_n, struct err *e);

// Sorts entries by key, whatever their partitions.
void table_sort_by_key(struct table_entry *rows, size_t n);

// Makes a copy of a table with the same rows, for example to keep the best pass.
int table_clone(struct table **ret, const struct table *t, struct err *e);

struct table_stats {
    uint64_t rows;
    uint64_t row_bytes;   // bytes of the slabs in use
    uint64_t index_bytes; // bytes of the index lines in use
    uint64_t inserts, erases;
    uint64_t index_moves;     // total number of entries that growth has moved
    uint64_t index_max_moves; // largest number of entries that one insert has moved
};
struct table_stats table_stats(const struct table *t);

// Splits the `bytes` of a table with `rows` rows of `width` floats into two parts.
// Returns the most bytes that one row takes, with its key and its place in the index.
// Sets *ret_fixed to the bytes that do not depend on the number of rows.
double table_key_bytes(uint64_t rows, uint64_t bytes, uint32_t width,
                       uint64_t *ret_fixed);

#endif
