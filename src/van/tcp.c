// The tcp van itself: opening, polling, time and freeing.
//
// A round is one run of libuv's loop. After each round the van serves links whose time is
// due, reports and frees ended links, calls the handler's tick, and sends the small
// messages that handlers have queued, all of a link together.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/tcp.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "base/alloc.h"
#include "van/tcp_internal.h"

#define HELLO_TIMEOUT (10 * SECOND_NS)
#define STALL_TIMEOUT (60 * SECOND_NS)
#define TOKEN_TIMEOUT (3 * SECOND_NS)
enum { MS_NS = 1000000 };

static const struct van_ops ops;

// ---------------------------------------------------------------- time

static void do_due_links(struct tcp_van *v)
{
    if (v->now < v->next_due)
        return;
    v->next_due = VAN_NEVER;
    for (uint32_t i = 0; i < v->links.n; i++) {
        struct tcp_link *l = v->links.list[i].link;
        if (l->due <= v->now) {
            l->due = VAN_NEVER;
            tcp_link_due(l);
        }
        v->next_due = clock_earlier(v->next_due, l->due);
    }
}

// ---------------------------------------------------------------- rounds

static void flush_dirty(struct tcp_van *v)
{
    while (v->dirty != NULL) {
        struct tcp_link *l = v->dirty;
        v->dirty = l->next_dirty;
        l->dirty = false;
        tcp_out_flush(l);
    }
}

static void tell_ended(struct tcp_van *v)
{
    const struct van_handler *h = &v->handler;
    while (v->ended != NULL) {
        struct tcp_link *l = v->ended;
        v->ended = l->next_ended;
        bool known = l->opened || !l->accepted, failed = l->state == LINK_FAILED;
        if (failed && known && h->closed != NULL && !v->freeing)
            h->closed(h->ctx, l->number, &l->why, v->now);
        else if (failed && !known && h->refused != NULL && !v->freeing &&
                 (l->why.code != 0 ||
                  // Otherwise the peer has only tried whether the port is open,
                  // which is not reported.
                  l->knocked))
            h->refused(h->ctx, &l->why, v->now);
        tcp_link_free(l);
    }
}

static void finish_round(struct tcp_van *v)
{
    v->now = clock_ns();
    do_due_links(v);
    tcp_accept_due(v);
    if (v->over)
        tcp_limits_relieve(v);
    // Sends first, because links with unsent messages are in a list, and must not be
    // freed while they are in this list.
    flush_dirty(v);
    tell_ended(v);
    v->tick_due = VAN_NEVER;
    if (v->handler.tick != NULL && !v->freeing)
        v->tick_due = v->handler.tick(v->handler.ctx, v->now);
    flush_dirty(v);
    tcp_check(v);
    v->rounds++;
}

static void timer_rang(uv_timer_t *timer)
{
    (void)timer;
}

static void woken(uv_async_t *async)
{
    ((struct tcp_van *)async->data)->events++;
}

static void sleep_until(struct tcp_van *v, uint64_t now, uint64_t due)
{
    if (due != VAN_NEVER) {
        uint64_t left = due > now ? due - now : 0;
        // The timer must repeat: libuv runs timers before it polls, so after a timer that
        // rings only once it would poll without a time limit.
        uv_update_time(&v->loop);
        uv_timer_start(&v->timer, timer_rang, (left + MS_NS - 1) / MS_NS, 1);
    }
    uv_run(&v->loop, UV_RUN_ONCE);
    uv_timer_stop(&v->timer);
}

static uint64_t due_before(const struct tcp_van *v, uint64_t until)
{
    uint64_t due = clock_earlier(clock_earlier(until, v->tick_due), v->next_due);
    return clock_earlier(due, v->accept_due);
}

// A callback of libuv may bring a deadline forward without counting as an event, for
// example if an attempt to connect has failed and the next attempt is due soon.
static void wait_for_events(struct tcp_van *v, uint64_t until)
{
    uint64_t now = clock_ns(), awake_until = now + v->options.spin_ns, due;
    v->events = v->ended != NULL || v->dirty != NULL;
    for (;;) {
        uv_run(&v->loop, UV_RUN_NOWAIT);
        now = clock_ns();
        due = due_before(v, until);
        if (v->events > 0 || now >= due || now >= awake_until)
            break;
        sched_yield(); // the peer that must answer may need this core
    }
    if (v->events == 0 && now < due)
        sleep_until(v, now, due);
}

