// A thread's way to rows that live (train/local_rows.h), batch by batch.
//
// First the batch's examples arrive: its distinct keys are counted, with shows and clicks,
// and brought to their partitions, one after the other, where they get rows or not. A
// batch is one push, as it is of a worker on a cluster. Then the examples are taken a few
// at a time, as any other's: a feature without a row is left out, for nothing is known of
// it, and one without an embedding takes no part in products.
//
// Examples that were counted in an earlier pass do not arrive once more: their rows are
// there, and their counters stay. Only keys that have no row, and of which the policy has
// not said its last word, are noted on the way and arrive behind the batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LOCAL_STEPS_H
#define TUG_TRAIN_LOCAL_STEPS_H

#include "train/local_rows.h"
#include "train/run.h"

// What a batch says of a key.
struct local_count {
    uint32_t id;
    uint32_t shows, clicks;
    uint32_t slot;
};

struct local_steps {
    struct local_rows *rows;
    struct store_stepper *stepper;
    bool again;    // examples were counted before
    uint64_t step; // the table's, of the batch
    // The distinct keys of a batch as they come; of each id, its place among them.
    struct local_count *counts;
    struct store_arrival *arrivals; // the same, by partition
    size_t n, cap;
    uint32_t *places;
    size_t n_places;
    uint32_t *begins; // of each partition's arrivals, and the end
    uint32_t n_parts;
    uint32_t first_part; // where this worker begins: others begin elsewhere
    // The batch's examples, unpacked once: those from `at` on are taken next. None: they
    // are unpacked when they are taken.
    uint64_t *order;
    size_t n_order, cap_order, at;
    struct batch batch;
    uint32_t *start; // of those taken
    // Features of the view that have an extra row; if all have, u, slot and start are the
    // view's own.
    struct model_latent latent;
    float **latent_rows;
    float *latent_u;
    uint16_t *latent_slot;
    uint32_t *latent_start;
    size_t cap_latent, cap_examples;
};

// Of the worker `rank` of so many. TUG_ENOMEM.
int local_steps_open(struct local_steps *s, struct local_rows *l, int rank, int workers);
void local_steps_close(struct local_steps *s); // a zeroed one is fine

// A batch begins and ends; until then no row that it may have read is used for another
// key. The end brings what was noted on the way to its partitions.
void local_steps_begin(struct local_steps *s, bool again, uint64_t step);
int local_steps_end(struct local_steps *s, struct view *v);

// Whether examples have to arrive; then all of the batch are added, in the order in which
// they will be taken, and arrive.
bool local_steps_count(const struct local_steps *s);
int local_steps_add(struct local_steps *s, const uint64_t *order, size_t n);
int local_steps_arrive(struct local_steps *s, const struct dataset *d);

// The next examples with their rows, as view_take and view_batch. The view is the
// batch's: it is no view of anything when that ends (local_steps_end clears it).
int local_steps_take(struct local_steps *s, struct view *v, const struct dataset *d,
                     const uint64_t *order, size_t n, const struct hot_copies *hot);
struct model_batch local_steps_batch(const struct local_steps *s, const struct view *v);

// What workers copy of a hot row: the groups' columns, not the statistics beside them.
void local_steps_widths(const struct local_rows *l, uint32_t ret[HOT_PIECES]);
bool local_steps_find_hot(const void *rows, uint32_t id, float *ret[HOT_PIECES]);
// Whether rows stay while there are copies, and the columns of a copy are together.
bool local_steps_may_copy(const struct local_rows *l);

#endif
