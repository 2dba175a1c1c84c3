// Parses and prints floats in configuration texts.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void decimal_print(float x, char ret[DECIMAL_MAX])
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(ret, DECIMAL_MAX, "%.*g", digits, (double)x);
        if (strtof(ret, NULL) == x)
            return;
    }
}

bool decimal_parse(const char *text, float *ret)
{
    char *end;
    if (*text == 0 || strspn(text, "+-.eE0123456789") != strlen(text))
        return false; // strtof would take spaces, hexadecimal, nan and inf as well
    *ret = strtof(text, &end);
    return *end == 0 && isfinite(*ret);
}
