// tug: sums of rows by bags, for models that compute outside the library.
//
// A bag is a group of ids whose rows are summed, such as the values of a field or the
// words of a query (PyTorch: EmbeddingBag). The ids of a batch repeat. A program pulls
// each distinct key once, sums its rows into bags, sums the gradients of bags into
// gradients of the distinct keys, and pushes these:
//
//   tug_distinct     keys of the batch → distinct keys, and each key's position in them
//   tug_pull         the rows of the distinct keys
//   tug_bags_pool    rows → the sum of each bag
//   tug_bags_spread  gradients with respect to the sums → gradients of the rows
//   tug_push         the gradients of the distinct keys
//
// The functions use no client, threads or tables. Any thread may call them. Arrays belong
// to the caller; offsets and which[] are not checked. Sums are added in the order of the
// entries, so that all CPUs give equal bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BAGS_H
#define TUG_BAGS_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

// Finds the distinct keys among n keys. They are written to ret_distinct, which has room
// for n, in the order of their first occurrence; *ret_n is their number. For each i below
// n, keys[i] is ret_distinct[ret_which[i]]. TUG_EUSAGE if n is 2^31 or more; TUG_ENOMEM
// if memory is short.
TUG_API int tug_distinct(const uint64_t *keys, size_t n, uint64_t *ret_distinct,
                         uint32_t *ret_which, size_t *ret_n);

// The bags of a batch. Bag b has the entries from offsets[b] up to, but not including,
// offsets[b + 1]; entry i is row which[i] times weights[i].
struct tug_bags {
    size_t n; // number of bags
    // n + 1 positions of entries, ascending. NULL: bag b has only entry b.
    const uint64_t *offsets;
    const uint32_t *which; // the row number of each entry
    const float *weights;  // the weight of each entry; NULL: all weights are 1
    uint32_t width;        // number of floats of a row
};

// Computes the sum of each bag, 0 for an empty bag. `rows` are the rows to which which[]
// refers, of `width` floats each; `ret` gets n x width floats.
TUG_API void tug_bags_pool(const struct tug_bags *b, const float *rows, float *ret);
// Adds the gradients of bags to the gradients of the rows in them, each multiplied by the
// entry's weight. `bags` are the n x width gradients with respect to the sums. `rows` are
// the gradients with respect to the rows to which which[] refers. The function adds to
// them, so the caller sets them to 0, or to earlier gradients, before the call.
TUG_API void tug_bags_spread(const struct tug_bags *b, const float *bags, float *rows);
// Computes the gradients with respect to the weights, one per entry: ret[i] is the
// product of row which[i] and the gradient (`bags`, as above) of entry i's bag.
TUG_API void tug_bags_weigh(const struct tug_bags *b, const float *rows,
                            const float *bags, float *ret);

#ifdef __cplusplus
}
#endif

#endif
