// Processes by libuv; see processes.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "launch/lines.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/terminal.h"
#include "os/wish.h"

enum { OUT, ERR, ANNOUNCE, IN, PIPES };
enum { ANNOUNCEMENT_MAX = 4096 };

struct member {
    struct processes *processes;
    uint32_t number;
    uv_process_t process;
    uv_pipe_t pipes[PIPES];
    bool used[PIPES];
    // Number of open handles: of the pipes that are read, and of the process.
    uint32_t open;
    bool raw, alive, started;
    int code, signal;
    char prefix[48];
    struct lines out, err;
    struct log_origin origin;
    struct buf announcement; // the beginning of an announced line, until its end arrives
    struct buf input;
    uv_write_t write;
    FILE *log;
    char log_path[FILE_PATH_MAX];
};

struct processes {
    struct processes_handler handler;
    uv_loop_t loop;
    uv_timer_t timer, later;
    uv_signal_t signals[3];
    struct wish wish;
    bool nohup; // SIGHUP was ignored at the start, so it does not end the run
    bool had_terminal;
    struct member **members;
    uint32_t n, alive;
    bool waits;          // the timer `later` is set; it counts in `alive`
    struct member **old; // ended processes, which `members` has again as new ones
    uint32_t n_old;
    char chunk[64 << 10];
};

static void on_timer(uv_timer_t *t)
{
    struct processes *c = t->data;
    c->handler.timer(c->handler.ctx);
}

static void on_later(uv_timer_t *t)
{
    struct processes *c = t->data;
    c->waits = false;
    c->handler.later(c->handler.ctx);
    if (--c->alive == 0)
        uv_stop(&c->loop);
}

// Opens the log files again, also the launcher's own, because a log rotation has renamed
// them. Returns whether there are log files.
static bool reopen_logs(struct processes *c)
{
    bool any = log_has_file();
    log_reopen();
    for (uint32_t i = 0; i < c->n; i++) {
        struct member *m = c->members[i];
        struct err e;
        int fd;
        if (m->log == NULL)
            continue;
        any = true;
        if (file_open_append(m->log_path, false, &fd, &e) != 0) {
            log_warn("%s; messages still go to the earlier file", e.text);
            continue;
        }
        (void)dup3(fd, fileno(m->log), O_CLOEXEC); // the FILE's buffer is empty here
        close(fd);
    }
    return any;
}

static void on_signal(uv_signal_t *s, int number)
{
    struct processes *c = s->data;
    bool gone = c->had_terminal && !terminal_controls();
    if (number == SIGHUP && (!gone || c->nohup) && reopen_logs(c))
        return;
    if (number == SIGHUP && c->nohup)
        return;
    enum wish_said said = wish_take(&c->wish, clock_ns());
    if (said != WISH_SAME)
        c->handler.interrupted(c->handler.ctx, said == WISH_AT_ONCE);
}

// Returns whether the signal is SIGHUP and is ignored, as nohup makes it: the run then
// continues without its terminal. An ignored SIGINT does not count, because shells without
// job control make programs that are started with `&` ignore it; SIGINT still ends the run.
static bool is_ignored(int number)
{
    struct sigaction now;
    return number == SIGHUP && sigaction(number, NULL, &now) == 0 &&
           now.sa_handler == SIG_IGN;
}

int processes_open(struct processes **ret, const struct processes_handler *h,
                   struct err *e)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct processes *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return err_nomem(e, "the processes");
    c->handler = *h;
    c->had_terminal = terminal_controls();
    int rc = uv_loop_init(&c->loop);
    if (rc != 0) {
        mem_free(c);
        err_set(e, TUG_EIO, "cannot make an event loop: %s", uv_strerror(rc));
        err_limit(e, rc);
        return TUG_EIO;
    }
    uv_timer_init(&c->loop, &c->timer);
    c->timer.data = c;
    uv_unref((uv_handle_t *)&c->timer);
    uv_timer_init(&c->loop, &c->later);
    c->later.data = c;
    for (size_t i = 0; i < 3; i++) {
        uv_signal_init(&c->loop, &c->signals[i]);
        c->signals[i].data = c;
        c->nohup |= is_ignored(numbers[i]);
        uv_signal_start(&c->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&c->signals[i]);
    }
    // Without this, writing to a process that has closed its input would end the launcher.
    signal(SIGPIPE, SIG_IGN);
    *ret = c;
    return 0;
}

