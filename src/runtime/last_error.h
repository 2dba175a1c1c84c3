// The error text of each thread's last failed call, which tug_last_error returns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_LAST_ERROR_H
#define TUG_RUNTIME_LAST_ERROR_H

#include <stdbool.h>

#include "base/err.h"

// Returns this thread's error, for err_set and similar functions to fill.
struct err *last_error(void);

enum { WARNINGS_TEXT = 4096 }; // bytes of all warnings of a call

// From last_warning_begin to last_warning_end, this thread's log_warn adds lines to the
// text of tug_last_warning, which is empty at first. If the program has called
// tug_keep_warnings (last_warning_kept), these lines are not written to standard error.
void last_warning_begin(void);
void last_warning_end(void);
// Sets the text of tug_last_warning. Used if another thread has done this thread's work
// and collected its warnings.
void last_warning_set(const char *text);
bool last_warning_kept(void);

// Makes *why this thread's error and returns its code.
int last_error_is(const struct err *why);

#endif
