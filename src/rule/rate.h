// Schedules of learning rates. A schedule is a factor by which a table's rates are
// multiplied; it depends on the run's step.
//
// The server owns the global step, so that all rows of a table learn at the same rate,
// whichever worker pushes. A schedule is a pure function of that step, with the same bits
// on every machine. With t the steps since the warm-up and x = t / steps:
//
//   constant             1
//   exponential          factor^x
//   natural-exponential  e^(-factor x)
//   inverse-time         1 / (1 + factor x)
//   polynomial           end + (1 - end) (1 - min(x, 1))^power
//   cosine               end + (1 - end) (1 + cos(pi min(x, 1))) / 2
//   piecewise            1 up to the first given step; from each given step on, its value
//   noam                 dim^-1/2 min(s^-1/2, s warmup^-3/2) with s = step + 1
//                        (Vaswani et al. 2017); the warm-up is part of it
//
// With `stairs`, x is rounded down. In a warm-up of w steps, the factor at step i is the
// factor at t = 0 times (i + 1) / (w + 1).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RULE_RATE_H
#define TUG_RULE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// The values of this enum are used in messages and files: add new ones at the end.
enum rate_kind {
    RATE_CONSTANT,
    RATE_EXPONENTIAL,
    RATE_NATURAL_EXPONENTIAL,
    RATE_INVERSE_TIME,
    RATE_POLYNOMIAL,
    RATE_COSINE,
    RATE_PIECEWISE,
    RATE_NOAM,
    RATE_KINDS,
};

enum { RATE_PIECES = 16 };

// A schedule. If all members are 0, its factor is 1 at every step. Members that its
// kind does not use are 0.
struct rate {
    enum rate_kind kind;
    uint32_t dim;    // of noam: the width of the model's vectors
    uint64_t warmup; // number of steps of the warm-up
    uint64_t steps;
    float factor;
    float end;
    float power;
    bool stairs;
    // The pieces of a piecewise schedule: from step from[i] on, the factor is to[i]. The
    // steps in from[] ascend.
    uint32_t n_pieces;
    uint64_t from[RATE_PIECES];
    float to[RATE_PIECES];
};

// Returns the factor at a step. It is finite and not negative if rate_check accepts the
// schedule.
float rate_factor(const struct rate *r, uint64_t step);

// Checks the numbers of a schedule. Returns TUG_EUSAGE if a number is invalid; the error
// names it.
int rate_check(const struct rate *r, struct err *e);

// Parses a schedule: "constant", "exponential:steps=1000,factor=0.9,stairs,warmup=100",
// "piecewise:1000=0.5,2000=0.1". The defaults are factor 0.9 for exponential and 1 for
// others, end 0, power 1, dim 512, and a warm-up of 4000 for noam. `steps` has no
// default.
int rate_parse(const char *text, struct rate *ret, struct err *e);

// Prints a schedule; parsing the text gives a schedule with the same bits. Returns
// TUG_ENOMEM if memory ran out.
int rate_print(const struct rate *r, struct buf *to);

const char *rate_names(void); // "constant, exponential, ..."

#endif
