// Tests requests about tables: marks between pushes, numbers of admin operations, finding
// tables of other clients, and adding up steps and counts of saves.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/fake_servers.h"
#include "kit/test.h"

static const char config[] = "name = users\naccessor = merge\ndim = 3\n";

static struct cluster *open_lossy(uint64_t seed)
{
    struct cluster *c = fake_open(MAX_SERVERS, seed, NULL);
    sim_set_faults(c->sim, 0.1, 0.1, 0.3, 0.01);
    return c;
}

static void answer_with_all(struct cluster *c,
                            bool (*answers)(struct server *s, van_link link,
                                            const struct van_message *m))
{
    for (uint32_t i = 0; i < c->n_servers; i++)
        c->servers[i].answers = answers;
}

// ---------------------------------------------------------------- marks

enum { ROUNDS = 20, EACH = 5 };

// For each server and mark: 1 + the number of pushes that had arrived before the mark.
static uint64_t at_mark[MAX_SERVERS][ROUNDS + 1];

static bool note_mark(struct server *s, van_link link, const struct van_message *m)
{
    struct cluster *c = s->cluster;
    uint64_t *at = &at_mark[s - c->servers][m->type == MSG_MARK ? m->m->mark.save : 0];
    (void)link;
    if (m->type == MSG_MARK &&
        *at == 0) // the first arrival counts, because a mark may be repeated
        *at = c->highest + 1;
    return false;
}

// When a mark arrives, all earlier pushes have arrived and no later push has, even if
// messages are late, repeated or reordered.
static void test_marks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct cluster *c = open_lossy(seed);
        client_ts all[ROUNDS * (EACH + 1)];
        struct err e = {0};
        float values[KEYS * WIDTH] = {0};
        size_t n = 0;
        memset(at_mark, 0, sizeof(at_mark));
        answer_with_all(c, note_mark);
        for (uint64_t round = 1; round <= ROUNDS; round++) {
            for (int i = 0; i < EACH; i++) {
                struct client_push p = {.table = TABLE,
                                        .keys = c->keys,
                                        .n = KEYS,
                                        .values = values,
                                        .rate = 1,
                                        .pass = 1};
                all[n++] = client_push(c->client, &p, &e);
            }
            all[n++] = client_mark(c->client, round, 0, &e);
        }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(fake_wait(c, all[i], &e), 0);
        for (uint32_t i = 0; i < c->n_servers; i++)
            for (uint64_t round = 1; round <= ROUNDS; round++)
                assert_int_equal(at_mark[i][round], round * EACH + 1);
        fake_close(c);
    }
}

// ---------------------------------------------------------------- admin operations

static uint64_t admin_seen[MAX_SERVERS][64], admin_out_of_window;

static bool obey(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_ok ok = {.value = 2};
    const struct msg_table_do *x = &m->m->table_do;
    if (m->type != MSG_TABLE_DO)
        return false;
    assert_in_range(x->number, 1, 63);
    admin_out_of_window += x->number - x->low >= ADMIN_WINDOW;
    admin_seen[s - s->cluster->servers][x->number]++;
    van_send(s->van, link, MSG_OK, m->request, &ok, NULL);
    return true;
}

static void test_admin(void **state)
{
    (void)state;
    struct cluster *c = open_lossy(7);
    client_ts ts[50];
    uint64_t removed[50];
    struct err e = {0};
    memset(admin_seen, 0, sizeof(admin_seen));
    admin_out_of_window = 0;
    answer_with_all(c, obey);
    for (int i = 0; i < 50; i++)
        ts[i] = i % 2 ? client_day(c->client, TABLE, &e)
                      : client_shrink(c->client, TABLE, NAN, &removed[i], &e);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(fake_wait(c, ts[i], &e), 0);
        assert_true(i % 2 ||
                    removed[i] == 2 * MAX_SERVERS); // each loop answers 2, and each
                                                    // answer counts once
    }
    for (uint32_t i = 0; i < MAX_SERVERS; i++)
        for (int k = 1; k <= 50; k++)
            assert_true(admin_seen[i][k] > 0);
    assert_int_equal(admin_out_of_window, 0);
    fake_close(c);
}

