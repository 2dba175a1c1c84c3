// Saves of shards: three loops write a save while pushes arrive. One, two or five loops load it:
// they then have the rows of the save's moment, bit for bit. Further tests: marks, admin
// operations, deadlines and refusals.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/saving.h"
#include "kit/test.h"
#include "os/below.h"
#include "server/background.h"
#include "server/shard_internal.h"

// The names of a loop's files contain its node number, but here all loops have the
// number ME. So each loop writes into a directory of its own; the test then moves
// and renames the files.
static void loop_dir(char ret[FILE_PATH_MAX], uint32_t loop)
{
    snprintf(ret, FILE_PATH_MAX, "%s/loop%u", files_dir, loop);
    assert_int_equal(file_make_dir(ret, NULL), 0);
}

static void move_files(struct saving *x, uint32_t loop)
{
    char beside[FILE_PATH_MAX];
    loop_dir(beside, loop);
    for (size_t i = 0; i < x->m.tables[0].n_files; i++) {
        struct save_file *f = &x->m.tables[0].files[i];
        char from[FILE_PATH_MAX], to[FILE_PATH_MAX], name[SAVE_FILE_MAX];
        if (strstr(f->name, "-8.rows") == NULL)
            continue;
        snprintf(name, sizeof(name), "users-%u.rows", 100 + loop);
        assert_int_equal(file_join(from, beside, f->name, NULL), 0);
        assert_int_equal(file_join(to, x->path, name, NULL), 0);
        assert_int_equal(rename(from, to), 0);
        memcpy(f->name, name, sizeof(name));
    }
}

static void push_all(struct lone **w, uint32_t n, uint64_t draw)
{
    static struct loop_batch b;
    loop_draw_batch(w[0], draw, &b);
    for (uint32_t i = 0; i < n; i++)
        loop_push(w[i], &b, (uint32_t)(draw % WORKERS), 0, 0, 0);
}

// Saves three loops while pushes arrive. A fourth loop gets the pushes that came before
// the save's cuts, and its rows are compared with the save.
static void test_while_pushes_go_on(void **state)
{
    (void)state;
    struct lone *w[1 + LOOPS], *then = saving_open_loop(0, 1, saving_users);
    w[0] = saving_open_loop(0, 1, saving_users);
    for (uint32_t i = 0; i < LOOPS; i++)
        w[1 + i] = saving_open_loop(i, LOOPS, saving_users);
    for (uint64_t draw = 0; draw < 20; draw++) {
        push_all(&then, 1, draw);
        push_all(w, 1 + LOOPS, draw);
    }
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    uint64_t draw = 20;
    char path[FILE_PATH_MAX];
    memcpy(path, x.path, sizeof(path));
    for (uint32_t i = 1; i <= LOOPS; i++) {
        loop_dir(x.path, i);
        saving_send(w[i], &x, false, 0);
    }
    memcpy(x.path, path, sizeof(path));
    for (; draw < 40; draw++) { // pushes, pulls and slices of the save alternate
        push_all(w, 1 + LOOPS, draw);
        for (uint32_t i = 1; i <= LOOPS && draw % 5 == 0; i++)
            lone_pass_time(w[i], 1000);
    }
    for (uint32_t i = 1; i <= LOOPS; i++) {
        assert_true(cut_going(loop_table(w[i])->store));
        saving_finish(w[i], &x);
        move_files(&x, i);
    }
    saving_commit(&x);
    for (uint32_t i = 1; i <= LOOPS; i++) {
        saving_end(w[i], x.id, true);
        lone_expect_ok(w[i]);
        saving_end(w[i], x.id, true); // the request is sent a second time
        lone_expect_ok(w[i]);
        loops_check_same(w[0], w[i]);
    }
    const uint32_t loops[] = {1, 2, 5};
    for (size_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < loops[k]; i++) {
            struct lone *to = saving_open_loop(i, loops[k], saving_users);
            saving_load(to, x.path, false);
            uint64_t rows = lone_expect_ok(to);
            assert_int_equal(loops_check_same(then, to), rows);
            lone_close(to);
        }
    lone_close(then);
    for (uint32_t i = 0; i < 1 + LOOPS; i++)
        lone_close(w[i]);
}

