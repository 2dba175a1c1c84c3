// Tests the pump with a van that is linked to itself: waits end in time or at their
// deadline, whichever thread polls; work runs without the van; several threads use the
// van at the same time.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "os/clock.h"
#include "runtime/pump.h"
#include "van/tcp.h"

#define MS ((uint64_t)1000000)
#define PATIENCE (60000 * MS) // a test fails if a step takes longer
#define LONG (10 * PATIENCE)

// A van with a link to itself: messages that it sends arrive at its own handler.
struct echo {
    struct van *van;
    struct pump *pump;
    van_link link;
    bool open;
    uint64_t hops; // a message is sent on this many times before it counts as arrived
    uint64_t came; // number of messages that have arrived
    struct pump_work work;
    bool with_work, queued;
    atomic_uint worked;
    int refused;        // number of works in which pump_working was true, so that they
                        // must not wait
    atomic_uint bodies; // number of large bodies that have arrived
    pthread_t released; // the thread that released the last body
    atomic_bool let_go;
    bool at_once, unsent;
};

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct echo *e = ctx;
    (void)now;
    e->open |= !accepted && link == e->link;
}

static void do_work(struct pump_work *w)
{
    struct echo *e = (struct echo *)((char *)w - offsetof(struct echo, work));
    e->refused += pump_working(e->pump);
    pump_enter(e->pump); // returns at once, because no thread has the van
    e->queued = false;
    pump_leave(e->pump);
    atomic_fetch_add(&e->worked, 1);
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct echo *e = ctx;
    (void)link, (void)now;
    if (m->type == MSG_APP) {
        atomic_fetch_add(&e->bodies, 1);
        return;
    }
    struct msg_ok again = {.value = m->m->ok.value + 1};
    if (again.value <= e->hops) {
        assert_int_equal(0, van_send(e->van, e->link, MSG_OK, 1, &again, NULL));
        return;
    }
    e->came++;
    if (!e->with_work || e->queued)
        return;
    e->queued = true;
    e->work.run = do_work;
    pump_queue(e->pump, &e->work);
}

static bool is_open(void *ctx)
{
    return ((struct echo *)ctx)->open;
}

static void begin(struct echo *e)
{
    char address[VAN_ADDRESS_MAX];
    struct tcp_options o = {0};
    struct van_handler h = {.ctx = e, .opened = on_opened, .message = on_message};
    *e = (struct echo){0};
    assert_int_equal(0, tcp_van_open(&e->van, &o, &h, NULL));
    assert_int_equal(0, van_listen(e->van, "tcp://127.0.0.1:0", address, NULL));
    e->link = van_connect(e->van, address, PATIENCE);
    assert_int_equal(0, pump_open(&e->pump, e->van, NULL));
    assert_true(pump_wait(e->pump, is_open, e, van_now(e->van) + PATIENCE));
}

static void finish(struct echo *e)
{
    pump_close(e->pump);
    van_free(e->van);
    assert_int_equal(0, mem_live());
}

static void send_one(struct echo *e)
{
    struct msg_ok m = {.value = 0};
    pump_enter(e->pump);
    assert_int_equal(0, van_send(e->van, e->link, MSG_OK, 1, &m, NULL));
    pump_leave(e->pump);
}

struct target {
    struct echo *echo;
    uint64_t came;
};

static bool has_come(void *ctx)
{
    const struct target *t = ctx;
    return t->echo->came >= t->came;
}

static void waits_end(void **state)
{
    struct echo e;
    (void)state;
    begin(&e);
    for (uint64_t i = 1; i <= 200; i++) {
        struct target t = {&e, i};
        send_one(&e);
        assert_true(pump_wait(e.pump, has_come, &t, van_now(e.van) + PATIENCE));
    }
    finish(&e);
}

static void a_wait_has_a_deadline(void **state)
{
    struct echo e;
    (void)state;
    begin(&e);
    struct target never = {&e, UINT64_MAX};
    uint64_t until = van_now(e.van) + 30 * MS;
    assert_false(pump_wait(e.pump, has_come, &never, until));
    assert_true(van_now(e.van) >= until);
    finish(&e);
}

// While no thread waits, the background thread takes the message and runs its work.
static void somebody_always_polls(void **state)
{
    struct echo e;
    (void)state;
    begin(&e);
    e.with_work = true;
    send_one(&e);
    double until = clock_seconds() + PATIENCE / 1e9;
    while (atomic_load(&e.worked) == 0 && clock_seconds() < until)
        sched_yield();
    assert_int_equal(1, atomic_load(&e.worked));
    assert_int_equal(1, e.refused);
    assert_false(pump_working(e.pump));
    finish(&e);
}

static float large[1 << 16];

static void let_go(void *ctx)
{
    struct echo *e = ctx;
    e->released = pthread_self();
    atomic_store(&e->let_go, true);
}

// Work that sends a large body and ends only after it has arrived.
static void work_long(struct pump_work *w)
{
    struct echo *e = (struct echo *)((char *)w - offsetof(struct echo, work));
    const struct van_release release = {.release = let_go, .ctx = e};
    struct msg_app m = {.values = {large, sizeof(large)}, .value_bytes = 4};
    uint32_t before = atomic_load(&e->bodies);
    atomic_store(&e->let_go, false);
    pump_enter(e->pump);
    e->queued = false;
    pump_leave_long(e->pump);
    pump_enter(e->pump);
    e->unsent |= van_send(e->van, e->link, MSG_APP, 1, &m, &release) != 0;
    e->at_once |= atomic_load(&e->let_go);
    pump_leave(e->pump);
    double until = clock_seconds() + 10;
    while ((atomic_load(&e->bodies) == before || !atomic_load(&e->let_go)) &&
           clock_seconds() < until)
        sched_yield();
    e->refused += pthread_equal(pthread_self(), e->released) != 0;
    pump_enter_again(e->pump);
    pump_leave(e->pump);
    atomic_fetch_add(&e->worked, 1);
}