// ---------------------------------------------------- tables of other clients, and steps

static uint64_t told_least[MAX_SERVERS];

static bool tell(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_table_info_is is = {.table = 12, .config = wire_text(config)};
    struct msg_ok ok = {.value = m->type == MSG_STEP ? m->m->step.steps + s->node : 0};
    if (m->type == MSG_STEP)
        told_least[s - s->cluster->servers] = m->m->step.least;
    if (m->type == MSG_STEP)
        van_send(s->van, link, MSG_OK, m->request, &ok, NULL);
    else if (m->type == MSG_TABLE_INFO && s->node == FIRST_NODE)
        van_send(s->van, link, MSG_TABLE_INFO_IS, m->request, &is, NULL);
    else if (m->type == MSG_TABLE_INFO)
        fake_refuse(s, link, m->request, TUG_EUSAGE, "there is no such table");
    else
        return false;
    return true;
}

static void test_info_and_steps(void **state)
{
    (void)state;
    struct cluster *c = fake_open(MAX_SERVERS, 9, NULL);
    struct err e = {0};
    uint32_t number = 0;
    uint64_t global;
    answer_with_all(c, tell); // only one loop has the table
    assert_null(client_spec(c->client, 12));
    assert_int_equal(fake_wait(c, client_info(c->client, "users", 0, &number, &e), &e),
                     0);
    assert_int_equal(number, 12);
    const struct table_spec *s = client_spec(c->client, 12);
    assert_true(s->accessor.push_width == 3);
    assert_string_equal(s->config.name, "users");
    assert_int_equal(fake_wait(c, client_info(c->client, NULL, 12, NULL, &e), &e), 0);
    c->servers[0].node += 100; // now no loop has the table
    assert_int_equal(fake_wait(c, client_info(c->client, "users", 0, NULL, &e), &e),
                     TUG_EUSAGE);
    assert_non_null(strstr(e.text, "there is no such table"));
    c->servers[0].node -= 100;
    // The client sends its total of steps to every loop, and gets the greatest of their
    // answers.
    uint64_t most = FIRST_NODE + 2 * (MAX_SERVERS - 1);
    assert_int_equal(fake_wait(c, client_step(c->client, 5, &global, &e), &e), 0);
    assert_int_equal(global, 5 + most);
    assert_int_equal(fake_wait(c, client_step(c->client, 2, &global, &e), &e), 0);
    assert_int_equal(global, 7 + most);
    // client_step_to sends a number of steps to every loop, and adds nothing to the
    // client's own total.
    assert_int_equal(fake_wait(c, client_step_to(c->client, 99, &e), &e), 0);
    for (int i = 0; i < MAX_SERVERS; i++)
        assert_int_equal(told_least[i], 99);
    assert_int_equal(client_step_to(c->client, WIRE_STEPS_MAX + 1, &e), 0);
    // A client's total of steps may not exceed WIRE_STEPS_MAX. Steps that are refused are
    // not counted.
    for (int i = 0; i < 2; i++) {
        assert_int_equal(client_step(c->client, UINT64_MAX - (uint64_t)i, &global, &e),
                         0);
        assert_int_equal(e.code, TUG_EUSAGE);
        assert_non_null(strstr(e.text, "more steps after 7"));
    }
    assert_int_equal(client_step(c->client, WIRE_STEPS_MAX - 6, &global, &e), 0);
    assert_int_equal(
        fake_wait(c, client_step(c->client, WIRE_STEPS_MAX - 7, &global, &e), &e), 0);
    assert_int_equal(client_step(c->client, 1, &global, &e), 0);
    // Settings with an unknown accessor are refused.
    struct table_config other = table_config_defaults();
    assert_int_equal(table_config_parse(&other, "name=x;accessor=nothing", NULL),
                     TUG_EUSAGE);
    fake_close(c);
}

// ---------------------------------------------------------------- saves

static bool bad_save;
// The id of the save that has asked the first loop for its turn; 0: none yet.
static uint64_t turn_of;

