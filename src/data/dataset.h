// Data sets: examples in memory, packed, with features resolved to 31-bit ids.
//
// A data set is all of a source (in memory) or the next `max_chunks` of it (streaming:
// one window after the other; the windows are shuffled inside). All members of a team
// parse; the order of examples is that of the text whatever the number of threads. On a
// cluster it is one piece of one file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_H
#define TUG_DATA_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/team.h"
#include "data/piece.h"
#include "data/reader.h"
#include "data/source.h"

// Turns keys into ids (row handles of a table). Called by team members at the same time.
typedef int (*dataset_resolve_fn)(void *ctx, const uint64_t *keys, size_t n,
                                  uint32_t *ret_ids);
// For callers without ids: 0 for all.
int dataset_resolve_nothing(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

struct dataset_options {
    struct source *source;
    struct reader *reader;
    struct team *team;
    dataset_resolve_fn resolve;
    void *resolve_ctx;
    size_t max_chunks; // 0: to the end of the source
    bool eager;        // does not wait for what comes behind: dataset_at_end is known
                       // of an empty data set only
    uint64_t max_bad_lines; // of the run
    uint64_t *bad_lines;    // counts skipped lines of the run; not NULL
    // For predictions, which are wanted of every line: one that is skipped becomes an
    // example without features whose labels are NaN.
    bool hold_places;
    // The texts of these columns ("a,b"; NULL: none) stay with the examples; and the
    // option that asks for them, for messages.
    const char *keep, *keep_option;
    // For a source that is loaded to its end: merges this many examples with equal kept
    // texts into one (dataset_merge.h). 0: merges none. `keep` is then not kept.
    uint32_t merge;
    struct dataset_merged *merged;
};

struct dataset;

// Loads what comes next. At the end of the source it gives an empty data set (size 0).
// Bad lines beyond max_bad_lines: TUG_EDATA "FILE:LINE: reason".
int dataset_load(struct dataset **ret, const struct dataset_options *o, struct err *e);

// Loads one piece (data/piece.h). o->source and o->max_chunks are not used. The data set
// is at its end when no piece behind this one has a line. `p` outlives the data set,
// which asks it for line numbers.
int dataset_load_piece(struct dataset **ret, const struct dataset_options *o,
                       struct pieces *p, uint32_t file, uint64_t index, struct err *e);
void dataset_close(struct dataset *d); // NULL is fine

// Lets the first file's first lines decide what is open of the schema.
int dataset_decide_schema(struct reader *r, const struct pieces *p, struct err *e);

uint64_t dataset_size(const struct dataset *d);      // examples
uint64_t dataset_features(const struct dataset *d);  // in all
uint64_t dataset_bytes(const struct dataset *d);     // memory held
uint64_t dataset_positives(const struct dataset *d); // whose first label is > 0
uint32_t dataset_slots(const struct dataset *d);     // highest slot + 1
bool dataset_at_end(const struct dataset *d); // nothing of the source is left behind it

// A batch of unpacked examples; grows as needed, reused from batch to batch.
struct batch {
    size_t n, nnz;
    size_t cap_n, cap_nnz, cap_labels;
    uint32_t labels; // of an example
    float *label;    // those of an example one behind the other; NaN: it is missing
    float *weight;   // NULL: all 1
    uint32_t *start; // n + 1
    uint32_t *id;
    uint16_t *slot;
    float *value; // NULL: all 1
    float *weight_memory, *value_memory;
};
void batch_free(struct batch *b);

// Examples order[0..n) of the data set. TUG_ENOMEM only.
int dataset_gather(const struct dataset *d, const uint64_t *order, size_t n,
                   struct batch *b);
void dataset_prefetch(const struct dataset *d, uint64_t example);

// The texts of the columns that are kept, each with a NUL behind it.
const char *dataset_kept(const struct dataset *d, uint64_t example);

// The origin of an example, for messages. In a piece of a plain file this reads the file
// up to the piece; line 0: it could not be read again, or was dealt (data/deal.h).
void dataset_where(const struct dataset *d, uint64_t example, uint32_t *ret_file,
                   uint64_t *ret_line);

// A seeded permutation of [0, n) that needs no memory (a Feistel network with cycle
// walking).
struct shuffle {
    uint64_t n, seed;
    uint32_t half_bits;
};
struct shuffle shuffle_make(uint64_t n, uint64_t seed, uint64_t pass);
uint64_t shuffle_at(const struct shuffle *s, uint64_t i);

// The order of a pass. Runs of 8 consecutive examples are shuffled, which costs an
// eighth of the cache misses that single examples would; 32 runs make a block, out of
// which the examples are dealt one run after the other, so that neighbours of the text
// never follow each other.
enum { ORDER_RUN = 8, ORDER_RUNS = 32, ORDER_BLOCK = ORDER_RUN * ORDER_RUNS };

struct order {
    uint64_t n;
    struct shuffle runs;
};

// One reader's memory: the runs of the block that it takes from.
struct order_block {
    bool known;
    uint64_t number;
    uint32_t runs;
    uint64_t first[ORDER_RUNS]; // the first example of each run
};

struct order order_make(uint64_t n, uint64_t seed, uint64_t pass);

// Positions 0 .. order_positions - 1 hold each example once; a few of the last run hold
// none.
uint64_t order_positions(const struct order *o);

// The examples at positions [first, first + n), without those that hold
// none; gives their number.
size_t order_take(const struct order *o, struct order_block *h, uint64_t first, size_t n,
                  uint64_t *ret_examples);

// Fills *h with block `number` (position / ORDER_BLOCK), to prefetch its runs.
void order_fill_block(const struct order *o, struct order_block *h, uint64_t number);

#endif
