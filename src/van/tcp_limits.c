// Limits for peers: the number of strangers, the order in which links are closed to make
// room for others, and the time after which a peer is too slow.
//
// When a node is full, the links of strangers are closed first. If there are no
// strangers, a few new peers are accepted on trial, in a reserve of descriptors, until
// the handshake has shown their role. Then a link of lower rank is closed to make room
// for such a peer; if there is no such link, the peer's own link is closed.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/list.h"
#include "os/descriptors.h"
#include "van/tcp_internal.h"

enum {
    STRANGERS_MAX = 1024,
    // The least and the greatest number of descriptors that are kept free for files,
    // saves and the next connection.
    RESERVE_MIN = 16,
    RESERVE_MAX = 256,
    TRIALS = RESERVE_MIN / 2,
    TLS_BYTES = 64 << 10,   // memory of a TLS session in OpenSSL
    RELIEF_FROM = 64 << 10, // a link with fewer unread bytes is not closed to free memory
    // Bytes per second that a link must move while other links find no room.
    SLOWEST = 64 << 10,
    SLOWEST_WHOLE_S = 60, // seconds within which a link must move all bytes that it holds
};
#define SLOW_TIMEOUT (5 * SECOND_NS)

// ---------------------------------------------------------------- strangers, by age

static uint64_t link_bytes(const struct tcp_van *v)
{
    return sizeof(struct tcp_link) + sizeof(struct tcp_stream) +
           (v->options.tls != NULL ? TLS_BYTES : 0);
}

static uint32_t max_strangers(const struct tcp_van *v)
{
    uint64_t fit = budget_most(v->options.budget, BUDGET_LINKS) / 4 / link_bytes(v);
    uint32_t most = v->options.max_strangers;
    return fit < most ? (uint32_t)fit + 1 : most;
}

void tcp_limits_open(struct tcp_van *v)
{
    if (v->options.slow_timeout_ns == 0)
        v->options.slow_timeout_ns = SLOW_TIMEOUT;
    if (v->options.max_strangers == 0)
        v->options.max_strangers = STRANGERS_MAX;
    if (v->options.max_links == 0)
        v->options.max_links = UINT32_MAX; // only the limit on descriptors counts
}

void tcp_limits_stranger(struct tcp_link *l, bool trial)
{
    struct tcp_van *v = l->van;
    l->trial = trial;
    v->n_trials += trial;
    list_append(v->oldest, v->newest, l, older, newer);
    v->n_strangers++;
    l->stranger = true;
    l->counted = link_bytes(v);
    (void)budget_force(v->options.budget, BUDGET_LINKS, l->counted);
}

void tcp_limits_known(struct tcp_link *l)
{
    struct tcp_van *v = l->van;
    if (!l->stranger)
        return;
    l->stranger = false;
    v->n_trials -= l->trial;
    list_remove(v->oldest, v->newest, l, older, newer);
    v->n_strangers--;
}

void tcp_limits_gone(struct tcp_link *l)
{
    tcp_limits_known(l);
    budget_give(l->van->options.budget, BUDGET_LINKS, l->counted);
    l->counted = 0;
}

static bool drop_stranger(struct tcp_van *v)
{
    struct tcp_link *l = v->oldest;
    struct err e;
    if (l == NULL)
        return false;
    err_set(&e, TUG_EIO, "%s was closed: it has sent nothing while others wait", l->peer);
    tcp_link_fail(l, &e);
    return true;
}

// Counts the used descriptors: all below `next`, the lowest free number, and those of
// links above `next`. (Links have greater descriptors if lower ones were closed later.)
// Does not look at the links if there are fewer than a quarter of the limit.
static uint64_t descriptors_used(const struct tcp_van *v, int next, uint64_t limit)
{
    uint64_t used = (uint64_t)next;
    uv_os_fd_t fd;
    for (uint32_t i = 0; i < v->links.n && v->n_accepted >= limit / 4; i++) {
        const struct tcp_link *l = v->links.list[i].link;
        used += l->stream != NULL && uv_fileno(&l->stream->handle, &fd) == 0 && fd > next;
    }
    return used;
}

