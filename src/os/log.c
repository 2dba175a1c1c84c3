// Log lines. Each is formatted completely and written by one call, so that lines of
// different threads and processes do not mix.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/printable.h"
#include "os/file.h"
#include "os/log_json.h"
#include "os/terminal.h"

enum { TEXT_MAX_BYTES = 2048, LINE_MAX_BYTES = LOG_JSON_HEAD_MAX + 2 * TEXT_MAX_BYTES };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const level_prefixes[] = {"error: ", "warning: ", "", "debug: "};

static atomic_int max_level = LOG_INFO;
static atomic_int wanted[LOG_DEBUG + 1]; // per level, the number of calls of log_want
static atomic_int line_format = LOG_TEXT;
static _Atomic(const char *) own_role;
static atomic_int own_rank = -1;
static atomic_bool has_file; // whether file_fd >= 0, for readers without the lock
static void (*_Atomic rewrite_by)(char *text);
static _Thread_local bool (*take_warning)(const char *text);
static _Thread_local struct buf *collected;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
// file_lock guards the following variables.
static int file_fd = -1;
static char file_path[FILE_PATH_MAX];
static struct err file_error; // the first error of writing to the file

enum log_level log_set_level(enum log_level level)
{
    return (enum log_level)atomic_exchange(&max_level, (int)level);
}

void log_want(enum log_level level)
{
    atomic_fetch_add(&wanted[level], 1);
}

void log_unwant(enum log_level level)
{
    atomic_fetch_sub(&wanted[level], 1);
}

bool log_shows(enum log_level level)
{
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
        if (atomic_load_explicit(&wanted[i], memory_order_relaxed) > 0)
            return (int)level <= i;
    return (int)level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

void log_set_format(enum log_format format)
{
    atomic_store(&line_format, (int)format);
}

enum log_format log_format(void)
{
    return (enum log_format)atomic_load_explicit(&line_format, memory_order_relaxed);
}

void log_set_role(const char *role, int rank)
{
    atomic_store(&own_role, role);
    atomic_store(&own_rank, rank);
}

void log_set_rank(int rank)
{
    atomic_store(&own_rank, rank);
}

// Makes `fd` the log file and closes the previous one. The caller holds file_lock.
static void keep_file(int fd)
{
    if (file_fd >= 0)
        close(file_fd);
    file_fd = fd;
    atomic_store(&has_file, fd >= 0);
}

int log_set_file(const char *path, struct err *e)
{
    int fd = -1;
    if (path != NULL)
        TRY(file_open_append(path, false, &fd, e));
    pthread_mutex_lock(&file_lock);
    keep_file(fd);
    file_error = (struct err){0};
    snprintf(file_path, sizeof(file_path), "%s", path != NULL ? path : "");
    pthread_mutex_unlock(&file_lock);
    return 0;
}

bool log_has_file(void)
{
    return atomic_load(&has_file);
}

void log_reopen(void)
{
    struct err e = {0};
    int fd = -1, rc = 0;
    pthread_mutex_lock(&file_lock);
    if (file_fd >= 0)
        rc = file_open_append(file_path, false, &fd, &e);
    if (fd >= 0)
        keep_file(fd);
    pthread_mutex_unlock(&file_lock);
    if (rc != 0)
        log_warn("%s; messages still go to the earlier file", e.text);
}

void log_rewrite_by(void (*rewrite)(char *text))
{
    atomic_store(&rewrite_by, rewrite);
}

void log_take_warnings(bool (*take)(const char *text))
{
    take_warning = take;
}

void log_collect_warnings(struct buf *to)
{
    collected = to;
}

int log_check_file(struct err *e)
{
    pthread_mutex_lock(&file_lock);
    int rc = file_error.code == 0 ? 0 : err_copy(e, &file_error);
    pthread_mutex_unlock(&file_lock);
    return rc;
}

static bool write_line(int fd, const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, line, len);
        if (n < 0 && errno != EINTR) {
            if (file_error.code == 0)
                err_sys(&file_error, TUG_EIO, "cannot write the log '%s'", file_path);
            return false;
        }
        if (n > 0) {
            line += n;
            len -= (size_t)n;
        }
    }
    return true;
}

