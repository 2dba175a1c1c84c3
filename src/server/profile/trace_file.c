// Trace files: see trace_file.h. The format is that of Chrome's tracing ("Trace Event
// Format"): requests are complete events of a thread, which is a loop; requests that wait
// may overlap, so they are asynchronous events, each with an id of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/profile/trace_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"

enum { NAME_MAX_BYTES = 64, LINE_BYTES = 1 << 16 };

void trace_free(struct trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        mem_free(t->loops[i].tables);
        mem_free(t->loops[i].events);
    }
    mem_free(t->loops);
    *t = (struct trace){0};
}

int trace_add(struct trace_loop *l, struct wire_text events, struct err *e)
{
    struct wire_event event;
    int more;
    while ((more = wire_next_event(&events, &event)) == 1) {
        if (mem_room(&l->events, &l->max, l->n + 1) != 0)
            return err_nomem(e, "events of a profile");
        l->events[l->n++] = event;
    }
    return more == 0 ? 0 : err_set(e, TUG_EDATA, "its profile cannot be read");
}

int trace_name(struct trace_loop *l, uint32_t table, const char *name)
{
    void *grown = mem_realloc_array(l->tables, l->n_tables + 1, sizeof(*l->tables));
    if (grown == NULL)
        return TUG_ENOMEM;
    l->tables = grown;
    struct trace_table *t = &l->tables[l->n_tables++];
    t->id = table;
    snprintf(t->name, sizeof(t->name), "%s", name);
    return 0;
}

static const struct trace_loop *best_clock(const struct trace *t, uint32_t rank)
{
    const struct trace_loop *best = NULL;
    for (size_t i = 0; i < t->n; i++)
        if (t->loops[i].rank == rank &&
            (best == NULL || t->loops[i].doubt_ns < best->doubt_ns))
            best = &t->loops[i];
    return best;
}

static int by_begin(const void *a, const void *b)
{
    const struct wire_event *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

void trace_align(struct trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct trace_loop *l = &t->loops[i];
        const struct trace_loop *clock = best_clock(t, l->rank);
        uint64_t ahead = (uint64_t)clock->ahead_ns;
        if ((clock->ahead_ns < 0 ? -ahead : ahead) <= clock->doubt_ns)
            ahead = 0; // the difference may come from the travel time of messages alone
        for (size_t k = 0; k < l->n; k++) {
            l->events[k].begin_ns -= ahead;
            l->events[k].arrived_ns -= ahead;
        }
        if (l->n > 0)
            qsort(l->events, l->n, sizeof(*l->events), by_begin);
    }
}

static void kind_name(const struct wire_event *event, char to[NAME_MAX_BYTES])
{
    static const char *const spaces[WIRE_SPACES] = {" sparse", " dense", " range"};
    const char *type = wire_name(event->type), *space = "";
    char number[24];
    snprintf(number, sizeof(number), "message %u", event->type);
    if (event->table != UINT32_MAX && event->space < WIRE_SPACES)
        space = spaces[event->space];
    snprintf(to, NAME_MAX_BYTES, "%s%s%s", type != NULL ? type : number, space,
             event->waited != 0 ? ", waiting" : "");
}

static const char *table_name(const struct trace_loop *l, uint32_t table)
{
    for (size_t i = 0; i < l->n_tables; i++)
        if (l->tables[i].id == table)
            return l->tables[i].name;
    return "";
}

struct writer {
    struct file_writer *file;
    struct buf line;
    uint64_t begin_ns; // time at which the earliest event begins
    uint64_t waits;    // the number of waiting requests written so far, for their ids
    const char *comma; // the separator before the next event
    int rc;            // the first error
};

static void trace_file_flush(struct writer *w, struct err *e)
{
    if (w->rc == 0)
        w->rc = file_write(w->file, w->line.data, w->line.len, e);
    buf_clear(&w->line);
}

#define PUT(w, ...)                                                                      \
    ((w)->rc = (w)->rc != 0 ? (w)->rc : buf_printf(&(w)->line, __VA_ARGS__))

static void put_trace_text(struct writer *w, const char *text)
{
    w->rc = w->rc != 0 ? w->rc : buf_json(&w->line, text);
}

// Writes a time in microseconds, as the format demands, with all its nanoseconds.
static void put_time(struct writer *w, const char *name, uint64_t ns)
{
    PUT(w, ",\"%s\":%" PRIu64 ".%03u", name, ns / 1000, (unsigned)(ns % 1000));
}

static void put_place(struct writer *w, const struct trace_loop *l)
{
    // + 1, because viewers do not show a process with number 0
    PUT(w, ",\"pid\":%u,\"tid\":%u", l->rank + 1, l->loop + 1);
}

static void put_label(struct writer *w, const struct trace_loop *l, const char *what,
                      const char *label)
{
    PUT(w, "%s\n{\"name\":\"%s\",\"ph\":\"M\"", w->comma, what);
    w->comma = ",";
    put_place(w, l);
    PUT(w, ",\"args\":{\"name\":");
    put_trace_text(w, label);
    PUT(w, "}}");
}

static void put_args(struct writer *w, const struct trace_loop *l,
                     const struct wire_event *event)
{
    PUT(w, ",\"args\":{\"table\":");
    put_trace_text(w, table_name(l, event->table));
    PUT(w, ",\"keys\":%u,\"bytes\":%" PRIu64 ",\"node\":%u", event->keys, event->bytes,
        event->node);
    if (event->waited == 0 && event->begin_ns >= event->arrived_ns)
        put_time(w, "queued_us", event->begin_ns - event->arrived_ns);
    PUT(w, "}");
}

