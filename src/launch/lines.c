// Lines of many processes; see lines.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/lines.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "os/log.h"

enum { HELD_MAX = 4096 }; // the most bytes of a line that may be held

void lines_open(struct lines *l, const char *prefix, FILE *to, FILE *log,
                const char *log_path)
{
    *l = (struct lines){.prefix = prefix, .to = to, .log = log, .log_path = log_path};
    l->part = BUF_INIT(LINES_MAX);
    l->held = BUF_INIT(16 * HELD_MAX);
}

static bool write_line(FILE *to, const char *prefix, const char *line, size_t n)
{
    // stdio writes a line that fits its buffer with one system call, so lines of different
    // processes do not mix.
    return fprintf(to, "%s%.*s\n", prefix, (int)n, line) >= 0 && fflush(to) == 0;
}

// Writes a line of a log file. Text gets the time in front; JSON already has the time.
static bool write_log(const struct lines *l, const char *line, size_t n)
{
    char time[LOG_TIME_BYTES], front[LOG_TIME_BYTES + 1] = "";
    if (l->json == NULL) {
        log_json_time(time);
        snprintf(front, sizeof(front), "%s ", time);
    }
    return write_line(l->log, front, line, n);
}

// A line as it is written, and its text for people (the message, if the line is JSON).
struct shown {
    const char *line, *text;
    size_t n, n_text;
    char *wrapped, few[LOG_JSON_HEAD_MAX + 512], message[HELD_MAX];
};

static void show(struct shown *s, const struct lines *l, const char *line, size_t n)
{
    s->line = s->text = line;
    s->n = s->n_text = n;
    s->wrapped = NULL;
    if (l->json == NULL || n == 0)
        return;
    if (log_json_message(line, n, s->message, sizeof(s->message))) {
        s->text = s->message;
        s->n_text = strlen(s->message);
        return;
    }
    size_t cap = LOG_JSON_HEAD_MAX + 8 * n;
    s->wrapped = mem_alloc(cap);
    if (s->wrapped == NULL)
        cap = sizeof(s->few);
    char *to = s->wrapped != NULL ? s->wrapped : s->few;
    s->n = log_json_line(to, cap, LOG_INFO, l->json, NULL, 0, line, n) - 1;
    s->line = to;
}

static void put_line(struct lines *l, const char *line, size_t n)
{
    struct shown s;
    if (n > 0 && line[n - 1] == '\r')
        n--;
    show(&s, l, line, n);
    bool held = l->holds != NULL && s.n < HELD_MAX && l->holds(s.text, s.n_text) &&
                buf_printf(&l->held, "%.*s\n", (int)s.n, s.line) == 0;
    if (!held && l->to != NULL)
        // the error is ignored, because main reports errors of standard output
        (void)write_line(l->to, l->json == NULL ? l->prefix : "", s.line, s.n);
    if (l->log != NULL && !write_log(l, s.line, s.n)) {
        err_sys(&l->failed, TUG_EIO, "cannot write the log '%s'", l->log_path);
        log_warn("%s", l->failed.text);
        l->log = NULL;
    }
    if (n > 0)
        snprintf(l->last, sizeof(l->last), "%.*s", (int)s.n_text, s.text);
    mem_free(s.wrapped);
}

int lines_add(struct lines *l, const char *bytes, size_t n)
{
    while (n > 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t take = end != NULL ? (size_t)(end - bytes) : n;
        size_t room = l->part.max - l->part.len;
        bool cut = take > room;
        if (cut)
            take = room;
        TRY(buf_add(&l->part, bytes, take));
        bytes += take;
        n -= take;
        if (end == NULL && !cut)
            return 0;
        put_line(l, l->part.data != NULL ? l->part.data : "", l->part.len);
        buf_clear(&l->part);
        if (!cut) { // the line ended with a newline, which is skipped
            bytes++;
            n--;
        }
    }
    return 0;
}

void lines_close(struct lines *l)
{
    if (l->part.len > 0)
        put_line(l, l->part.data, l->part.len);
    buf_free(&l->part);
}

void lines_say_held(struct lines *l, bool (*said)(void *ctx, const char *line), void *ctx)
{
    char line[HELD_MAX], message[HELD_MAX];
    for (size_t at = 0; at < l->held.len;) {
        const char *from = l->held.data + at;
        size_t n = (size_t)((const char *)memchr(from, '\n', l->held.len - at) - from);
        memcpy(line, from, n);
        line[n] = '\0';
        at += n + 1;
        bool json = l->json != NULL &&
                    log_json_message(line, n, message, sizeof(message));
        if (!said(ctx, json ? message : line) && l->to != NULL)
            (void)write_line(l->to, l->json == NULL ? l->prefix : "", line, n);
    }
    buf_free(&l->held);
}
