// Progress lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/terminal.h"
#include "train/facts.h"
#include "train/tfevents.h"

enum { LABEL_TEXT = 32, PART_BYTES = LABELS_MAX * 128 };

struct progress {
    uint32_t epochs;
    bool by_batches;
    uint64_t log_batches, dot_batches;
    bool begun;                // progress_at knows at which batch the run begins
    bool line_due, event_due;  // set by the last progress_at
    struct tfevents *events;   // NULL: none
    struct train_facts *facts; // NULL: none
    uint64_t lines, dots;      // lines and dots that were due so far
    // Standard error is a terminal, on which each line is drawn over the previous one.
    bool terminal;
    const struct train_listener *listener;
    uint64_t start_ns, next_ns;
    // Time and examples at the previous line, for the rate.
    uint64_t last_ns, last_examples;
    uint32_t last_epoch;
    double share_at_start;
    unsigned calls;
    // With by_batches: `before` has the streams of pass `before_epoch` at the previous
    // line, one per label; `since` has the stream since that line.
    struct metrics_stream *before, *since;
    uint32_t before_epoch;
    uint32_t labels;
    bool warned; // whether the warning about labels without examples was given
    char name[LABELS_MAX][LABEL_TEXT]; // with several labels: the name of each and a
                                       // blank; with one label: ""
};

enum { TERMINAL_NS = 200000000, PLAIN_NS = 1000000000 };

static int set_labels(struct progress *p, uint32_t n)
{
    p->labels = n;
    mem_free(p->before);
    p->before = p->by_batches ? metrics_streams(n + 1) : NULL;
    if (p->by_batches && p->before == NULL)
        return TUG_ENOMEM;
    p->since = p->before + n;
    return 0;
}

int progress_name_labels(struct progress *p, const struct schema *s, struct err *e)
{
    uint32_t n = schema_labels(s);
    for (uint32_t i = 0; i < n && n > 1; i++)
        snprintf(p->name[i], LABEL_TEXT, "%.30s ", schema_label(s, i));
    return set_labels(p, n) == 0 ? 0 : err_nomem(e, "progress lines");
}

int progress_open(struct progress **ret, uint32_t epochs, uint64_t log_batches,
                  uint64_t dot_batches, const struct train_listener *listener,
                  struct err *e)
{
    struct progress *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "progress lines");
    p->epochs = epochs;
    p->by_batches = log_batches != 0;
    p->log_batches = log_batches;
    bool text = log_format() == LOG_TEXT; // dots and drawn lines are not JSON
    p->dot_batches = listener == NULL && log_shows(LOG_INFO) && text ? dot_batches : 0;
    if (set_labels(p, 1) != 0) {
        mem_free(p);
        return err_nomem(e, "progress lines");
    }
    p->listener = listener;
    p->terminal = listener == NULL && !p->by_batches && p->dot_batches == 0 &&
                  log_shows(LOG_INFO) && text && terminal_can_draw();
    p->start_ns = p->last_ns = clock_ns();
    p->next_ns = p->start_ns + (p->terminal || listener != NULL ? TERMINAL_NS : PLAIN_NS);
    p->share_at_start = -1;
    *ret = p;
    return 0;
}

void progress_close(struct progress *p)
{
    if (p != NULL && (p->terminal || p->dot_batches != 0))
        terminal_draw(NULL);
    if (p != NULL)
        mem_free(p->before);
    mem_free(p);
}

bool progress_wants_a_stop(struct progress *p, const atomic_bool *interrupted)
{
    if (interrupted != NULL && atomic_load_explicit(interrupted, memory_order_relaxed))
        return true;
    if ((p->by_batches && p->facts == NULL) || p->calls++ % 8 != 0)
        return false;
    if (train_facts_due(p->facts) || p->by_batches)
        return train_facts_due(p->facts);
    uint64_t now = clock_ns();
    return now >= p->next_ns || (p->events != NULL && now >= tfevents_next_ns(p->events));
}

void progress_set_events(struct progress *p, struct tfevents *events)
{
    p->events = events;
}

void progress_set_facts(struct progress *p, struct train_facts *facts)
{
    p->facts = facts;
}

bool progress_at(struct progress *p, uint64_t batches)
{
    uint64_t lines = p->log_batches != 0 ? batches / p->log_batches : 0;
    uint64_t dots = p->dot_batches != 0 ? batches / p->dot_batches : 0;
    bool line = lines > p->lines, event = line;
    if (!p->by_batches) {
        uint64_t now = clock_ns();
        line = now >= p->next_ns;
        event = p->events != NULL && now >= tfevents_next_ns(p->events);
    }
    if (p->begun && dots > p->dots)
        terminal_dots(dots - p->dots);
    p->line_due = line && p->begun;
    p->event_due = event && p->begun && p->events != NULL;
    p->begun = true;
    p->dots = dots;
    p->lines = lines;
    return p->line_due || p->event_due || train_facts_due(p->facts);
}

