// The pump's mutex guards the members that say which thread has the van. It is
// held for a few instructions only; the thread to which the van is lent uses the
// van without the mutex.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/pump.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/list.h"
#include "os/clock.h"
#include "os/thread.h"
#include "runtime/interrupt.h"

#define MS ((uint64_t)1000000)

// The background thread polls when no thread has used the van for IDLE_NS; it checks this at
// least every LOOK_MAX_NS. One sleep in van_poll takes at most SLEEP_NS.
#define IDLE_NS (1 * MS)
#define LOOK_MAX_NS (4 * MS)
#define SLEEP_NS (1000 * MS)
// The longest time in milliseconds between two polls by the relief. The van's timers need
// these polls.
enum { RELIEF_MS = 20 };

struct waiter {
    struct waiter *before, *behind;
    bool (*over)(void *ctx);
    void *ctx;
    uint64_t deadline;
    bool ended;   // the wait has ended
    bool in_time; // over() was true before the deadline
    pthread_cond_t told;
};

struct pump {
    struct van *van;
    pthread_mutex_t mutex;
    pthread_cond_t free; // signals that no thread has the van
    pthread_cond_t stopped;
    bool lent;
    // Whether the thread that has the van sleeps in van_poll; van_wake ends the sleep.
    bool asleep;
    bool stop;
    uint32_t blocked; // threads that wait on `free`
    // The number of threads in pump_enter; they get the van before threads that poll.
    atomic_uint callers;
    struct waiter *leader;
    // The waits of all threads, in the order of their beginning.
    struct waiter *first, *last;
    atomic_uint n_waiters;
    uint64_t busy_until;
    uint64_t last_round; // the time at which a thread last took messages
    bool threaded;
    pthread_t thread;
    // True while a thread does long work, from pump_leave_long to pump_enter_again.
    bool at_length;
    bool relief_threaded, relief_idle;
    // True while the relief waits for the van's descriptor. While it waits, it does not
    // have the van.
    bool relief_waits;
    pthread_cond_t relieved;
    pthread_t relief;
    atomic_ullong spin_ns;

    // The following members belong to the thread that has the van.
    struct pump_work *work, *last_work; // queued work
    bool working;                       // a thread runs the queued work
    bool broken;
    struct err why;
};

// The pump whose work this thread runs.
static _Thread_local const struct pump *at_work;

bool pump_working(const struct pump *p)
{
    return at_work == p;
}

bool pump_has_work(const struct pump *p)
{
    return p->working || p->work != NULL;
}

bool pump_broken(const struct pump *p, struct err *ret_why)
{
    if (p->broken && ret_why != NULL)
        *ret_why = p->why;
    return p->broken;
}

void pump_set_spin(struct pump *p, uint64_t spin_ns)
{
    atomic_store(&p->spin_ns, spin_ns);
}

// Functions that lend the van to a thread. They are called with the mutex held.

static void borrow(struct pump *p, bool polls)
{
    if (!polls)
        atomic_fetch_add(&p->callers, 1);
    while (p->lent || (polls && atomic_load(&p->callers) > 0)) {
        if (!polls && p->asleep) {
            p->asleep = false;
            van_wake(p->van);
        }
        p->blocked++;
        pthread_cond_wait(&p->free, &p->mutex);
        p->blocked--;
    }
    if (!polls)
        atomic_fetch_sub(&p->callers, 1);
    p->lent = true;
}

static void pump_give_back(struct pump *p)
{
    p->lent = false;
    if (p->blocked > 0)
        pthread_cond_broadcast(&p->free);
}

void pump_enter(struct pump *p)
{
    pthread_mutex_lock(&p->mutex);
    borrow(p, false);
    pthread_mutex_unlock(&p->mutex);
}

// Gives the van back. If `unsettled` is true (van_unsettled), the van has work that its
// descriptor does not show, so the relief, which waits for the descriptor, is woken.
static void leave(struct pump *p, bool unsettled)
{
    p->busy_until = van_now(p->van) + IDLE_NS;
    pump_give_back(p);
    if (p->relief_waits && unsettled)
        van_wake(p->van);
}

