// Saves of stores in tests: pushes that are the same for every division of the
// partitions, images (all rows by ascending key, whatever the partitions and owners), and
// directories.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SAVES_H
#define TUG_KIT_SAVES_H

#include "kit/stores.h"
#include "save/save.h"

#define CTR                                                                              \
    "name=users; accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; "               \
    "embedx-threshold=2; embedx-init=0.1; delete-threshold=0.3; "
#define ALL_PUBLISHED "base-threshold=0; delta-threshold=0; delta-keep-days=100000; "

// These functions return paths that stay valid for the whole test. saves_fresh returns a
// directory in the test's folder that does not exist.
const char *saves_path(const char *dir, const char *name);
const char *saves_fresh(const char *name);

// Owner i of n has every n-th partition.
struct saves_owner {
    uint32_t i, n;
};
bool saves_owns(void *ctx, uint32_t partition);
// Pushes to a store. The pushes are the same however the partitions are divided among
// owners.
void saves_push(struct store *s, struct saves_owner x, uint64_t seed, int batches,
                uint32_t keys);

struct rows_image {
    struct table_entry *keys; // for each key, the number of its record as handle
    size_t n, cap;
    // For each record: the key, the row, whether it has an extra row, and the extra row
    // or zeros.
    struct buf records;
    size_t width, extra_width;
};

void rows_image_add(struct rows_image *x, struct store *s);
void rows_image_free(struct rows_image *x);
bool rows_image_equal(struct rows_image *a, struct rows_image *b);
struct rows_image rows_image_of(struct store *s);
bool rows_same(struct store *a, struct store *b);

int saves_one(struct store *s, const char *dir, enum save_mode mode, uint32_t keep,
              struct err *e);
int saves_load(struct store *s, const char *from, struct err *e);
struct store *saves_loaded(const char *from, const char *settings, uint32_t bits);

#endif