// Saves with a writer in a thread of its own, as in servers.
static void test_thread(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users),
                *to = saving_open_loop(0, 1, saving_users);
    w->shard->o.without_threads = false;
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_BASE);
    saving_send(w, &x, false, 0);
    for (uint64_t end = clock_ns() + 30 * SECOND_NS; w->sent == NULL;) {
        assert_true(clock_ns() < end);
        lone_pass_time(w, 1000);
        sched_yield();
    }
    saving_finish(w, &x);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    saving_load(to, files_dir, false);
    assert_true(lone_expect_ok(to) > 100);
    // A save that is given up in its middle leaves no files behind.
    x = saving_begin(SAVE_DELTA);
    push_all(&w, 1, 2);
    saving_send(w, &x, false, 0);
    lone_pass_time(w, 1000);
    lone_close(w);
    lone_close(to);
    saving_forget(&x);
}

static const float *row_of(struct lone *w, uint64_t key)
{
    return shards_row(w->shard, T, key);
}

static void push_one(struct lone *w, uint32_t worker, uint64_t key, float value)
{
    struct msg_push m = lone_push_of(w, worker, T, &key, 1, &value, 1);
    lone_send_push(w, worker, &m);
}

static float saved_value(const char *path, uint64_t key)
{
    struct lone *to = saving_open_loop(0, 1, "name=sums;accessor=merge;dim=1");
    saving_load(to, path, false);
    lone_expect_ok(to);
    const float *row = row_of(to, key);
    float value = row != NULL ? *row : 0;
    lone_close(to);
    return value;
}

static void test_marks(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, "name=sums;accessor=merge;dim=1");
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    push_one(w, 0, 7, 1);
    lone_expect_ok(w);
    saving_mark(w, 0, x.id); // the mark arrives before the request of its save
    push_one(w, 0, 7, 10);
    struct msg_pull pull = lone_pull_of(w, 0, T, &(uint64_t){7}, 1);
    // The worker's push waits, so its pull must also wait.
    lone_send_pull(w, 0, &pull);
    assert_null(w->sent);
    push_one(w, 1, 7, 100);
    lone_expect_ok(w);
    saving_send(w, &x, true, 0);
    saving_mark(w, 1, x.id);
    saving_mark(w, 1, x.id);
    push_one(w, 1, 7, 1000);
    push_one(w, 2, 7, 10000);
    lone_expect_ok(w); // the third worker has not marked, so its push is applied
    lone_pass_time(w, 1000);
    assert_null(w->sent);
    assert_int_equal(lone_figures(w, T).held, 3);
    w->dead[2] = true; // the save does not wait for a dead worker
    lone_send_roster(w);
    lone_expect_ok(w); // the first worker's waiting push is applied
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_true(*(const float *)p->m.pulled.values.data == 10111);
    parcel_unpin(p);
    lone_expect_ok(w);
    saving_finish(w, &x);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    assert_true(*row_of(w, 7) == 11111);
    assert_int_equal(lone_figures(w, T).waited, 2);
    assert_true(saved_value(x.path, 7) == 10101);
    lone_close(w);
}

// A save waits for the roster that it names, because an older roster may lack a worker
// that must mark. The save does not wait for a worker that joined later.
static void test_roster_of_a_save(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, "name=sums;accessor=merge;dim=1");
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_save m = {.save = x.id,
                         .mode = (uint8_t)x.m.mode,
                         .marked = true,
                         .path = wire_text(saving_rest(x.path)),
                         .roster = w->version + 1,
                         .newest = lone_session(1)};
    push_one(w, 2, 7, 1);
    lone_expect_ok(w);
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
    saving_mark(w, 0, x.id);
    saving_mark(w, 1, x.id);
    lone_pass_time(w, SECOND_NS);
    // Applied at once, because the save has not begun at this shard.
    push_one(w, 2, 7, 10);
    lone_expect_ok(w);
    assert_null(w->sent);
    lone_send_roster(w);
    push_one(w, 2, 7, 100);
    lone_expect_ok(w);
    saving_finish(w, &x);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    assert_true(saved_value(x.path, 7) == 11);
    // The roster of the save never arrives.
    x = saving_begin(SAVE_CHECKPOINT);
    m.save = x.id;
    m.roster = w->version + 1;
    m.path = wire_text(saving_rest(x.path));
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
    for (int i = 0; i < 70; i++)
        lone_pass_time(w, SECOND_NS);
    lone_expect_refusal(w, TUG_EIO, "for the scheduler's newer roster");
    saving_forget(&x);
    lone_close(w);
}

