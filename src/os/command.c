// Shell commands that convert bytes. Each runs in a process group of its own, so that an
// aborted command can be ended together with the processes it started.
//
// The leader of the group is its keeper: a shell that waits for the end of a pipe whose
// other end only this process holds. If this process is killed, the keeper kills the
// group. (A death signal of prctl would reach the command, but not the processes it
// started, and it is sent when the thread ends that started the command, which need not
// be the one that reads.)
//
// SPDX-License-Identifier: Apache-2.0
#include "os/command.h"

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
#include "os/disk.h"
#include "os/file.h"
#include "os/new_file.h"

enum { COMPLAINT_MAX = 400, COMPLAINTS_HELD = 64 << 10 };

struct command {
    char *text;
    enum command_way way;
    pid_t pid;    // 0: the command is not running
    pid_t keeper; // process id of the keeper and of the group; 0: none
    int leash;    // this process's end of the keeper's pipe
    int pipe;     // this process's end of the command's pipe
    int complaints;
    bool broken; // the command no longer reads its input
};

extern char **environ;

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

// Ends the keeper without killing its process group: processes that the command left
// running may continue.
static void release_keeper(struct command *c)
{
    struct iovec line = {(void *)(uintptr_t) "\n", 1};
    if (c->keeper == 0)
        return;
    (void)disk_write_pipe(c->leash, &line, 1); // fails if the keeper has already ended
    close(c->leash);
    c->leash = -1;
    wait_for(c->keeper);
    c->keeper = 0;
}

static void command_free(struct command *c)
{
    if (c == NULL)
        return;
    release_keeper(c);
    const int fds[] = {c->pipe, c->complaints, c->leash};
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    mem_free(c->text);
    mem_free(c);
}

// Starts a shell that runs `text` in process group `group` (0: a new group), with the
// default signal handling. `fds` are its standard input, output and error.
static int spawn(pid_t *ret, char *text, const int fds[3], pid_t group)
{
    static const char shell[] = "/bin/sh";
    char *arguments[] = {(char *)"sh", (char *)"-c", text, NULL};
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
    for (int i = 0; i < 3; i++)
        rc |= posix_spawn_file_actions_adddup2(&files, fds[i], i);
    rc |= posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                             POSIX_SPAWN_SETSIGDEF);
    rc |= posix_spawnattr_setpgroup(&how, group);
    rc |= posix_spawnattr_setsigmask(&how, &none);
    rc |= posix_spawnattr_setsigdefault(&how, &usual);
    if (rc == 0)
        rc = posix_spawn(ret, shell, &files, &how, arguments, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

// Moves a descriptor to a number above 2, so that setting up descriptors 0 to 2 of the
// command does not close it.
static int move_up(int fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

static void close_all(const int *fds, size_t n)
{
    int error = errno;
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    errno = error;
}

// Makes a pipe whose descriptors are above 2. Returns false and sets errno on failure.
static bool open_pipe(int ends[2])
{
    ends[0] = ends[1] = -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    ends[0] = move_up(ends[0]);
    ends[1] = move_up(ends[1]);
    return ends[0] >= 0 && ends[1] >= 0;
}

// Starts the keeper, a shell that waits for a line from this process. If the pipe is
// closed without a line, the keeper kills its process group, itself included.
static int start_keeper(struct command *c)
{
    static char text[] = "read -r line && exit; kill -9 0";
    int ends[2];
    bool open = open_pipe(ends);
    c->leash = ends[1];
    if (open) {
        const int fds[3] = {ends[0], c->complaints, c->complaints};
        errno = spawn(&c->keeper, text, fds, 0);
        open = errno == 0;
    }
    close_all(ends, 1);
    return open ? 0 : -1;
}

static int start_command(struct command *c, int fd)
{
    int ends[2], other = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    bool writes = c->way == COMMAND_WRITE, open = open_pipe(ends) && other >= 0;
    int end = ends[!writes];
    c->pipe = ends[writes];
    if (open) {
        const int fds[3] = {writes ? end : other, writes ? other : end, c->complaints};
        errno = spawn(&c->pid, c->text, fds, c->keeper);
        open = errno == 0;
    }
    close_all((const int[]){end, other}, 2);
    return open ? 0 : -1;
}

static int command_start(struct command *c, int fd, struct err *e)
{
    c->complaints = move_up(memfd_create("complaints", MFD_CLOEXEC));
    return c->complaints >= 0 && start_keeper(c) == 0 && start_command(c, fd) == 0
               ? 0
               : err_sys(e, TUG_EIO, "cannot run '%s'", c->text);
}

int command_begin(struct command **ret, const char *text, enum command_way way, int fd,
                  struct err *e)
{
    struct command *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(e, "a command");
    c->pipe = c->complaints = c->leash = -1;
    c->way = way;
    c->text = mem_strdup(text);
    int rc = c->text == NULL ? err_nomem(e, "a command") : command_start(c, fd, e);
    if (rc != 0) {
        command_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

// If the file with the command's standard error has grown, frees its memory except for
// the end, which an error reports. The file keeps its length, so that no byte moves.
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

// Returns the end of the command's standard error as one line.
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

int command_end(struct command *c, struct err *e)
{
    close(c->pipe);
    c->pipe = -1;
    int rc = check_end(c, wait_for(c->pid), e);
    command_free(c);
    return rc;
}

void command_abort(struct command *c)
{
    if (c == NULL)
        return;
    kill(-c->keeper, SIGKILL);
    wait_for(c->pid);
    command_free(c);
}

// ------------------------------------------------------- files written through a command

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
