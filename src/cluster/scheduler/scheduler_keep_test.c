// A scheduler that is killed and started again with its journal. The members are actors
// on the simulated network; the journal is in memory, and its writes fail where the test
// says so.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/actors.h"
#include "kit/journals.h"
#include "kit/test.h"

enum { SERVERS = 2, WORKERS = 3, SEEDS = 200 };

static struct memory_journal journal;

static struct scheduler_options options(struct memory_journal *j)
{
    struct scheduler_options o = world_options(SERVERS, WORKERS);
    o.dead_timeout_ns = 20 * SECONDS;
    o.journal = &j->base;
    memset(o.session_key, 7, sizeof(o.session_key));
    return o;
}

// Fails if the two nodes differ in a field that the journal keeps.
static void same_node(const struct sched_node *a, const struct sched_node *b)
{
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->n.id, b->n.id);
    assert_int_equal(a->n.role, b->n.role);
    assert_int_equal(a->n.tables, b->n.tables);
    assert_int_equal(a->n.alive, b->n.alive);
    assert_int_equal(a->n.rank, b->n.rank);
    assert_int_equal(a->n.session, b->n.session);
    assert_int_equal(a->n.process, b->n.process);
    assert_int_equal(a->n.loop, b->n.loop);
    assert_int_equal(a->n.pid, b->n.pid);
    assert_string_equal(a->n.host, b->n.host);
    assert_string_equal(a->n.address, b->n.address);
    assert_int_equal(a->ticket, b->ticket);
    assert_int_equal(a->process, b->process);
    assert_int_equal(a->left, b->left);
    assert_int_equal(a->lost, b->lost);
    assert_int_equal(a->holds, b->holds);
    assert_int_equal(a->held, b->held);
    assert_int_equal(a->hold_request, b->hold_request);
    assert_int_equal(a->full, b->full);
    assert_int_equal(a->in_flight, b->in_flight);
}

static void same_process(const struct scheduler *s, const struct process *a,
                         const struct process *b)
{
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->process, b->process);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->loops, b->loops);
    assert_int_equal(a->here, b->here);
    assert_int_equal(a->late, b->late);
    assert_int_equal(a->asked, b->asked);
    assert_int_equal(a->fixed, b->fixed);
    assert_int_equal(a->placed, b->placed);
    assert_int_equal(a->draining, b->draining);
    assert_string_equal(a->zone, b->zone);
    for (int g = 0; g < SCHEDULER_GROUPS; g++) {
        uint64_t done = s->groups[g].completed;
        assert_int_equal(a->known[g], b->known[g]);
        assert_int_equal(a->base[g], b->base[g]);
        assert_int_equal(a->reached[g] < done ? a->reached[g] : done, b->reached[g]);
    }
}

static void same_placement(const struct scheduler *a, const struct scheduler *b)
{
    size_t bytes = sizeof(uint32_t) << a->roster.partition_bits;
    assert_int_equal(a->roster.epoch, b->roster.epoch);
    assert_true(b->roster.version > a->roster.version);
    for (int space = 0; space < WIRE_SPACES && a->roster.epoch != 0; space++)
        assert_memory_equal(a->roster.owners[space], b->roster.owners[space], bytes);
    assert_int_equal(a->moving.wanted[0] != NULL, b->moving.wanted[0] != NULL);
    for (int space = 0; space < WIRE_SPACES && a->moving.wanted[0] != NULL; space++)
        assert_memory_equal(a->moving.wanted[space], b->moving.wanted[space], bytes);
    assert_int_equal(a->moving.n, b->moving.n);
    assert_int_equal(a->moving.left, b->moving.left);
    assert_int_equal(a->moving.last_id, b->moving.last_id);
    for (uint32_t i = 0; i < a->moving.n; i++) {
        assert_int_equal(a->moving.list[i].id, b->moving.list[i].id);
        assert_int_equal(a->moving.list[i].space, b->moving.list[i].space);
        assert_int_equal(a->moving.list[i].partition, b->moving.list[i].partition);
        assert_int_equal(a->moving.list[i].from, b->moving.list[i].from);
        assert_int_equal(a->moving.list[i].to, b->moving.list[i].to);
        assert_int_equal(a->moving.list[i].handing, b->moving.list[i].handing);
    }
}

