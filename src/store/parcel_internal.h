// Internals of parcels, for parcel*.c: blocks of rows and keys. Numbers
// are as in memory, little-endian. Each item starts at a multiple of 8 bytes; a block is
// its kind, its number of elements (u32 each) and its payload.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_PARCEL_INTERNAL_H
#define TUG_STORE_PARCEL_INTERNAL_H

#include "store/parcel.h"
#include "store/store_internal.h"

enum { PARCEL_VERSION = 1 };

enum parcel_kind {
    PARCEL_STATE = 1, // the bytes of store_get_partition
    PARCEL_ROWS,      // n keys, n rows
    PARCEL_EXTRAS,    // n keys of rows in earlier blocks, and the n extra rows of these
                      // rows
    PARCEL_CHANGED,   // n keys of rows that have changed since the last delta
    PARCEL_GONE,      // n keys of rows that were removed since the last delta
    PARCEL_END,       // the end of a parcel: its hash
    PARCEL_TOTAL,     // the end of the slices: struct parcel_total
};

struct parcel_head {
    uint32_t version, partition, bits, width, extra_width, gone_lost;
    uint64_t rows, published_by;
};

struct parcel_total {
    uint64_t rows, published_by, gone_lost;
};

struct parcel_block {
    uint32_t kind, n;
};

// Makes room for n bytes and their padding, which parcel_pad adds.
int parcel_reserve(struct buf *to, size_t n, struct err *e);
void parcel_pad(struct buf *to);
// These functions append to *to, up to the next multiple of 8: bytes; the head of a
// block; a block of keys; the state of a partition. They return 0 or an error.
int parcel_add(struct buf *to, const void *bytes, size_t n, struct err *e);
int parcel_add_block(struct buf *to, enum parcel_kind kind, size_t n, struct err *e);
int parcel_add_keys(struct buf *to, enum parcel_kind kind, const uint64_t *keys, size_t n,
                    struct err *e);
int parcel_add_state(const struct store *s, uint32_t p, struct buf *to, struct err *e);

struct parcel_reader {
    struct store *s;
    uint32_t p;
    const char *bytes;
    size_t n, at;
    struct parcel_head head;
};

// Sets an error that the parcel is damaged. Returns TUG_EDATA.
int parcel_is_damaged(const struct parcel_reader *r, struct err *e);
// Returns the address of the next n bytes, and moves past them; NULL if fewer are left.
const void *parcel_take(struct parcel_reader *r, size_t n);
// Gets the arrays in a block of n keys and, if width > 0, n rows of `width` floats.
// Returns false if the block is not whole.
bool parcel_take_keys(struct parcel_reader *r, uint32_t n, uint32_t width,
                      const uint64_t **ret_keys, const float **ret_rows);
// Skips the elements of a block of state, rows or keys. Sets *ret_keys to the
// keys of the block, or NULL if it has none. Returns false if the block is not
// whole or of another kind.
bool parcel_skip_block(struct parcel_reader *r, const struct parcel_block *b,
                       const uint64_t **ret_keys);
// Checks that all keys belong to the partition.
int parcel_check_keys(const struct parcel_reader *r, const uint64_t *keys, uint32_t n,
                      struct err *e);
// Replaces the partition's list of removed keys by these n keys.
int parcel_put_gone(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
                    struct err *e);

// Called by store*.c when s->copies != NULL: parcel_rows_made when rows of p were made;
// parcel_rows_leave before rows are removed for good; parcel_rows_go before the memory of
// removed or demoted rows is reused; parcel_copies_end when the store is closed.
void parcel_rows_made(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
void parcel_rows_leave(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
void parcel_rows_go(struct store *s, uint32_t p, const uint32_t *handles, size_t n);
void parcel_copies_end(struct store *s);
// Returns whether the partition is being copied in slices, by its list of rows.
bool parcel_is_copied(const struct store *s, uint32_t p);

enum { PARCEL_SLICE_ROWS = 1024 }; // most rows of a slice

// The rows of one slice. `handles` has TABLE_NONE for rows on disk, and `extras` has NULL for
// rows without an extra row.
struct parcel_slice {
    uint32_t n;
    uint32_t handles[PARCEL_SLICE_ROWS];
    uint64_t keys[PARCEL_SLICE_ROWS];
    const float *rows[PARCEL_SLICE_ROWS], *extras[PARCEL_SLICE_ROWS];
};

// Defined in parcel_cold.c: the state of a copy of a partition with rows on disk.
struct parcel_cold;
// Begins a copy in slices of `most` rows. On TUG_ENOMEM the caller must close it.
int parcel_cold_open(struct parcel_cold **ret, struct store *s, uint32_t p,
                     uint32_t most);
void parcel_cold_close(struct parcel_cold *k); // NULL is fine
// Chooses the rows of the next slice, which are valid until the store changes. There may be
// none, although parcel_cold_done is not true yet.
int parcel_cold_next(struct parcel_cold *k, struct store *s, uint32_t p,
                     struct parcel_slice *x, struct err *e);
bool parcel_cold_done(const struct parcel_cold *k);
uint64_t parcel_cold_left(const struct parcel_cold *k, const struct store *s, uint32_t p);
// Returns whether a row in memory was copied.
bool parcel_cold_has(const struct parcel_cold *k, uint64_t key, uint32_t handle);
// Rows were made, which are copied later; parcel_cold_keeps returns whether a row is one of
// them and must not be demoted; parcel_cold_go: the row is removed.
int parcel_cold_made(struct parcel_cold *k, const struct store *s,
                     const uint32_t *handles, size_t n);
bool parcel_cold_keeps(const struct parcel_cold *k, uint32_t handle);
void parcel_cold_go(struct parcel_cold *k, uint32_t handle);

#endif
