// Words from outside that people are shown: names, and sentences of peers. What would
// begin a new line or steer a terminal is not shown as it is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PRINTABLE_H
#define TUG_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

// Whether n bytes are UTF-8 without control characters.
bool printable_check(const char *text, size_t n);

// Makes a text so: what is not printable becomes '?', byte by byte.
void printable_make(char *text);

#endif