static bool descriptors_scarce(const struct tcp_van *v, const struct tcp_stream *s,
                               uint64_t *ret_left)
{
    uint64_t limit = descriptors_limit(), reserve = limit / 8;
    uv_os_fd_t fd;
    reserve = reserve < RESERVE_MIN ? RESERVE_MIN : reserve;
    reserve = reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
    if (uv_fileno(&s->handle, &fd) != 0)
        return false;
    int next = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    uint64_t used = next >= 0 ? descriptors_used(v, next, limit) : limit;
    *ret_left = used < limit ? limit - used : 0;
    if (next >= 0)
        close(next);
    return *ret_left <= reserve;
}

static bool is_full(const struct tcp_van *v, const struct tcp_stream *s,
                    uint64_t *ret_left)
{
    *ret_left = UINT64_MAX;
    return v->n_accepted >= v->options.max_links || descriptors_scarce(v, s, ret_left) ||
           !budget_fits(v->options.budget, BUDGET_LINKS, link_bytes(v));
}

// Closes a link because it uses too much memory, or because its place is needed. Reports
// this to the handler by `refused`.
static void close_for(struct tcp_link *l, const struct err *why)
{
    const struct tcp_van *v = l->van;
    budget_closed(v->options.budget);
    if (v->handler.refused != NULL)
        v->handler.refused(v->handler.ctx, why, v->now);
    tcp_link_fail(l, why);
}

// --------------------------------------------- choosing the link to close for a new peer

// Returns a link's rank. Links of higher rank are closed later, and links of rank
// WIRE_FROM_SERVE or higher are never closed.
static enum wire_from rank(const struct tcp_link *l)
{
    if (l->stranger)
        return WIRE_FROM_KNOCK;
    return l->joined ? WIRE_FROM_ADMIN : wire_right(l->trust.role);
}

// Returns whether a link may be closed to make room for a peer with `right`. A link that
// has not joined and has been silent for half of slow_timeout_ns may be closed for any
// peer, because it has had the time to join; a new peer keeps trying for longer than this
// time. New strangers are not closed, because they may be about to prove their role.
static bool goes_for(const struct tcp_link *l, enum wire_from right)
{
    bool idle = l->van->now - l->last_byte >= l->van->options.slow_timeout_ns / 2;
    if (!l->accepted || l->state > LINK_OPEN || rank(l) >= WIRE_FROM_SERVE)
        return false;
    if (l->stranger)
        // A link on trial is not closed here, because it has a place in the reserve.
        return idle && !l->trial;
    return idle || rank(l) < right || (rank(l) == right && right > WIRE_FROM_LOOK);
}

static struct tcp_link *first_to_go(const struct tcp_van *v,
                                    const struct tcp_link *for_it, enum wire_from right)
{
    struct tcp_link *first = NULL;
    for (uint32_t i = 0; i < v->links.n; i++) {
        struct tcp_link *l = v->links.list[i].link;
        if (l != for_it && goes_for(l, right) &&
            (first == NULL || rank(l) < rank(first) ||
             (rank(l) == rank(first) && l->last_byte < first->last_byte)))
            first = l;
    }
    return first;
}

// Ends a link that is only waiting to send its last bytes, to free its descriptor.
// Returns false if there is no such link.
static bool end_closing(struct tcp_van *v)
{
    struct tcp_link *first = NULL;
    for (uint32_t i = 0; i < v->links.n; i++) {
        struct tcp_link *l = v->links.list[i].link;
        if (l->accepted && l->state == LINK_CLOSING &&
            (first == NULL || l->due < first->due))
            first = l;
    }
    if (first != NULL)
        tcp_link_end(first, LINK_DEAD);
    return first != NULL;
}

