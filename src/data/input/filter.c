// Passes files through shell commands: feeds a command, waits for its output, and checks
// how it ended.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/input/decode.h"
#include "data/source/paths.h"
#include "os/clock.h"
#include "os/command.h"
#include "os/log.h"
#include "os/thread.h"

enum { FEED_BYTES = 64 << 10, LOOK_MS = 100 };

// end_seconds: how long a command may run after the end of its output. quiet_seconds:
// after how long without output the silence is reported.
static const double end_seconds = 10, quiet_seconds = 60;

struct filter {
    struct input base;
    const struct data_file *file;
    struct interrupt interrupt;
    struct command *command; // NULL: the command has ended
    double last;             // time of the command's last output
    bool mentioned, ended;

    // Used by the thread that feeds the command.
    bool feeds; // the thread exists
    pthread_t thread;
    struct decoder *d;
    int to;      // pipe to the command's input
    int stop_fd; // makes the thread end
    struct err failure;
    int failed;
};

// ---------------------------------------------------------------- feeding

// Writes bytes to the command's input. Returns false if the command has closed it, or
// the thread must stop.
static bool feed_write(struct filter *f, const char *bytes, size_t n)
{
    while (n > 0) {
        struct pollfd fds[2] = {{.fd = f->to, .events = POLLOUT},
                                {.fd = f->stop_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return false;
        if (fds[1].revents != 0)
            return false;
        ssize_t done = write(f->to, bytes, n); // SIGPIPE is blocked in this thread
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

static int feed_all(struct filter *f, char *bytes, struct err *e)
{
    const struct interrupt i = {f->stop_fd, f->interrupt.flag};
    struct input *in = NULL;
    TRY(data_file_input(&in, f->file, &i, e));
    TRY(decoder_open_input(&f->d, in, f->file->name, e));
    for (;;) {
        size_t n = 0;
        TRY(decoder_read(f->d, bytes, FEED_BYTES, &n, e));
        if (n == 0 || !feed_write(f, bytes, n))
            return 0;
    }
}

static void *feed_thread(void *arg)
{
    struct filter *f = arg;
    char *bytes = mem_alloc(FEED_BYTES);
    f->failed = bytes != NULL ? feed_all(f, bytes, &f->failure)
                              : err_nomem(&f->failure, "a buffer for a command");
    mem_free(bytes);
    close(f->to);
    f->to = -1;
    return NULL;
}

static int start_feeding(struct filter *f, struct err *e)
{
    int rc = thread_start(&f->thread, feed_thread, f);
    f->feeds = rc == 0;
    errno = rc;
    return rc == 0 ? 0
                   : err_sys(e, TUG_EIO, "cannot start the thread that feeds '%s'",
                             f->file->command);
}

static void stop_feeding(struct filter *f)
{
    if (!f->feeds)
        return;
    (void)eventfd_write(f->stop_fd, 1);
    pthread_join(f->thread, NULL);
    f->feeds = false;
}

// ---------------------------------------------------------------- opening

static int start_fed(struct filter *f, struct err *e)
{
    int ends[2];
    f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->stop_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(e, TUG_EIO, "cannot run '%s'", f->file->command);
    f->to = ends[1];
    int rc = fcntl(f->to, F_SETFL, O_NONBLOCK) == 0
                 ? command_begin(&f->command, f->file->command, COMMAND_READ, ends[0], e)
                 : err_sys(e, TUG_EIO, "cannot run '%s'", f->file->command);
    close(ends[0]);
    return rc == 0 ? start_feeding(f, e) : rc;
}

static int filter_start(struct filter *f, struct err *e)
{
    struct input *in = NULL;
    if (f->file->packed || f->file->is_pipe || f->file->address != NULL)
        return start_fed(f, e);
    TRY(data_file_input(&in, f->file, &f->interrupt, e));
    int rc = command_begin(&f->command, f->file->command, COMMAND_READ, in->fd, e);
    input_close(in);
    return rc;
}

static void filter_close(struct input *in)
{
    struct filter *f = (void *)in;
    command_abort(f->command);
    stop_feeding(f);
    decoder_close(f->d);
    const int fds[] = {f->to, f->stop_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    mem_free(f);
}

// ---------------------------------------------------------------- the command's end

// Waits, at most `ms` milliseconds, until `fd` is readable or the reading is interrupted.
// `fd` may be -1.
static int filter_look(struct filter *f, int fd, int ms, bool *ret_readable,
                       struct err *e)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = f->interrupt.wake_fd, .events = POLLIN}};
    if (poll(fds, 2, ms) < 0 && errno != EINTR)
        return err_sys(e, TUG_EIO, "cannot wait for '%s'", f->file->command);
    *ret_readable = fds[0].revents != 0;
    return fds[1].revents != 0 || interrupt_comes(&f->interrupt, 0)
               ? err_set(e, TUG_EINTERRUPTED, "reading %s was stopped", f->file->name)
               : 0;
}

static int wait_for_end(struct filter *f, struct err *e)
{
    double until = clock_seconds() + end_seconds;
    bool readable;
    for (int ms = 1; !command_ended(f->command); ms = ms < LOOK_MS ? 2 * ms : LOOK_MS) {
        TRY(filter_look(f, -1, ms, &readable, e));
        if (clock_seconds() > until)
            return err_set(e, TUG_EDATA,
                           "%s: '%s' closed its output and did not end within %.0f s, so "
                           "it was killed",
                           f->file->name, f->file->command, end_seconds);
    }
    return 0;
}

// Checks how the command ended. If reading the file and the command both failed, reports
// the file's error. A failed command is an error of the data, because it would fail again
// the next time.
static int filter_end(struct filter *f, struct err *e)
{
    struct err why = {0};
    TRY(wait_for_end(f, e));
    struct command *c = f->command;
    f->command = NULL;
    int rc = command_end(c, &why);
    stop_feeding(f);
    if (f->failed != 0 && f->failed != TUG_EINTERRUPTED)
        return err_set(e, f->failed, "%s", f->failure.text);
    f->ended = rc == 0;
    return rc == 0 ? 0 : err_set(e, TUG_EDATA, "%s: %s", f->file->name, why.text);
}

// ---------------------------------------------------------------- reading

static void mention_silence(struct filter *f)
{
    if (f->mentioned || clock_seconds() - f->last < quiet_seconds)
        return;
    f->mentioned = true;
    log_warn("%s: '%s' has written nothing for %.0f s; tug still waits", f->file->name,
             f->file->command, quiet_seconds);
}

static int filter_read(struct input *in, char *out, size_t cap, size_t *ret_n,
                       struct err *e)
{
    struct filter *f = (void *)in;
    *ret_n = 0;
    if (f->ended)
        return 0;
    for (bool readable = false; !readable; mention_silence(f))
        TRY(filter_look(f, command_fd(f->command), LOOK_MS, &readable, e));
    int rc = command_read(f->command, out, cap, ret_n, e);
    f->last = clock_seconds();
    if (rc == 0 && *ret_n == 0)
        rc = filter_end(f, e);
    return rc;
}

static const struct input_ops filter_ops = {.read = filter_read, .close = filter_close};

int filter_open(struct input **ret, const struct data_file *file,
                const struct interrupt *i, struct err *e)
{
    struct filter *f = mem_zalloc(sizeof *f);
    if (f == NULL)
        return err_nomem(e, "a command");
    f->base = (struct input){.ops = &filter_ops, .name = file->name, .fd = -1};
    f->file = file;
    f->interrupt = *i;
    f->to = f->stop_fd = -1;
    f->last = clock_seconds();
    int rc = filter_start(f, e);
    if (rc != 0) {
        filter_close(&f->base);
        err_wrap(e, "%s", file->name);
        return rc;
    }
    *ret = &f->base;
    return 0;
}
