// A store under random pushes, and the expected cut of it, for tests of cuts: an image is
// the result of store_each at one moment; a chain is a base to which deltas were applied,
// as a load does.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CUTS_H
#define TUG_KIT_CUTS_H

#include "base/buf.h"
#include "kit/rng.h"
#include "kit/stores.h"
#include "store/cut_internal.h"

enum { KINDS = ROWS_EXTRA + 1, BATCH_MAX = 4096, ROW_MAX = 64, PARTS_MAX = 64 };

struct batch {
    uint64_t keys[BATCH_MAX];
    size_t n;
    float *values;
    uint64_t universe;
    uint8_t *in; // for each key, 1 if it is in the batch
};

struct batch *batch_make(uint64_t universe);
void batch_free(struct batch *b);
void batch_sort(struct batch *b); // sorts by partition
// Draws about n distinct keys below the universe, low ones more often, sorted by
// partition.
void batch_draw(struct batch *b, struct rng *d, size_t n);
int batch_push(struct store *s, struct batch *b, struct rng *d, struct err *e);

struct image {
    struct buf of[PARTS_MAX][KINDS];
};

struct image *image_make(void);
void image_free(struct image *x);
void image_add(struct image *x, const struct rows_block *b);

// Returns the expected cut in this mode (not a delta) that begins now.
struct image *image_of(struct store *s, enum save_mode mode);
uint64_t image_bytes(const struct image *x);
void image_check_equal(const struct image *a, const struct image *b);

struct chain {
    uint64_t universe;
    uint32_t width, extra_width;
    uint8_t *has, *has_extra;
    float *rows, *extras;
};

struct chain *chain_make(const struct store *s, uint64_t universe);
void chain_free(struct chain *x);
void chain_clear(struct chain *x);
void chain_add(struct chain *x, const struct rows_block *b);
struct image *chain_image(const struct chain *x, const struct store *s);
// Reads the cut to its end.
void cuts_read_rest(struct store *s, size_t bytes, struct image *image,
                    struct chain *chain);
// Makes a cut and reads it whole, without other operations in between.
struct image *cuts_all(struct store *s, enum save_mode mode, bool commit,
                       struct chain *chain);

#endif
