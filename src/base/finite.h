// Checks whether floats are finite, many at a time and at any alignment.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_FINITE_H
#define TUG_BASE_FINITE_H

#include <stdbool.h>
#include <stddef.h>

bool finite_floats(const void *floats, size_t n);
// Returns whether all floats are between -limit and limit, both excluded; limit > 0.
bool finite_below(const void *floats, size_t n, float limit);
// Returns whether all floats are finite after rounding to bf16, whose largest number is
// smaller.
bool finite_when_bf16(const void *floats, size_t n);
bool finite_bf16(const void *halves, size_t n);
// Return whether all numbers of IEEE 754 binary16 (halves) or binary64 (doubles) are
// finite.
bool finite_halves(const void *halves, size_t n);
bool finite_doubles(const void *doubles, size_t n);

#endif