void pump_leave(struct pump *p)
{
    bool unsettled = van_unsettled(p->van);
    pthread_mutex_lock(&p->mutex);
    leave(p, unsettled);
    pthread_mutex_unlock(&p->mutex);
}

void pump_queue(struct pump *p, struct pump_work *w)
{
    w->next = NULL;
    if (p->last_work != NULL)
        p->last_work->next = w;
    else
        p->work = w;
    p->last_work = w;
}

// These functions poll the van. The thread that has the van calls them.

static void poll_once(struct pump *p, uint64_t until)
{
    if (!p->broken && van_poll(p->van, until, &p->why) != 0)
        p->broken = true;
}

// Runs the queued work, and gives the van back during each item. The background thread
// stops as soon as another thread waits; that thread then runs the remaining items.
static void run_work(struct pump *p, bool background)
{
    if (p->working || p->work == NULL)
        return;
    p->working = true;
    while (p->work != NULL && !(background && atomic_load(&p->n_waiters) > 0)) {
        struct pump_work *w = p->work;
        p->work = w->next;
        if (p->work != NULL)
            van_hold(p->van); // the messages of all items are sent together
        if (p->work == NULL)
            p->last_work = NULL;
        pump_leave(p);
        const struct pump *outer = at_work;
        at_work = p;
        w->run(w);
        at_work = outer;
        pump_enter(p);
    }
    p->working = false;
}

static void drop_waiter(struct pump *p, struct waiter *w)
{
    list_remove(p->first, p->last, w, before, behind);
    atomic_fetch_sub(&p->n_waiters, 1);
}

static void add_waiter(struct pump *p, struct waiter *w)
{
    list_append(p->first, p->last, w, before, behind);
    atomic_fetch_add(&p->n_waiters, 1);
}

// Wakes the threads whose waits are over or past their deadline. Once `ended` is set,
// only the waiter's own thread uses the waiter.
static void tell_waiters(struct pump *p)
{
    pthread_mutex_lock(&p->mutex);
    for (struct waiter *w = p->first, *behind; w != NULL; w = behind) {
        behind = w->behind;
        bool over = w->over(w->ctx);
        if (!over && !p->broken && van_now(p->van) < w->deadline)
            continue;
        drop_waiter(p, w);
        w->in_time = over;
        w->ended = true;
        if (w != p->leader)
            pthread_cond_signal(&w->told);
    }
    pthread_mutex_unlock(&p->mutex);
}

static uint64_t earliest_deadline(struct pump *p, uint64_t until)
{
    for (const struct waiter *w = p->first; w != NULL; w = w->behind)
        if (w->deadline < until)
            until = w->deadline;
    return until;
}

// Returns whether the wait of any thread is over: the thread that polls checks the waits
// of all threads. Only the thread that has the van changes the list.
static bool someone_is_done(const struct pump *p)
{
    for (const struct waiter *w = p->first; w != NULL; w = w->behind)
        if (w->over(w->ctx))
            return true;
    return false;
}

// Polls without sleeping for spin_ns. Yields between two polls, because the process that
// must answer may need this core. Returns true if there may be something to do.
static bool spin(struct pump *p)
{
    uint64_t spin_ns = atomic_load_explicit(&p->spin_ns, memory_order_relaxed);
    uint64_t begin = van_now(p->van);
    for (;;) {
        poll_once(p, 0);
        if (p->work != NULL || p->broken || atomic_load(&p->callers) > 0 ||
            someone_is_done(p))
            return true;
        if (van_now(p->van) - begin >= spin_ns)
            return false;
        sched_yield();
    }
}

static void sleep_in_van(struct pump *p)
{
    pthread_mutex_lock(&p->mutex);
    uint64_t until = earliest_deadline(p, van_now(p->van) + SLEEP_NS);
    bool may = atomic_load(&p->callers) == 0 && !p->stop;
    p->asleep = may;
    pthread_mutex_unlock(&p->mutex);
    if (!may)
        return;
    poll_once(p, until);
    pthread_mutex_lock(&p->mutex);
    p->asleep = false;
    pthread_mutex_unlock(&p->mutex);
}