static void close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

static void free_member(struct member *m)
{
    lines_close(&m->out);
    lines_close(&m->err);
    buf_free(&m->err.held);
    buf_free(&m->announcement);
    buf_free(&m->input);
    if (m->log != NULL)
        fclose(m->log);
    mem_free(m);
}

void processes_close(struct processes *c)
{
    if (c == NULL)
        return;
    processes_signal_all(c, SIGKILL);
    uv_walk(&c->loop, close_handle, NULL);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    uv_loop_close(&c->loop);
    for (uint32_t i = 0; i < c->n; i++)
        free_member(c->members[i]);
    for (uint32_t i = 0; i < c->n_old; i++)
        free_member(c->old[i]);
    mem_free(c->members);
    mem_free(c->old);
    mem_free(c);
}

int processes_logs(const struct processes *c, struct err *e)
{
    for (uint32_t i = 0; i < c->n; i++)
        for (int which = 0; which < 2; which++) {
            const struct lines *l = which == 0 ? &c->members[i]->out
                                               : &c->members[i]->err;
            if (l->failed.code != 0)
                return err_copy(e, &l->failed);
        }
    return 0;
}

// Called when one of a process's handles was closed. After the last one, reports the end of
// the process.
static void one_done(struct member *m)
{
    struct processes *c = m->processes;
    if (--m->open > 0)
        return;
    lines_close(&m->out);
    lines_close(&m->err);
    m->alive = false;
    c->alive--;
    if (m->used[IN] && !uv_is_closing((uv_handle_t *)&m->pipes[IN]))
        uv_close((uv_handle_t *)&m->pipes[IN], NULL);
    if (c->alive == 0)
        uv_stop(&c->loop);
    c->handler.ended(c->handler.ctx, m->number, (int)m->process.pid, m->code, m->signal,
                     m->err.last);
}

static void on_process_closed(uv_handle_t *h)
{
    one_done(h->data);
}

static void on_ended(uv_process_t *p, int64_t code, int signal_number)
{
    struct member *m = p->data;
    m->code = (int)code;
    m->signal = signal_number;
    // Kills processes that the ended process has started and that still run.
    if (m->started)
        kill(-p->pid, SIGKILL);
    uv_close((uv_handle_t *)p, on_process_closed);
}

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *ret)
{
    struct member *m = h->data;
    (void)wanted;
    *ret = uv_buf_init(m->processes->chunk, sizeof(m->processes->chunk));
}

static void on_pipe_closed(uv_handle_t *h)
{
    one_done(h->data);
}

static int take_announcement(struct member *m, const char *bytes, size_t n)
{
    const struct processes_handler *h = &m->processes->handler;
    TRY(buf_add(&m->announcement, bytes, n));
    char *line = m->announcement.data, *end = line + m->announcement.len, *over;
    for (; (over = memchr(line, '\n', (size_t)(end - line))) != NULL; line = over + 1) {
        *over = '\0';
        h->announced(h->ctx, m->number, line);
    }
    m->announcement.len = (size_t)(end - line);
    memmove(m->announcement.data, line, m->announcement.len);
    return 0;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct member *m = s->data;
    int rc = 0;
    if (n < 0) {
        uv_close((uv_handle_t *)s, on_pipe_closed);
        return;
    }
    if (s == (uv_stream_t *)&m->pipes[ANNOUNCE]) {
        rc = take_announcement(m, b->base, (size_t)n);
    } else if (s == (uv_stream_t *)&m->pipes[OUT] && m->raw) {
        fwrite(b->base, 1, (size_t)n, stdout);
        fflush(stdout);
    } else {
        bool out = s == (uv_stream_t *)&m->pipes[OUT];
        rc = lines_add(out ? &m->out : &m->err, b->base, (size_t)n);
    }
    if (rc != 0) // memory is short: drops the output, and the run continues
        uv_close((uv_handle_t *)s, on_pipe_closed);
}