static void put_event(struct writer *w, const struct trace_loop *l,
                      const struct wire_event *event)
{
    char name[NAME_MAX_BYTES];
    kind_name(event, name);
    PUT(w, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%s\"", name,
        event->waited != 0 ? "waiting" : "request", event->waited != 0 ? "b" : "X");
    put_place(w, l);
    put_time(w, "ts", event->begin_ns - w->begin_ns);
    if (event->waited == 0)
        put_time(w, "dur", event->took_ns);
    else
        PUT(w, ",\"id\":%" PRIu64, ++w->waits);
    put_args(w, l, event);
    PUT(w, "}");
    if (event->waited == 0)
        return;
    PUT(w, ",\n{\"name\":\"%s\",\"cat\":\"waiting\",\"ph\":\"e\",\"id\":%" PRIu64, name,
        w->waits);
    put_place(w, l);
    put_time(w, "ts", event->begin_ns - w->begin_ns + event->took_ns);
    PUT(w, "}");
}

static uint64_t begin_of(const struct trace *t)
{
    uint64_t begin = UINT64_MAX;
    for (size_t i = 0; i < t->n; i++)
        if (t->loops[i].n > 0 && t->loops[i].events[0].begin_ns < begin)
            begin = t->loops[i].events[0].begin_ns;
    return begin != UINT64_MAX ? begin : 0;
}

static void put_all(struct writer *w, const struct trace *t, struct err *e)
{
    char label[32];
    uint64_t dropped = 0;
    for (size_t i = 0; i < t->n; i++)
        dropped += t->loops[i].dropped;
    PUT(w,
        "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tug\":\"%s\",\"begin_unix_ns\":"
        "\"%" PRIu64 "\",\"dropped\":%" PRIu64 "},\n\"traceEvents\":[",
        tug_version(), w->begin_ns, dropped);
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_loop *l = &t->loops[i];
        snprintf(label, sizeof(label), "loop %u", l->loop);
        put_label(w, l, "process_name", l->process);
        put_label(w, l, "thread_name", label);
        for (size_t k = 0; k < l->n && w->rc == 0; k++) {
            put_event(w, l, &l->events[k]);
            trace_file_flush(w, e);
        }
    }
    PUT(w, "\n]}\n");
    trace_file_flush(w, e);
}

int trace_write(const struct trace *t, const char *path, struct err *e)
{
    struct writer w = {
        .line = BUF_INIT(LINE_BYTES), .begin_ns = begin_of(t), .comma = ""};
    TRY(file_create(&w.file, path, e));
    put_all(&w, t, e);
    buf_free(&w.line);
    if (w.rc == 0)
        return file_commit(w.file, e);
    file_abort(w.file);
    return w.rc == TUG_ENOMEM ? err_nomem(e, "a trace") : w.rc;
}

struct sample {
    uint32_t kind;
    uint64_t took_ns;
};

static uint32_t kind_of(const struct wire_event *event)
{
    uint32_t space = event->table != UINT32_MAX ? 1 + event->space % 8u : 0;
    return (uint32_t)event->type << 8 | space << 1 | (event->waited != 0);
}

static int by_kind(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->took_ns > y->took_ns) - (x->took_ns < y->took_ns);
}

static double us_at(const struct sample *x, size_t n, double share)
{
    size_t at = (size_t)ceil(share * (double)n);
    return (double)x[at > 0 ? at - 1 : 0].took_ns * 1e-3;
}

static int print_kind(const char *name, const struct sample *x, size_t n, struct buf *to)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i].took_ns * 1e-3;
    return buf_printf(to, "%-24s %10zu %12.3f %10.1f %10.1f %10.1f %10.1f\n", name, n,
                      sum * 1e-3, sum / (double)n, us_at(x, n, 0.5), us_at(x, n, 0.99),
                      us_at(x, n, 1));
}

static int print_samples(const struct trace *t, const struct sample *x, size_t n,
                         struct buf *to)
{
    TRY(buf_printf(to, "%-24s %10s %12s %10s %10s %10s %10s\n", "request", "count",
                   "total ms", "mean us", "p50 us", "p99 us", "max us"));
    for (size_t begin = 0, end; begin < n; begin = end) {
        char name[NAME_MAX_BYTES] = "";
        for (end = begin; end < n && x[end].kind == x[begin].kind;)
            end++;
        for (size_t i = 0; i < t->n && *name == '\0'; i++)
            for (size_t k = 0; k < t->loops[i].n && *name == '\0'; k++)
                if (kind_of(&t->loops[i].events[k]) == x[begin].kind)
                    kind_name(&t->loops[i].events[k], name);
        TRY(print_kind(name, x + begin, end - begin, to));
    }
    return 0;
}

int trace_print(const struct trace *t, struct buf *to)
{
    size_t n = 0, all = 0;
    for (size_t i = 0; i < t->n; i++)
        all += t->loops[i].n;
    struct sample *x = mem_array(all + 1, sizeof(*x));
    if (x == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->loops[i].n; k++)
            x[n++] = (struct sample){kind_of(&t->loops[i].events[k]),
                                     t->loops[i].events[k].took_ns};
    qsort(x, n, sizeof(*x), by_kind);
    int rc = print_samples(t, x, n, to);
    mem_free(x);
    return rc;
}