static bool save(struct server *s, van_link link, const struct van_message *m)
{
    struct buf files = BUF_INIT(WIRE_BYTES_MAX);
    char name[32];
    // Every saver asks the same loop for its turn, so that no two savers wait for each
    // other.
    if (m->type == MSG_SAVE_TURN) {
        assert_int_equal(s->node, FIRST_NODE);
        turn_of = m->m->save_turn.save;
    }
    if (m->type != MSG_SAVE)
        return false;
    assert_int_equal(turn_of, m->m->save.save);
    for (uint32_t t = 0; t < 2; t++) {
        snprintf(name, sizeof(name), "%s-%u.rows", t == 0 ? "users" : "b", s->node);
        struct wire_saved_file f = {.table = 12 + t,
                                    .config = wire_text(t == 0     ? config
                                                        : bad_save ? "dim=many"
                                                                   : "name=b;dim=1"),
                                    .name = wire_text(name),
                                    .rows = s->node,
                                    .bytes = 100};
        assert_int_equal(wire_put_saved_file(&files, &f), 0);
    }
    struct msg_saved is = {.save = m->m->save.save,
                           .step = 1000 + s->node,
                           .files = {files.data, (uint32_t)files.len}};
    van_send(s->van, link, MSG_SAVED, m->request, &is, NULL);
    buf_free(&files);
    return true;
}

static void test_saves(void **state)
{
    (void)state;
    struct cluster *c = fake_open(MAX_SERVERS, 11, NULL);
    struct err e = {0};
    uint64_t rows = 0;
    answer_with_all(c, save);
    struct client_save s = {.id = 5, .mode = SAVE_BASE, .path = "some/where"};
    for (int bad = 0; bad < 2; bad++) {
        struct save_manifest m = {0};
        bad_save = bad;
        turn_of = 0;
        assert_int_equal(fake_wait(c, client_save_turn(c->client, 77, &e), &e), 0);
        assert_int_equal(turn_of, 77); // no loop has written a file yet
        int rc = fake_wait(c, client_save(c->client, &s, &m, &e), &e);
        if (rc != (bad ? TUG_EDATA : 0))
            fail_msg("%d: %s", rc, e.text);
        if (!bad) {
            assert_int_equal(m.n_tables, 2);
            assert_int_equal(m.step, 1000 + FIRST_NODE + 2 * (MAX_SERVERS - 1));
            for (size_t t = 0; t < 2; t++)
                assert_int_equal(m.tables[t].n_files, MAX_SERVERS);
        }
        save_manifest_free(&m);
    }
    assert_int_equal(fake_wait(c, client_save_end(c->client, 5, true, 7, &e), &e), 0);
    // A save of a table that no loop has fails.
    const uint32_t tables[] = {12, 13, 99};
    bad_save = false;
    s.tables = tables;
    for (s.n = 2; s.n <= 3; s.n++) {
        struct save_manifest m = {0};
        int rc = fake_wait(c, client_save(c->client, &s, &m, &e), &e);
        assert_int_equal(rc, s.n == 2 ? 0 : TUG_EUSAGE);
        assert_true(rc == 0 || strstr(e.text, "there is no table 99 on any server"));
        save_manifest_free(&m);
    }
    s.n = 0;
    assert_int_equal(fake_wait(c,
                               client_load(c->client, TABLE, "some/where", 7, "users",
                                           true, &rows, &e),
                               &e),
                     0);
    assert_int_equal(rows, 3 * MAX_SERVERS); // each loop answers with 3 rows
    // Invalid requests are refused at once.
    char far[FILE_PATH_MAX + 1];
    memset(far, 'x', sizeof(far));
    far[FILE_PATH_MAX] = '\0';
    s.path = far;
    assert_int_equal(client_save(c->client, &s, NULL, &e), 0);
    assert_int_equal(client_load(c->client, TABLE, far, 7, "users", true, NULL, &e), 0);
    assert_int_equal(client_load(c->client, 99, "x", 7, "users", true, NULL, &e), 0);
    assert_int_equal(client_info(c->client, far, 0, NULL, &e), 0);
    fake_close(c);
}