static void test_deadlines(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, "name=sums;accessor=merge;dim=1");
    // The marks of the save never arrive.
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, true, 0);
    saving_mark(w, 1, x.id);
    push_one(w, 1, 7, 1);
    lone_pass_time(w, 59 * SECOND_NS);
    assert_null(w->sent);
    lone_pass_time(w, 2 * SECOND_NS);
    lone_forget(w);
    // The waiting push was applied when the save was given up.
    assert_true(*row_of(w, 7) == 1);
    saving_send(w, &x, true, 0);
    lone_expect_refusal(w, TUG_EIO, "has waited 61 s for the marks of");
    saving_end(w, x.id, true);
    lone_expect_refusal(w, TUG_EIO, "has waited 61 s for the marks of");
    saving_end(w, x.id, false);
    lone_expect_ok(w);
    saving_send(w, &x, true, 0);
    lone_expect_refusal(w, TUG_EIO, "has ended");
    saving_forget(&x);
    // A mark whose save does not come times out, even if there was no save
    // for a long time before.
    for (int i = 0; i < 3; i++)
        lone_pass_time(w, 61 * SECOND_NS);
    assert_int_equal(w->shard->saves.marks_due, VAN_NEVER);
    saving_mark(w, 0, 4711);
    push_one(w, 0, 7, 1);
    lone_pass_time(w, 59 * SECOND_NS);
    assert_null(w->sent);
    lone_pass_time(w, 2 * SECOND_NS);
    lone_expect_ok(w);
    // The client of the save has left.
    x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 0);
    saving_finish(w, &x);
    w->h.closed(w->h.ctx, WORKER_LINK, &(struct err){0}, w->now);
    for (int i = 0; i < 10; i++) {
        assert_true(cut_going(loop_table(w)->store) == (i < 4));
        lone_pass_time(w, 16 * SECOND_NS);
    }
    lone_forget(w);
    lone_open_worker(w, 0);
    lone_forget(w);
    saving_end(w, x.id, true);
    lone_expect_refusal(w, TUG_EUSAGE, "was given up");
    saving_forget(&x);
    lone_close(w);
}

// Admin operations and saves exclude each other: the later one waits.
static void test_admin_waits_for_saves(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_CHECKPOINT), y = {.id = ++saving_last};
    saving_send(w, &x, false, 0);
    struct msg_table_do m = {
        .table = T, .what = WIRE_SHRINK, .threshold = 1e9f, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9001, &m);
    // The request is sent a second time while the first one waits.
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9001, &m);
    m = (struct msg_table_do){.table = T, .what = WIRE_DAY, .number = 2, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9002, &m);
    uint64_t rows = lone_figures(w, T).rows;
    saving_finish(w, &x);
    lone_pass_time(w, SECOND_NS);
    assert_null(w->sent);
    assert_int_equal(lone_figures(w, T).rows, rows);
    // A second save must also wait.
    y.m.mode = SAVE_CHECKPOINT;
    memcpy(y.path, x.path, sizeof(y.path));
    saving_send(w, &y, false, 0);
    assert_null(w->sent);
    saving_end(w, x.id, false);
    lone_expect_ok(w);
    for (int i = 0; i < 1000; i++)
        lone_pass_time(w, 1000);
    struct parcel *p = lone_next(w);
    // The answers to the shrink and to the second save may come in any order.
    for (int i = 0; i < 2; i++, p = lone_next(w)) {
        assert_non_null(p);
        assert_true(p->frame.type == MSG_SAVED || p->frame.type == MSG_OK);
        assert_true(p->frame.request != 9001 || p->m.ok.value == rows);
        parcel_unpin(p);
    }
    assert_null(p);
    assert_int_equal(lone_figures(w, T).rows, 0);
    assert_int_equal(lone_figures(w, T).day, 0); // the day ends only after the second
                                                 // save
    saving_end(w, y.id, false);
    lone_expect_ok(w);
    lone_expect_ok(w);
    assert_int_equal(lone_figures(w, T).day, 1);
    lone_close(w);
    saving_forget(&x);
}

