// Invariants of a client between two events, asserted after each event in builds with
// assertions: each request is in the list of its state, each slice belongs to its request
// and waits at one peer, and the counts of numbers and pins are right.
//
// No assertion depends on what servers or the scheduler send.
//
// SPDX-License-Identifier: Apache-2.0
#include "client/private.h"

#ifndef NDEBUG

#include <assert.h>

#include "base/sampled.h"

enum { NUMBERS_MAX = 64 }; // number of bits in `done` of struct numbers

// Counts over the lists of requests and peers, made once for all comparisons.
struct counted {
    size_t requests, slices, waiting, placing, pins, sendings;
    size_t queued, marks, admins, specs;
};

// A timestamp leads to its request without a search, and never to a later
// request in the same slot.
static void request_is_found(const struct client *c, const struct request *r)
{
    size_t slot = r->ts & (SLOT_MAX - 1);
    assert(slot < c->n_requests && c->requests[slot] == r);
    assert(r->ts >> SLOT_BITS <= c->count);
    assert(r->client == c && r->spec != NULL);
}

static void request_is_in_order(const struct request *r)
{
    assert(r->state == REQUEST_QUEUED || r->state == REQUEST_OPEN);
    assert(r->before == NULL || r->before->ts < r->ts);
    assert(r->behind == NULL || r->behind->before == r);
}

// Requests of a lane start in order: open requests were made before the queued ones.
static void lane_is_in_order(const struct request *r)
{
    assert(r->state == REQUEST_QUEUED || r->lane->first == NULL ||
           r->ts < r->lane->first->ts);
}

// Deadlines ascend in the list, because the search for due requests ends at the first one
// that is not due. Requests that may take long are not in this order.
static void deadline_is_in_order(const struct request *r)
{
    const struct request *b = r->before;
    assert(b == NULL || b->kind->takes_long || r->kind->takes_long ||
           b->deadline <= r->deadline);
}

// An answer finds its slice by number, and the request through the slice; both must be
// those for which the message was sent.
static void slice_is_found(const struct client *c, const struct request *r,
                           const struct slice *s)
{
    assert(s->id != 0 && s->id >> SLOT_BITS <= c->count);
    assert(s->slot < c->n_slices && c->slices[s->slot] == s);
    assert(s->request == r && s->peer != NULL && s->peer->client == c);
    assert(s->begin + s->n <= r->n);
}

// A slice that was sent, or is being answered, uses the current link, because the slices
// of a broken link count as not sent.
static void slice_was_sent_over_its_link(const struct slice *s)
{
    assert((!s->sent && !s->placing) || s->peer->s.state == SESSION_OPEN);
    assert(!s->sent || s->epoch != 0);
}

// A request ends with its last slice. So an open request has slices, and a request that
// has not begun has neither slices nor a number.
static void slices_are_counted(const struct client *c, const struct request *r,
                               struct counted *all)
{
    uint32_t n = 0;
    for (const struct slice *s = r->slices; s != NULL; s = s->next, n++) {
        slice_is_found(c, r, s);
        slice_was_sent_over_its_link(s);
        all->placing += s->placing;
    }
    assert(r->open == n);
    assert((n > 0) == (r->state == REQUEST_OPEN));
    assert(r->state == REQUEST_OPEN || (r->number == 0 && r->pins == 0));
    all->slices += n;
}

// Servers forget numbers below the low mark of a session: the number of a push in flight
// must not be below it, nor beyond the window.
static void number_is_open(const struct numbers *x, const struct request *r)
{
    if (r->state == REQUEST_QUEUED)
        return;
    assert(r->number >= x->low && r->number < x->next);
    assert((x->done >> (r->number - x->low) & 1) == 0);
}

static void count_kind(const struct client *c, const struct request *r,
                       struct counted *all)
{
    const struct numbers *x = request_numbers(r);
    if (x != NULL)
        number_is_open(x, r);
    else
        assert(r->number == 0);
    all->queued += r->state == REQUEST_QUEUED;
    all->marks += r->kind->stands_alone;
    all->admins += x == &c->admins && r->state == REQUEST_OPEN;
    all->specs += r->kind == &request_table ||
                  (r->kind == &request_info && !r->u.info.found);
}

static void requests_hold(const struct client *c, struct counted *all)
{
    assert((c->first == NULL) == (c->last == NULL));
    assert(c->first == NULL || c->first->before == NULL);
    for (const struct request *r = c->first; r != NULL; r = r->behind) {
        request_is_found(c, r);
        request_is_in_order(r);
        lane_is_in_order(r);
        deadline_is_in_order(r);
        slices_are_counted(c, r, all);
        count_kind(c, r, all);
        all->requests++;
        assert(r->behind != NULL || c->last == r);
    }
    assert(all->requests == c->in_flight && all->marks == c->n_marks);
}