static void on_written(uv_write_t *w, int status)
{
    struct member *m = w->data;
    (void)status;
    if (m->input.data != NULL)
        memset(m->input.data, 0, m->input.len); // the input may contain a key
}

static int open_member(struct processes *c, const struct processes_process *p,
                       struct member *m, struct err *e)
{
    m->processes = c;
    m->raw = p->output == PROCESSES_RAW;
    snprintf(m->prefix, sizeof(m->prefix), "[%s] ", p->name);
    m->announcement = BUF_INIT(ANNOUNCEMENT_MAX);
    m->input = BUF_INIT(p->n_input);
    if (p->input != NULL && buf_add(&m->input, p->input, p->n_input) != 0)
        return err_nomem(e, p->name);
    if (p->log != NULL) {
        int fd;
        snprintf(m->log_path, sizeof(m->log_path), "%s", p->log);
        TRY(file_open_append(p->log, !p->again, &fd, e));
        m->log = fdopen(fd, "w");
        if (m->log == NULL) {
            close(fd);
            return err_nomem(e, p->log);
        }
    }
    lines_open(&m->out, m->prefix, p->lines_to_stdout ? stdout : stderr, m->log,
               m->log_path);
    lines_open(&m->err, m->prefix, stderr, m->log, m->log_path);
    m->err.holds = p->holds;
    m->origin = (struct log_origin){.role = p->role, .rank = p->rank};
    if (p->json)
        m->out.json = m->err.json = &m->origin;
    return 0;
}

static void set_pipe(struct member *m, uv_stdio_container_t *to, int which, int flags)
{
    uv_pipe_init(&m->processes->loop, &m->pipes[which], 0);
    m->pipes[which].data = m;
    m->used[which] = true;
    to->flags = (uv_stdio_flags)(UV_CREATE_PIPE | flags);
    to->data.stream = (uv_stream_t *)&m->pipes[which];
}

static void set_stdio(struct member *m, const struct processes_process *p,
                      uv_stdio_container_t io[4])
{
    if (p->output == PROCESSES_TERMINAL) {
        for (int i = 0; i < 3; i++)
            io[i] = (uv_stdio_container_t){UV_INHERIT_FD, {.fd = i}};
    } else {
        io[0].flags = UV_IGNORE;
        if (p->input != NULL)
            set_pipe(m, &io[0], IN, UV_READABLE_PIPE);
        set_pipe(m, &io[1], OUT, UV_WRITABLE_PIPE);
        set_pipe(m, &io[2], ERR, UV_WRITABLE_PIPE);
    }
    if (p->announces)
        set_pipe(m, &io[PROCESSES_ANNOUNCE_FD], ANNOUNCE, UV_WRITABLE_PIPE);
}

static void begin_pipes(struct member *m)
{
    for (int i = OUT; i <= ANNOUNCE; i++)
        if (m->used[i]) {
            m->open++;
            uv_read_start((uv_stream_t *)&m->pipes[i], on_alloc, on_read);
        }
    if (!m->used[IN])
        return;
    uv_unref((uv_handle_t *)&m->pipes[IN]);
    m->write.data = m;
    if (m->input.len > 0) {
        uv_buf_t b = uv_buf_init(m->input.data, (unsigned)m->input.len);
        uv_write(&m->write, (uv_stream_t *)&m->pipes[IN], &b, 1, on_written);
    }
}

static int not_started(const struct processes_process *p, int status, struct err *e)
{
    err_set(e, TUG_EIO, "cannot start %s: '%.300s': %s", p->name, p->argv[0],
            uv_strerror(status));
    err_limit(e, status);
    return TUG_EIO;
}

