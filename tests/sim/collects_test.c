// Collective calls in a simulated network, from one number: workers gather, reduce and
// meet at barriers in one order, are stopped for a while, and die; messages are lost and
// links break. The test checks:
//
//   - all workers get the same result of a call, which has each living worker's part
//   - a call that needs all workers fails at all of them, or at none
//   - no living worker hangs or fails, whichever workers are stopped or die
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/seeds.h"
#include "kit/stage.h"
#include "kit/test.h"

enum { MAX_WORKERS = 4, MAX_ROUNDS = 12, BITS = 4, CHOICE = 10, BYTES = 200 };
enum { GATHER, GATHER_ALL, SUM, BARRIER, KINDS };
enum { RESULTS, FAILED, DEATHS, EVENTS };

struct world;

struct worker {
    struct world *world;
    struct stage_client c;
    bool waits;
    // The number of rounds that the worker has begun, and the number that have ended.
    uint32_t came, passed;
    uint64_t next; // time at which the worker begins the next round
};

// The result of a round, as the first worker has got it.
struct result {
    bool known;
    int code;
    size_t n;
    char bytes[MAX_WORKERS * (BYTES + 8)];
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_workers, rounds, results, failed;
    struct worker workers[MAX_WORKERS];
    uint8_t kinds[MAX_ROUNDS];
    struct result round[MAX_ROUNDS];
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = &w->workers[i];
    k->world = w;
    k->c.dies_at = i > 0 && stage_one_in(&w->stage, 4) ? 100 * MS + draw(w, 3 * SECOND)
                                                       : VAN_NEVER;
    struct client_options o = {.resend_ns = 20 * MS + draw(w, 80 * MS)};
    return stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e);
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    w->n_workers = 2 + (uint32_t)draw(w, MAX_WORKERS - 1);
    w->rounds = 2 + (uint32_t)draw(w, MAX_ROUNDS - 1);
    for (uint32_t i = 0; i < w->rounds; i++)
        w->kinds[i] = (uint8_t)draw(w, KINDS);
    struct scheduler_options o = sim_scheduler(1, w->n_workers, BITS);
    struct shard_options so = {0};
    TRY(stage_open_scheduler(&w->stage, &o, e));
    TRY(stage_open_server(&w->stage, &so, NULL, NULL, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {1, 1, 4711};
    return stage_open_strangers(&w->stage, &seen, e);
}

// Fills in the bytes that a worker contributes in a round and that differ from those of
// all other workers; returns their number.
static size_t fill(char bytes[BYTES], uint32_t worker, uint32_t round)
{
    memset(bytes, (int)(worker * MAX_ROUNDS + round), BYTES);
    return (worker * 7 + round * 13) % BYTES;
}

// Returns the worker's number in the calls, which is not its rank.
static uint32_t index_of(const struct world *w, const struct member *m)
{
    return w->n_workers - 1 - member_rank(m);
}

static void begin(struct worker *k, struct member *m)
{
    struct world *w = k->world;
    struct err e;
    char bytes[BYTES];
    uint32_t round = k->came++, me = index_of(w, m);
    const int64_t value = INT64_C(1) << (8 * me + round % 8);
    struct member_collect c = {.call = "gather", .index = me, .bytes = bytes};
    k->waits = true;
    if (w->kinds[round] == BARRIER) {
        member_barrier(m, WIRE_GROUP_WORKERS);
        return;
    }
    c.n = fill(bytes, me, round);
    if (w->kinds[round] == GATHER_ALL)
        c.workers = w->n_workers;
    if (w->kinds[round] == SUM) {
        c = (struct member_collect){.call = "sum",
                                    .op = WIRE_SUM,
                                    .type = WIRE_I64,
                                    .index = me,
                                    .bytes = &value,
                                    .n = sizeof(value)};
    }
    if (member_collect(m, &c, &e) != 0)
        stage_failed(&w->stage, "worker %u: %s", k->c.number, e.text);
}

// Checks the parts of a gather, which are in ascending order of the workers' indexes.
// Returns a bit for each worker that has a part.
static uint32_t check_parts(struct world *w, struct wire_text result, uint32_t round)
{
    uint32_t in = 0;
    char want[BYTES];
    struct wire_part p;
    while (wire_next_part(&result, &p) == 1) {
        size_t n = fill(want, p.index, round);
        if (p.index >= MAX_WORKERS || in >> p.index != 0 || p.bytes.n != n ||
            memcmp(p.bytes.data, want, n) != 0)
            stage_failed(&w->stage, "round %u: the part of %u is wrong", round, p.index);
        in |= 1u << p.index;
    }
    return in;
}

static uint32_t check_sum(struct world *w, struct wire_text result, uint32_t round)
{
    uint32_t in = 0;
    int64_t sum = 0;
    if (result.n == sizeof(sum))
        memcpy(&sum, result.data, sizeof(sum));
    for (uint32_t i = 0; i < MAX_WORKERS; i++) {
        int64_t one = sum >> (8 * i) & 255;
        if (one != 0 && one != 1 << round % 8)
            stage_failed(&w->stage, "round %u: the sum is wrong", round);
        in |= (one != 0) << i;
    }
    return in;
}

static void check_living(struct worker *k, uint32_t in, uint32_t round)
{
    struct world *w = k->world;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *other = &w->workers[i];
        if (!other->c.dead &&
            (in >> index_of(w, client_member(other->c.client)) & 1) == 0)
            stage_failed(&w->stage, "round %u: worker %u's part is missing", round, i);
    }
}

