// Words from outside that people are shown: names, and sentences of peers. Characters
// that would begin a new line or control a terminal are escaped.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PRINTABLE_H
#define TUG_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

// Whether n bytes are UTF-8 without control characters.
bool printable_check(const char *text, size_t n);

// Returns the index of the first byte that is not valid UTF-8 (control characters are
// valid); n if there is none.
size_t printable_not_utf8(const char *text, size_t n);

// Copies n bytes so: what is not printable becomes "\t", "\n", "\r" or "\x1b". A text
// that does not fit `cap` bytes with the NUL is cut, never inside a character. Returns
// how many of the n bytes were copied.
size_t printable_copy(char *to, size_t cap, const char *text, size_t n);

// Adds n bytes so to *b. Fails as buf_add does.
struct buf;
int printable_add(struct buf *b, const char *text, size_t n);

// Makes a text so in its place: what is not printable becomes '?', byte by byte.
void printable_make(char *text);

#endif
