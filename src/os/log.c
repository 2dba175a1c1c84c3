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
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/terminal.h"

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const level_prefixes[] = {"error: ", "warning: ", "", "debug: "};

static atomic_int max_level = LOG_INFO;
static atomic_int wanted[LOG_DEBUG + 1]; // per level, the number of calls of log_want
static void (*_Atomic rewrite_by)(char *text);
static _Thread_local bool (*take_warning)(const char *text);
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

int log_set_file(const char *path, struct err *e)
{
    int fd = -1;
    if (path != NULL)
        TRY(file_open_log(path, false, &fd, e));
    pthread_mutex_lock(&file_lock);
    if (file_fd >= 0)
        close(file_fd);
    file_fd = fd;
    file_error = (struct err){0};
    snprintf(file_path, sizeof(file_path), "%s", path != NULL ? path : "");
    pthread_mutex_unlock(&file_lock);
    return 0;
}

void log_rewrite_by(void (*rewrite)(char *text))
{
    atomic_store(&rewrite_by, rewrite);
}

void log_take_warnings(bool (*take)(const char *text))
{
    take_warning = take;
}

int log_check_file(struct err *e)
{
    pthread_mutex_lock(&file_lock);
    int rc = file_error.code == 0 ? 0
                                  : err_set(e, file_error.code, "%s", file_error.text);
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

static void write_stderr(enum log_level level, const char *text)
{
    char line[LINE_MAX_BYTES + 16];
    int n = snprintf(line, sizeof(line), "%s%s\n", level_prefixes[level], text);
    terminal_say(line, (size_t)n);
}

static bool log_write_file(int fd, enum log_level level, const char *text)
{
    uint64_t now = clock_unix_ns();
    time_t seconds = (time_t)(now / 1000000000u);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    char stamp[32];
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    char line[LINE_MAX_BYTES + 64];
    int n = snprintf(line, sizeof(line), "%s.%03uZ %s %s\n", stamp,
                     (unsigned)(now / 1000000u % 1000u), level_names[level], text);
    return write_line(fd, line, (size_t)n);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    if (!log_shows(level))
        return;
    int saved = errno;
    char said[LINE_MAX_BYTES], text[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(said, sizeof(said), fmt, args);
    va_end(args);
    void (*rewrite)(char *) = atomic_load(&rewrite_by);
    if (rewrite != NULL)
        rewrite(said);
    (void)printable_copy(text, sizeof(text), said, strlen(said));
    bool taken = level == LOG_WARN && take_warning != NULL && take_warning(text);
    if (!taken)
        write_stderr(level, text);
    pthread_mutex_lock(&file_lock);
    if (file_fd >= 0 && !log_write_file(file_fd, level, text)) {
        write_stderr(LOG_WARN, file_error.text);
        close(file_fd);
        file_fd = -1;
    }
    pthread_mutex_unlock(&file_lock);
    errno = saved;
}