// While work takes long, the relief sends and reads, whether a waiting thread or the
// background thread runs the work.
static void relief_works_during_long_work(void **state)
{
    enum { TIMES = 50 };
    struct echo e;
    (void)state;
    begin(&e);
    for (uint32_t i = 1; i <= TIMES; i++) {
        pump_enter(e.pump);
        e.work.run = work_long;
        pump_queue(e.pump, &e.work);
        pump_leave(e.pump);
        struct target t = {&e, i};
        send_one(&e);
        if (i % 4 != 0)
            assert_true(pump_wait(e.pump, has_come, &t, van_now(e.van) + 10000 * MS));
        double until = clock_seconds() + 10;
        while (atomic_load(&e.worked) < i && clock_seconds() < until)
            sched_yield();
        assert_int_equal(i, atomic_load(&e.worked));
    }
    finish(&e);
    assert_int_equal(TIMES, atomic_load(&e.bodies));
    assert_int_equal(0, e.refused);
    assert_false(e.at_once);
    assert_false(e.unsent);
}

enum { THREADS = 4, ROUNDS = 300 };

struct sender {
    struct echo *echo;
    pthread_t thread;
    bool good;
};

static void *send_and_wait(void *arg)
{
    struct sender *s = arg;
    struct echo *e = s->echo;
    s->good = true;
    for (int i = 0; i < ROUNDS && s->good; i++) {
        struct msg_ok m = {.value = 0};
        struct target t = {.echo = e};
        pump_enter(e->pump);
        t.came = e->came + 1; // waits for the next message, whichever thread sent it
        s->good = van_send(e->van, e->link, MSG_OK, 1, &m, NULL) == 0;
        pump_leave(e->pump);
        s->good &= pump_wait(e->pump, has_come, &t, van_now(e->van) + PATIENCE);
    }
    return NULL;
}

struct long_wait {
    struct echo *echo;
    pthread_t thread;
    struct target never;
    atomic_uint asked; // number of times that the waiting thread itself has called over()
    bool came;
};

static bool is_over(void *ctx)
{
    struct long_wait *l = ctx;
    if (pthread_equal(pthread_self(), l->thread))
        atomic_fetch_add(&l->asked, 1);
    return has_come(&l->never);
}

static void *wait_long(void *arg)
{
    struct long_wait *l = arg;
    l->came = pump_wait(l->echo->pump, is_over, l, van_now(l->echo->van) + LONG);
    return NULL;
}

// Waits until l's thread has called over() twice: once before it waits, and then as the
// leader, which it stays until its wait ends.
static void await_leader(struct long_wait *l)
{
    double until = clock_seconds() + PATIENCE / 1e9;
    while (atomic_load(&l->asked) < 2 && clock_seconds() < until)
        sched_yield();
    assert_true(atomic_load(&l->asked) >= 2);
}

// A thread that waits long also polls for other threads, and wakes each of them when its
// message has arrived. Its wait is longer than the test's deadline, so the test fails if
// a thread is not woken.
static void a_long_wait_wakes_other_threads(void **state)
{
    struct echo e;
    (void)state;
    begin(&e);
    enum { WAITS = 10 };
    e.hops = 20; // enough for the message to arrive while both threads wait
    pump_set_spin(e.pump, LONG);
    struct long_wait l = {.echo = &e, .never = {&e, WAITS + 1}};
    // Keeps the van until l.thread is set, which the van's handler reads.
    pump_enter(e.pump);
    assert_int_equal(0, pthread_create(&l.thread, NULL, wait_long, &l));
    pump_leave(e.pump);
    await_leader(&l);
    for (uint64_t i = 1; i <= WAITS; i++) {
        struct target t = {&e, i};
        send_one(&e);
        assert_true(pump_wait(e.pump, has_come, &t, van_now(e.van) + PATIENCE));
    }
    send_one(&e);
    pthread_join(l.thread, NULL);
    assert_true(l.came); // the long wait did not delay the other threads
    finish(&e);
}

static bool all_have_come(void *ctx)
{
    return ((struct echo *)ctx)->came == THREADS * ROUNDS;
}

static void threads_share_a_van(void **state)
{
    struct echo e;
    struct sender s[THREADS];
    (void)state;
    begin(&e);
    e.with_work = true;
    pump_set_spin(e.pump, 20000);
    for (int i = 0; i < THREADS; i++) {
        s[i].echo = &e;
        assert_int_equal(0, pthread_create(&s[i].thread, NULL, send_and_wait, &s[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(s[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_true(s[i].good);
    assert_true(pump_wait(e.pump, all_have_come, &e, van_now(e.van) + PATIENCE));
    finish(&e);
    assert_true(atomic_load(&e.worked) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_end),
        cmocka_unit_test(a_wait_has_a_deadline),
        cmocka_unit_test(somebody_always_polls),
        cmocka_unit_test(relief_works_during_long_work),
        cmocka_unit_test(a_long_wait_wakes_other_threads),
        cmocka_unit_test(threads_share_a_van),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
