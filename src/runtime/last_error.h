// The sentence behind the last failure of each thread: what tug_last_error returns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_LAST_ERROR_H
#define TUG_RUNTIME_LAST_ERROR_H

#include <stdbool.h>

#include "base/err.h"

// Returns this thread's error, for err_set and similar functions to fill.
struct err *last_error(void);

// Sets this thread's warning for tug_last_warning, and writes it to standard error unless
// the program has called tug_keep_warnings (last_warning_kept).
void last_warning_set(const char *text);
bool last_warning_kept(void);

// Makes *why this thread's error and returns its code.
int last_error_is(const struct err *why);

#endif