// MSG_SAVED is refused as the answer to the request for a turn.
static bool saved_too_early(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_saved is = {.save = 77};
    if (m->type == MSG_SAVE_TURN)
        van_send(s->van, link, MSG_SAVED, m->request, &is, NULL);
    return m->type == MSG_SAVE_TURN;
}

static void test_files_before_the_turn(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 15, NULL);
    struct save_manifest m = {0};
    struct client_save s = {.id = 77, .mode = SAVE_BASE, .path = "some/where"};
    struct err e = {0};
    answer_with_all(c, saved_too_early);
    for (int i = 0; i < 2; i++) {
        client_ts ts = i == 0 ? client_save_turn(c->client, 77, &e)
                              : client_save(c->client, &s, &m, &e);
        assert_int_equal(fake_wait(c, ts, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "its answer does not fit the request"));
    }
    save_manifest_free(&m);
    fake_close(c);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (long n = 0, struck = 1; struck; n++) {
        struct client_options o = fake_usual();
        struct cluster *c = fake_open(2, 13, &o);
        struct save_manifest m = {0};
        struct err e = {0};
        struct client_save s = {.id = 5, .mode = SAVE_BASE, .path = "some/where"};
        uint32_t number;
        bad_save = false;
        answer_with_all(c, save);
        mem_fault_after(n);
        client_ts ts[3] = {client_save(c->client, &s, &m, &e),
                           client_load(c->client, TABLE, "x", 7, "y", false, NULL, &e),
                           client_info(c->client, "users", 0, &number, &e)};
        struck = mem_faulted();
        mem_fault_after(-1);
        for (int i = 0; i < 2; i++) {
            int rc = ts[i] != 0 ? fake_wait(c, ts[i], &e) : TUG_ENOMEM;
            assert_true(rc == 0 || (rc == TUG_ENOMEM && struck));
        }
        fake_close(c);
        save_manifest_free(&m);
        assert_int_equal(mem_live(), 0);
    }
}

// Walks. If a loop's keys did not ascend, the client would walk for ever.

static uint64_t page[3];
static uint32_t page_n;
static uint8_t page_more;

static bool say_page(struct server *s, van_link link, const struct van_message *m)
{
    float values[3 * WIDTH] = {0};
    struct msg_rows_are is = {.n = page_n,
                              .width = WIDTH,
                              .more = page_more,
                              .keys = {page, page_n * sizeof(*page)},
                              .values = {values, page_n * WIDTH * sizeof(float)}};
    if (m->type != MSG_ROWS)
        return false;
    van_send(s->van, link, MSG_ROWS_ARE, m->request, &is, NULL);
    return true;
}

static int walk(struct cluster *c, struct client_walk *w)
{
    uint64_t keys[3];
    float values[3 * WIDTH];
    struct err e = {0};
    int rc = fake_wait(c, client_walk_next(c->client, w, 3, keys, values, &e), &e);
    if (rc == TUG_ENOMEM)
        assert_non_null(strstr(e.text, "after 3 rows of table"));
    return rc;
}

static int walk_from(struct cluster *c, uint32_t partition, uint64_t from)
{
    struct client_walk w = client_walk_begin(TABLE);
    client_walk_partition(&w, partition);
    w.from = from;
    return walk(c, &w);
}

static void test_pages_that_do_not_ascend(void **state)
{
    (void)state;
    struct cluster *c = fake_open(MAX_SERVERS, 9, NULL);
    uint32_t partition = fake_partition(c->keys[0]), n = 0;
    answer_with_all(c, say_page);
    for (uint64_t key = 0; n < 3; key++)
        if (fake_partition(key) == partition)
            page[n++] = key;
    page_n = 3;
    page_more = 1;
    assert_int_equal(walk_from(c, partition, 0), 0);
    assert_int_equal(walk_from(c, partition, page[0] + 1),
                     TUG_EDATA); // a key before `from`
    assert_int_equal(walk_from(c, partition ^ 1, 0),
                     TUG_EDATA); // another partition's keys
    page[2] = page[1];
    assert_int_equal(walk_from(c, partition, 0), TUG_EDATA);
    page_n = 0; // an empty page, although more pages follow
    assert_int_equal(walk_from(c, partition, 0), TUG_EDATA);
    fake_close(c);
}

