// The parent of started programs, which ensures that none outlives its launcher.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/launch.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/wish.h"

static int cannot_run(const char *program, struct err *e)
{
    return err_sys(e, errno == ENOENT ? TUG_EUSAGE : TUG_EIO, "cannot run '%.300s'",
                   program);
}

int launch_child_of(uint64_t parent, char *const *argv, struct err *e)
{
    // The kernel keeps this setting when execve replaces the program.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint64_t)getppid() != parent)
        return err_set(e, TUG_EIO, "the launcher has ended");
    execvp(argv[0], argv);
    return cannot_run(argv[0], e);
}

struct supervised {
    pid_t pid; // the child, which leads a process group
    int to;    // pipe to the child's standard input; -1: closed
    int signals;
    struct wish wish;  // the request that the child end
    bool leash;        // standard input of this process is still open
    uint64_t kill_at;  // time at which to kill the child; 0: not decided yet
    char bytes[4096];  // read from standard input and not yet passed on
    size_t have, done; // bytes in `bytes`, and bytes passed on
};

// ---------------------------------------------------------------- leftovers

static bool take_lock(int fd, double seconds)
{
    uint64_t until = clock_ns() + (uint64_t)(seconds * 1e9);
    do {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        poll(NULL, 0, 20); // flock cannot wait with a deadline, so poll
    } while (clock_ns() < until);
    return false;
}

// The process that holds a lock. Hosts may share the lock file, and a process id is valid on
// one host only.
struct holder {
    long pid;
    char host[64];
};

static void own_name(char host[64])
{
    if (gethostname(host, 63) != 0)
        snprintf(host, 64, "?");
    host[63] = 0;
}

// Reads the holder of the lock; returns whether the holder is a process of this host.
static bool read_holder(int fd, struct holder *ret)
{
    char text[96] = "", here[64] = "", *end;
    *ret = (struct holder){.host = "?"};
    if (pread(fd, text, sizeof(text) - 1, 0) > 0) {
        ret->pid = strtol(text, &end, 10);
        if (*end == ' ')
            snprintf(ret->host, sizeof(ret->host), "%.*s", (int)strcspn(end + 1, "\n"),
                     end + 1);
    }
    own_name(here);
    return ret->pid > 1 && strcmp(ret->host, here) == 0;
}

static int write_holder(int fd, const char *path, struct err *e)
{
    char text[96], here[64] = "";
    own_name(here);
    int n = snprintf(text, sizeof(text), "%d %s\n", (int)getpid(), here);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return err_sys(e, TUG_EIO, "cannot write the lock '%s'", path);
    return 0;
}

// Locks the job. The lock is held as long as the file is open: until this process ends.
static int lock_job(const char *path, bool force, struct err *e)
{
    int fd = file_open_lock(path);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot open the lock '%s'", path);
    bool mine = take_lock(fd, 0);
    struct holder h;
    if (!mine && read_holder(fd, &h) && force) {
        kill((pid_t)h.pid, SIGTERM);
        mine = take_lock(fd, LAUNCH_GENTLE_SECONDS + 2);
    }
    if (!mine) {
        close(fd);
        return err_set(e, TUG_EUSAGE,
                       "process %ld on %s of an earlier run of this cluster still exists "
                       "(%s); --force ends it if it is on this host, --cluster NAME "
                       "starts another cluster beside it",
                       h.pid, h.host, path);
    }
    return write_holder(fd, path, e);
}

// ---------------------------------------------------------------- the child

static void become_child(char *const *argv, int in, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(err_exit_code(TUG_EIO));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (dup2(in, STDIN_FILENO) < 0)
        _exit(err_exit_code(TUG_EIO));
    execvp(argv[0], argv);
    fprintf(stderr, "tug launch: cannot run '%s': %s\n", argv[0], strerror(errno));
    _exit(err_exit_code(errno == ENOENT ? TUG_EUSAGE : TUG_EIO));
}

