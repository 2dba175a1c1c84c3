// tug: bags of rows, for models that compute outside the library.
//
// A batch asks for rows by ids that repeat, and wants sums of them: of the values of a field, of
// the words of a query (PyTorch: EmbeddingBag). Its distinct keys are pulled once, bags are added
// up from what came, and gradients of bags are added up to gradients of distinct keys, to be
// pushed:
//
//   tug_distinct    keys of the batch → distinct keys, and which of them each is
//   tug_pull        their rows
//   tug_bags_pool   rows → a sum for each bag
//   tug_bags_spread gradients by these sums → gradients by the rows
//   tug_push
//
// Nothing here knows a client, threads or tables; any thread may call, and arrays are the caller's,
// who has looked at what is in them: offsets and which[] are used as they are. Sums are added in
// the order of the entries, whatever the CPU: equal bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BAGS_H
#define TUG_BAGS_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

// The distinct ones of n keys, in the order in which they first come: *ret_n of them in
// ret_distinct, which has room for n, and keys[i] is ret_distinct[ret_which[i]], for all n i.
// TUG_EUSAGE: n is 2^31 or more; TUG_ENOMEM.
TUG_API int tug_distinct(const uint64_t *keys, size_t n, uint64_t *ret_distinct,
                         uint32_t *ret_which, size_t *ret_n);

// Bag b has the entries offsets[b] to offsets[b + 1], excluded; entry i is row which[i],
// times weights[i].
struct tug_bags {
    size_t n;                // bags
    const uint64_t *offsets; // n + 1, ascending; NULL: bag b is entry b
    const uint32_t *which;   // one an entry
    const float *weights;    // one an entry; NULL: all are 1
    uint32_t width;          // floats of a row
};

// The sum of each bag, 0 where it is empty. `rows`: as many as which[] names, of width floats;
// `ret`: n x width.
TUG_API void tug_bags_pool(const struct tug_bags *b, const float *rows, float *ret);
// Adds to the gradient of each row what the bags that have it say. `bags`: n x width, the gradients
// by their sums; `rows`: the gradients by the rows, as many as which[] names, which begin with 0 or
// with those of other bags.
TUG_API void tug_bags_spread(const struct tug_bags *b, const float *bags, float *rows);
// The gradients by the weights, one an entry: ret[i] is the product of row which[i] and the
// gradient (`bags`, as above) of the bag that entry i is in.
TUG_API void tug_bags_weigh(const struct tug_bags *b, const float *rows,
                            const float *bags, float *ret);

#ifdef __cplusplus
}
#endif

#endif
