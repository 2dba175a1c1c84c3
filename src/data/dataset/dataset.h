// Data sets: packed examples in memory, with features resolved to 31-bit ids.
//
// A data set has all examples of a source, or those of its next `max_chunks` chunks
// (streaming: examples are shuffled within each such window). On a cluster it has those
// of one piece of a file. All members of a team parse the text; the order of examples is
// that of the text, whatever the number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_DATASET_DATASET_H
#define TUG_DATA_DATASET_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/format/reader.h"
#include "data/source/piece.h"
#include "data/source/source.h"
#include "os/team.h"

// Turns keys into ids (row handles of a table). Several members of a team call such a
// function at the same time.
typedef int (*dataset_resolve_fn)(void *ctx, const uint64_t *keys, size_t n,
                                  uint32_t *ret_ids);
// Sets all ids to 0. It is the `resolve` of callers that need no ids.
int dataset_resolve_nothing(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

struct dataset_options {
    struct source *source;
    struct reader *reader;
    struct team *team;
    dataset_resolve_fn resolve;
    void *resolve_ctx;
    size_t max_chunks; // 0: loads to the end of the source
    // Ends the load after max_chunks chunks without waiting for more text. dataset_at_end
    // is then exact only for an empty data set.
    bool eager;
    uint64_t max_bad_lines; // number of bad lines that a run may have
    uint64_t *bad_lines;    // the counter of the run's bad lines; not NULL
    // true: a skipped line becomes an example without features, whose labels are NaN.
    // Predictions need this, because every line gets a prediction.
    bool hold_places;
    // The columns whose texts are kept with the examples ("a,b"; NULL: none), and the
    // option that names these columns, for messages.
    const char *keep, *keep_option;
    // If not 0, merges groups of this many examples with equal texts in the columns
    // `keep` into one example each (dataset_merge.h), in a source that is loaded to its
    // end. Merged examples keep no texts.
    uint32_t merge;
    struct dataset_merged *merged;
};

struct dataset;

// Loads the next data of the source; at its end, an empty data set (size 0). If there are
// more than max_bad_lines bad lines, returns TUG_EDATA "FILE:LINE: reason".
int dataset_load(struct dataset **ret, const struct dataset_options *o, struct err *e);

// Loads one piece (data/source/piece.h); ignores o->source and o->max_chunks. The data set is at
// its end if no later piece has a line. `p` must outlive the data set, which asks it for
// line numbers.
int dataset_load_piece(struct dataset **ret, const struct dataset_options *o,
                       struct pieces *p, uint32_t file, uint64_t index, struct err *e);
void dataset_close(struct dataset *d); // `d` may be NULL

// Completes the schema from the first lines of the first file.
int dataset_decide_schema(struct reader *r, const struct pieces *p, struct err *e);

uint64_t dataset_size(const struct dataset *d);     // number of examples
uint64_t dataset_features(const struct dataset *d); // number of features of all examples
uint64_t dataset_bytes(const struct dataset *d);    // bytes of memory used
// Returns the number of examples whose first label is > 0.
uint64_t dataset_positives(const struct dataset *d);
uint32_t dataset_slots(const struct dataset *d);      // highest slot + 1
uint32_t dataset_first_slot(const struct dataset *d); // lowest slot
// Returns whether the source has no more data.
bool dataset_at_end(const struct dataset *d);

// A batch of unpacked examples. It grows as needed and is reused from batch to batch.
struct batch {
    size_t n, nnz;
    size_t cap_n, cap_nnz, cap_labels;
    uint32_t labels; // labels of an example
    float *label;    // all labels of example 0, then of example 1, ...; NaN: missing
    float *weight;   // NULL: all are 1
    uint32_t *start; // features of example i: start[i] .. start[i + 1]
    uint32_t *id;
    uint16_t *slot;
    float *value; // NULL: all are 1
    float *weight_memory, *value_memory;
};
void batch_free(struct batch *b);

// Unpacks examples order[0..n) of the data set into *b. Fails only with TUG_ENOMEM.
int dataset_gather(const struct dataset *d, const uint64_t *order, size_t n,
                   struct batch *b);
void dataset_prefetch(const struct dataset *d, uint64_t example);

// Returns the texts of an example's kept columns, each ended by a NUL.
const char *dataset_kept(const struct dataset *d, uint64_t example);

// Returns the file and line of an example, for messages. For a piece of a plain file this
// reads the file up to the piece. Line 0: the file could not be read again, or the
// example was dealt (data/dataset/deal.h).
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

// The order of a pass. Runs of 8 consecutive examples are shuffled, which costs an eighth
// of the cache misses of shuffling single examples. 32 runs form a block; the first
// examples of all its runs come first, then the second ones, and so on, so that
// neighbours in the text never follow each other.
enum { ORDER_RUN = 8, ORDER_RUNS = 32, ORDER_BLOCK = ORDER_RUN * ORDER_RUNS };

struct order {
    uint64_t n;
    struct shuffle runs;
};

// A block of the order, from which one reader takes its examples.
struct order_block {
    bool known;
    uint64_t number;
    uint32_t runs;
    uint64_t first[ORDER_RUNS]; // the first example of each run
};

struct order order_make(uint64_t n, uint64_t seed, uint64_t pass);

// Returns the number of positions. Each example has one position; some positions of the
// last run have no example.
uint64_t order_positions(const struct order *o);

// Lists the examples at positions [first, first + n), without positions that have none,
// and returns their number.
size_t order_take(const struct order *o, struct order_block *h, uint64_t first, size_t n,
                  uint64_t *ret_examples);

// Fills *h with block `number` (position / ORDER_BLOCK), so that its runs can be
// prefetched.
void order_fill_block(const struct order *o, struct order_block *h, uint64_t number);

#endif