static int supervise_start(struct supervised *s, char *const *argv, struct err *e)
{
    int in[2];
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGCHLD);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGHUP);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->signals = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0 || pipe2(in, O_CLOEXEC) != 0)
        return err_sys(e, TUG_EIO, "cannot watch '%.300s'", argv[0]);
    pid_t parent = getpid();
    s->pid = fork();
    if (s->pid == 0)
        become_child(argv, in[0], parent);
    close(in[0]);
    s->to = in[1];
    if (s->pid < 0)
        return err_sys(e, TUG_EIO, "cannot start '%.300s'", argv[0]);
    setpgid(s->pid,
            s->pid); // parent and child both call setpgid, since either may run first
    fcntl(s->to, F_SETFL, O_NONBLOCK);
    return 0;
}

// ---------------------------------------------------------------- watching the child

// Passes a signal on as SIGTERM. Signals that arrive together are passed on once, since a
// program may take a second one for a new request.
static void end_gently(struct supervised *s)
{
    if (wish_take(&s->wish, clock_ns()) != WISH_SAME)
        kill(-s->pid, SIGTERM);
    if (s->kill_at == 0)
        s->kill_at = clock_ns() + (uint64_t)LAUNCH_GENTLE_SECONDS * 1000000000;
}

static void close_input(struct supervised *s)
{
    if (s->to >= 0)
        close(s->to);
    s->to = -1;
}

static void read_input(struct supervised *s)
{
    ssize_t n = read(STDIN_FILENO, s->bytes, sizeof(s->bytes));
    if (n < 0 && errno == EINTR)
        return;
    s->done = 0;
    s->have = n > 0 ? (size_t)n : 0;
    if (n > 0)
        return;
    s->leash = false; // standard input was closed, so the launcher has ended
    close_input(s);
    end_gently(s);
}

static void pass_on(struct supervised *s)
{
    ssize_t n = write(s->to, s->bytes + s->done, s->have - s->done);
    if (n > 0)
        s->done += (size_t)n;
    else if (n < 0 && errno != EINTR && errno != EAGAIN)
        close_input(s); // the child has closed its input
    if (s->done == s->have || s->to < 0)
        s->done = s->have = 0;
}

// Reads signals; returns true with *ret_status if the child has ended.
static bool take_signals(struct supervised *s, int *ret_status)
{
    struct signalfd_siginfo i;
    while (read(s->signals, &i, sizeof(i)) == sizeof(i))
        if (i.ssi_signo != SIGCHLD)
            end_gently(s);
    return waitpid(s->pid, ret_status, WNOHANG) == s->pid;
}

static int wait_time(const struct supervised *s)
{
    if (s->kill_at == 0)
        return -1;
    uint64_t now = clock_ns();
    return now >= s->kill_at ? 0 : (int)((s->kill_at - now) / 1000000) + 1;
}

static int watch(struct supervised *s)
{
    for (;;) {
        bool to_pass = s->have > s->done && s->to >= 0;
        struct pollfd p[] = {
            {.fd = s->signals, .events = POLLIN},
            {.fd = s->leash && !to_pass ? STDIN_FILENO : -1, .events = POLLIN},
            {.fd = to_pass ? s->to : -1, .events = POLLOUT},
        };
        int n = poll(p, 3, wait_time(s)), status;
        if (n == 0 && wait_time(s) == 0) {
            kill(-s->pid, SIGKILL);
            s->kill_at = 0;
        }
        if (take_signals(s, &status))
            return status;
        if (n > 0 && p[1].revents != 0)
            read_input(s);
        if (n > 0 && p[2].revents != 0)
            pass_on(s);
    }
}

int launch_supervise(char *const *argv, const char *lock, bool force, int *ret_code,
                     struct err *e)
{
    struct supervised s = {.to = -1, .leash = true};
    if (lock != NULL)
        TRY(lock_job(lock, force, e));
    TRY(supervise_start(&s, argv, e));
    int status = watch(&s);
    kill(-s.pid, SIGKILL); // kill the processes that the child left behind
    close_input(&s);
    close(s.signals);
    *ret_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return 0;
}