// A save that waits for an earlier save begins after the rows that the earlier save has
// published were recorded. The loop reads its rows out in ticks at the times that it asks
// for; no other event is needed.
static void test_save_behind_a_save(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_BASE);
    saving_send(w, &x, false, 0);
    saving_finish(w, &x);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    struct saving y = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &y, false, 0);
    for (uint64_t begun = w->now, due = begun; w->sent == NULL;) {
        w->now = due > w->now ? due : w->now;
        assert_true(w->now - begun < SECOND_NS / 2);
        due = w->h.tick(w->h.ctx, w->now);
    }
    parcel_unpin(lone_expect(w, MSG_SAVED));
    saving_end(w, y.id, false);
    lone_expect_ok(w);
    saving_forget(&y);
    lone_close(w);
}

// A sync table is saved when the batch that the save names is the next one.
static void test_clock(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, "name=sums;accessor=merge;dim=1;mode=sync");
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 2);
    for (uint64_t clock = 0; clock < 4; clock++)
        for (uint32_t i = 2; i-- > 0;) {
            float value = i == 0 ? 1 : 100;
            // Which of two batches arrives first alternates.
            uint64_t key = 7, at = clock ^ i;
            struct msg_push m = lone_push_of(w, i, T, &key, 1, &value, 1);
            m.clock = at;
            m.micro = (uint8_t)(8 * i);
            m.micros = 8;
            lone_send_push(w, i, &m);
            lone_expect_ok(w);
        }
    saving_finish(w, &x);
    assert_int_equal(loop_table(w)->sync.clock.next, 4);
    assert_true(*row_of(w, 7) == 404);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    assert_true(saved_value(x.path, 7) == 202);
    x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 3);
    struct parcel *p = lone_expect(w, MSG_ERROR);
    assert_int_equal(p->m.error.reason, REASON_SAVE_PASSED);
    assert_int_equal(p->m.error.about, 4);
    parcel_unpin(p);
    saving_forget(&x);
    lone_close(w);
}

// Begins a save of a busy loop, with a copy of a row, and returns how long requests are served
// after its first slice.
static uint64_t rest_of_a_save(bool crowded)
{
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 0);
    assert_true(cut_going(loop_table(w)->store));
    push_all(&w, 1, 1);
    w->shard->o.slice_ns = 0; // the slices take what the clock says
    if (crowded)
        saving_crowd(w);
    assert_int_equal(cut_crowded(loop_table(w)->store), crowded);
    w->shard->now = w->now;
    w->shard->work_due = w->now;
    background_tick(w->shard);
    uint64_t rest = w->shard->rest_until - w->now;
    assert_true(rest > 0);
    saving_forget(&x);
    lone_close(w);
    return rest;
}

// A save gets a 65th of a busy loop's time, and a ninth while copies crowd their room.
static void test_share(void **state)
{
    (void)state;
    uint32_t of_65 = 0;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(rest_of_a_save(false) % 65, 0);
        uint64_t rest = rest_of_a_save(true);
        assert_int_equal(rest % 9, 0);
        of_65 += rest % 65 == 0; // by chance
    }
    assert_true(of_65 < 10);
}