// A closed number leaves the window when all smaller numbers have left it, so each number
// in the window is open or has its bit set.
static void numbers_hold(const struct numbers *x, size_t open)
{
    assert(x->low >= 1 && x->low <= x->next);
    assert(x->next - x->low <= x->window && x->window <= NUMBERS_MAX);
    assert((x->done & 1) == 0);
    assert(x->next - x->low == open + (size_t)__builtin_popcountll(x->done));
}

static size_t open_pushes(const struct client *c, const struct lane *l)
{
    size_t open = 0;
    for (const struct request *r = c->first; r != NULL; r = r->behind)
        open += r->lane == l && r->state == REQUEST_OPEN &&
                r->kind->numbers == NUMBERS_PUSHES;
    return open;
}

// Each queued request waits in its lane exactly once.
static void lanes_hold(const struct client *c, const struct counted *all)
{
    size_t queued = 0;
    for (const struct lane *l = &c->main; l != NULL; l = l->next) {
        const struct request *last = NULL;
        for (const struct request *r = l->first; r != NULL;
             r = r->lane_behind, queued++) {
            assert(r->lane == l && r->lane_before == last);
            assert(r->state == REQUEST_QUEUED && (last == NULL || last->ts < r->ts));
            last = r;
        }
        assert(l->last == last);
        numbers_hold(&l->pushes, open_pushes(c, l));
    }
    assert(queued == all->queued);
}

// While a mark is in flight, no push is in flight: earlier pushes were acknowledged, and
// later pushes wait.
static void mark_stands_alone(const struct client *c)
{
    if (c->marking == NULL)
        return;
    assert(c->marking->kind->stands_alone && c->marking->state == REQUEST_OPEN);
    for (const struct lane *l = &c->main; l != NULL; l = l->next)
        assert(l->pushes.next == l->pushes.low);
}

// Slices to a loop go out in the order of their requests: a pull sees the pushes before
// it.
static void peer_list_is_in_order(const struct peer *p, struct counted *all)
{
    assert((p->first == NULL) == (p->last == NULL));
    assert(p->first == NULL || p->first->before == NULL);
    for (const struct slice *s = p->first; s != NULL; s = s->behind) {
        assert(s->id != 0 && s->peer == p);
        assert(s->behind == NULL || s->behind->before == s);
        assert(s->before == NULL || s->before->request->ts <= s->request->ts);
        assert(s->behind != NULL || p->last == s);
        all->waiting++;
    }
}

// A second link is only tried beside an established one.
static void peer_link_fits_the_state(const struct peer *p)
{
    session_check(&p->s, van_now(p->client->van));
    session_check(&p->silence.another, van_now(p->client->van));
    assert(p->silence.another.link == 0 ||
           (p->s.state == SESSION_OPEN && p->silence.another.link != p->s.link));
}

// Each link belongs to one peer, and each loop has one peer.
static void peer_is_the_only_one(const struct client *c, size_t one)
{
    const struct peer *p = c->peers[one];
    for (size_t i = 0; i < c->n_peers; i++) {
        const struct peer *other = c->peers[i];
        if (i == one)
            continue;
        assert(other->node != p->node);
        assert(p->s.link == 0 ||
               (other->s.link != p->s.link && other->silence.another.link != p->s.link));
    }
}

// The client's record has the most recent lists of keys that the loop keeps. A list
// occurs once, and empty places are at the end.
static void lists_of_keys_hold(const struct peer *p)
{
    assert(p->list_room <= KEYS_LISTS_BYTES);
    for (size_t i = 0; i < KEYS_LISTS; i++) {
        const struct peer_list *l = &p->lists[i];
        assert(l->signature != 0 || l->bytes == 0);
        assert(i == 0 || l->signature == 0 || p->lists[i - 1].signature != 0);
        for (size_t k = 0; k < i && l->signature != 0; k++)
            assert(p->lists[k].signature != l->signature);
    }
}

static void peers_hold(const struct client *c, struct counted *all)
{
    assert(c->n_peers <= c->max_peers);
    for (size_t i = 0; i < c->n_peers; i++) {
        assert(c->peers[i]->client == c);
        peer_list_is_in_order(c->peers[i], all);
        peer_link_fits_the_state(c->peers[i]);
    }
    assert(all->waiting == all->slices); // each slice waits at its peer exactly once
}

