// The scheduler keeps the placement while admin operations and saves are open. The client
// sends them only after the scheduler has confirmed the client's placement, and releases
// the placement afterwards. New tables, ticks, steps and marks do not hold it: they are
// cut into slices anew when it changes.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "client/private.h"
#include "kit/fake_servers.h"
#include "kit/test.h"

#define MS ((uint64_t)1000000)

static uint32_t n_obeyed, n_turned_away;
static uint64_t newest; // epoch that the servers have

static bool held_and_obeyed(struct server *s, van_link link, const struct van_message *m)
{
    struct msg_saved saved = {.save = m->type == MSG_SAVE ? m->m->save.save : 0};
    if (m->type != MSG_TABLE_DO && m->type != MSG_SAVE && m->type != MSG_SAVE_TURN &&
        m->type != MSG_SAVE_END)
        return false;
    assert_true(s->cluster->held);
    n_obeyed++;
    if (m->type == MSG_SAVE)
        van_send(s->van, link, MSG_SAVED, m->request, &saved, NULL);
    else
        van_send(s->van, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    return true;
}

static void answer_with_all(struct cluster *c,
                            bool (*answers)(struct server *, van_link,
                                            const struct van_message *))
{
    for (uint32_t i = 0; i < c->n_servers; i++)
        c->servers[i].answers = answers;
    n_obeyed = n_turned_away = 0;
}

static bool let_go(struct cluster *c)
{
    return !c->held;
}

static void test_admin_operations(void **state)
{
    (void)state;
    struct cluster *c = fake_open(3, 1, NULL);
    struct err e = {0};
    answer_with_all(c, held_and_obeyed);
    assert_int_equal(c->holds, 0); // making a table does not hold the placement
    c->handing_over = true;
    client_ts one = client_day(c->client, TABLE, &e);
    client_ts two = client_shrink(c->client, TABLE, NAN, NULL, &e);
    assert_false(fake_run_until(c, fake_is_idle, 500 * MS));
    assert_int_equal(n_obeyed, 0);
    assert_true(c->holds > 3); // the client asks again
    c->handing_over = false;
    // The scheduler keeps a placement that the client does not have yet.
    fake_move(c, 0, 1, false);
    uint32_t holds = c->holds;
    assert_int_equal(fake_wait(c, one, &e), 0);
    assert_int_equal(c->client->epoch, c->epoch);
    assert_int_equal(fake_wait(c, two, &e), 0);
    assert_int_equal(n_obeyed, 6);
    assert_true(c->holds <= holds + 2);
    assert_true(fake_run_until(c, let_go, 500 * MS));
    fake_close(c);
}

// The client holds the placement from the turn of a save to the end of the save, also
// between the requests of the save.
static void test_saves(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 2, NULL);
    struct err e = {0};
    struct save_manifest into = {0};
    struct client_save s = {.id = 5, .mode = SAVE_BASE, .path = "some/where"};
    answer_with_all(c, held_and_obeyed);
    for (int only = 0; only < 2; only++) {
        if (only == 1)
            assert_int_equal(fake_wait(c, client_save_turn(c->client, 5, &e), &e), 0);
        assert_int_equal(fake_wait(c, client_save(c->client, &s, &into, &e), &e), 0);
        assert_false(fake_run_until(c, let_go, 300 * MS));
        assert_int_equal(fake_wait(c, client_save_end(c->client, 5, true, 1, &e), &e), 0);
        assert_true(fake_run_until(c, let_go, 500 * MS));
        assert_int_equal(c->client->hold.users, 0);
    }
    save_manifest_free(&into);
    fake_close(c);
}

// A request that is given up, and a save that has failed, release their hold on the
// placement.
static void test_given_up(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 3, NULL);
    struct err e = {0};
    c->handing_over = true;
    client_ts ts = client_day(c->client, TABLE, &e);
    fake_run_until(c, fake_is_idle, 100 * MS);
    assert_int_equal(c->client->hold.users, 1);
    client_cancel(c->client, ts);
    assert_int_equal(c->client->hold.users, 0);
    c->handing_over = false;
    assert_true(fake_run_until(c, let_go, 500 * MS));
    fake_close(c);
}

// Serves `whole` requests only if they name the newest epoch.
static bool exact(struct server *s, van_link link, const struct van_message *m)
{
    uint64_t epoch = m->type == MSG_TABLE  ? m->m->table.epoch
                     : m->type == MSG_TICK ? m->m->tick.epoch
                     : m->type == MSG_STEP ? m->m->step.epoch
                     : m->type == MSG_MARK ? m->m->mark.epoch
                                           : 0;
    if (epoch == 0)
        return false;
    if (epoch < newest) {
        n_turned_away++;
        van_send(s->van, link, MSG_ROSTER, m->request,
                 &(struct msg_roster){.epoch = newest}, NULL);
        return true;
    }
    n_obeyed++;
    van_send(s->van, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    return true;
}

static void test_whole_requests(void **state)
{
    (void)state;
    struct cluster *c = fake_open(2, 4, NULL);
    struct err e = {0};
    struct table_config t = fake_sums();
    for (int kind = 0; kind < 4; kind++) {
        answer_with_all(c, exact);
        fake_move(c, 0, (uint32_t)kind % 2, false);
        newest = c->epoch;
        client_ts ts = kind == 0   ? client_table(c->client, TABLE + 1, &t, &e)
                       : kind == 1 ? client_tick(c->client, TABLE, 3, &e)
                       : kind == 2 ? client_step(c->client, 1, NULL, &e)
                                   : client_mark(c->client, 9, 0, &e);
        assert_int_equal(fake_wait(c, ts, &e), 0);
        assert_true(n_turned_away > 0);
        assert_true(n_obeyed >= 2); // both loops have obeyed
    }
    fake_close(c);
}

static bool silent_to_pushes(struct server *s, van_link link, const struct van_message *m)
{
    return m->type == MSG_PUSH || exact(s, link, m);
}

// A sync push that stays open while many partitions move does not keep another copy of
// its keys and values for each move.
static void test_memory_of_a_push(void **state)
{
    (void)state;
    enum { N = 64 };
    struct cluster *c = fake_open(2, 5, NULL);
    struct err e = {0};
    struct table_config t = fake_sums();
    uint64_t keys[N];
    float values[N * 16] = {0};
    t.mode = CONFIG_SYNC;
    newest = 0;
    answer_with_all(c, silent_to_pushes);
    assert_int_equal(fake_wait(c, client_table(c->client, TABLE + 1, &t, &e), &e), 0);
    for (uint32_t i = 0; i < N; i++)
        keys[i] = (i * 37) % N; // the keys are not arranged
    struct client_push p = {.table = TABLE + 1,
                            .keys = keys,
                            .n = N,
                            .values = values,
                            .rate = 1,
                            .pass = 1,
                            .micros = 16,
                            .examples = 1};
    client_ts ts = client_push(c->client, &p, &e);
    assert_int_not_equal(ts, 0);
    for (uint32_t i = 0; i < 40; i++) {
        fake_move(c, i % 4, i / 4 % 2, true);
        fake_run_until(c, fake_is_idle, 20 * MS);
    }
    assert_int_equal(c->client->epoch, c->epoch);
    uint32_t n = 0;
    for (const struct staging *s = request_find(c->client, ts)->stagings; s != NULL;
         s = s->next)
        n++;
    assert_in_range(n, 1, 12);
    client_cancel(c->client, ts);
    fake_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admin_operations), cmocka_unit_test(test_saves),
        cmocka_unit_test(test_given_up),         cmocka_unit_test(test_whole_requests),
        cmocka_unit_test(test_memory_of_a_push),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
