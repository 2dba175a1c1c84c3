// The facts of a run; see facts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/facts.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/json.h"
#include "train/history.h"

enum { PASSES_KEPT = 1000, PROGRESS_NS = 1000000000 };
// The speed is a mean in which the weight of a measurement falls by a factor of e
// in this many seconds.
static const double rate_memory = 2;

// The metrics of a pass whose best value is kept, and whether a larger value is better.
enum best_of { BEST_LOSS, BEST_AUC, BEST_VALID_LOSS, BEST_VALID_AUC, BESTS };
static const struct {
    const char *name;
    bool larger;
} best_kinds[BESTS] = {
    [BEST_LOSS] = {"loss", false},
    [BEST_AUC] = {"auc", true},
    [BEST_VALID_LOSS] = {"valid_loss", false},
    [BEST_VALID_AUC] = {"valid_auc", true},
};

struct best {
    double value;
    uint32_t pass; // 0: no pass has a value
};

struct train_facts {
    pthread_mutex_t lock;
    enum train_state state;
    char model[32], error[ERR_TEXT_MAX];
    bool diverged;
    // The run continues a pass that another process began; that process
    // trained its first examples.
    bool goes_on;
    uint32_t pass, passes, best_pass;
    double share, loss, base_loss, auc, valid_loss, valid_auc;
    // `rate`: examples a second; `rate_seconds`: the trained seconds at the last progress.
    double rate, rate_seconds;
    // The best values of all passes, those before a resume or takeover included.
    struct best best[BESTS];
    // The time at which training went on after the last validation or save; 0:
    // there was none so far.
    uint64_t resumed_ns;
    // Seconds of training from the last progress to the moment at which training stopped.
    double kept_seconds;
    uint64_t examples, batches;
    _Atomic uint64_t told_ns; // time at which the number of examples last increased
    // The time of the last progress of any kind: of training, of a validation, or a change of
    // the state.
    _Atomic uint64_t moved_ns;
    char **history; // the records of the last passes as JSON, the oldest first
    size_t n_history;
    struct train_table tables[TRAIN_TABLES];
    size_t n_tables;
    uint64_t saves, failed_saves, save_bytes;
    double save_seconds, saved_unix;
    uint32_t save_pass;
    char saved[FILE_PATH_MAX];
    char save_error[ERR_TEXT_MAX]; // the error of the last save; "": it did not fail
};

int train_facts_open(struct train_facts **ret, struct err *e)
{
    struct train_facts *f = mem_zalloc(sizeof(*f));
    if (f != NULL)
        f->history = mem_array(PASSES_KEPT, sizeof(*f->history));
    if (f == NULL || f->history == NULL) {
        mem_free(f);
        return err_nomem(e, "the state of the run");
    }
    pthread_mutex_init(&f->lock, NULL);
    f->share = f->loss = f->base_loss = f->auc = f->valid_loss = f->valid_auc = f->rate =
        (double)NAN;
    atomic_store(&f->told_ns, clock_ns());
    train_facts_alive(f);
    *ret = f;
    return 0;
}

void train_facts_close(struct train_facts *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->n_history; i++)
        mem_free(f->history[i]);
    mem_free(f->history);
    pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

void train_facts_begin(struct train_facts *f, const char *model, uint32_t passes)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    snprintf(f->model, sizeof(f->model), "%s", model);
    f->passes = passes;
    pthread_mutex_unlock(&f->lock);
}

void train_facts_goes_on(struct train_facts *f)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    f->goes_on = true;
    pthread_mutex_unlock(&f->lock);
}

void train_facts_alive(struct train_facts *f)
{
    if (f != NULL)
        atomic_store(&f->moved_ns, clock_ns());
}

// Returns the seconds of training since the last progress, without validations and saves.
static double trained_seconds(const struct train_facts *f)
{
    uint64_t from = atomic_load(&f->told_ns);
    if (f->resumed_ns > from)
        from = f->resumed_ns;
    bool trains = f->state == TRAIN_TRAINING || f->state == TRAIN_LOADING;
    return f->kept_seconds + (trains ? (double)(clock_ns() - from) * 1e-9 : 0);
}

enum train_state train_facts_state(struct train_facts *f, enum train_state state)
{
    if (f == NULL)
        return state;
    pthread_mutex_lock(&f->lock);
    enum train_state before = f->state;
    train_facts_alive(f);
    if (before == TRAIN_TRAINING && state != TRAIN_TRAINING)
        f->kept_seconds = trained_seconds(f);
    f->state = state;
    if (state == TRAIN_TRAINING && before != TRAIN_TRAINING)
        f->resumed_ns = clock_ns();
    if (state == TRAIN_VALIDATING)
        f->share = 1; // the data of the pass was read to its end
    pthread_mutex_unlock(&f->lock);
    return before;
}

bool train_facts_due(const struct train_facts *f)
{
    return f != NULL && clock_ns() >= atomic_load(&f->told_ns) + PROGRESS_NS;
}