static struct member *add_member(struct member ***list, uint32_t n)
{
    struct member **all = mem_realloc_array(*list, n + 1, sizeof(struct member *));
    if (all != NULL)
        *list = all;
    return all != NULL ? mem_zalloc(sizeof(struct member)) : NULL;
}

static int start_member(struct processes *c, const struct processes_process *p,
                        struct member *m, struct err *e)
{
    TRY(open_member(c, p, m, e));
    uv_stdio_container_t io[4] = {{0}};
    set_stdio(m, p, io);
    uv_process_options_t o = {
        .exit_cb = on_ended,
        .file = p->argv[0],
        .args = (char **)(uintptr_t)p->argv,
        .env = (char **)(uintptr_t)p->env,
        .flags = p->output == PROCESSES_TERMINAL ? 0 : UV_PROCESS_DETACHED,
        .stdio = io,
        .stdio_count = p->announces ? 4 : 3,
    };
    m->process.data = m;
    int failed = uv_spawn(&c->loop, &m->process, &o);
    if (failed != 0)
        return not_started(p, failed, e);
    m->alive = true;
    m->started = p->output != PROCESSES_TERMINAL;
    m->open = 1;
    c->alive++;
    begin_pipes(m);
    return 0;
}

int processes_start(struct processes *c, const struct processes_process *p, struct err *e)
{
    struct member *m = add_member(&c->members, c->n);
    if (m == NULL)
        return err_nomem(e, p->name);
    m->number = c->n;
    c->members[c->n++] = m; // processes_close frees it, even after an error
    return start_member(c, p, m, e);
}

int processes_start_again(struct processes *c, uint32_t member,
                          const struct processes_process *p, struct err *e)
{
    struct member *m = add_member(&c->old, c->n_old);
    if (m == NULL)
        return err_nomem(e, p->name);
    m->number = member;
    // The last handle of the old process may still be open, so the old struct is freed only
    // by processes_close.
    c->old[c->n_old++] = c->members[member];
    c->members[member] = m;
    return start_member(c, p, m, e);
}

void processes_signal(struct processes *c, uint32_t member, int number)
{
    struct member *m = c->members[member];
    if (!m->alive || uv_is_closing((uv_handle_t *)&m->process))
        return;
    int pid = (int)m->process.pid;
    // A debugger's process has no process group of its own, so only it gets the signal.
    kill(m->started ? -pid : pid, number);
}

int processes_pid(const struct processes *c, uint32_t member)
{
    return (int)c->members[member]->process.pid;
}

void processes_signal_all(struct processes *c, int number)
{
    for (uint32_t i = 0; i < c->n; i++)
        processes_signal(c, i, number);
}

bool processes_has(const struct processes *c, uint32_t member)
{
    return member < c->n;
}

void processes_say_held(struct processes *c, uint32_t member,
                        bool (*said)(void *ctx, const char *line), void *ctx)
{
    lines_say_held(&c->members[member]->err, said, ctx);
}

void processes_kill_all(struct processes *c)
{
    processes_signal_all(c, SIGKILL);
    for (uint32_t i = 0; i < c->n; i++)
        for (int k = OUT; k <= ANNOUNCE; k++) {
            uv_handle_t *h = (uv_handle_t *)&c->members[i]->pipes[k];
            if (c->members[i]->used[k] && c->members[i]->alive && !uv_is_closing(h))
                uv_close(h, on_pipe_closed);
        }
}

void processes_timer(struct processes *c, double seconds)
{
    uv_timer_start(&c->timer, on_timer, (uint64_t)(seconds * 1000), 0);
}

void processes_later(struct processes *c, double seconds)
{
    c->alive += !c->waits;
    c->waits = true;
    uv_timer_start(&c->later, on_later, (uint64_t)(seconds * 1000), 0);
}

int processes_run(struct processes *c, struct err *e)
{
    while (c->alive > 0)
        if (uv_run(&c->loop, UV_RUN_DEFAULT) < 0)
            return err_set(e, TUG_EINTERNAL, "the event loop of the launcher failed");
    return 0;
}