static void same(const struct scheduler *a, const struct scheduler *b)
{
    assert_int_equal(a->session, b->session);
    assert_int_equal(a->o.session_base, b->o.session_base);
    assert_memory_equal(a->o.session_key, b->o.session_key, sizeof(a->o.session_key));
    assert_int_equal(a->phase, b->phase);
    assert_int_equal(a->end.code, b->end.code);
    assert_string_equal(a->end.text, b->end.text);
    assert_int_equal(a->fail.code, b->fail.code);
    assert_int_equal(a->broken, b->broken);
    assert_int_equal(a->asked, b->asked);
    assert_int_equal(a->more_servers, b->more_servers);
    assert_int_equal(a->more_workers, b->more_workers);
    assert_int_equal(a->n_guests, b->n_guests);
    assert_int_equal(a->used_nodes, b->used_nodes);
    assert_int_equal(a->n_nodes, b->n_nodes);
    assert_int_equal(a->n_processes, b->n_processes);
    for (uint32_t i = 0; i < a->n_nodes; i++)
        same_node(&a->nodes[i], &b->nodes[i]);
    for (uint32_t i = 0; i < a->n_processes; i++)
        same_process(a, &a->processes[i], &b->processes[i]);
    for (int g = 0; g < SCHEDULER_GROUPS; g++)
        assert_int_equal(a->groups[g].completed, b->groups[g].completed);
    assert_int_equal(a->collected.why.code, b->collected.why.code);
    assert_int_equal(a->collected.result.len, b->collected.result.len);
    if (a->collected.result.len > 0)
        assert_memory_equal(a->collected.result.data, b->collected.result.data,
                            a->collected.result.len);
    same_placement(a, b);
}

// Restores a second scheduler from the journal and fails if it differs from
// the world's scheduler.
static void check_journal(const struct world *w)
{
    struct memory_journal copy;
    struct scheduler *other;
    struct err e = {0};
    journals_copy(&copy, &journal);
    struct scheduler_options o = options(&copy);
    o.log = NULL;
    if (scheduler_open(&other, &o, &e) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)w->seed, e.text);
    same(w->s, other);
    scheduler_close(other);
    journals_free(&copy);
}

static void begin(struct world *w, uint64_t seed, uint64_t fails_after, bool keeps)
{
    journals_open(&journal);
    journal.fails_after = fails_after;
    journal.keeps = keeps;
    struct scheduler_options o = options(&journal);
    world_open(w, seed, &o);
    w->with_barriers = true;
    world_add_all(w, SERVERS, WORKERS, false);
}

static void end(struct world *w)
{
    world_close(w);
    journals_free(&journal);
}

static void add_late_server(struct world *w)
{
    struct member_options o = world_member(w, WIRE_SERVER, w->n);
    o.late = true;
    world_add_with(w, &o)->late = true;
}

static void restart(struct world *w)
{
    struct scheduler_options o = options(&journal);
    o.session_base += 5; // like a scheduler that is started later with another key
    memset(o.session_key, 9, sizeof(o.session_key));
    journals_mend(&journal);
    world_restart_scheduler(w, &o);
}

static void step(struct world *w)
{
    (void)sim_step(w->sim, sim_now(w->sim) + 100 * SECONDS);
    for (uint32_t i = 0; i < w->n; i++)
        if (w->actors[i].role == WIRE_WORKER && w->actors[i].reached == BARRIERS)
            member_leave(w->actors[i].m, NULL);
}

static void check_good_end(struct world *w)
{
    for (int steps = 0; !scheduler_finished(w->s, NULL) && steps < 1000000; steps++)
        step(w);
    struct err why = world_finish(w, 300 * SECONDS);
    if (why.code != 0)
        fail_msg("seed %llu: %s\n%s", (unsigned long long)w->seed, why.text, w->log);
    for (uint32_t i = 0; i < w->n; i++) {
        struct err of = {0};
        if (member_ended(w->actors[i].m, &of) && of.code != 0)
            fail_msg("seed %llu: actor %u: %s", (unsigned long long)w->seed, i, of.text);
        if (w->actors[i].role == WIRE_WORKER)
            assert_int_equal(w->actors[i].reached, BARRIERS);
    }
}

// After every step, a scheduler that is restored from the journal equals the running one.
static void test_journal_has_the_state(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct world w;
        struct err why = {0};
        uint64_t commits = 0;
        begin(&w, seed, UINT64_MAX, false);
        for (int steps = 0; !scheduler_finished(w.s, &why); steps++) {
            if (steps == 200)
                add_late_server(&w);
            step(&w);
            if (journal.commits == commits || scheduler_finished(w.s, &why))
                continue;
            commits = journal.commits;
            check_journal(&w);
        }
        assert_true(commits > 10);
        check_good_end(&w);
        end(&w);
    }
}

