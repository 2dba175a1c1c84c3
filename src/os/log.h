// Messages for people on standard error, one line per event. Only the trainer and the
// commands log; the parts below them return errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_LOG_H
#define TUG_OS_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_level log_set_level(enum log_level level); // returns the previous level
// log_want sets the level for the time of a program's call; if several calls run at the
// same time, the quietest level counts. log_unwant, with the same level, ends this.
void log_want(enum log_level level);
void log_unwant(enum log_level level);
bool log_shows(enum log_level level); // returns whether messages of that level are
                                      // written

// Appends all further lines, with their times, to this file, too. NULL: to no file.
int log_set_file(const char *path, struct err *e);
// Returns 0 if all lines were written to the file or there is none; else the first error.
int log_check_file(struct err *e);

// Sets a function that gets every line before it is written and may shorten it in place.
// NULL: no function.
void log_rewrite_by(void (*rewrite)(char *text));

// Sets a function that gets this thread's warnings, made printable, before they are
// written to standard error; it returns whether they need not be written there. NULL: no
// function.
void log_take_warnings(bool (*take)(const char *text));

// Writes a line, after making it printable (base/printable.h), since it may contain names
// from outside.
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
