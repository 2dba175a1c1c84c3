// Lines as readers get them, and random numbers for what is in them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_LINES_H
#define TUG_KIT_LINES_H

#include "data/reader.h"

// Numbers as a function of how many were drawn before.
extern uint64_t any_counter;
uint64_t any(uint64_t below);
bool any_in_100(uint64_t percent); // true so often

// The bytes behind a line look like a continuation of it.
struct line {
    char *text; // mem_free it
    size_t len;
};
struct line line_make(const char *text, size_t len);

extern const struct reader_layout *line_layout; // of csv: by the last header
int line_parse(const struct reader *r, const char *text, struct examples *x,
               struct err *e);
// A line that must be refused, with a reason that holds `reason`.
void line_refused(const struct reader *r, const char *text, const char *reason);

#endif