static int poll_van(struct van *base, uint64_t until, struct err *e)
{
    (void)e;
    struct tcp_van *v = (struct tcp_van *)base;
    v->in_round = true;
    v->unsettled = false;
    wait_for_events(v, until);
    finish_round(v);
    v->in_round = false;
    return 0;
}

static void hold(struct van *base)
{
    // Small messages wait until the end of the next round.
    ((struct tcp_van *)base)->in_round = true;
}

static int descriptor(const struct van *base)
{
    return uv_backend_fd(&((const struct tcp_van *)base)->loop);
}

static bool unsettled(const struct van *base)
{
    const struct tcp_van *v = (const struct tcp_van *)base;
    return v->unsettled || v->dirty != NULL || v->ended != NULL;
}

static void defer(struct van *base, bool on)
{
    ((struct tcp_van *)base)->deferred = on;
}

static void wake(struct van *base)
{
    uv_async_send(&((struct tcp_van *)base)->wake);
}

static uint64_t now(const struct van *base)
{
    (void)base;
    return clock_ns();
}

// ---------------------------------------------------------------- links

static uint64_t queued(const struct van *base, van_link link)
{
    const struct tcp_link *l = links_find(&((const struct tcp_van *)base)->links, link);
    return l != NULL ? l->queued : 0;
}

static const char *peer(const struct van *base, van_link link)
{
    const struct tcp_link *l = links_find(&((const struct tcp_van *)base)->links, link);
    return l != NULL ? l->peer : "a closed link";
}

static enum van_kind kind(const struct van *base, van_link link)
{
    const struct tcp_link *l = links_find(&((const struct tcp_van *)base)->links, link);
    return l != NULL && l->opened ? l->kind : VAN_OPEN;
}

static void trust(const struct van *base, van_link link, struct van_trust *ret)
{
    const struct tcp_link *l = links_find(&((const struct tcp_van *)base)->links, link);
    if (l != NULL)
        *ret = l->trust;
}

static void joined(struct van *base, van_link link)
{
    struct tcp_link *l = links_find(&((struct tcp_van *)base)->links, link);
    if (l != NULL)
        l->joined = true;
}

static uint64_t heard(const struct van *base, van_link link)
{
    const struct tcp_link *l = links_find(&((const struct tcp_van *)base)->links, link);
    return l != NULL ? l->last_byte : 0;
}

static void *tcp_keep(struct van *base, struct van_message *m)
{
    struct tcp_van *v = (struct tcp_van *)base;
    return m->body != NULL && v->reading != NULL ? frame_keep(v->reading) : NULL;
}

static void unkeep(struct van *base, void *kept)
{
    frame_pool_give(&((struct tcp_van *)base)->pool, kept);
}

// ---------------------------------------------------------------- opening and freeing