// Does one round of the thread that has the van: takes messages, does work, wakes
// waiters.
static void pump_round(struct pump *p, const struct waiter *me, bool spins)
{
    if (!spins || !spin(p))
        sleep_in_van(p);
    p->last_round = van_now(p->van);
    run_work(p, me == NULL);
    // If the leader is the only waiting thread and its wait is not over, no wait has to
    // be ended.
    if (me == NULL || atomic_load(&p->n_waiters) > 1 || p->broken || me->over(me->ctx) ||
        van_now(p->van) >= me->deadline)
        tell_waiters(p);
    if (atomic_load(&p->callers) == 0)
        return;
    pthread_mutex_lock(&p->mutex);
    pump_give_back(p);
    borrow(p, true);
    pthread_mutex_unlock(&p->mutex);
}

// Polls as the leader, with the van, until w has ended; then the next waiting thread
// leads.
static void lead(struct pump *p, struct waiter *w)
{
    while (!w->ended)
        pump_round(p, w, true);
    uint64_t now = van_now(p->van);
    pthread_mutex_lock(&p->mutex);
    p->busy_until = now + IDLE_NS;
    p->leader = NULL;
    pump_give_back(p);
    if (p->first != NULL)
        pthread_cond_signal(&p->first->told); // the next leader
    pthread_mutex_unlock(&p->mutex);
}

// Waits until w has ended or there is no leader. If w has ended, returns false. Otherwise
// makes this thread the leader, which has the van, and returns true.
static bool follow(struct pump *p, struct waiter *w)
{
    while (!w->ended && p->leader != NULL)
        pthread_cond_wait(&w->told, &p->mutex);
    // If this thread was also chosen as leader, the next thread leads instead.
    if (w->ended) {
        if (p->leader == NULL && p->first != NULL)
            pthread_cond_signal(&p->first->told);
        return false;
    }
    p->leader = w;
    borrow(p, true);
    return true;
}

static bool wait_for(struct pump *p, struct waiter *w)
{
    pthread_mutex_lock(&p->mutex);
    add_waiter(p, w);
    bool leads = p->leader == NULL;
    if (leads) {
        p->leader = w;
    } else {
        pump_give_back(p);
        leads = follow(p, w);
    }
    pthread_mutex_unlock(&p->mutex);
    if (leads)
        lead(p, w);
    return w->in_time;
}

static bool wait_until(struct pump *p, bool (*over)(void *ctx), void *ctx,
                       uint64_t deadline)
{
    pump_enter(p);
    if (over(ctx)) {
        pump_leave(p);
        return true;
    }
    struct waiter w = {.over = over, .ctx = ctx, .deadline = deadline};
    thread_condition(&w.told);
    wait_for(p, &w);
    pthread_cond_destroy(&w.told);
    return w.in_time;
}

// If the program has an interrupt function, the wait is cut into slices, and the function
// is called after each. A slice that ends before its time means that the van has failed.
bool pump_wait(struct pump *p, bool (*over)(void *ctx), void *ctx, uint64_t deadline)
{
    interrupt_begin();
    for (;;) {
        uint64_t until = deadline;
        if (interrupt_is_set())
            until = clock_earlier(deadline, van_now(p->van) + INTERRUPT_ASK_NS);
        if (wait_until(p, over, ctx, until))
            return true;
        if (until == deadline || van_now(p->van) < until || interrupt_ask())
            return false;
    }
}

bool pump_wait_uninterrupted(struct pump *p, bool (*over)(void *ctx), void *ctx,
                             uint64_t deadline)
{
    return wait_until(p, over, ctx, deadline);
}

// ---------------------------------------------------------------- the background thread

// Returns whether the background thread must take the van: if no thread has used it for
// IDLE_NS, or if no thread has polled for LOOK_MAX_NS, because a program that calls
// tug_is_done in a loop never polls. The mutex must be held, and no thread may have the
// van.
static bool is_idle(const struct pump *p)
{
    uint64_t now = van_now(p->van);
    return now >= p->busy_until || now - p->last_round >= LOOK_MAX_NS;
}

