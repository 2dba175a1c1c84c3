// Makes system calls that change the disk. A countdown before each call lets a test make
// the n-th call fail, as base/alloc.c does for allocations.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// The number of calls before the one that fails; negative: no call fails.
static atomic_long fault = -1;
static atomic_bool faulted;
static atomic_int fault_error;

// Counts a call and returns whether it must fail. Only one thread finds the count 0, so
// only one call fails.
static bool strikes(void)
{
    if (atomic_load_explicit(&fault, memory_order_relaxed) < 0)
        return false;
    if (atomic_fetch_sub_explicit(&fault, 1, memory_order_relaxed) != 0)
        return false;
    atomic_store(&faulted, true);
    return true;
}

// Returns whether the call must fail, with errno set to the error of the fault. If that
// error is 0, ends the process instead.
static bool disk_refused(void)
{
    if (!strikes())
        return false;
    errno = atomic_load(&fault_error);
    if (errno == 0)
        _exit(DISK_FAULT_EXIT);
    return true;
}

int disk_create_at(int dir, const char *name, mode_t mode)
{
    enum { NEW = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    return disk_refused() ? -1 : openat(dir, name, NEW, mode);
}

ssize_t disk_write(int fd, struct iovec *parts, int n)
{
    if (!strikes())
        return writev(fd, parts, n);
    errno = atomic_load(&fault_error);
    if (errno != 0)
        return -1;
    while (n > 1 && parts[n - 1].iov_len == 0)
        n--;
    parts[n - 1].iov_len /= 2;
    _exit(writev(fd, parts, n) >= 0 ? DISK_FAULT_EXIT : 1);
}

ssize_t disk_write_pipe(int fd, struct iovec *parts, int n)
{
    sigset_t pipe_signal, before, pending;
    struct timespec now = {0};
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    ssize_t done = writev(fd, parts, n);
    int error = errno;
    if (done < 0 && error == EPIPE && !was_pending)
        (void)sigtimedwait(&pipe_signal, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return done;
}

int disk_sync(int fd)
{
    return disk_refused() ? -1 : fsync(fd);
}

int disk_rename_at(int dir, const char *from, const char *to)
{
    return disk_refused() ? -1 : renameat(dir, from, dir, to);
}

int disk_make_dir(const char *path)
{
    return disk_refused() ? -1 : mkdir(path, 0777);
}

int disk_make_dir_at(int dir, const char *name)
{
    return disk_refused() ? -1 : mkdirat(dir, name, 0777);
}

int disk_make_own_dir(const char *path)
{
    return disk_refused() ? -1 : mkdir(path, S_IRWXU);
}

int disk_make_temp_dir(char *path)
{
    return disk_refused() || mkdtemp(path) == NULL ? -1 : 0;
}

int disk_set_mode(int fd, mode_t mode)
{
    return disk_refused() ? -1 : fchmod(fd, mode);
}

int disk_remove(const char *path)
{
    return disk_refused() ? -1 : remove(path);
}

int disk_remove_at(int dir, const char *name)
{
    return disk_refused() ? -1 : unlinkat(dir, name, 0);
}

int disk_remove_dir_at(int dir, const char *name)
{
    return disk_refused() ? -1 : unlinkat(dir, name, AT_REMOVEDIR);
}

void disk_fault_after(long n, int error)
{
    atomic_store(&faulted, false);
    atomic_store(&fault_error, error);
    atomic_store(&fault, n);
}

bool disk_faulted(void)
{
    return atomic_load(&faulted);
}