enum tcp_room tcp_limits_room(struct tcp_van *v, const struct tcp_stream *s)
{
    uint64_t left;
    bool full = is_full(v, s, &left);
    bool crowded = v->n_strangers >= max_strangers(v);
    if (!full && !crowded)
        return TCP_ROOM;
    bool low = left <= RESERVE_MIN / 2 && !end_closing(v);
    if (crowded || v->n_strangers > v->n_trials || v->n_trials >= TRIALS) {
        // If the oldest stranger is on trial, the new link takes its place.
        bool trial = full && v->oldest->trial;
        drop_stranger(v);
        return trial ? TCP_TRIAL : TCP_ROOM;
    }
    if (!low && first_to_go(v, NULL, WIRE_FROM_ADMIN) != NULL)
        return TCP_TRIAL;
    if (drop_stranger(v))
        return TCP_TRIAL;
    budget_refused(v->options.budget);
    // TCP_FULL keeps the descriptor a little longer, to send the peer the reason.
    return low ? TCP_NO_WORD : TCP_FULL;
}

void tcp_limits_say_full(const struct tcp_van *v, struct err *ret)
{
    err_set(ret, TUG_EIO, "this node already has %u links, as many as its limits allow",
            v->n_accepted - 1);
    if (v->options.max_links == UINT32_MAX) // the limit of descriptors or memory was hit
        err_limit(ret, descriptors_left() < RESERVE_MAX ? EMFILE : 0);
}

// Returns whether there are more links than places, this link included.
static bool is_over(const struct tcp_van *v, const struct tcp_link *l)
{
    uint64_t left;
    return v->n_accepted > v->options.max_links ||
           descriptors_scarce(v, l->stream, &left) ||
           !budget_fits(v->options.budget, BUDGET_LINKS, 0);
}

int tcp_limits_admit(struct tcp_link *l, enum wire_role role, bool proven, struct err *e)
{
    struct tcp_van *v = l->van;
    // Other links may have ended meanwhile, so that the links are within the limit again.
    if (!l->trial || !is_over(v, l))
        return 0;
    struct tcp_link *first = first_to_go(v, l, wire_right(role));
    if (first == NULL) {
        budget_refused(v->options.budget);
        tcp_limits_say_full(v, e);
        return e->code;
    }
    if (!proven)
        return 0;
    struct err why;
    err_set(&why, TUG_EIO,
            "%s was closed: it said nothing for %.1f s, and its place is needed for a "
            "link of the role %s",
            first->peer, (double)(v->now - first->last_byte) / (double)SECOND_NS,
            wire_role_name(role));
    close_for(first, &why);
    return 0;
}

// Returns when the link is checked next.
static uint64_t next_look(const struct tcp_link *l)
{
    uint64_t stall = l->van->options.stall_timeout_ns;
    return l->van->now + clock_earlier(stall, l->van->options.slow_timeout_ns);
}

// ------------------------------------------------------------ bytes that wait to be sent

void tcp_limits_queue(struct tcp_link *l, uint64_t n)
{
    struct tcp_van *v = l->van;
    if (!budget_force(v->options.budget, BUDGET_QUEUED, n))
        v->over = true;
    if (l->out.since != 0)
        return;
    l->out = (struct tcp_pace){v->now, 0};
    tcp_link_due_at(l, clock_earlier(l->due, next_look(l)));
}

void tcp_limits_sent(struct tcp_van *v, uint64_t n)
{
    budget_give(v->options.budget, BUDGET_QUEUED, n);
}

static struct tcp_link *most_queued(const struct tcp_van *v)
{
    struct tcp_link *most = NULL;
    for (uint32_t i = 0; i < v->links.n; i++) {
        struct tcp_link *l = v->links.list[i].link;
        if (l->accepted && l->state <= LINK_CLOSING && l->queued >= RELIEF_FROM &&
            (most == NULL || l->queued > most->queued))
            most = l;
    }
    return most;
}

