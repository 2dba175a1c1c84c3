// Loads saves, one after the other, into the two copies of a served model; see served.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "serve/served.h"

#include <sched.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/log.h"
#include "os/thread.h"
#include "serve/served_internal.h"
#include "train/rows/dense.h"
#include "train/saved/saved.h"

enum {
    POLL_MS = 200,
    THREADS_UNASKED =
        8,         // the most threads that load a save unless the caller gives a number
    MAX_WAIT = 64, // the most checks between two attempts to load a refused save
};

// Waits for this time and returns true. Returns false at once if served_stop is called.
static bool pause_ms(struct served *s, double ms)
{
    struct timespec until = clock_deadline(ms * 1e-3);
    pthread_mutex_lock(&s->lock);
    int rc = 0;
    while (!s->stop && rc == 0)
        rc = pthread_cond_timedwait(&s->changed, &s->lock, &until);
    bool stop = s->stop;
    pthread_mutex_unlock(&s->lock);
    return !stop;
}

// ---------------------------------------------------------------- the places of readers

struct served_reader *served_enter(struct served *s)
{
    static atomic_uint threads;
    static _Thread_local uint32_t mine; // this thread's place + 1; 0: it has none yet
    if (mine == 0)
        mine = atomic_fetch_add(&threads, 1) % SERVED_READERS + 1;
    for (uint32_t i = 0; i < SERVED_READERS; i++) {
        struct served_reader *r = &s->readers[(mine - 1 + i) % SERVED_READERS];
        bool taken = false;
        if (atomic_compare_exchange_strong(&r->taken, &taken, true)) {
            mine = (mine - 1 + i) % SERVED_READERS + 1;
            return r;
        }
    }
    return NULL;
}

void served_leave(struct served_reader *r)
{
    atomic_store_explicit(&r->taken, false, memory_order_release);
}

static bool is_pinned(struct served *s, const struct served_copy *c)
{
    for (uint32_t i = 0; i < SERVED_READERS; i++)
        if (atomic_load(&s->readers[i].pinned) == c)
            return true;
    return false;
}

// Waits until no thread reads the copy that is not `current`, and returns it. Returns
// NULL if served_stop was called meanwhile.
static struct served_copy *idle_copy(struct served *s)
{
    struct served_copy *c = &s->copies[atomic_load(&s->current) == &s->copies[0]];
    for (double ms = 0.05; is_pinned(s, c); ms = ms < 10 ? ms * 2 : ms)
        if (!pause_ms(s, ms))
            return NULL;
    return c;
}

// ----------------------------------------------------------- the two copies of the model

static void empty_copy(struct served_copy *c)
{
    parameters_close(&c->p);
    mem_free(c->dense);
    *c = (struct served_copy){0};
}

static void reserve_rows(struct served_copy *c, const struct save_chain *chain)
{
    uint64_t rows = 0;
    for (size_t t = 0; t < chain->saves[0].n_tables; t++) {
        const struct save_table *x = &chain->saves[0].tables[t];
        if (strcmp(x->config.name, saved_table(SAVED_MODEL, false)) != 0)
            continue;
        for (size_t i = 0; i < x->n_files; i++)
            rows += x->files[i].info.rows;
    }
    table_reserve(c->p.sparse, &rows, 0);
}

static int begin_copy(struct served *s, struct served_copy *c,
                      const struct save_chain *chain, struct err *e)
{
    empty_copy(c);
    TRY(parameters_open_packed(&c->p, &s->run->options.model, e));
    c->dense = dense_floats(&c->p.model);
    if (c->dense == NULL) {
        empty_copy(c);
        return err_nomem(e, "dense parameters");
    }
    reserve_rows(c, chain);
    return 0;
}

static int load_chain(struct served *s, struct served_copy *c,
                      const struct save_chain *chain, bool goes_on, struct err *e)
{
    for (size_t i = 0; i < chain->n; i++)
        TRY(saved_verify(chain, i, s->team, &(struct parameters){.model = s->model}, e));
    if (!goes_on)
        TRY(begin_copy(s, c, chain, e));
    int rc = 0;
    for (size_t i = 0; i < chain->n && rc == 0; i++)
        rc = saved_load_change(chain, i, s->team, &c->p, e);
    if (rc != 0) {
        empty_copy(c); // a failed load leaves some rows in the copy
        return rc;
    }
    const struct save_manifest *m = &chain->saves[chain->n - 1];
    dense_read(&c->p.model, c->p.blocks, c->dense);
    c->p.known.columns = s->run->columns;
    numbering_add_fields(&c->p.known, s->run->first_field, s->run->fields_end);
    c->checksum = m->checksum;
    c->number = m->number;
    c->step = m->step;
    c->mode = m->mode;
    c->deltas = served_expects_deltas(m);
    return 0;
}

