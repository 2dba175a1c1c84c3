// Standard error as people see it: messages and, on a terminal, one line below them that
// is drawn over during work.
//
// The line is never wider than the terminal, whose width is asked for at each drawing, as
// it may have changed. A message replaces the line, so that no part of it stays.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_TERMINAL_H
#define TUG_OS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Returns whether standard error is a terminal on which a line can be erased and drawn
// again.
bool terminal_can_draw(void);

// Returns whether this process has a controlling terminal that still exists. Signal
// handlers may call it. The kernel takes the terminal away before it sends SIGHUP.
bool terminal_controls(void);

// Returns the width of the terminal at standard error in characters; 80 if unknown.
size_t terminal_columns(void);

// Returns the width of the terminal at standard output; 0 if that is not a terminal.
size_t terminal_output_columns(void);

// Draws the line, cut to the width; one byte counts as one column. NULL removes the line.
// Any thread may call it.
void terminal_draw(const char *line);

// Writes n dots on one line; the next output begins a new line. Any thread may call it.
void terminal_dots(size_t n);

// Writes a message, which includes its line end, in place of the drawn line. Any thread
// may call it.
void terminal_say(const char *text, size_t len);

#endif