static void *look_after(void *arg)
{
    struct pump *p = arg;
    uint64_t look_ns = IDLE_NS;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        // A thread that waits for the van gets it first. Otherwise this thread, which
        // holds the mutex from one round to the next, would always take the van again.
        if (p->lent || p->blocked > 0 || p->at_length || !is_idle(p)) {
            struct timespec t = clock_deadline((double)look_ns * 1e-9);
            pthread_cond_timedwait(&p->stopped, &p->mutex, &t);
            look_ns = look_ns * 2 < LOOK_MAX_NS ? look_ns * 2 : LOOK_MAX_NS;
            continue;
        }
        look_ns = IDLE_NS;
        // Does not spin if a leader runs work, which needs the core.
        bool spins = p->leader == NULL;
        borrow(p, true);
        pthread_mutex_unlock(&p->mutex);
        pump_round(p, NULL, spins);
        pthread_mutex_lock(&p->mutex);
        pump_give_back(p);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

// ---------------------------------------------------------------- the relief

// Waits until the van's descriptor is readable, at most RELIEF_MS. Called with the mutex
// held, which it releases while it waits.
static void await_descriptor(struct pump *p)
{
    struct pollfd fd = {.fd = van_descriptor(p->van), .events = POLLIN};
    p->relief_waits = true;
    pthread_mutex_unlock(&p->mutex);
    (void)poll(&fd, 1, RELIEF_MS);
    pthread_mutex_lock(&p->mutex);
    p->relief_waits = false;
}

static void *relieve(void *arg)
{
    struct pump *p = arg;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        if (!p->at_length) {
            p->relief_idle = true;
            pthread_cond_wait(&p->relieved, &p->mutex);
            p->relief_idle = false;
            continue;
        }
        await_descriptor(p);
        borrow(p, true);
        if (p->at_length) {
            pthread_mutex_unlock(&p->mutex);
            poll_once(p, 0);
            p->last_round = van_now(p->van);
            tell_waiters(p);
            pthread_mutex_lock(&p->mutex);
        }
        pump_give_back(p);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

// Returns whether the relief thread runs; starts it if needed. If it cannot be started,
// or the van has no descriptor, long work delays messages.
static bool has_relief(struct pump *p)
{
    if (!p->relief_threaded && van_descriptor(p->van) >= 0)
        p->relief_threaded = pthread_create(&p->relief, NULL, relieve, p) == 0;
    return p->relief_threaded;
}

void pump_leave_long(struct pump *p)
{
    bool unsettled = van_unsettled(p->van);
    pthread_mutex_lock(&p->mutex);
    p->at_length = has_relief(p);
    van_defer(p->van, p->at_length);
    leave(p, unsettled);
    if (p->at_length && p->relief_idle)
        pthread_cond_signal(&p->relieved);
    pthread_mutex_unlock(&p->mutex);
}

void pump_enter_again(struct pump *p)
{
    pthread_mutex_lock(&p->mutex);
    borrow(p, false);
    p->at_length = false;
    van_defer(p->van, false);
    pthread_mutex_unlock(&p->mutex);
}

int pump_open(struct pump **ret, struct van *v, struct err *e)
{
    struct pump *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "threads around a van");
    p->van = v;
    pthread_mutex_init(&p->mutex, NULL);
    thread_condition(&p->free);
    thread_condition(&p->stopped);
    thread_condition(&p->relieved);
    // Set before the thread starts, because the thread calls the van's handlers, which
    // use *ret.
    *ret = p;
    if (pthread_create(&p->thread, NULL, look_after, p) != 0) {
        *ret = NULL;
        pump_close(p);
        return err_set(e, TUG_EIO, "cannot start the thread that looks after a van");
    }
    p->threaded = true;
    return 0;
}

void pump_close(struct pump *p)
{
    if (p == NULL)
        return;
    if (p->threaded) {
        pthread_mutex_lock(&p->mutex);
        p->stop = true;
        if (p->asleep || p->relief_waits)
            van_wake(p->van);
        pthread_cond_signal(&p->stopped);
        pthread_cond_signal(&p->relieved);
        pthread_mutex_unlock(&p->mutex);
        pthread_join(p->thread, NULL);
    }
    if (p->relief_threaded)
        pthread_join(p->relief, NULL);
    pthread_cond_destroy(&p->relieved);
    pthread_cond_destroy(&p->stopped);
    pthread_cond_destroy(&p->free);
    pthread_mutex_destroy(&p->mutex);
    mem_free(p);
}