// Loads `save` into *c, a copy that no thread reads. If the newer deltas build on the
// save that *c holds, loads only these deltas. On failure *c is unchanged or empty.
static int bring(struct served *s, struct served_copy *c, const char *save, struct err *e)
{
    struct save_chain chain;
    uint64_t known = c->p.sparse != NULL ? c->checksum : 0;
    TRY(served_open_chain(s, save, known, &chain, e));
    bool there = known != 0 && chain.saves[chain.n - 1].checksum == known;
    int rc = there ? 0 : load_chain(s, c, &chain, chain.saves[0].mode == SAVE_DELTA, e);
    save_chain_close(&chain);
    return rc;
}

// --------------------------------------------------------- finding and loading new saves

static bool served_look_at(const char *save, struct served_file *ret)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    if (file_join(path, save, SAVE_MANIFEST, NULL) != 0 || stat(path, &st) != 0)
        return false;
    *ret = (struct served_file){.device = st.st_dev,
                                .inode = st.st_ino,
                                .bytes = (uint64_t)st.st_size,
                                .seconds = st.st_mtim.tv_sec,
                                .nanoseconds = st.st_mtim.tv_nsec};
    return true;
}

static bool same_file(const struct served_file *a, const struct served_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static void note(struct served *s, const struct served_copy *c)
{
    pthread_mutex_lock(&s->lock);
    s->status.number = c->number;
    s->status.mode = c->mode;
    s->status.step = c->step;
    s->status.rows = table_stats(c->p.sparse).rows;
    s->status.taken++;
    s->status.refusal = (struct err){0};
    pthread_mutex_unlock(&s->lock);
}

// Loads a save into the copy that is not read, and makes it the one that is read.
static int take_save(struct served *s, const char *save, struct err *e)
{
    struct served_copy *c = idle_copy(s);
    if (c == NULL)
        return err_set(e, TUG_EINTERRUPTED, "the model is being closed");
    TRY(bring(s, c, save, e));
    note(s, c);
    atomic_store(&s->current, c);
    return 0;
}

// Waits until readers have left the copy that they read before `save` was loaded. Then
// loads `save` into that copy too, so that it is ready for the next delta; if no deltas
// can come, frees its memory instead.
static void catch_up(struct served *s, const char *save)
{
    bool deltas = atomic_load(&s->current)->deltas;
    struct served_copy *c = idle_copy(s);
    struct err ignored = {0}; // the load of the next save reports the same error
    if (c != NULL && deltas)
        (void)bring(s, c, save, &ignored);
    else if (c != NULL)
        empty_copy(c);
}

// Records why a save is refused, and warns. `again`: the save was refused before, and
// this was a further attempt.
static void served_refuse(struct served *s, const char *save, bool again,
                          const struct err *why)
{
    pthread_mutex_lock(&s->lock);
    s->status.refused += !again;
    s->status.refusal = *why;
    uint32_t number = s->status.number;
    pthread_mutex_unlock(&s->lock);
    if (!again)
        log_warn("%s is refused, and save %u stays in use: %s", save, number, why->text);
}

int served_refresh(struct served *s, bool *ret_taken, struct err *e)
{
    char save[FILE_PATH_MAX], now[FILE_PATH_MAX];
    struct served_file file;
    struct err why = {0};
    bool taken = false;
    int rc = save_find(s->from, save, e);
    if (ret_taken != NULL)
        *ret_taken = false;
    if (rc != 0 || !served_look_at(save, &file))
        return rc == TUG_EDATA
                   ? 0
                   // The save was removed while it was loaded; the loaded rows stay in use.
                   : rc;
    if (same_file(&file, &s->seen) && (s->wait == 0 || s->waited++ < s->wait))
        return 0;
    s->wait = same_file(&file, &s->seen) ? s->wait : 0;
    s->waited = 0;
    s->seen = file;
    rc = take_save(s, save, &why);
    if (rc == TUG_EINTERRUPTED)
        return 0;
    taken = rc == 0;
    if (taken)
        catch_up(s, save);
    // If the save was removed because a newer save exists, it is not refused: the next
    // check loads the newer save.
    if (!taken && save_find(s->from, now, NULL) == 0 && strcmp(now, save) == 0)
        served_refuse(s, save, s->wait > 0, &why);
    s->wait = taken ? 0 : s->wait == 0 ? 1 : s->wait < MAX_WAIT ? 2 * s->wait : MAX_WAIT;
    if (ret_taken != NULL)
        *ret_taken = taken;
    return 0;
}

static void *follow(void *arg)
{
    struct served *s = arg;
    struct err e = {0};
    bool failed = false;
    while (pause_ms(s, s->poll_ms)) {
        bool fails = served_refresh(s, NULL, &e) != 0;
        if (fails)
            served_refuse(s, s->from, failed, &e);
        failed = fails;
    }
    return NULL;
}

struct served_status served_status(struct served *s)
{
    pthread_mutex_lock(&s->lock);
    struct served_status ret = s->status;
    pthread_mutex_unlock(&s->lock);
    return ret;
}

// ---------------------------------------------------- opening and closing a served model

static int threads_of(int wanted)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    if (wanted > 0)
        return wanted;
    return n < THREADS_UNASKED ? n : THREADS_UNASKED;
}