// The scheduler is killed at random times, and started again, up to five times.
static void test_killed_at_any_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world w;
        begin(&w, seed, UINT64_MAX, false);
        for (uint64_t i = 0; i < 5 && !scheduler_finished(w.s, NULL); i++) {
            uint64_t until = sim_now(w.sim) + random_below(seed, 1, i, 2000) * MILLIS;
            while (sim_now(w.sim) < until && !scheduler_finished(w.s, NULL))
                step(&w);
            if (i == seed % 5)
                add_late_server(&w);
            if (!scheduler_finished(w.s, NULL))
                restart(&w);
        }
        check_good_end(&w);
        end(&w);
    }
}

// A scheduler that is killed after the end of its cluster, before it has emptied its
// journal, ends again when it is started again; no member comes back.
static void test_killed_after_the_end(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 1, UINT64_MAX, false);
    while (!scheduler_finished(w.s, NULL))
        step(&w);
    check_good_end(&w);
    uint64_t before = sim_now(w.sim);
    restart(&w);
    struct err why = {0};
    assert_int_equal(w.s->generation, 2);
    while (!scheduler_finished(w.s, &why) && sim_now(w.sim) < before + SECONDS)
        step(&w);
    assert_true(scheduler_finished(w.s, &why));
    assert_int_equal(why.code, 0);
    scheduler_forget(w.s);
    restart(&w);
    assert_int_equal(w.s->generation, 1);
    end(&w);
}

// The scheduler dies at each of its writes, before the write is durable or right after
// it, in both cases before any message that waits for the write is sent.
static void test_killed_at_each_write(void **state)
{
    (void)state;
    for (int keeps = 0; keeps < 2; keeps++)
        for (uint64_t n = 1;; n++) {
            struct world w;
            struct err why = {0};
            begin(&w, n, n, keeps);
            add_late_server(&w);
            for (int steps = 0; !scheduler_finished(w.s, &why) && steps < 100000; steps++)
                step(&w);
            bool failed = journal.commits > n;
            if (failed) {
                assert_string_equal(why.text, "the journal cannot be written");
                restart(&w);
            }
            check_good_end(&w);
            end(&w);
            if (!failed)
                break;
            assert_true(n < 500);
        }
}

// A driver in the process of the killed scheduler has died with it. A guest on another
// machine or in another container has not, even if its process has the same number.
static void test_guests_of_the_same_number(void **state)
{
    static const char *const hosts[] = {"here", "elsewhere"};
    uint32_t ids[2];
    struct world w;
    (void)state;
    begin(&w, 1, UINT64_MAX, false);
    for (uint32_t i = 0; i < 2; i++) {
        struct member_options o = world_member(&w, WIRE_DRIVER, w.n);
        o.pid = options(&journal).pid;
        o.host = hosts[i];
        struct actor *a = world_add_with(&w, &o);
        for (int steps = 0; member_id(a->m) == 0 && steps < 1000000; steps++)
            (void)sim_step(w.sim, sim_now(w.sim) + SECONDS);
        ids[i] = member_id(a->m);
    }
    restart(&w);
    for (uint32_t i = 0; i < w.s->n_nodes; i++) {
        const struct sched_node *n = &w.s->nodes[i];
        if (n->n.role == WIRE_DRIVER)
            assert_int_equal(n->n.alive, n->n.id == ids[1]);
    }
    assert_non_null(scheduler_node_of(w.s, ids[1]));
    end(&w);
}

// Returns a number that grows when a member learns anything.
static uint64_t known(const struct world *w)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->n; i++)
        sum += member_id(w->actors[i].m) + member_roster(w->actors[i].m)->version +
               w->actors[i].reached;
    return sum;
}

// While it is unknown whether another scheduler has taken over, no member learns
// anything. Once it is known, the cluster goes on.
static void test_silent_while_the_journal_waits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world w;
        begin(&w, seed, UINT64_MAX, false);
        journal.waits = true;
        world_run(&w, 2 * SECONDS);
        assert_int_equal(known(&w), 0);
        for (uint64_t i = 0; i < 5; i++) {
            journal.waits = false;
            world_run(&w, random_below(seed, 1, i, 300) * MILLIS);
            journal.waits = true;
            world_run(&w, SECONDS / 2); // messages that were sent before this time arrive
            uint64_t before = known(&w);
            world_run(&w, 2 * SECONDS);
            assert_int_equal(known(&w), before);
        }
        journal.waits = false;
        check_good_end(&w);
        end(&w);
    }
}