// Writes the line for the file into `to` and returns its length. With LOG_JSON, standard
// error gets the same line.
static size_t format_line(char to[LINE_MAX_BYTES], enum log_level level,
                          const struct log_field *fields, size_t n, const char *text)
{
    char host[64] = "", stamp[LOG_TIME_BYTES];
    if (log_format() == LOG_JSON) {
        bool named = gethostname(host, sizeof(host) - 1) == 0;
        struct log_origin from = {atomic_load(&own_role), atomic_load(&own_rank),
                                  named ? host : NULL, (int)getpid()};
        return log_json_line(to, LINE_MAX_BYTES, level, &from, fields, n, text,
                             strlen(text));
    }
    log_json_time(stamp);
    return (size_t)snprintf(to, LINE_MAX_BYTES, "%s %s %s\n", stamp, level_names[level],
                            text);
}

static void write_stderr(const char *prefix, const char *text)
{
    char line[TEXT_MAX_BYTES + 16];
    int n = snprintf(line, sizeof(line), "%s%s\n", prefix, text);
    terminal_say(line, (size_t)n);
}

// Writes a printable text to the log file and, unless `prefix` is NULL, to standard
// error. There, a line of LOG_TEXT begins with `prefix`.
static void write_both(enum log_level level, const char *prefix,
                       const struct log_field *fields, size_t n, const char *text)
{
    char line[LINE_MAX_BYTES];
    size_t len = format_line(line, level, fields, n, text);
    if (prefix != NULL && log_format() == LOG_JSON)
        terminal_say(line, len);
    else if (prefix != NULL)
        write_stderr(prefix, text);
    struct err failed = {0};
    pthread_mutex_lock(&file_lock);
    if (file_fd >= 0 && !write_line(file_fd, line, len)) {
        failed = file_error;
        keep_file(-1);
    }
    pthread_mutex_unlock(&file_lock);
    if (failed.code != 0)
        write_both(LOG_WARN, level_prefixes[LOG_WARN], NULL, 0, failed.text);
}

static void log_write_args(enum log_level level, const struct log_field *fields, size_t n,
                           const char *fmt, va_list args)
{
    int saved = errno;
    char said[TEXT_MAX_BYTES], text[TEXT_MAX_BYTES];
    vsnprintf(said, sizeof(said), fmt, args);
    void (*rewrite)(char *) = atomic_load(&rewrite_by);
    if (rewrite != NULL)
        rewrite(said);
    (void)printable_copy(text, sizeof(text), said, strlen(said));
    if (level == LOG_WARN && collected != NULL)
        // If memory is short, the collected text lacks this line.
        (void)buf_printf(collected, "%s\n", text);
    bool taken = level == LOG_WARN && take_warning != NULL && take_warning(text);
    write_both(level, taken ? NULL : level_prefixes[level], fields, n, text);
    errno = saved;
}

void log_write(enum log_level level, const char *fmt, ...)
{
    if (!log_shows(level))
        return;
    va_list args;
    va_start(args, fmt);
    log_write_args(level, NULL, 0, fmt, args);
    va_end(args);
}

void log_write_fields(enum log_level level, const struct log_field *fields, size_t n,
                      const char *fmt, ...)
{
    if (!log_shows(level))
        return;
    va_list args;
    va_start(args, fmt);
    log_write_args(level, fields, n, fmt, args);
    va_end(args);
}

void log_last_words(const char *line)
{
    char text[TEXT_MAX_BYTES];
    // the text may come from a peer
    (void)printable_copy(text, sizeof(text), line, strlen(line));
    write_both(LOG_ERROR, "", NULL, 0, text);
}
