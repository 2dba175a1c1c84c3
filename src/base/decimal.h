// Floats in configuration texts: the shortest decimals that read back as the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_DECIMAL_H
#define TUG_BASE_DECIMAL_H

#include <stdbool.h>

enum { DECIMAL_MAX = 24 }; // with the NUL
void decimal_print(float x, char ret[DECIMAL_MAX]);

// Parses the whole text as a finite number; false if it is not one, or too large.
bool decimal_parse(const char *text, float *ret);

#endif
