// The sentence behind the last failure of each thread: what tug_last_error returns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_LAST_ERROR_H
#define TUG_FACADE_LAST_ERROR_H

#include <stdbool.h>

#include "base/err.h"

// This thread's; to be filled by err_set and its like.
struct err *last_error(void);

// The thread's warning: what tug_last_warning returns. The facade writes it to standard
// error, unless the program keeps it.
void last_warning_set(const char *text);
bool last_warning_kept(void);

// Makes *why the thread's error; returns its code.
int last_error_is(const struct err *why);

#endif