static void test_refusals(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct msg_save m = {.save = 1, .path = wire_text("nowhere/at/all")};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    lone_expect_refusal(w, TUG_EDATA, "nowhere/at/all");
    m = (struct msg_save){.save = 2, .mode = 9, .path = wire_text(".")};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "mode 9");
    m = (struct msg_save){.save = 2};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "empty");
    // Numbers of tables that do not exist, or are impossible.
    const uint32_t numbers[] = {6, 4095, 4096, 5000, 1u << 20, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        m = (struct msg_save){
            .save = 3, .path = wire_text("."), .tables = {(const char *)&numbers[i], 4}};
        lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
        lone_expect_refusal(w, TUG_EUSAGE, "there is no table");
    }
    m = (struct msg_save){.save = 3, .path = wire_text("."), .tables = {"abc", 3}};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "cut short");
    m = (struct msg_save){.save = 3, .path = wire_text("."), .tables = {"\6\0\0\0", 4}};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "there is no table 6");
    saving_end(w, 77, true);
    lone_expect_refusal(w, TUG_EUSAGE, "save 77 is not known");
    saving_end(w, 77, false);
    lone_expect_ok(w);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 0);
    saving_end(w, x.id, true);
    lone_expect_refusal(w, TUG_EUSAGE, "is not written yet");
    saving_end(w, x.id, false);
    lone_expect_ok(w);
    lone_forget(w);
    saving_forget(&x);
    // Loads that are refused.
    saving_load(w, files_dir, false);
    lone_expect_refusal(w, TUG_EUSAGE, "clear it first");
    uint64_t rows = lone_figures(w, T).rows;
    assert_true(rows > 0);
    struct msg_load none = {
        .table = T, .clear = 1, .number = 99, .low = 90, .path = wire_text("nowhere")};
    lone_deliver(w, WORKER_LINK, MSG_LOAD, none.number, &none);
    lone_expect_refusal(w, TUG_EDATA, "nowhere");
    lone_close(w);
}

// Each allocation of a save fails once, when the save is requested or while
// it is written. The save is refused, given up, or written nevertheless, and
// the next save succeeds.
static void test_allocations(void **state)
{
    (void)state;
    long struck = 0;
    for (long fault = 0; fault < 60; fault++) {
        struct lone *w = saving_open_loop(0, 1, saving_users),
                    *to = saving_open_loop(0, 1, saving_users);
        push_all(&w, 1, 1);
        struct saving x = saving_begin(SAVE_CHECKPOINT);
        w->fault_after = fault < 20 ? fault : -1;
        saving_send(w, &x, false, 0);
        w->fault_after = -1;
        struck += w->faulted;
        static struct loop_batch b;
        loop_draw_batch(w, 2, &b);
        struct msg_push push = lone_push_of(w, 0, T, b.keys, b.n, b.values, b.width);
        for (int i = 0; i < 60; i++) {
            w->fault_after = fault - 20;
            if (i == 3)
                lone_send_push(w, 0, &push);
            w->fault_after = -1;
            mem_fault_after(fault < 20 || i != fault - 20 ? -1 : fault % 3);
            lone_pass_time(w, 1000);
            struck += mem_faulted();
            mem_fault_after(-1);
        }
        lone_forget(w);
        saving_end(w, x.id, false);
        lone_forget(w);
        saving_forget(&x);
        lone_send_push(w, 0, &push);
        lone_expect_ok(w);
        x = saving_begin(SAVE_CHECKPOINT);
        saving_send(w, &x, false, 0);
        saving_finish(w, &x);
        saving_commit(&x);
        saving_end(w, x.id, true);
        lone_expect_ok(w);
        saving_load(to, x.path, true);
        lone_expect_ok(to);
        loops_check_same(w, to);
        lone_close(w);
        lone_close(to);
    }
    assert_true(struck > 25);
}

// A save is given up while its rows are read out and no memory is left. So the
// loop cannot record that the rows are still unpublished; it goes on, and
// SAVE_END is repeated.
static void test_end_without_memory(void **state)
{
    (void)state;
    bool struck = true;
    for (long fault = 0; struck; fault++) {
        struct lone *w = saving_open_loop(0, 1, saving_users);
        push_all(&w, 1, 1);
        struct saving x = saving_begin(SAVE_BASE);
        saving_send(w, &x, false, 0);
        push_all(&w, 1, 2);
        w->fault_after = fault;
        saving_end(w, x.id, false);
        w->fault_after = -1;
        struck = w->faulted;
        lone_forget(w);
        for (int i = 0; i < 60; i++)
            lone_pass_time(w, 1000);
        saving_end(w, x.id, false);
        lone_expect_ok(w);
        lone_forget(w); // drops the refusal of SAVE
        saving_forget(&x);
        x = saving_begin(SAVE_CHECKPOINT);
        saving_send(w, &x, false, 0);
        saving_finish(w, &x);
        saving_commit(&x);
        saving_end(w, x.id, true);
        lone_expect_ok(w);
        lone_close(w);
        assert_true(fault > 0 || struck);
    }
}