static void check_result(struct worker *k, const struct member *m, uint32_t round)
{
    struct world *w = k->world;
    struct result *first = &w->round[round];
    struct wire_text got;
    struct err e = {0};
    int code = member_collected(m, &got, &e);
    if (code != 0 && (w->stage.deaths == 0 || w->kinds[round] != GATHER_ALL))
        stage_failed(&w->stage, "round %u fails: %s", round, e.text);
    w->failed += code != 0;
    w->results++;
    if (got.n > sizeof(first->bytes)) {
        stage_failed(&w->stage, "round %u: %u bytes", round, got.n);
        return;
    }
    if (first->known && (first->code != code || first->n != got.n ||
                         memcmp(first->bytes, got.data, got.n) != 0))
        stage_failed(&w->stage, "round %u: two workers have different results", round);
    first->known = true;
    first->code = code;
    first->n = got.n;
    memcpy(first->bytes, got.data, got.n);
    if (code == 0)
        check_living(k,
                     w->kinds[round] == SUM ? check_sum(w, got, round)
                                            : check_parts(w, got, round),
                     round);
}

static void act_as(struct worker *k)
{
    struct world *w = k->world;
    struct member *m = client_member(k->c.client);
    uint64_t now = sim_now(w->stage.sim);
    if (k->waits && member_barrier_done(m, WIRE_GROUP_WORKERS, NULL)) {
        if (w->kinds[k->passed] != BARRIER)
            check_result(k, m, k->passed);
        k->waits = false;
        k->passed++;
        k->next = now + draw(w, 300 * MS);
    } else if (!k->waits && k->came < w->rounds && now >= k->next && member_ready(m)) {
        begin(k, m);
        van_wake(k->c.van);
    }
}

static void act(void *ctx)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        // A worker that is not ready could not begin any request.
        if (member_ready(client_member(k->c.client)))
            (void)stage_dies(&k->c);
        // A ghost does not act, although a call may still wait for the ghost.
        if (stage_acts(&k->c) && !member_ended(client_member(k->c.client), NULL))
            act_as(k);
    }
}

static bool is_over(struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead && w->workers[i].passed < w->rounds)
            return false;
    return true;
}

static void work(void *ctx)
{
    struct world *w = ctx;
    while (!is_over(w))
        if (!stage_step(&w->stage, 300 * SECOND)) {
            stage_failed(&w->stage, "a collective call hangs");
            return;
        }
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    counts[RESULTS] += w->results;
    counts[FAILED] += w->failed;
    counts[DEATHS] += w->stage.deaths;
    counts[EVENTS] += w->stage.events;
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[RESULTS] > 5 * seeds && counts[DEATHS] > seeds / 10);
    assert_true(counts[FAILED] > seeds / 10);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count};
    static const struct seeds collects = {
        .program = "test_sim_collects",
        .state_bugs = {{ANSWERED_BEFORE_DURABLE},
                       {WITHOUT_ROW_COLLECTED},
                       {WITHOUT_ROW_GROUP}},
        .counted = {"results", "failed calls", "deaths", "events"},
        .world = &world,
        .kept = {698, 4112,
                 13419}, // seeds in which copies of requests for earlier calls arrive
        // A seed in which a scheduler is stopped before its first tick.
        .state_kept = {5539},
        .seeds = 300,
        .state_seeds = 300,
        .bug_seeds = 300,
        .check = check_counts,
    };
    return seeds_main(&collects, argc, argv);
}