// A walk fails if a page other than the last is not full, or if its rows do not fit the
// memory that the walk may use (`room`).
static void test_pages_without_end(void **state)
{
    (void)state;
    struct cluster *c = fake_open(MAX_SERVERS, 9, NULL);
    uint32_t partition = fake_partition(c->keys[0]);
    struct client_walk w = client_walk_begin(TABLE);
    uint64_t key = 0;
    assert_true(w.over && w.room > 0);
    answer_with_all(c, say_page);
    client_walk_partition(&w, partition);
    w.room = 4 * (sizeof(uint64_t) + WIDTH * sizeof(float));
    page_more = 1;
    for (int i = 0; i < 2; i++) {
        for (page_n = 0; page_n < 3; key++)
            if (fake_partition(key) == partition)
                page[page_n++] = key;
        assert_int_equal(walk(c, &w), i == 0 ? 0 : TUG_ENOMEM);
        assert_int_equal(w.rows, 3);
        assert_false(w.over);
    }
    for (page_n = 1; page_n < 3; page_n++)
        assert_int_equal(walk_from(c, partition, 0), TUG_EDATA);
    page_more = 0; // the last page may be short
    page_n = 2;
    client_walk_partition(&w, partition);
    w.room *= 10;
    assert_int_equal(walk(c, &w), 0);
    assert_true(w.over && w.n == 2 && w.rows == 5);
    fake_close(c);
}

// An error with an unknown code or with code 0 also fails the request.
static int32_t code;

static bool say_error(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_error e = {.code = code, .what = wire_text("\x1b]0;title\a")};
    if (m->type == MSG_HELLO)
        return false;
    van_send(s->van, link, MSG_ERROR, m->request, &e, NULL);
    return true;
}

static void test_errors_of_loops(void **state)
{
    (void)state;
    const int32_t codes[] = {0, 1, 130, -77, INT32_MIN, INT32_MAX};
    struct cluster *c = fake_open(MAX_SERVERS, 9, NULL);
    answer_with_all(c, say_error);
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        struct err e = {0};
        struct msg_table_is is;
        uint32_t number = 77;
        code = codes[i];
        assert_int_equal(fake_wait(c, client_stat(c->client, TABLE, &is, &e), &e),
                         TUG_EDATA);
        assert_null(strchr(e.text, '\x1b'));
        assert_int_equal(fake_wait(c, client_info(c->client, "x", 0, &number, &e), &e),
                         TUG_EDATA);
        assert_int_equal(number, 77);
    }
    fake_close(c);
}

static bool is_held(struct cluster *c)
{
    return c->held;
}

// An admin operation may take an hour, but fails soon if a server has died.
static void test_admin_at_a_loop_that_is_silent(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    o.request_timeout_ns = 20 * 1000 * MS;
    struct cluster *c = fake_open(1, 9, &o);
    struct err e = {0};
    c->servers[0].mute = true;
    client_ts ts = client_shrink(c->client, TABLE, NAN, NULL, &e);
    assert_true(fake_run_until(c, is_held, 1000 * MS));
    sim_set_faults(c->sim, 0, 0, 0, 1);
    fake_step(c, 100 * MS); // the client notices the broken link
    sim_set_faults(c->sim, 0, 0, 0, 0);
    uint64_t begun = sim_now(c->sim);
    assert_int_equal(fake_wait(c, ts, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "server"));
    assert_non_null(strstr(e.text, "could not be reached"));
    assert_true(sim_now(c->sim) - begun < 60 * 1000 * MS);
    fake_close(c);
}

static bool hang_up(struct server *s, van_link link, const struct van_message *m)
{
    if (m->type == MSG_TABLE_WANTED)
        van_close_link(s->van, link);
    return true;
}

