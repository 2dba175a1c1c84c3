// Floats in configuration texts: the shortest decimals that read back as the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_DECIMAL_H
#define TUG_BASE_DECIMAL_H

#include <stdbool.h>

enum { DECIMAL_MAX = 24 }; // the longest text, including the NUL
void decimal_print(float x, char ret[DECIMAL_MAX]);

// Parses the whole text as a finite number. Returns false if it is not a number, or too
// large.
bool decimal_parse(const char *text, float *ret);

#endif