// Stores the number of the pass's examples so far, and computes the rate and the time of
// the last progress from it. The caller holds the lock.
static void note_examples(struct train_facts *f, uint32_t pass, uint64_t examples)
{
    uint64_t time = clock_ns();
    bool same = pass == f->pass && examples >= f->examples;
    uint64_t more = examples - (same ? f->examples : 0);
    double seconds = trained_seconds(f);
    f->pass = pass;
    f->examples = examples;
    if (more == 0 || seconds <= 0)
        return;
    bool others = f->goes_on; // these examples were trained before this process began
    f->goes_on = false;
    double now = (double)more / seconds, old = exp(-seconds / rate_memory);
    if (!others)
        f->rate = isnan(f->rate) ? now : old * f->rate + (1 - old) * now;
    f->rate_seconds = seconds;
    f->kept_seconds = 0;
    atomic_store(&f->told_ns, time);
    train_facts_alive(f);
}

void train_facts_progress(struct train_facts *f, const struct train_now *now)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    note_examples(f, now->pass, now->m->examples);
    f->share = now->share >= 0 ? now->share : (double)NAN;
    f->batches = now->batches;
    f->loss = now->m->logloss;
    f->base_loss = now->m->base;
    f->auc = now->m->auc;
    pthread_mutex_unlock(&f->lock);
}

void train_facts_tables(struct train_facts *f, const struct train_table *t, size_t n)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    f->n_tables = n < TRAIN_TABLES ? n : TRAIN_TABLES;
    memcpy(f->tables, t, f->n_tables * sizeof(*t));
    pthread_mutex_unlock(&f->lock);
}

static void note_best(struct train_facts *f, const struct history_pass *p)
{
    const struct history_score none = {.loss = (double)NAN, .auc = (double)NAN},
                               valid = p->validated ? p->valid[0] : none;
    const double values[BESTS] = {[BEST_LOSS] = p->seen[0].loss,
                                  [BEST_AUC] = p->seen[0].auc,
                                  [BEST_VALID_LOSS] = valid.loss,
                                  [BEST_VALID_AUC] = valid.auc};
    for (size_t i = 0; i < BESTS; i++) {
        struct best *b = &f->best[i];
        bool better = best_kinds[i].larger ? values[i] > b->value : values[i] < b->value;
        if (better || (b->pass == 0 && !isnan(values[i])))
            *b = (struct best){values[i], p->pass};
    }
}

// Adds a finished pass to the history. The caller holds the lock.
static void add_pass(struct train_facts *f, const struct history *h,
                     const struct history_pass *p)
{
    json_t *o = history_pass_to_json(h, p);
    char *line = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (line != NULL && f->n_history == PASSES_KEPT) {
        mem_free(f->history[0]);
        f->n_history--;
        memmove(f->history, f->history + 1, f->n_history * sizeof(*f->history));
    }
    if (line != NULL)
        f->history[f->n_history++] = line;
    note_best(f, p);
    f->valid_loss = p->validated ? p->valid[0].loss : (double)NAN;
    f->valid_auc = p->validated ? p->valid[0].auc : (double)NAN;
}

void train_facts_past(struct train_facts *f, const struct history *h, uint32_t best)
{
    if (f == NULL)
        return;
    json_begin();
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; i < h->n; i++)
        add_pass(f, h, &h->pass[i]);
    f->best_pass = best;
    pthread_mutex_unlock(&f->lock);
}

void train_facts_pass(struct train_facts *f, const struct history *h, uint32_t best,
                      double base)
{
    if (f == NULL || h->n == 0)
        return;
    const struct history_pass *p = &h->pass[h->n - 1];
    json_begin();
    pthread_mutex_lock(&f->lock);
    add_pass(f, h, p);
    note_examples(f, p->pass, p->examples);
    f->share = 1;
    f->loss = p->seen[0].loss;
    f->base_loss = base;
    f->auc = p->seen[0].auc;
    f->best_pass = best;
    pthread_mutex_unlock(&f->lock);
}

void train_facts_saved(struct train_facts *f, const char *path, double seconds,
                       uint32_t pass, const char *why)
{
    if (f == NULL)
        return;
    uint64_t bytes = path != NULL ? file_dir_bytes(path) : 0;
    pthread_mutex_lock(&f->lock);
    f->failed_saves += path == NULL;
    f->saves += path != NULL;
    snprintf(f->save_error, sizeof(f->save_error), "%s",
             path != NULL                    ? ""
             : why != NULL && why[0] != '\0' ? why
                                             : "see the log");
    if (path != NULL) {
        snprintf(f->saved, sizeof(f->saved), "%s", path);
        f->save_bytes = bytes;
        f->save_seconds = seconds;
        f->saved_unix = (double)clock_unix_ns() * 1e-9;
        f->save_pass = pass;
    }
    pthread_mutex_unlock(&f->lock);
}