// `pins` counts the uses of a request's memory by the van. If it were too low,
// the caller would get back arrays that are still being sent; if too high, the
// request would never end.
static void pins_hold(const struct client *c, struct counted *all)
{
    for (size_t i = 0; i < c->n_requests; i++) {
        const struct request *r = c->requests[i];
        if (r->state == REQUEST_FREE)
            continue;
        all->pins += r->pins;
        assert(r->pins == 0 || r->state == REQUEST_OPEN || r->state == REQUEST_ENDING);
        assert(r->state != REQUEST_ENDING || r->pins > 0);
    }
    for (const struct sending *s = c->sendings; s != NULL; s = s->behind) {
        assert(s->request->pins > 0 && s->request->state != REQUEST_FREE);
        all->sendings++;
    }
    assert(all->pins == all->sendings + all->placing);
}

// Memory is kept for later requests. A block is either in use or free, and no block is
// lost.
static void pools_hold(const struct client *c, const struct counted *all)
{
    size_t requests = 0, slices = 0, used = 0;
    for (const struct request *r = c->free_requests; r != NULL; r = r->behind) {
        assert(r->state == REQUEST_FREE);
        requests++;
    }
    for (size_t i = 0; i < c->n_requests; i++)
        used += c->requests[i]->state != REQUEST_FREE;
    for (const struct slice *s = c->free_slices; s != NULL; s = s->next) {
        assert(s->id == 0);
        slices++;
    }
    assert(used + requests == c->n_requests);
    assert(all->slices + slices == c->n_slices);
}

// Callbacks are due in the order in which requests ended.
static void ended_are_in_their_list(const struct client *c)
{
    const struct request *last = NULL;
    for (const struct request *r = c->ended; r != NULL; r = r->behind) {
        assert(r->state == REQUEST_ENDED && r->slices == NULL && r->open == 0);
        last = r;
    }
    assert(last == c->ended_last);
}

// Tables are found by binary search, and there is room for each table that an
// answer may make known.
static void tables_hold(const struct client *c, const struct counted *all)
{
    assert(c->n_tables + all->specs <= c->max_tables);
    for (size_t i = 1; i < c->n_tables; i++)
        assert(c->tables[i - 1]->id < c->tables[i]->id);
}

// `place` and `partition` are inverse to each other, and the places of a loop are
// neighbours. The owners are not checked, because a faulty scheduler may name different
// owners under one epoch.
static void partition_has_its_place(const struct client *c, int space, uint32_t k)
{
    const struct placement *p = &c->placements[space];
    uint32_t place = p->place[k], loop = p->loop[k];
    assert(p->starts[0] == 0);
    assert(p->starts[p->n_loops] == (uint32_t)1 << c->partition_bits);
    assert(loop < p->n_loops);
    assert(place >= p->starts[loop] && place < p->starts[loop + 1]);
    assert(p->partition[place] == k);
    assert(p->loops[loop] != NULL && p->loops[loop]->client == c);
}

// Placements are those of the member's roster, unless there was no memory for the newest
// one.
static void placements_hold(const struct client *c, uint64_t turn)
{
    const struct roster *r = member_roster(c->member);
    assert(c->stale || c->epoch == r->epoch);
    if (c->epoch == 0)
        return;
    assert(c->partition_bits == r->partition_bits);
    uint32_t k = (uint32_t)turn & (((uint32_t)1 << c->partition_bits) - 1);
    for (int space = 0; space < WIRE_SPACES; space++)
        partition_has_its_place(c, space, k);
}

// After the end of its cluster a client has ended all its requests.
static void end_holds(const struct client *c)
{
    assert(!c->over || (c->first == NULL && c->in_flight == 0));
}

static void check_all(const struct client *c)
{
    struct counted all = {0};
    requests_hold(c, &all);
    lanes_hold(c, &all);
    numbers_hold(&c->admins, all.admins);
    peers_hold(c, &all);
    pins_hold(c, &all);
    pools_hold(c, &all);
    tables_hold(c, &all);
    ended_are_in_their_list(c);
}

void client_check(struct client *c)
{
    c->events++;
    mark_stands_alone(c);
    end_holds(c);
    placements_hold(c, c->events);
    if (c->n_peers > 0) {
        peer_is_the_only_one(c, c->events % c->n_peers);
        lists_of_keys_hold(c->peers[c->events % c->n_peers]);
    }
    if (sampled_now(c->events, c->n_requests + c->n_slices + c->n_peers))
        check_all(c);
}

#endif