// Loads the first save. If a newer save replaces it while it is read, the newer save is
// loaded.
static int open_first(struct served *s, struct err *e)
{
    char save[FILE_PATH_MAX], now[FILE_PATH_MAX];
    for (;;) {
        TRY(save_find(s->from, save, e));
        (void)served_look_at(save, &s->seen);
        int rc = take_save(s, save, e);
        if (rc == 0)
            catch_up(s, save);
        if (rc == 0 || save_find(s->from, now, NULL) != 0 || strcmp(now, save) == 0)
            return rc;
    }
}

static int await_first(struct served *s, const struct served_options *o, struct err *e)
{
    char save[FILE_PATH_MAX];
    uint64_t until = clock_ns() + (uint64_t)(o->wait_seconds * (double)SECOND_NS);
    while (o->wait_seconds > 0 && save_find(s->from, save, NULL) != 0 &&
           clock_ns() < until) {
        if (o->interrupted != NULL && atomic_load(o->interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted while waiting for a save");
        (void)pause_ms(s, s->poll_ms);
    }
    return open_first(s, e);
}

static int open_served(struct served *s, const char *from, const struct served_options *o,
                       struct err *e)
{
    char save[FILE_PATH_MAX];
    TRY(file_join(s->from, from, "", e));
    s->from[strlen(from)] = '\0'; // removes the slash that file_join has added
    if (o->follow && save_find(from, save, NULL) == 0 && strcmp(save, from) == 0)
        return err_set(e, TUG_EUSAGE,
                       "'%s' is one save, and no others follow it: to follow a model, "
                       "give the directory of its saves",
                       from);
    TRY(team_open(&s->team, threads_of(o->threads), e));
    TRY(await_first(s, o, e));
    if (!o->follow)
        return 0;
    if (thread_start(&s->thread, follow, s) != 0)
        return err_set(e, TUG_EIO, "cannot start a thread that follows '%s'", from);
    s->follows = true;
    return 0;
}

int served_open(struct served **ret, const char *from, const struct served_options *o,
                struct err *e)
{
    struct served *s = mem_aligned(SERVED_LINE, sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "a model");
    memset(s, 0, sizeof(*s));
    atomic_store(&s->current, &s->copies[1]); // both copies are still empty
    pthread_mutex_init(&s->lock, NULL);
    thread_condition(&s->changed);
    s->poll_ms = o->poll_ms > 0 ? o->poll_ms : POLL_MS;
    int rc = open_served(s, from, o, e);
    if (rc == 0)
        *ret = s;
    else
        served_close(s);
    return rc;
}

void served_stop(struct served *s)
{
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->follows)
        pthread_join(s->thread, NULL);
    s->follows = false;
}

void served_close(struct served *s)
{
    if (s == NULL)
        return;
    served_stop(s);
    empty_copy(&s->copies[0]);
    empty_copy(&s->copies[1]);
    if (s->run != NULL)
        saved_run_free(s->run);
    mem_free(s->run);
    team_close(s->team);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