void train_facts_end(struct train_facts *f, const struct err *why)
{
    int rc = why->code;
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    f->state = rc == 0                  ? TRAIN_DONE
               : rc == TUG_EINTERRUPTED ? TRAIN_INTERRUPTED
                                        : TRAIN_FAILED;
    if (rc != 0)
        snprintf(f->error, sizeof(f->error), "%s", why->text);
    f->diverged = f->state == TRAIN_FAILED && err_reason(why) == REASON_DIVERGED;
    pthread_mutex_unlock(&f->lock);
}

// ---------------------------------------------------------------- printing

static void put_count(struct json_out *to, const char *name, uint64_t x, bool known)
{
    if (known)
        json_out_u64(to, name, x);
    else
        json_out_null(to, name);
}

static void put_best(const struct train_facts *f, struct json_out *to)
{
    json_out_open(to, "best", '{');
    for (size_t i = 0; i < BESTS; i++) {
        if (f->best[i].pass == 0) {
            json_out_null(to, best_kinds[i].name);
            continue;
        }
        json_out_open(to, best_kinds[i].name, '{');
        json_out_real(to, "value", 12, f->best[i].value);
        json_out_u64(to, "pass", f->best[i].pass);
        json_out_close(to, '}');
    }
    json_out_close(to, '}');
}

static void put_saves(const struct train_facts *f, struct json_out *to)
{
    json_out_open(to, "saves", '{');
    json_out_u64(to, "made", f->saves);
    json_out_u64(to, "failed", f->failed_saves);
    json_out_text(to, "error", f->save_error[0] != '\0' ? f->save_error : NULL);
    if (f->saves == 0) {
        json_out_null(to, "last");
    } else {
        json_out_open(to, "last", '{');
        json_out_text(to, "path", f->saved);
        put_count(to, "bytes", f->save_bytes, f->save_bytes > 0);
        json_out_real(to, "seconds", 9, f->save_seconds);
        json_out_real(to, "finished_unix_seconds", 16, f->saved_unix);
        json_out_u64(to, "pass", f->save_pass);
        json_out_close(to, '}');
    }
    json_out_close(to, '}');
}

static void put_numbers(const struct train_facts *f, struct json_out *to)
{
    double idle = (double)(clock_ns() - atomic_load(&f->moved_ns)) * 1e-9;
    json_out_u64(to, "pass", f->pass);
    json_out_u64(to, "passes", f->passes);
    json_out_real(to, "share", 6, f->share);
    json_out_u64(to, "examples", f->examples);
    json_out_u64(to, "batches", f->batches);
    // While no example is trained, the reported speed falls from second to second.
    double still = f->state == TRAIN_TRAINING || f->state == TRAIN_LOADING
                       ? fmax(trained_seconds(f) - f->rate_seconds, 0)
                       : 0;
    json_out_real(to, "examples_per_second", 6, f->rate * exp(-still / rate_memory));
    json_out_real(to, "seconds_since_progress", 9, idle);
    json_out_real(to, "loss", 12, f->loss);
    json_out_real(to, "base_loss", 12, f->base_loss);
    json_out_real(to, "auc", 12, f->auc);
    json_out_real(to, "valid_loss", 12, f->valid_loss);
    json_out_real(to, "valid_auc", 12, f->valid_auc);
}

void train_facts_put(void *facts, const char *name, struct json_out *to)
{
    static const char *const states[] = {"loading", "training",    "validating", "saving",
                                         "done",    "interrupted", "failed"};
    struct train_facts *f = facts;
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    json_out_open(to, name, '{');
    json_out_text(to, "model", f->model);
    json_out_text(to, "state", states[f->state]);
    json_out_text(to, "error", f->error[0] != '\0' ? f->error : NULL);
    json_out_flag(to, "diverged", f->diverged);
    put_numbers(f, to);
    json_out_open(to, "history", '[');
    for (size_t i = 0; i < f->n_history; i++)
        json_out_raw(to, NULL, f->history[i], strlen(f->history[i]));
    json_out_close(to, ']');
    put_count(to, "best_pass", f->best_pass, f->best_pass > 0);
    put_best(f, to);
    put_saves(f, to);
    json_out_close(to, '}');
    pthread_mutex_unlock(&f->lock);
}

static void put_table(const struct train_table *t, uint64_t id, struct json_out *to)
{
    json_out_open(to, NULL, '{');
    json_out_u64(to, "id", id);
    json_out_text(to, "name", t->name);
    json_out_u64(to, "rows", t->rows);
    json_out_u64(to, "bytes", t->bytes);
    if (t->cold) {
        json_out_open(to, "cold", '{');
        json_out_u64(to, "rows", t->cold_rows);
        json_out_u64(to, "hits", t->hits);
        json_out_u64(to, "reads", t->reads);
        json_out_u64(to, "writes", t->writes);
        json_out_close(to, '}');
    }
    json_out_close(to, '}');
}

void train_facts_put_tables(struct train_facts *f, struct json_out *to)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    json_out_open(to, "tables", '[');
    for (size_t i = 0; i < f->n_tables; i++)
        put_table(&f->tables[i], i, to);
    json_out_close(to, ']');
    pthread_mutex_unlock(&f->lock);
}
