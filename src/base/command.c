// Shell commands that bytes go through. Each is a process group of its own, so that one
// that is given up is ended with all that it has started.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/command.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/disk.h"
#include "base/file.h"
#include "base/new_file.h"

enum { COMPLAINT_MAX = 400, COMPLAINTS_HELD = 64 << 10 };

struct command {
    char *text;
    enum command_way way;
    pid_t pid; // 0: it does not run
    int pipe;  // our end
    int complaints;
    bool broken; // it does not read any more
};

extern char **environ;

static void command_free(struct command *c)
{
    if (c == NULL)
        return;
    if (c->pipe >= 0)
        close(c->pipe);
    if (c->complaints >= 0)
        close(c->complaints);
    mem_free(c->text);
    mem_free(c);
}

// Its end of the pipe and `fd` in their places; signals as a new process has them.
static int spawn(struct command *c, int end, int fd)
{
    static const char shell[] = "/bin/sh";
    char *arguments[] = {(char *)"sh", (char *)"-c", c->text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&how);
    if (rc != 0) {
        posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    bool writes = c->way == COMMAND_WRITE;
    rc |= posix_spawn_file_actions_adddup2(&files, writes ? end : fd, 0);
    rc |= posix_spawn_file_actions_adddup2(&files, writes ? fd : end, 1);
    rc |= posix_spawn_file_actions_adddup2(&files, c->complaints, 2);
    rc |= posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                             POSIX_SPAWN_SETSIGDEF);
    rc |= posix_spawnattr_setpgroup(&how, 0);
    rc |= posix_spawnattr_setsigmask(&how, &none);
    rc |= posix_spawnattr_setsigdefault(&how, &usual);
    if (rc == 0)
        rc = posix_spawn(&c->pid, shell, &files, &how, arguments, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

// A descriptor that is none of 0 to 2, so that putting it in its place closes no other.
static int move_up(int fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

static int start(struct command *c, int fd, struct err *e)
{
    int ends[2];
    c->complaints = move_up(memfd_create("complaints", MFD_CLOEXEC));
    if (c->complaints < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(e, TUG_EIO, "cannot run '%s'", c->text);
    bool writes = c->way == COMMAND_WRITE;
    c->pipe = move_up(ends[writes]);
    int end = move_up(ends[!writes]), other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (c->pipe < 0 || end < 0 || other < 0)
        errno = EMFILE;
    else
        errno = spawn(c, end, other);
    int error = errno;
    if (end >= 0)
        close(end);
    if (other >= 0)
        close(other);
    errno = error;
    return error == 0 ? 0 : err_sys(e, TUG_EIO, "cannot run '%s'", c->text);
}

int command_begin(struct command **ret, const char *text, enum command_way way, int fd,
                  struct err *e)
{
    struct command *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(e, "a command");
    c->pipe = c->complaints = -1;
    c->way = way;
    c->text = mem_strdup(text);
    int rc = c->text == NULL ? err_nomem(e, "a command") : start(c, fd, e);
    if (rc != 0) {
        command_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

// What it wrote to its standard error before the end that is told gives its memory back,
// whenever we look after the command; its place in the file stays, and so no byte moves.
static void forget_complaints(const struct command *c)
{
    struct stat s;
    if (fstat(c->complaints, &s) == 0 && s.st_blocks > COMPLAINTS_HELD / 512)
        (void)fallocate(c->complaints, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        s.st_size - COMPLAINT_MAX);
}

int command_write(struct command *c, const void *bytes, size_t n, struct err *e)
{
    forget_complaints(c);
    while (n > 0 && !c->broken) {
        struct iovec part = {(void *)(uintptr_t)bytes, n};
        ssize_t done = disk_write_pipe(c->pipe, &part, 1);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0 && errno != EPIPE)
            return err_sys(e, TUG_EIO, "cannot write to '%s'", c->text);
        if (done < 0) {
            c->broken = true;
            break;
        }
        bytes = (const char *)bytes + done;
        n -= (size_t)done;
    }
    return c->broken ? err_set(e, TUG_EIO, "'%s' did not read all of its input", c->text)
                     : 0;
}

int command_read(struct command *c, void *bytes, size_t cap, size_t *ret_n, struct err *e)
{
    forget_complaints(c);
    for (;;) {
        ssize_t n = read(c->pipe, bytes, cap);
        if (n < 0 && errno == EINTR)
            continue;
        *ret_n = n > 0 ? (size_t)n : 0;
        return n >= 0 ? 0 : err_sys(e, TUG_EIO, "cannot read from '%s'", c->text);
    }
}

// The end of what it wrote to its standard error, as one line.
static void complaint(const struct command *c, char ret[COMPLAINT_MAX + 1])
{
    off_t all = lseek(c->complaints, 0, SEEK_END);
    off_t from = all > COMPLAINT_MAX ? all - COMPLAINT_MAX : 0;
    ssize_t n = pread(c->complaints, ret, COMPLAINT_MAX, from);
    size_t len = n > 0 ? (size_t)n : 0;
    while (len > 0 && ret[len - 1] == '\n')
        len--;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)ret[i] < ' ')
            ret[i] = ' ';
    ret[len] = '\0';
}

static int check_end(const struct command *c, int status, struct err *e)
{
    char said[COMPLAINT_MAX + 1];
    complaint(c, said);
    const char *colon = *said != '\0' ? ": " : "";
    if (WIFSIGNALED(status))
        return err_set(e, TUG_EIO, "'%s' was ended by signal %d (%s)%s%s", c->text,
                       WTERMSIG(status), strsignal(WTERMSIG(status)), colon, said);
    if (WEXITSTATUS(status) != 0)
        return err_set(e, TUG_EIO, "'%s' ended with status %d%s%s", c->text,
                       WEXITSTATUS(status), colon, said);
    if (c->broken)
        return err_set(e, TUG_EIO, "'%s' did not read all of its input", c->text);
    return 0;
}

int command_fd(const struct command *c)
{
    forget_complaints(c);
    return c->pipe;
}

bool command_ended(const struct command *c)
{
    siginfo_t info = {0};
    forget_complaints(c);
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

static int wait_for(struct command *c)
{
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

int command_end(struct command *c, struct err *e)
{
    close(c->pipe);
    c->pipe = -1;
    int rc = check_end(c, wait_for(c), e);
    command_free(c);
    return rc;
}

void command_abort(struct command *c)
{
    if (c == NULL)
        return;
    kill(-c->pid, SIGKILL);
    wait_for(c);
    command_free(c);
}

// Files.

struct command_file {
    struct command *command;
    char *path;
    struct new_file file;
};

static void file_free(struct command_file *f)
{
    new_file_drop(&f->file);
    mem_free(f->path);
    mem_free(f);
}

void command_file_abort(struct command_file *f)
{
    if (f == NULL)
        return;
    command_abort(f->command);
    file_free(f);
}

int command_file_create(struct command_file **ret, const char *text, const char *path,
                        struct err *e)
{
    struct command_file *f = mem_zalloc(sizeof(*f));
    if (f == NULL)
        return err_nomem(e, path);
    f->file = (struct new_file){.dir = -1, .fd = -1};
    f->path = mem_strdup(path);
    int rc = f->path == NULL
                 ? err_nomem(e, path)
                 : new_file_open(&f->file, FILE_ANYWHERE, path, NEW_FILE_SHARED, e);
    if (rc == 0)
        rc = command_begin(&f->command, text, COMMAND_WRITE, f->file.fd, e);
    if (rc != 0) {
        command_file_abort(f);
        return rc;
    }
    *ret = f;
    return 0;
}

int command_file_write(struct command_file *f, const void *bytes, size_t n, struct err *e)
{
    return command_write(f->command, bytes, n, e);
}

int command_file_commit(struct command_file *f, struct err *e)
{
    struct command *c = f->command;
    f->command = NULL;
    int rc = command_end(c, e);
    if (rc == 0 && new_file_finish(&f->file) != 0)
        rc = err_sys(e, TUG_EIO, "cannot write '%s'", f->path);
    if (rc == 0)
        rc = new_file_sync_dir(&f->file, f->path, e);
    file_free(f);
    return rc;
}