// A copy or a mean into a table that is being saved waits for the save's end. If
// it were refused, a run with --average would fail whenever another process
// saves the averaged table.
static void test_copies_wait_for_their_target(void **state)
{
    (void)state;
    enum { COPY = 6 };
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct msg_table_do m = {
        .table = T, .what = WIRE_COPY, .other = COPY, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9001, &m);
    lone_expect_ok(w);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_save save = {.save = x.id,
                            .mode = SAVE_CHECKPOINT,
                            .path = wire_text(saving_rest(x.path)),
                            .tables = {"\6\0\0\0", 4}};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &save);
    saving_finish(w, &x);
    m.number = 2;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9002, &m);
    m.number = 3;
    m.what = WIRE_MEAN;
    m.threshold = 1;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 9003, &m);
    lone_pass_time(w, SECOND_NS);
    assert_null(w->sent);
    saving_end(w, x.id, false);
    // The answers to the end of the save and to both operations.
    for (int i = 0; i < 3; i++)
        lone_expect_ok(w);
    assert_int_equal(lone_figures(w, COPY).rows, lone_figures(w, T).rows);
    saving_forget(&x);
    lone_close(w);
}

// A loop without partitions of a space does not know the space's tables.
static void test_tables_of_another_space(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(1, 1, saving_users);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_save m = {.save = x.id,
                         .path = wire_text(saving_rest(x.path)),
                         .tables = {"\6\0\0\0\5\0\0\0", 8}};
    assert_int_equal(T, 5);
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
    saving_finish(w, &x);
    assert_int_equal(x.m.n_tables, 1);
    assert_int_equal(x.m.tables[0].id, T);
    saving_end(w, x.id, false);
    lone_expect_ok(w);
    saving_forget(&x);
    // All tables of the save are of the other space, so this loop writes no file.
    x = saving_begin(SAVE_CHECKPOINT);
    m.save = x.id;
    m.path = wire_text(saving_rest(x.path));
    m.tables = (struct wire_text){"\6\0\0\0", 4};
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
    saving_finish(w, &x);
    assert_int_equal(x.m.n_tables, 0);
    saving_end(w, x.id, false);
    lone_expect_ok(w);
    saving_forget(&x);
    lone_close(w);
}

// A table that a save waits for is dropped, and another is made with its number.
static void test_table_changes(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_save m = {.save = x.id,
                         .marked = 1,
                         .path = wire_text(saving_rest(x.path)),
                         .tables = {"\5\0\0\0", 4}};
    assert_int_equal(T, 5);
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    assert_null(w->sent);
    struct msg_table_do drop = {.table = T, .what = WIRE_DROP, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 2, &drop);
    lone_expect_ok(w);
    struct table_spec plain = lone_plain_spec(T, WIRE_ASYNC, 4);
    lone_make_table(w, &plain);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct msg_mark mark = {
            .epoch = w->epoch, .save = x.id, .session = lone_session(i)};
        lone_deliver(w, WORKER_LINK + i, MSG_MARK, 3, &mark);
    }
    lone_forget(w);
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
    for (int i = 0; i < 10000 && w->sent == NULL; i++)
        lone_pass_time(w, 1000);
    struct parcel *p = lone_expect(w, MSG_SAVED);
    struct wire_text files = p->m.saved.files;
    struct wire_saved_file f;
    assert_int_equal(wire_next_saved_file(&files, &f), 1);
    struct msg_table is = {.table = T, .config = f.config};
    struct table_spec saved;
    assert_int_equal(spec_decode(&saved, &is, NULL), 0);
    // The save has the new table, not the dropped one.
    assert_true(spec_same(&saved, &plain));
    parcel_unpin(p);
    saving_forget(&x);
    lone_close(w);
}

