// See test.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"

#include <stdio.h>
#include <stdlib.h>

struct err test_err;

void skip_because(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_message("skipped: %s\n", text);
    skip();
    abort(); // cmocka does not return
}
