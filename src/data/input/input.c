// Inputs: files and pipes of this machine, by their descriptors.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/input.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"

struct local {
    struct input base;
    int wake_fd; // -1: waiting cannot be interrupted
};

// Waits until the pipe has bytes, or until the wait is interrupted.
static int wait_readable(const struct local *l, struct err *e)
{
    struct pollfd fds[2] = {{.fd = l->base.fd, .events = POLLIN},
                            {.fd = l->wake_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return err_sys(e, TUG_EIO, "cannot wait for %s", l->base.name);
    if (fds[1].revents != 0)
        return err_set(e, TUG_EINTERRUPTED, "reading %s was stopped", l->base.name);
    return 0;
}

static int local_read(struct input *in, char *out, size_t cap, size_t *ret_n,
                      struct err *e)
{
    const struct local *l = (const void *)in;
    for (;;) {
        if (l->wake_fd >= 0)
            TRY(wait_readable(l, e));
        ssize_t n = read(in->fd, out, cap);
        if (n < 0 && (errno == EINTR || (errno == EAGAIN && l->wake_fd >= 0)))
            continue;
        if (n < 0)
            return err_sys(e, TUG_EIO, "cannot read %s", in->name);
        *ret_n = (size_t)n;
        return 0;
    }
}

static int local_seek(struct input *in, uint64_t at, struct err *e)
{
    off_t size = lseek(in->fd, 0, SEEK_END);
    if (size < 0)
        return err_sys(e, TUG_EIO, "cannot seek in %s", in->name);
    if ((uint64_t)size < at)
        return err_set(e, TUG_EDATA,
                       "%s ends before byte %llu: it changed since the run began",
                       in->name, (unsigned long long)at);
    return lseek(in->fd, (off_t)at, SEEK_SET) >= 0
               ? 0
               : err_sys(e, TUG_EIO, "cannot seek in %s", in->name);
}

static int local_read_at(struct input *in, char *out, size_t n, uint64_t at,
                         size_t *ret_n, struct err *e)
{
    ssize_t got;
    do
        got = pread(in->fd, out, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    *ret_n = got > 0 ? (size_t)got : 0;
    return got >= 0 ? 0 : err_sys(e, TUG_EIO, "cannot read %s", in->name);
}

static void local_close(struct input *in)
{
    close(in->fd);
    mem_free(in);
}

static const struct input_ops local_ops = {.read = local_read,
                                           .seek = local_seek,
                                           .read_at = local_read_at,
                                           .close = local_close};

int input_open_fd(struct input **ret, int fd, const char *name, int wake_fd,
                  struct err *e)
{
    struct local *l = mem_zalloc(sizeof *l);
    if (l == NULL) {
        close(fd);
        return err_nomem(e, "an open file");
    }
    l->base = (struct input){.ops = &local_ops, .name = name, .fd = fd};
    l->wake_fd = wake_fd;
    *ret = &l->base;
    return 0;
}

void input_close(struct input *in)
{
    if (in != NULL)
        in->ops->close(in);
}

int input_read_all(struct input *in, char *out, size_t n, uint64_t at, struct err *e)
{
    uint64_t end = at + n;
    while (n > 0) {
        size_t got = 0;
        TRY(in->ops->read_at(in, out, n, at, &got, e));
        if (got == 0)
            return err_set(e, TUG_EDATA,
                           "%s no longer has %llu bytes: it changed since the run began",
                           in->name, (unsigned long long)end);
        out += got;
        at += got;
        n -= got;
    }
    return 0;
}
