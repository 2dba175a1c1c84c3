// Messages for people, on standard error: one line an event. Only the trainer and the commands
// log; what lies below them returns errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LOG_H
#define TUG_BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
int log_level_parse(const char *name, enum log_level *ret_level); // "error" "warn" "info" "debug"
int log_set_file(const char *path, struct err *e); // also append there, with times; NULL: no more
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