// Writing to a closed socket must fail and not end the process. libuv leaves SIGPIPE to
// its callers; a program with its own handler keeps it.
static void ignore_sigpipe(void)
{
    struct sigaction a;
    if (sigaction(SIGPIPE, NULL, &a) == 0 && !(a.sa_flags & SA_SIGINFO) &&
        a.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

static int no_loop(int status, struct err *e)
{
    err_set(e, TUG_EIO, "cannot open an event loop: %s", uv_strerror(status));
    err_limit(e, status);
    return TUG_EIO;
}

static int open_loop(struct tcp_van *v, struct err *e)
{
    int rc = uv_loop_init(&v->loop);
    if (rc != 0)
        return no_loop(rc, e);
    rc = uv_async_init(&v->loop, &v->wake, woken);
    if (rc != 0) {
        uv_loop_close(&v->loop);
        return no_loop(rc, e);
    }
    v->wake.data = v;
    uv_timer_init(&v->loop, &v->timer);
    return 0;
}

static void free_memory(struct tcp_van *v)
{
    for (struct tcp_segment *s = v->unused_segments, *next; s != NULL; s = next) {
        next = s->next;
        mem_free(s);
    }
    frame_pool_close(&v->pool);
    links_free(&v->links);
    buf_free(&v->out.head);
    mem_free(v->input);
    mem_free(v->plain);
    mem_free(v->scratch);
    mem_free(v);
}

static void set_options(struct tcp_van *v, const struct tcp_options *o)
{
    v->options = *o;
    if (v->options.hello_timeout_ns == 0)
        v->options.hello_timeout_ns = HELLO_TIMEOUT;
    if (v->options.stall_timeout_ns == 0)
        v->options.stall_timeout_ns = STALL_TIMEOUT;
    if (v->options.token_timeout_ns == 0)
        v->options.token_timeout_ns = TOKEN_TIMEOUT;
    v->pool.budget = o->budget;
    tcp_limits_open(v);
}

static bool take_buffers(struct tcp_van *v)
{
    v->input = mem_aligned(64, TCP_INPUT_BYTES);
    if (v->options.tls == NULL)
        return v->input != NULL;
    v->plain = mem_aligned(64, TLS_RECORD_MAX);
    v->scratch = mem_aligned(64, TLS_RECORD_MAX);
    return v->input != NULL && v->plain != NULL && v->scratch != NULL;
}

int tcp_van_open(struct van **ret, const struct tcp_options *o,
                 const struct van_handler *h, struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ignore_sigpipe);
    struct tcp_van *v = mem_zalloc(sizeof(*v));
    if (v == NULL)
        return err_nomem(e, "a van");
    v->base.ops = &ops;
    v->handler = *h;
    v->out = WIRE_OUT_INIT;
    v->now = clock_ns();
    v->next_due = v->accept_due = VAN_NEVER;
    set_options(v, o);
    int rc = take_buffers(v) ? open_loop(v, e) : err_nomem(e, "a van");
    if (rc != 0) {
        free_memory(v);
        return rc;
    }
    *ret = &v->base;
    return 0;
}

void tcp_van_known_as(struct van *base, const char *address)
{
    struct tcp_van *v = (struct tcp_van *)base;
    snprintf(v->known_as, sizeof(v->known_as), "%s", address);
}

static bool any_closing(const struct tcp_van *v)
{
    for (uint32_t i = 0; i < v->links.n; i++) {
        const struct tcp_link *l = v->links.list[i].link;
        if (l->state == LINK_CLOSING)
            return true;
    }
    return false;
}

// Before the van is freed, waits until links that van_close_link has closed have sent
// their queued messages, or their time for this is over.
static void linger(struct tcp_van *v)
{
    for (; any_closing(v); finish_round(v)) {
        v->events = 0;
        sleep_until(v, clock_ns(), v->next_due);
    }
}

static void van_free_now(struct van *base)
{
    struct tcp_van *v = (struct tcp_van *)base;
    v->freeing = true;
    tcp_listeners_close(v);
    for (uint32_t i = 0; i < v->links.n; i++) {
        struct tcp_link *l = v->links.list[i].link;
        if (l->state == LINK_OPEN)
            tcp_link_say_end(l);
        if (l->state != LINK_CLOSING && l->state != LINK_DEAD)
            tcp_link_end(l, LINK_DEAD);
    }
    flush_dirty(v);
    tell_ended(v);
    linger(v);
    uv_close((uv_handle_t *)&v->wake, NULL);
    uv_close((uv_handle_t *)&v->timer, NULL);
    while (uv_loop_close(&v->loop) == UV_EBUSY)
        uv_run(&v->loop, UV_RUN_DEFAULT);
    free_memory(v);
}

static const struct van_ops ops = {
    .listen = tcp_listen,
    .connect = tcp_connect,
    .send = tcp_send,
    .close_link = tcp_close_link,
    .queued = queued,
    .peer = peer,
    .kind = kind,
    .trust = trust,
    .joined = joined,
    .heard = heard,
    .keep = tcp_keep,
    .unkeep = unkeep,
    .drop = frame_pool_drop,
    .now = now,
    .hold = hold,
    .descriptor = descriptor,
    .unsettled = unsettled,
    .defer = defer,
    .poll = poll_van,
    .wake = wake,
    .free = van_free_now,
};