// A directory outside the roots, with a save and its checksum.
struct outside {
    char dir[64], path[FILE_PATH_MAX]; // the directory, and the save in it
    uint64_t checksum;
};

static uint32_t count_entries(const char *path)
{
    uint32_t n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d))
        n++;
    closedir(d);
    return n;
}

static struct outside make_outside(void)
{
    struct outside o;
    struct save_manifest m;
    struct err e;
    snprintf(o.dir, sizeof(o.dir), "%.40s-outside", files_dir);
    assert_int_equal(save_begin(o.dir, SAVE_CHECKPOINT, &m, o.path, &e), 0);
    assert_int_equal(save_commit(o.dir, &m, 0, &e), 0);
    o.checksum = m.checksum;
    save_manifest_free(&m);
    char link[FILE_PATH_MAX];
    assert_int_equal(file_join(link, files_dir, "door", &e), 0);
    assert_int_equal(symlink(o.dir, link), 0);
    return o;
}

static void remove_outside(const struct outside *o)
{
    char link[FILE_PATH_MAX];
    assert_int_equal(file_join(link, files_dir, "door", NULL), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(file_remove_tree(o->path, NULL), 0);
    assert_int_equal(file_remove_tree(o->dir, NULL), 0);
}

// Paths in messages must stay below the roots: absolute paths, "..", symbolic links, and
// any path without roots, are refused.
static void test_paths_that_lead_out(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    struct outside o = make_outside();
    char up[FILE_PATH_MAX], absolute[FILE_PATH_MAX];
    push_all(&w, 1, 1);
    snprintf(up, sizeof(up), "../%s", strrchr(o.dir, '/') + 1);
    snprintf(absolute, sizeof(absolute), "%s", o.dir);
    const char *const paths[] = {up, absolute, "door", "a/../../x", "/tmp", ".."};
    uint32_t entries = count_entries(o.dir);
    for (size_t i = 0; i < 2 * sizeof(paths) / sizeof(*paths); i++) {
        const char *path = paths[i / 2];
        below_without_openat2(i % 2);
        struct msg_save m = {.save = 500 + i, .path = wire_text(path)};
        lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &m);
        lone_expect_refusal(w, TUG_EUSAGE, path);
        char save[FILE_PATH_MAX + 16];
        snprintf(save, sizeof(save), "%s/save-000001", path);
        struct msg_load l = {.table = T,
                             .clear = 1,
                             .number = i + 1,
                             .low = 1,
                             .path = wire_text(save),
                             .checksum = o.checksum};
        lone_deliver(w, WORKER_LINK, MSG_LOAD, 2, &l);
        lone_expect_refusal(w, TUG_EUSAGE, path);
    }
    below_without_openat2(false);
    assert_int_equal(count_entries(o.dir), entries);
    assert_true(lone_figures(w, T).rows > 0); // the table was not cleared
    w->shard->o.roots = NULL;
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "start it with --save-root DIR");
    struct msg_load l = {.table = T, .number = 50, .low = 40, .path = wire_text("x")};
    l.clear = 1;
    lone_deliver(w, WORKER_LINK, MSG_LOAD, 2, &l);
    lone_expect_refusal(w, TUG_EUSAGE, "start it with --load-root DIR");
    saving_forget(&x);
    remove_outside(&o);
    lone_close(w);
}

// A save does not overwrite existing files.
static void test_existing_save(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_CHECKPOINT), y = x;
    saving_send(w, &x, false, 0);
    saving_finish(w, &x);
    saving_commit(&x);
    saving_end(w, x.id, true);
    lone_expect_ok(w);
    y.id = ++saving_last;
    saving_send(w, &y, false, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "a save is there already");
    // A load reads only the save with the given checksum.
    struct save_manifest m;
    assert_int_equal(save_read(x.path, &m, NULL), 0);
    struct msg_load l = {.table = T,
                         .clear = 1,
                         .number = 1,
                         .low = 1,
                         .path = wire_text(saving_rest(x.path)),
                         .checksum = m.checksum + 1};
    save_manifest_free(&m);
    lone_deliver(w, WORKER_LINK, MSG_LOAD, 2, &l);
    // After SAVE_END the server takes several slices to record the published rows;
    // the load waits for that.
    for (int i = 0; i < 1000 && w->sent == NULL; i++)
        lone_pass_time(w, 1000);
    lone_expect_refusal(w, TUG_EDATA, "is not the save that was asked for");
    lone_close(w);
}