void progress_event(struct progress *p, uint64_t examples,
                    const struct metrics_stream *seen, double rate)
{
    if (p->event_due)
        tfevents_window(p->events, examples, seen, rate);
    p->event_due = false;
}

// Writes "  loss 0.51000  auc 0.70000" for each label, with `prefix`. Leaves out a metric
// that does not exist: squared losses have no AUC.
static void format_metrics(const struct progress *p, char to[PART_BYTES],
                           const char *prefix, const struct metrics *m)
{
    size_t n = 0;
    *to = 0;
    for (uint32_t i = 0; i < p->labels; i++) {
        if (isfinite(m[i].logloss))
            n += (size_t)snprintf(to + n, PART_BYTES - n, "  %s%sloss %.5f", prefix,
                                  p->name[i], m[i].logloss);
        if (isfinite(m[i].auc))
            n += (size_t)snprintf(to + n, PART_BYTES - n, "  %s%sauc %.5f", prefix,
                                  p->name[i], m[i].auc);
    }
}

// Writes a time as "12 s", "3 min" or "2 h 05 min".
static void format_seconds(char *to, size_t size, double s)
{
    if (s < 100)
        snprintf(to, size, "%.0f s", s);
    else if (s < 6000)
        snprintf(to, size, "%.0f min", s / 60);
    else
        snprintf(to, size, "%d h %02d min", (int)(s / 3600), (int)(s / 60) % 60);
}

static void format_left(struct progress *p, char *to, size_t size, double done,
                        uint64_t now)
{
    if (p->share_at_start < 0)
        p->share_at_start = done;
    double gone = done - p->share_at_start, seconds = (double)(now - p->start_ns) * 1e-9;
    if (gone <= 0.001)
        return;
    char text[32];
    format_seconds(text, sizeof(text), seconds * (1 - done) / gone);
    snprintf(to, size, "  %s left", text);
}

bool progress_window(struct progress *p, uint32_t epoch,
                     const struct metrics_stream *stream, enum loss loss,
                     struct metrics *ret)
{
    if (p->before == NULL || !p->line_due)
        return false;
    if (epoch != p->before_epoch || stream->examples < p->before->examples)
        metrics_streams_clear(p->before, p->labels);
    for (uint32_t i = 0; i < p->labels; i++) {
        metrics_stream_since(p->since, &stream[i], &p->before[i]);
        ret[i] = metrics_stream_result(p->since, loss);
        p->before[i] = stream[i];
    }
    p->before_epoch = epoch;
    return true;
}

// The parts of a progress line, from left to right.
enum { PASS, BATCH, METRICS, WINDOW, RATE, LEFT, PARTS, LINE_BYTES = PARTS * PART_BYTES };

static void format_pass(char to[PART_BYTES], uint32_t pass, uint32_t passes, double share)
{
    int n = snprintf(to, PART_BYTES, "pass %u/%u", pass, passes);
    if (share >= 0)
        snprintf(to + n, PART_BYTES - (size_t)n, " %3.0f %%", share * 100);
}

// Joins parts up to the width of `columns`. If the line would be too long, leaves out the
// less important parts, first the number of the batch.
static void join_parts(char part[PARTS][PART_BYTES], char line[LINE_BYTES],
                       size_t columns)
{
    static const int least_first[] = {BATCH, WINDOW, RATE, METRICS, LEFT};
    size_t len = 0;
    for (int i = 0; i < PARTS; i++)
        len += strlen(part[i]);
    for (size_t i = 0; i < sizeof(least_first) / sizeof(int) && len > columns; i++) {
        len -= strlen(part[least_first[i]]);
        part[least_first[i]][0] = '\0';
    }
    snprintf(line, LINE_BYTES, "%s%s%s%s%s%s", part[PASS], part[BATCH], part[METRICS],
             part[WINDOW], part[RATE], part[LEFT]);
}

static void progress_tell(struct progress *p, uint32_t epoch, double share,
                          const struct metrics *m, const struct metrics *valid,
                          const struct metrics_stream *seen,
                          const struct history_pass *record)
{
    struct train_news n = {.pass = epoch + 1,
                           .passes = p->epochs,
                           .share = share,
                           .done = seen != NULL,
                           .labels = p->labels,
                           .metrics = m,
                           .valid = valid,
                           .seen = seen,
                           .record = record};
    p->listener->hear(p->listener->ctx, &n);
    p->next_ns = clock_ns() + TERMINAL_NS;
}