// While no group becomes durable, a worker gets its next piece, but no answer to its report.
static void test_pieces_on_a_slow_disk(void **state)
{
    (void)state;
    struct world w;
    journals_open(&journal);
    struct scheduler_options o = options(&journal);
    o.servers = o.workers = 1;
    world_open(&w, 1, &o);
    w.with_work = w.go_on = true;
    w.pieces = 20;
    w.passes = 1;
    world_add_all(&w, 1, 1, true);
    const struct actor *worker = &w.actors[1];
    for (int i = 0; i < 100000 && !worker->has_piece; i++)
        world_run(&w, MILLIS);
    for (int i = 0; i < 100000 && (worker->has_piece || worker->asking); i++)
        world_run(&w, MILLIS);
    assert_false(worker->has_piece || worker->asking);
    journal.slow = true;
    world_run(&w, 5 * SECONDS);
    assert_true(worker->has_piece && worker->asking);
    journal.slow = false;
    assert_int_equal(world_finish(&w, 600 * SECONDS).code, 0);
    end(&w);
}

// Members refuse a scheduler with another journal, because they have joined a different
// scheduler.
static void test_other_options_are_refused(void **state)
{
    (void)state;
    struct scheduler *s = NULL;
    struct err e = {0};
    struct world w;
    begin(&w, 1, UINT64_MAX, false);
    world_run(&w, 100 * MILLIS);
    struct scheduler_options o = options(&journal);
    o.workers++;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    assert_string_equal(e.text, "the state at --state belongs to a cluster with "
                                "--workers 3, not 4; give the same options, or another "
                                "--state");
    o = options(&journal);
    o.partition_bits++;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    o = options(&journal);
    o.cluster++;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    assert_null(s);
    end(&w);
}

// Rows that are damaged although their checksum fits are either refused, or restore a
// scheduler whose invariants hold, so that it does not fail later.
static void test_odd_rows(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 3, UINT64_MAX, false);
    world_run(&w, 300 * MILLIS);
    uint64_t refused = 0, made = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        struct memory_journal copy;
        struct scheduler *s = NULL;
        struct err e = {0};
        journals_copy(&copy, &journal);
        size_t at = 8 + random_below(1, 2, i, copy.groups.len - 8);
        copy.groups.data[at] ^= (char)(1 << random_below(1, 3, i, 8));
        struct scheduler_options o = options(&copy);
        // Whether the flipped bit is in the length of a group: the test's journal stores
        // it, and nothing checks it.
        bool lengths = false;
        for (size_t g = 0; g + 8 <= journal.groups.len;) {
            uint64_t n;
            memcpy(&n, journal.groups.data + g, sizeof(n));
            lengths |= at >= g && at < g + 8;
            g += 8 + n;
        }
        o.log = NULL;
        int rc = lengths ? TUG_EUSAGE : scheduler_open(&s, &o, &e);
        refused += rc != 0;
        made += rc == 0;
        if (rc == 0)
            scheduler_close(s);
        journals_free(&copy);
    }
    assert_true(refused > 0 && made > 0);
    end(&w);
}

// A journal is refused if its last group ends inside a row's head, right after the head,
// or inside the row.
static void test_half_a_row(void **state)
{
    (void)state;
    struct world w;
    enum { HEAD = 16 };
    begin(&w, 3, UINT64_MAX, false);
    world_run(&w, 300 * MILLIS);
    for (uint64_t n = HEAD - 1; n <= HEAD + 1; n++) {
        struct memory_journal copy;
        struct scheduler *s = NULL;
        struct err e = {0};
        journals_copy(&copy, &journal);
        memcpy(copy.groups.data, &n, sizeof(n));
        copy.groups.len = sizeof(n) + n;
        struct scheduler_options o = options(&copy);
        o.log = NULL;
        assert_int_equal(scheduler_open(&s, &o, &e), TUG_EDATA);
        assert_string_equal(e.text, "the journal has half a row");
        assert_null(s);
        journals_free(&copy);
    }
    end(&w);
}

static void test_each_allocation_fails(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 1, UINT64_MAX, false);
    world_run(&w, 500 * MILLIS);
    for (long n = 0;; n++) {
        struct memory_journal copy;
        struct scheduler *s = NULL;
        struct err e = {0};
        journals_copy(&copy, &journal);
        struct scheduler_options o = options(&copy);
        o.log = NULL;
        mem_fault_after(n);
        int rc = scheduler_open(&s, &o, &e);
        mem_fault_after(-1);
        scheduler_close(s);
        journals_free(&copy);
        if (rc == 0)
            break;
        assert_true(n < 1000);
    }
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_journal_has_the_state),
        cmocka_unit_test(test_killed_at_any_time),
        cmocka_unit_test(test_killed_after_the_end),
        cmocka_unit_test(test_killed_at_each_write),
        cmocka_unit_test(test_guests_of_the_same_number),
        cmocka_unit_test(test_silent_while_the_journal_waits),
        cmocka_unit_test(test_pieces_on_a_slow_disk),
        cmocka_unit_test(test_other_options_are_refused),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_half_a_row),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
