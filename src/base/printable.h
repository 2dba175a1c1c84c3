// Makes texts from outside (names, messages of peers) safe to print. Characters that
// would begin a new line or control a terminal are escaped.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PRINTABLE_H
#define TUG_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

// Returns whether n bytes are UTF-8 without control characters.
bool printable_check(const char *text, size_t n);

// Returns the index of the first byte that is not valid UTF-8 (control characters are
// valid); n if there is none.
size_t printable_not_utf8(const char *text, size_t n);

// Copies n bytes and escapes characters that are not printable: "\t", "\n", "\r" or
// "\x1b". Cuts the copy to `cap` bytes with the NUL, but never inside a character.
// Returns how many of the n bytes were copied.
size_t printable_copy(char *to, size_t cap, const char *text, size_t n);

// Appends n bytes to *b, escaped as by printable_copy. Fails as buf_add does.
struct buf;
int printable_add(struct buf *b, const char *text, size_t n);

// Replaces each byte that is not printable by '?', in place.
void printable_make(char *text);

#endif
