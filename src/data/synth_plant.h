// The planted model from the inside: what the files of data/synth share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SYNTH_PLANT_H
#define TUG_DATA_SYNTH_PLANT_H

#include "data/synth.h"

enum {
    SYNTH_DIM = 8,
    SYNTH_QUANTILES = 1024, // pieces of a slot's distribution, of equal probability
    SYNTH_HEAD = 1 << 15,   // values of a slot with weights of their own
    SYNTH_TAIL =
        1 << 10, // weights that the other values share by hash: to a model that sees
                 // each of those values once or twice they are as good as their own
    SYNTH_FRACTION = 8, // bits behind the point in a quantile
};

typedef float synth_v8 __attribute__((vector_size(32)));

// One cache line.
struct synth_weights {
    synth_v8 latent;
    float linear;
    float unused[7];
};

// A slot's values in order of frequency. Quantile q covers the values [low, low + width)
// in units of 2^-SYNTH_FRACTION, each part of it equally likely: a power law in 1024
// straight pieces.
struct synth_quantile {
    uint32_t low, width;
};

struct synth_slot {
    uint32_t size;
    uint32_t head;     // min(size, SYNTH_HEAD)
    uint32_t missing;  // of 2048
    uint32_t index;    // of value 0 in libsvm and libffm
    uint32_t scramble; // start of the bijection that makes a categorical value's word
    struct synth_weights *weights; // head, then SYNTH_TAIL
    struct synth_quantile quantiles[SYNTH_QUANTILES];
};

enum { SYNTH_BUCKETS = 128 }; // more than any numeric slot has

struct synth {
    uint64_t seed;
    double intercept;
    struct synth_weights *weights;          // of all slots
    uint32_t bucket_low[SYNTH_BUCKETS + 1]; // first integers of a numeric slot's buckets
    struct synth_slot slots[SYNTH_SLOTS];
};

#endif
