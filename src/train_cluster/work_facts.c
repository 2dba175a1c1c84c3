// The facts of a worker; see work_facts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/work_facts.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"

enum { PIECES_SHOWN = 64 };
static const double window_seconds = 1; // speeds are measured over at least this time

// A number that only the lane's thread changes. So it needs no locked instruction.
typedef _Atomic uint64_t number;

static uint64_t get(const number *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

static void set(number *n, uint64_t x)
{
    atomic_store_explicit(n, x, memory_order_relaxed);
}

static void add(number *n, uint64_t x)
{
    set(n, get(n) + x);
}

struct work_lane {
    _Alignas(64) number joined; // 0 before the lane has joined, else 1 + its rank
    number pass, batches, examples, pieces;
    number holds; // 0: the lane has no piece; else 1 + the number of the piece's file
    number index, begun_ns;
    number pull_ns, push_ns, compute_ns, read_ns, told_ns;
    number resent, refused, sent_bytes, received_bytes;
    number speed; // examples a second in the last window
    // When the current window began, and the number of examples at that time.
    number window_ns, window_examples;

    struct work_now last; // used by the lane's thread only
};

struct work_facts {
    uint32_t n;
    struct work_lane *lanes;
};

int work_facts_open(struct work_facts **ret, uint32_t lanes, struct err *e)
{
    struct work_facts *f = mem_zalloc(sizeof(*f));
    if (f != NULL)
        f->lanes = mem_aligned(64, lanes * sizeof(*f->lanes));
    if (f == NULL || f->lanes == NULL) {
        mem_free(f);
        return err_nomem(e, "the state of the worker");
    }
    memset(f->lanes, 0, lanes * sizeof(*f->lanes));
    f->n = lanes;
    *ret = f;
    return 0;
}

void work_facts_close(struct work_facts *f)
{
    if (f == NULL)
        return;
    mem_free(f->lanes);
    mem_free(f);
}

struct work_lane *work_facts_lane(struct work_facts *f, uint32_t i)
{
    return f != NULL && i < f->n ? &f->lanes[i] : NULL;
}

// ---------------------------------------------------------------- what a lane writes

void work_joined(struct work_lane *l, uint32_t rank)
{
    if (l != NULL)
        set(&l->joined, 1 + (uint64_t)rank);
}

void work_read(struct work_lane *l, double seconds)
{
    if (l != NULL && seconds > 0)
        add(&l->read_ns, (uint64_t)(seconds * 1e9));
}

// Adds the time since the last call: waits for rows, other waits (for acknowledgements),
// and the rest, in which the lane has computed.
static void add_times(struct work_lane *l, const struct work_now *now)
{
    uint64_t all = now->time_ns - l->last.time_ns,
             pull = now->pulled_ns - l->last.pulled_ns,
             waited = now->waited_ns - l->last.waited_ns;
    add(&l->pull_ns, pull);
    add(&l->push_ns, waited > pull ? waited - pull : 0);
    waited = waited > pull ? waited : pull;
    add(&l->compute_ns, all > waited ? all - waited : 0);
    set(&l->resent, now->resent);
    set(&l->refused, now->refused);
    set(&l->sent_bytes, now->sent_bytes);
    set(&l->received_bytes, now->received_bytes);
    set(&l->told_ns, now->time_ns);
    l->last = *now;
}

static void begin_window(struct work_lane *l, uint64_t now)
{
    set(&l->window_examples, get(&l->examples));
    set(&l->window_ns, now);
}

// Returns the examples a second in the current window; -1 if it is too short.
static double speed_now(const struct work_lane *l, uint64_t now)
{
    uint64_t began = get(&l->window_ns), n = get(&l->examples),
             before = get(&l->window_examples);
    double seconds = now > began ? (double)(now - began) * 1e-9 : 0;
    return seconds >= window_seconds && n >= before ? (double)(n - before) / seconds : -1;
}

void work_begin(struct work_lane *l, const struct work_now *now, uint64_t pass,
                uint32_t file, uint64_t index)
{
    if (l == NULL)
        return;
    if (get(&l->window_ns) == 0)
        begin_window(l, now->time_ns);
    set(&l->pass, pass);
    set(&l->index, index);
    set(&l->begun_ns, now->time_ns);
    set(&l->holds, 1 + (uint64_t)file);
    l->last = *now;
}

void work_batch(struct work_lane *l, const struct work_now *now, uint64_t examples)
{
    if (l == NULL)
        return;
    add(&l->batches, 1);
    add(&l->examples, examples);
    add_times(l, now);
    double speed = speed_now(l, now->time_ns);
    if (speed < 0)
        return;
    set(&l->speed, (uint64_t)speed);
    begin_window(l, now->time_ns);
}

void work_end(struct work_lane *l, const struct work_now *now)
{
    if (l == NULL)
        return;
    add_times(l, now);
    add(&l->pieces, 1);
    set(&l->holds, 0);
}

// ---------------------------------------------------------------- printing

static uint64_t sum(const struct work_facts *f, size_t at)
{
    uint64_t ret = 0;
    for (uint32_t i = 0; i < f->n; i++)
        ret += get((const number *)(const void *)((const char *)&f->lanes[i] + at));
    return ret;
}

#define SUM(f, field) sum(f, offsetof(struct work_lane, field))

static void put_seconds(struct json_out *to, const char *name, uint64_t ns)
{
    json_out_real(to, name, 9, (double)ns * 1e-9);
}

static double since(uint64_t then, uint64_t now)
{
    return now > then ? (double)(now - then) * 1e-9 : 0;
}

static void put_pieces(const struct work_facts *f, uint64_t now, struct json_out *to)
{
    uint32_t held = 0;
    json_out_open(to, "pieces", '[');
    for (uint32_t i = 0; i < f->n; i++) {
        const struct work_lane *l = &f->lanes[i];
        uint64_t holds = get(&l->holds);
        if (holds == 0 || held++ >= PIECES_SHOWN)
            continue;
        json_out_open(to, NULL, '{');
        json_out_u64(to, "lane", i);
        if (holds - 1 != UINT32_MAX) {
            json_out_u64(to, "file", holds - 1);
            json_out_u64(to, "index", get(&l->index));
        }
        json_out_real(to, "seconds", 6, since(get(&l->begun_ns), now));
        json_out_close(to, '}');
    }
    json_out_close(to, ']');
    json_out_u64(to, "pieces_held", held);
}

// Writes what the lanes together have reached: the newest pass and sign of progress, the
// sum of their speeds.
static void put_progress(const struct work_facts *f, uint64_t now, struct json_out *to)
{
    uint64_t pass = 0, told = 0;
    double speed = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct work_lane *l = &f->lanes[i];
        double recent = get(&l->window_ns) != 0 ? speed_now(l, now) : -1;
        speed += recent >= 0 ? recent : (double)get(&l->speed);
        pass = get(&l->pass) > pass ? get(&l->pass) : pass;
        told = get(&l->told_ns) > told ? get(&l->told_ns) : told;
    }
    json_out_u64(to, "pass", pass);
    json_out_real(to, "examples_per_second", 6, speed);
    json_out_real(to, "seconds_since_progress", 9,
                  told > 0 ? since(told, now) : (double)NAN);
}

