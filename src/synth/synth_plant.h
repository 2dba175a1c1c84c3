// The inside of the planted model, shared by the files of synth/synth.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SYNTH_SYNTH_PLANT_H
#define TUG_SYNTH_SYNTH_PLANT_H

#include "synth/synth.h"

enum {
    SYNTH_DIM = 8,
    SYNTH_QUANTILES = 1024, // number of parts of equal probability in a slot's
                            // distribution
    SYNTH_HEAD = 1 << 15,   // most values of a slot with weights of their own
    // The number of weights that all other values of a slot share by hash. A model
    // sees each of these values only once or twice, so it cannot tell shared
    // weights from own ones.
    SYNTH_TAIL = 1 << 10,
    SYNTH_FRACTION = 8, // fractional bits of a quantile
};

typedef float synth_v8 __attribute__((vector_size(32)));

// The weights of a value. The struct has the size of a cache line.
struct synth_weights {
    synth_v8 latent;
    float linear;
    float unused[7];
};

// A quantile of a slot's distribution; the values of the slot are sorted by frequency.
// The quantile covers the values [low, low + width), in units of 2^-SYNTH_FRACTION, all
// equally likely. So 1024 steps approximate the power law.
struct synth_quantile {
    uint32_t low, width;
};

struct synth_slot {
    uint32_t size;
    uint32_t head;     // min(size, SYNTH_HEAD)
    uint32_t missing;  // number of examples in 2048, on average, in which the slot has no
                       // value
    uint32_t index;    // index of value 0 in libsvm and libffm
    uint32_t scramble; // selects the bijection from a categorical slot's values to words
    // The weights of the head, then SYNTH_TAIL weights of all other values.
    struct synth_weights *weights;
    struct synth_quantile quantiles[SYNTH_QUANTILES];
};

enum { SYNTH_BUCKETS = 128 }; // more than the number of buckets of a numeric slot

struct synth {
    uint64_t seed;
    double intercept;
    struct synth_weights *weights;
    // The first integer of each bucket of a numeric slot.
    uint32_t bucket_low[SYNTH_BUCKETS + 1];
    struct synth_slot slots[SYNTH_SLOTS];
};

#endif
