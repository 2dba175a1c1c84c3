// The line that is drawn over; see terminal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 400 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t drawn; // number of characters of the drawn line; the lock guards it
static bool dotted;  // whether a line of dots has no line end yet; the lock guards it

bool terminal_can_draw(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
}

bool terminal_controls(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

size_t terminal_output_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Writes all bytes. A failed write cannot be reported anywhere.
static void write_all(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

// Erases the drawn line. The line covers several rows if the terminal has become narrower
// since it was drawn.
static void erase(void)
{
    if (dotted)
        write_all("\n", 1);
    dotted = false;
    if (drawn == 0)
        return;
    char text[32];
    size_t rows = (drawn - 1) / terminal_columns();
    int n = rows > 0 ? snprintf(text, sizeof(text), "\r\033[%zuA\033[J", rows)
                     : snprintf(text, sizeof(text), "\r\033[K");
    write_all(text, (size_t)n);
    drawn = 0;
}

void terminal_draw(const char *line)
{
    pthread_mutex_lock(&lock);
    erase();
    // The last column stays empty, because some terminals begin a new row after it.
    size_t columns = terminal_columns(), len = line != NULL ? strlen(line) : 0;
    if (columns > COLUMNS_MAX)
        columns = COLUMNS_MAX;
    drawn = len < columns ? len : columns - 1;
    if (drawn > 0)
        write_all(line, drawn);
    pthread_mutex_unlock(&lock);
}

void terminal_dots(size_t n)
{
    static const char dots[] = "................................";
    pthread_mutex_lock(&lock);
    if (n > 0 && !dotted)
        erase();
    dotted |= n > 0;
    for (size_t some; n > 0; n -= some) {
        some = n < sizeof(dots) - 1 ? n : sizeof(dots) - 1;
        write_all(dots, some);
    }
    pthread_mutex_unlock(&lock);
}

void terminal_say(const char *text, size_t len)
{
    pthread_mutex_lock(&lock);
    erase();
    write_all(text, len);
    pthread_mutex_unlock(&lock);
}