void work_facts_put(struct work_facts *f, int64_t asked, struct json_out *to)
{
    uint64_t now = clock_ns(), first = get(&f->lanes[0].joined);
    bool joined = true;
    for (uint32_t i = 0; i < f->n; i++)
        joined = joined && get(&f->lanes[i].joined) != 0;
    json_out_flag(to, "joined", joined);
    if (first != 0 || asked >= 0)
        json_out_u64(to, "rank", first != 0 ? first - 1 : (uint64_t)asked);
    json_out_u64(to, "lanes", f->n);
    put_progress(f, now, to);
    json_out_u64(to, "batches", SUM(f, batches));
    json_out_u64(to, "examples", SUM(f, examples));
    json_out_u64(to, "pieces_done", SUM(f, pieces));
    put_pieces(f, now, to);
    put_seconds(to, "pull_seconds", SUM(f, pull_ns));
    put_seconds(to, "compute_seconds", SUM(f, compute_ns));
    put_seconds(to, "push_seconds", SUM(f, push_ns));
    put_seconds(to, "read_seconds", SUM(f, read_ns));
    json_out_u64(to, "resent", SUM(f, resent));
    json_out_u64(to, "refused", SUM(f, refused));
    json_out_u64(to, "sent_bytes", SUM(f, sent_bytes));
    json_out_u64(to, "received_bytes", SUM(f, received_bytes));
}
