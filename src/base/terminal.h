// Standard error as people see it: messages, and on a terminal one line below them that
// is drawn over while something works.
//
// The line never is wider than the terminal, which is asked each time: it may have been
// made narrower meanwhile. Messages take its place, so that no rest of it stays behind.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_TERMINAL_H
#define TUG_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Whether standard error is a terminal that can draw over a line.
bool terminal_can_draw(void);

// Characters in a line of it; 80 if it does not say.
size_t terminal_columns(void);

// Characters in a line of the terminal that is standard output; 0 where it is not one.
size_t terminal_output_columns(void);

// Draws the line, cut to what fits; one byte is one column. NULL removes it. Any thread.
void terminal_draw(const char *line);

// Writes dots behind each other; the next output begins a line. Any thread.
void terminal_dots(size_t n);

// Writes a message with its line end, in the place of the line that was drawn. Any
// thread.
void terminal_say(const char *text, size_t len);

#endif