// The greatest number of numeric fields in a line in JSON. With several labels, the
// metrics are only in the line's message, with the labels' names.
enum { FIELDS_MAX = 8 };
static size_t number_fields(const struct progress *p, uint32_t epoch,
                            const struct metrics *m, const struct metrics *valid,
                            struct log_field ret[FIELDS_MAX])
{
    size_t n = 0;
    ret[n++] = (struct log_field){"pass", epoch + 1};
    ret[n++] = (struct log_field){"passes", p->epochs};
    ret[n++] = (struct log_field){"examples", (double)m->examples};
    if (p->labels > 1)
        return n;
    ret[n++] = (struct log_field){"loss", m->logloss};
    ret[n++] = (struct log_field){"auc", m->auc};
    if (valid != NULL) {
        ret[n++] = (struct log_field){"valid_loss", valid->logloss};
        ret[n++] = (struct log_field){"valid_auc", valid->auc};
    }
    return n;
}

void progress_line(struct progress *p, uint32_t epoch, double share, uint64_t batches,
                   const struct metrics *m, const struct metrics *window)
{
    const struct train_now current = {epoch + 1, share, batches, m};
    train_facts_progress(p->facts, &current);
    if (!p->line_due)
        return;
    if (p->listener != NULL) {
        progress_tell(p, epoch, share, m, NULL, NULL, NULL);
        return;
    }
    uint64_t now = clock_ns();
    if (epoch != p->last_epoch || m->examples < p->last_examples)
        p->last_examples = 0;
    double seconds = (double)(now - p->last_ns) * 1e-9;
    double rate = seconds > 0 ? (double)(m->examples - p->last_examples) / seconds : 0;
    char part[PARTS][PART_BYTES], line[LINE_BYTES];
    format_pass(part[PASS], epoch + 1, p->epochs, share);
    snprintf(part[BATCH], sizeof(part[BATCH]), "  batch %llu",
             (unsigned long long)batches);
    format_metrics(p, part[METRICS], "", m);
    part[WINDOW][0] = '\0';
    if (window != NULL)
        format_metrics(p, part[WINDOW], "window ", window);
    snprintf(part[RATE], sizeof(part[RATE]), "  %.0f k examples/s", rate / 1000);
    part[LEFT][0] = '\0';
    if (share >= 0)
        format_left(p, part[LEFT], sizeof(part[LEFT]), (epoch + share) / p->epochs, now);
    struct log_field fields[FIELDS_MAX];
    size_t n = number_fields(p, epoch, m, NULL, fields);
    fields[n++] = (struct log_field){"examples_per_second", rate};
    join_parts(part, line, p->terminal ? terminal_columns() - 1 : LINE_BYTES - 1);
    if (p->terminal)
        terminal_draw(line);
    else
        log_write_fields(LOG_INFO, fields, n, "%s", line);
    p->last_ns = now;
    p->last_examples = m->examples;
    p->last_epoch = epoch;
    // Lines are printed less and less often: after 1 s, 2 s, 4 s, ... up to every minute.
    uint64_t run = now - p->start_ns;
    uint64_t pause = run < PLAIN_NS           ? PLAIN_NS
                     : run > 60ull * PLAIN_NS ? 60ull * PLAIN_NS
                                              : run;
    p->next_ns = now + (p->terminal ? TERMINAL_NS : pause);
}

// Warns of labels that no example of the pass has. Training succeeds without them, so
// without the warning a user would not see that the column of a label is empty, for
// example in a wrong file.
static void warn_of_missing_labels(struct progress *p, const struct metrics *m)
{
    for (uint32_t i = 0; i < p->labels && p->labels > 1 && !p->warned; i++)
        if (m[i].examples == 0)
            log_warn("no example of this pass has the label '%.*s': predictions of this "
                     "label will mean nothing",
                     (int)strlen(p->name[i]) - 1, p->name[i]);
    p->warned = true;
}

void progress_pass(struct progress *p, uint32_t epoch, const struct metrics *m,
                   const struct metrics *valid, const struct metrics_stream *seen,
                   const struct history_pass *record)
{
    char training[PART_BYTES], validation[PART_BYTES] = "";
    if (p->listener != NULL) {
        progress_tell(p, epoch, 1, m, valid, seen, record);
        return;
    }
    format_metrics(p, training, "", m);
    if (valid != NULL)
        format_metrics(p, validation, "valid ", valid);
    struct log_field fields[FIELDS_MAX];
    size_t n = number_fields(p, epoch, m, valid, fields);
    log_write_fields(LOG_INFO, fields, n, "pass %u/%u done%s%s", epoch + 1, p->epochs,
                     training, validation);
    warn_of_missing_labels(p, m);
    p->last_ns = clock_ns();
    p->last_examples = 0;
}
