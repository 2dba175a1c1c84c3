// Lines of text in the form that readers get them, and random numbers for their contents.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LINES_H
#define TUG_KIT_LINES_H

#include "data/format/reader.h"

// Random numbers that depend on how many were drawn before.
extern uint64_t any_counter;
uint64_t any(uint64_t below);
bool any_in_100(uint64_t percent); // true with this probability

// A line followed by bytes that look like its continuation.
struct line {
    char *text; // free it with mem_free
    size_t len;
};
struct line line_make(const char *text, size_t len);

// Layout of csv lines, from the last header that was parsed.
extern const struct reader_layout *line_layout;
int line_parse(const struct reader *r, const char *text, struct examples *x,
               struct err *e);
// Checks that a line is refused, with a reason that contains `reason`.
void line_refused(const struct reader *r, const char *text, const char *reason);

#endif