static void send_turn(struct lone *w, uint32_t worker, uint64_t save)
{
    struct msg_save_turn m = {.save = save};
    lone_deliver(w, WORKER_LINK + worker, MSG_SAVE_TURN, ++w->next_request, &m);
}

// Two clients save. The second client gets its turn when the save of the first has ended,
// or when the first has not used its turn in time.
static void test_turns(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    send_turn(w, 0, x.id);
    lone_expect_ok(w);
    send_turn(w, 0, x.id); // the request for the turn is sent a second time
    lone_expect_ok(w);
    send_turn(w, 1, 7001);
    assert_null(w->sent);
    struct msg_save other = {.save = x.id, .path = wire_text(saving_rest(x.path))};
    lone_deliver(w, WORKER_LINK + 1, MSG_SAVE, 1, &other);
    lone_expect_refusal(w, TUG_EUSAGE, "belongs to another node");
    saving_send(w, &x, false, 0);
    saving_finish(w, &x);
    saving_commit(&x);
    assert_null(w->sent);
    struct msg_save_end end = {.save = x.id, .committed = 1};
    lone_deliver(w, WORKER_LINK + 1, MSG_SAVE_END, 2, &end);
    lone_expect_refusal(w, TUG_EUSAGE, "belongs to another node");
    saving_end(w, x.id, true);
    for (int i = 0; i < 2; i++) { // the answers to SAVE_END and to the second turn
        struct parcel *p = lone_expect(w, MSG_OK);
        parcel_unpin(p);
    }
    // A turn that is not used ends after a while.
    send_turn(w, 0, 7002);
    assert_null(w->sent);
    lone_pass_time(w, 59 * SECOND_NS);
    assert_null(w->sent);
    lone_pass_time(w, 2 * SECOND_NS);
    lone_expect_ok(w);
    struct msg_save late = {.save = 7001, .path = wire_text(".")};
    lone_deliver(w, WORKER_LINK + 1, MSG_SAVE, 1, &late);
    lone_expect_refusal(w, TUG_EIO, "has ended");
    // A refused SAVE gives its turn back at once.
    late.save = 7002;
    late.path = wire_text("none");
    lone_deliver(w, WORKER_LINK, MSG_SAVE, 1, &late);
    lone_expect_refusal(w, TUG_EDATA, "none");
    send_turn(w, 1, 7003);
    lone_expect_ok(w);
    end = (struct msg_save_end){.save = 7003};
    lone_deliver(w, WORKER_LINK + 1, MSG_SAVE_END, 3, &end);
    lone_expect_ok(w);
    lone_close(w);
}

// A written save waits ten minutes for SAVE_END.
static void test_end_that_does_not_come(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    push_all(&w, 1, 1);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    saving_send(w, &x, false, 0);
    saving_finish(w, &x);
    lone_pass_time(w, 590 * SECOND_NS);
    assert_true(cut_going(loop_table(w)->store));
    for (int i = 0; i < 20; i++)
        lone_pass_time(w, SECOND_NS);
    assert_false(cut_going(loop_table(w)->store));
    saving_end(w, x.id, true);
    lone_expect_refusal(w, TUG_EIO, "but was not committed for");
    saving_forget(&x);
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_that_lead_out),
        cmocka_unit_test(test_existing_save),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_end_that_does_not_come),
        cmocka_unit_test(test_while_pushes_go_on),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_roster_of_a_save),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_admin_waits_for_saves),
        cmocka_unit_test(test_copies_wait_for_their_target),
        cmocka_unit_test(test_save_behind_a_save),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_end_without_memory),
        cmocka_unit_test(test_tables_of_another_space),
        cmocka_unit_test(test_table_changes),
    };
    return cmocka_run_group_tests(tests, saving_prepare, saving_clean);
}
