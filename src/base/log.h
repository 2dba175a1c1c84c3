// Messages for people, on standard error: one line an event. Only the trainer and the
// commands log; what lies below them returns errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LOG_H
#define TUG_BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_level log_set_level(enum log_level level); // gives what it was
// The level during a program's call, instead of that one; of several calls at a time the
// quietest level counts. Each is taken back with the same level.
void log_want(enum log_level level);
void log_unwant(enum log_level level);
bool log_shows(enum log_level level); // whether messages of that level are written

// Lines also go to the end of this file, with their times. NULL: none.
int log_set_file(const char *path, struct err *e);
// Whether all lines were written there, else the first error. 0 without a file.
int log_check_file(struct err *e);

// Every line is first passed to `rewrite`, which may shorten it in place; NULL: to none.
void log_rewrite_by(void (*rewrite)(char *text));

// Text may hold names from outside: it is made printable (base/printable.h).
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