void tcp_limits_relieve(struct tcp_van *v)
{
    struct budget *b = v->options.budget;
    v->over = false;
    while (!budget_fits(b, BUDGET_QUEUED, 0)) {
        struct tcp_link *l = most_queued(v);
        struct err e;
        if (l == NULL)
            return;
        err_set(&e, TUG_EIO,
                "%s was closed: it has not read %llu bytes of answers, and there is no "
                "room for the answers to other links",
                l->peer, (unsigned long long)l->queued);
        budget_refused(b);
        close_for(l, &e);
    }
}

// Returns whether a link is too slow for the bytes that it keeps in memory while other
// links are refused for lack of room.
static bool crawls(const struct tcp_van *v, const struct tcp_pace *p, uint64_t holds)
{
    uint64_t ns = v->now - p->since;
    double least = (double)SLOWEST + (double)holds / SLOWEST_WHOLE_S;
    return ns >= v->options.slow_timeout_ns && budget_short(v->options.budget, v->now) &&
           (double)p->bytes < least * (double)ns * 1e-9;
}

static void say_how_long(const struct tcp_link *l, const char *what, uint64_t ns,
                         struct err *ret)
{
    err_set(ret, TUG_EIO, "%s was closed: it %s for %.1f s", l->peer, what,
            (double)ns / (double)SECOND_NS);
}

static void closed_for(struct tcp_link *l, const char *what, uint64_t ns)
{
    struct err e;
    say_how_long(l, what, ns, &e);
    close_for(l, &e);
}

static bool look_at_in(struct tcp_link *l)
{
    const struct tcp_van *v = l->van;
    uint64_t still = v->now - l->last_byte;
    if (!l->known || frame_at_end(&l->reader)) {
        l->in.since = 0;
        return false;
    }
    if (still >= v->options.stall_timeout_ns)
        closed_for(l, "has made no progress in the middle of a message", still);
    else if (crawls(v, &l->in, l->reader.counted))
        closed_for(
            l, "has sent a message too slowly (while there was no room for other links)",
            v->now - l->in.since);
    else if (v->now - l->in.since >= v->options.slow_timeout_ns)
        l->in = (struct tcp_pace){v->now, 0};
    return true;
}

static bool look_at_out(struct tcp_link *l)
{
    const struct tcp_van *v = l->van;
    if (l->out.since == 0 || l->queued == 0 || l->state >= LINK_CLOSING) {
        l->out.since = 0;
        return false;
    }
    uint64_t ns = v->now - l->out.since;
    if (l->out.bytes == 0 && ns >= v->options.stall_timeout_ns)
        closed_for(l, "has read none of its answers", ns);
    else if (crawls(v, &l->out, l->queued))
        closed_for(
            l, "has hardly read its answers (while there was no room for other links)",
            ns);
    else if (l->out.bytes > 0 && ns >= v->options.slow_timeout_ns)
        l->out = (struct tcp_pace){v->now, 0};
    return true;
}

void tcp_limits_came(struct tcp_link *l, size_t n)
{
    l->in.bytes += n;
    if (l->in.since != 0 || !l->known || frame_at_end(&l->reader))
        return;
    l->in = (struct tcp_pace){l->last_byte, 0};
    tcp_link_due_at(l, clock_earlier(l->due, next_look(l)));
}

void tcp_limits_due(struct tcp_link *l)
{
    const struct tcp_van *v = l->van;
    if (!l->known && v->now >= l->hello_by) {
        struct err e;
        say_how_long(l, "has sent no complete first message", v->options.hello_timeout_ns,
                     &e);
        tcp_link_fail(l, &e);
        return;
    }
    bool in = look_at_in(l), out = look_at_out(l);
    if (l->state > LINK_OPEN)
        return;
    uint64_t due = !l->known ? l->hello_by : VAN_NEVER;
    if (in)
        due = clock_earlier(
            due, clock_earlier(next_look(l), l->last_byte + v->options.stall_timeout_ns));
    if (out)
        due = clock_earlier(due, next_look(l));
    if (due != VAN_NEVER)
        tcp_link_due_at(l, due);
}
