// Asks the source for facts; see facts_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/facts_internal.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "monitor/limits_internal.h"
#include "os/clock.h"
#include "os/json.h"
#include "os/thread.h"

struct facts {
    struct monitor_source source;
    int wake;
    pthread_t thread;
    pthread_mutex_t lock; // guards the fields below
    pthread_cond_t changed;
    bool wanted, stop;
    uint64_t version; // version of `fresh`
    json_t *fresh;    // the newest facts, until facts_take takes them; NULL: none
    struct err why;
    uint64_t asked_ns; // when the source was asked last; 0: never
    uint64_t fresh_ns; // when the source was asked for `fresh`
};

// Waits until facts are wanted and a second has passed since the source was asked last.
// Returns false if the monitor closes.
static bool await_wish(struct facts *f)
{
    pthread_mutex_lock(&f->lock);
    while (!f->stop) {
        uint64_t now = clock_ns(), next = f->asked_ns + SECOND_NS;
        if (f->wanted && (f->asked_ns == 0 || now >= next))
            break;
        if (f->wanted) {
            struct timespec until = clock_deadline((double)(next - now) * 1e-9);
            pthread_cond_timedwait(&f->changed, &f->lock, &until);
        } else {
            pthread_cond_wait(&f->changed, &f->lock);
        }
    }
    bool goes_on = !f->stop;
    f->wanted = false;
    f->asked_ns = clock_ns();
    pthread_mutex_unlock(&f->lock);
    return goes_on;
}

static void keep(struct facts *f, json_t *told, const struct err *why)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&f->lock);
    if (told != NULL) {
        json_decref(f->fresh);
        f->fresh = told;
        f->fresh_ns = f->asked_ns;
    }
    f->why = *why;
    f->version++;
    pthread_mutex_unlock(&f->lock);
    if (write(f->wake, &one, sizeof(one)) < 0)
        // The counter of `wake` is at its maximum, so the monitor's thread is about to wake anyway.
        return;
}

static void *run_facts(void *arg)
{
    struct facts *f = arg;
    thread_background("http-facts");
    json_begin();
    while (await_wish(f)) {
        json_t *told = NULL;
        struct err why = {0};
        int rc = f->source.facts(f->source.of, &told, &why);
        if (rc != 0 && why.code == 0)
            err_set(&why, rc, "%s", err_text(rc));
        if (rc != 0) {
            json_decref(told);
            told = NULL;
        }
        keep(f, told, &why);
    }
    return NULL;
}

int facts_open(struct facts **ret, const struct monitor_source *s, int wake,
               struct err *e)
{
    *ret = NULL;
    struct facts *f = mem_zalloc(sizeof(*f));
    if (f == NULL)
        return err_nomem(e, "the monitor");
    f->source = *s;
    f->wake = wake;
    pthread_mutex_init(&f->lock, NULL);
    thread_condition(&f->changed);
    if (thread_start(&f->thread, run_facts, f) != 0) {
        pthread_mutex_destroy(&f->lock);
        pthread_cond_destroy(&f->changed);
        mem_free(f);
        return err_set(e, TUG_EIO, "cannot start the thread of --http");
    }
    *ret = f;
    return 0;
}

void facts_close(struct facts *f)
{
    if (f == NULL)
        return;
    if (f->source.closing != NULL)
        atomic_store(f->source.closing, true);
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    json_decref(f->fresh);
    mem_free(f);
}

void facts_want(struct facts *f)
{
    pthread_mutex_lock(&f->lock);
    f->wanted = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

bool facts_take(struct facts *f, struct facts_told *t)
{
    pthread_mutex_lock(&f->lock);
    bool is_new = f->version != t->version;
    json_t *fresh = f->fresh;
    f->fresh = NULL;
    t->version = f->version;
    uint64_t asked_ns = f->fresh_ns;
    if (is_new) {
        t->why = f->why;
        t->told_ns = clock_ns();
    }
    pthread_mutex_unlock(&f->lock);
    if (fresh == NULL)
        return is_new;
    json_decref(t->before);
    t->before = t->now;
    t->before_ns = t->asked_ns;
    t->now = fresh;
    t->asked_ns = asked_ns;
    return true;
}

void facts_told_free(struct facts_told *t)
{
    json_decref(t->now);
    json_decref(t->before);
    *t = (struct facts_told){0};
}

// ---------------------------------------------------------------- fields of facts

const char *fact_text(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text != NULL ? text : "";
}

double fact_number(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

bool fact_true(const json_t *o, const char *name)
{
    return json_is_true(json_object_get(o, name));
}

const json_t *fact_at(const json_t *o, const char *name)
{
    return json_object_get(o, name);
}

bool fact_disk_is_low(const json_t *disk)
{
    return fact_number(disk, "free_bytes") < disk_share * fact_number(disk, "size_bytes");
}

bool fact_is_silent(const json_t *node)
{
    return fact_true(node, "alive") && !fact_true(node, "left") &&
           fact_number(node, "seconds_since_sign") > silent_seconds;
}

bool fact_is_stopped(const json_t *process)
{
    return strcmp(fact_text(process, "state"), "stopped") == 0;
}

double fact_recent_rate(const json_t *node)
{
    const json_t *recent = fact_at(node, "recent");
    double seconds = fact_number(recent, "seconds");
    return seconds > 0 ? fact_number(recent, "examples") / seconds : NAN;
}

bool fact_is_replaced(const json_t *nodes, const json_t *node)
{
    static const char *const names[] = {"role", "rank", "loop"};
    const json_t *n;
    size_t i, same;
    bool after = false;
    if (!json_is_false(json_object_get(node, "alive")))
        return false;
    json_array_foreach(nodes, i, n) {
        for (same = 0; same < 3 && json_equal(json_object_get(n, names[same]),
                                              json_object_get(node, names[same]));)
            same++;
        if (same == 3 && n != node && (after || fact_true(n, "alive")))
            return true;
        after |= n == node;
    }
    return false;
}

bool fact_holds_up(double behind, double bound)
{
    return bound > 0 && behind >= behind_share * bound;
}
