// Messages for people on standard error, one line per event. Only the trainer and the
// commands log; the parts below them return errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_LOG_H
#define TUG_OS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_level log_set_level(enum log_level level); // returns the previous level
// log_want sets the level for the time of a program's call; if several calls run at
// the same time, the level that writes least counts. log_unwant, with the same
// level, ends that time.
void log_want(enum log_level level);
void log_unwant(enum log_level level);
bool log_shows(enum log_level level); // returns whether messages of that level are
                                      // written

// LOG_TEXT: "warning: ..." on standard error, "TIME warn ..." in the file. LOG_JSON: the
// same objects in both (os/log_json.h).
enum log_format { LOG_TEXT, LOG_JSON };
#define LOG_FORMATS "text json"
#define LOG_FORMAT_HELP                                                                  \
    "text: a message is a line of text; json: it is a line with a JSON object: time "    \
    "(UTC), level, role, rank, host, pid, message, and numbers of progress"
void log_set_format(enum log_format format);
enum log_format log_format(void);
// Sets the process's role, a literal, and its rank (-1: unknown), for LOG_JSON.
void log_set_role(const char *role, int rank);
void log_set_rank(int rank);

// From now on, each line is also appended, with its time, to this file. NULL: to no file.
int log_set_file(const char *path, struct err *e);
bool log_has_file(void); // signal handlers may call it
// Opens the file's path again, since a rotation may have renamed the file. If that fails,
// warns and keeps the open file. Each line is in one of the two files.
void log_reopen(void);
// Returns 0 if all lines were written to the file or no file is set; else the first
// error.
int log_check_file(struct err *e);

// Sets a function that gets every line before it is written and may shorten it in place.
// NULL: no function.
void log_rewrite_by(void (*rewrite)(char *text));

// Sets a function that gets this thread's warnings, made printable, before they are
// written to standard error; it returns whether they need not be written there. NULL: no
// function.
void log_take_warnings(bool (*take)(const char *text));

// From now on, also appends those warnings of this thread that are written to standard
// error to *to, each followed by a line end, until *to is full. NULL: to nothing.
struct buf;
void log_collect_warnings(struct buf *to);

// Writes a line. Makes it printable first (base/printable.h), because it may contain
// names from outside.
void log_write(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Does what log_write does, with numbers that LOG_JSON adds to the line; a value that is
// not finite is left out.
struct log_field {
    const char *name;
    double value;
};
void log_write_fields(enum log_level level, const struct log_field *fields, size_t n,
                      const char *fmt, ...) PRINTF_LIKE(4, 5);

// Writes the error that ends the process, whatever the level; `line` begins with the name
// of the command, without "error: ".
void log_last_words(const char *line);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
