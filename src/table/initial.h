// Initial values of dense variables: each is a function of (seed, stream, its index), so
// that every process computes the same values, however the variable is spread over
// servers.
//
//   constant:X                     X
//   uniform:LOW,HIGH               uniform in [LOW, HIGH)
//   gaussian:MEAN,STD              normal (Marsaglia's polar method)
//   truncated-gaussian:MEAN,STD[,A,B]   normal within MEAN + A STD .. MEAN + B STD; by
//                                  default A = -2, B = 2
//   xavier:FAN_IN,FAN_OUT          uniform within sqrt(6 / (FAN_IN + FAN_OUT)) of 0 (Glorot
//                                  & Bengio 2010, equation 16)
//
// Paddle's forms are accepted, too: "fill_constant&V", "uniform_random&SEED&MIN&MAX",
// "gaussian_random&SEED&MEAN&STD", "truncated_gaussian_random&SEED&MEAN&STD"; their seed
// is added to the table's.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_INITIAL_H
#define TUG_TABLE_INITIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum initial_kind {
    INITIAL_CONSTANT,
    INITIAL_UNIFORM,
    INITIAL_GAUSSIAN,
    INITIAL_TRUNCATED_GAUSSIAN,
};

struct initial {
    enum initial_kind kind;
    // Constant: a is the value. Uniform: a and b are the bounds. Otherwise a is the mean
    // and b the standard deviation.
    double a, b;
    double low, high; // for truncated: bounds in standard deviations from the mean
    uint64_t seed;
};

int initial_parse(const char *text, struct initial *ret, struct err *e);

// Writes the initial values [first, first + n) of a random stream.
void initial_fill(const struct initial *x, uint64_t seed, uint64_t stream, uint64_t first,
                  size_t n, float *ret);

#endif