// After the cluster's end, when its links have closed, a client has no timed work left.
// So it must not keep asking the van to be called at once.
static void test_over_and_idle(void **state)
{
    (void)state;
    struct cluster *c = fake_open(1, 9, NULL);
    struct msg_stop stop = {.code = TUG_EIO, .why = wire_text("enough")};
    struct msg_table_is is;
    struct err e = {0};
    answer_with_all(c, hang_up);
    client_ts ts = client_stat(c->client, TABLE, &is, &e);
    fake_step(c, 20 * MS);
    van_send(c->scheduler, c->member, MSG_STOP, 0, &stop, NULL);
    uint64_t until = sim_now(c->sim) + 60 * 1000 * MS;
    for (int events = 0; sim_step(c->sim, until); events++)
        assert_in_range(events, 0, 10000);
    assert_true(member_ended(client_member(c->client), NULL));
    assert_int_equal(fake_wait(c, ts, &e), TUG_EIO);
    fake_close(c);
}

static bool say_figures(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_table_is is = {.rows = 5, .clock = 3};
    if (m->type != MSG_TABLE_WANTED)
        return false;
    van_send(s->van, link, MSG_TABLE_IS, m->request, &is, NULL);
    return true;
}

// A question without an epoch does not wait for a loop that has died.
static void test_dead_need_not_answer(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 9, NULL);
    struct msg_table_is is;
    struct err e = {0};
    answer_with_all(c, say_figures);
    c->servers[1].mute = true;
    client_ts ts = client_stat(c->client, TABLE, &is, &e);
    fake_step(c, 100 * MS);
    assert_false(client_done(c->client, ts, &(int){0}, &e));
    c->servers[1].dead = true;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        fake_move(c, p, 0, p == PARTITIONS - 1);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    assert_true(is.rows == 5 && is.clock == 3);
    fake_close(c);
}

// A drained server leaves in the epoch in which it leads nothing any more.
static void test_one_that_left_need_not_answer(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 9, NULL);
    struct err e = {0};
    c->servers[1].mute = true;
    client_ts ts = client_save_end(c->client, 5, false, 0, &e);
    fake_step(c, 100 * MS);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        fake_move(c, p, 0, p == PARTITIONS - 1);
    fake_step(c, 100 * MS);
    assert_false(client_done(c->client, ts, &(int){0}, &e));
    fake_die(c, 1);
    assert_int_equal(fake_wait(c, ts, &e), 0);
    fake_close(c);
}

// A request that begins after the cluster's end fails with the cluster's code, like the
// requests that were in flight. So a worker's exit code tells whether the worker was
// stopped or the cluster failed.
static void test_asked_after_the_end(void **state)
{
    (void)state;
    struct client_options o = fake_usual();
    static const int codes[] = {TUG_EINTERRUPTED, TUG_EDATA, TUG_EIO};
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        struct cluster *c = fake_open(1, 9, &o);
        struct msg_stop stop = {.code = codes[i], .why = wire_text("enough")};
        struct msg_table_is is;
        struct err e = {0};
        c->servers[0].mute = true;
        client_ts ts = client_stat(c->client, TABLE, &is, &e);
        van_send(c->scheduler, c->member, MSG_STOP, 0, &stop, NULL);
        assert_int_equal(fake_wait(c, ts, &e), codes[i]);
        assert_string_equal(e.text, "the cluster has ended: enough");
        e = (struct err){0};
        assert_int_equal(client_stat(c->client, TABLE, &is, &e), 0);
        assert_int_equal(e.code, codes[i]);
        assert_string_equal(e.text, "the cluster has ended: enough");
        fake_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_admin),
        cmocka_unit_test(test_info_and_steps),
        cmocka_unit_test(test_saves),
        cmocka_unit_test(test_files_before_the_turn),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pages_that_do_not_ascend),
        cmocka_unit_test(test_pages_without_end),
        cmocka_unit_test(test_errors_of_loops),
        cmocka_unit_test(test_admin_at_a_loop_that_is_silent),
        cmocka_unit_test(test_over_and_idle),
        cmocka_unit_test(test_asked_after_the_end),
        cmocka_unit_test(test_dead_need_not_answer),
        cmocka_unit_test(test_one_that_left_need_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
