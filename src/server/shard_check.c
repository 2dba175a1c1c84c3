// Invariants of a shard between two events, in builds with assertions.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/pending.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/cut.h"

#ifndef NDEBUG

// Longer lists of waiting requests are not checked: with a check after each event, the
// time would grow with the square of their length.
enum { MOST = 1024 };

struct counts {
    uint32_t strangers, held, draining, draining_pushes, stopped_pushes;
};

// Checks that a peer is in the bucket of its link, and only once.
static void check_peer(const struct shard *s, const struct shard_peer *p, size_t bucket)
{
    assert(p->link % PEER_BUCKETS == bucket);
    for (const struct shard_peer *other = p->next; other != NULL; other = other->next)
        assert(other->link != p->link);
    assert(p->greeted || (p->node == 0 && p->session == 0));
    assert(p->n_draining <= p->n_pending);
    assert(p->n_draining_pushes <= p->n_draining);
    assert(p->n_stopped_pushes <= p->n_pending);
    assert(p->n_pending <= s->n_pending);
}

static void check_peers(const struct shard *s, struct counts *c)
{
    for (size_t i = 0; i < PEER_BUCKETS; i++)
        for (const struct shard_peer *p = s->peers[i]; p != NULL; p = p->next) {
            check_peer(s, p, i);
            c->strangers += !p->greeted;
            c->held += p->n_pending;
            c->draining += p->n_draining;
            c->draining_pushes += p->n_draining_pushes;
            c->stopped_pushes += p->n_stopped_pushes;
        }
    // While n_strangers is above 0, the shard looks for links without HELLO
    // and closes them in time.
    assert(c->strangers == s->n_strangers);
    assert(c->held == s->n_pending);
    assert(c->draining == s->n_draining);
}

// Checks that the counts of waiting requests and of their bytes are right, and that no
// deadline lies before the time of the next check.
static void check_held(const struct shard *s, const struct counts *c)
{
    struct counts now = {0};
    uint64_t bytes = 0;
    struct pending *const *end = &s->held;
    for (const struct pending *h = s->held; h != NULL; end = &h->next, h = h->next) {
        now.held++;
        now.draining += h->wants == WANTS_DRAIN;
        now.draining_pushes += h->wants == WANTS_DRAIN && h->type == MSG_PUSH;
        now.stopped_pushes += h->type == MSG_PUSH &&
                              (h->wants == WANTS_CUT || h->wants == WANTS_ROOM ||
                               h->wants == WANTS_MOVE || h->wants == WANTS_MEMBER);
        bytes += h->bytes;
        assert(h->type != MSG_PULL || h->m.pull.table >= SPEC_MAX_TABLES ||
               s->held_of[h->m.pull.table] > 0);
        assert(h->type != MSG_PUSH || h->m.push.table >= SPEC_MAX_TABLES ||
               s->held_of[h->m.push.table] > 0);
        assert(h->wants != ANSWERED && h->wants != GOES_ON);
        assert(h->deadline >= s->pending_due);
        assert(h->peer->greeted && h->peer->n_pending > 0);
    }
    assert(s->pending_end == end); // the next request is appended here
    assert(now.held == s->n_pending && now.draining == s->n_draining);
    assert(now.draining_pushes == c->draining_pushes);
    assert(now.stopped_pushes == c->stopped_pushes);
    assert(bytes == s->pending_bytes);
}

// Checks that the parts of open batches are disjoint and sorted, and that other
// batches have no parts.
static void check_batches(const struct sync_clock *c)
{
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        const struct sync_batch *b = &c->open[i];
        uint32_t covered = 0, end = 0;
        assert(b->n <= SHARD_MICROS);
        for (uint32_t k = 0; k < b->n;
             end = b->parts[k].micro + b->parts[k].micros, k++) {
            assert(b->parts[k].micro >= end && b->parts[k].what != NULL);
            for (uint32_t m = 0; m < b->parts[k].micros; m++)
                covered |= 1u << (b->parts[k].micro + m);
        }
        assert(covered == b->covered);
    }
}

// Checks the slowest clock of a table of mode ssp, for which requests wait. If
// it were too low, requests would wait for ever; if it were too high, they would
// not wait long enough.
static void check_delay(const struct ssp_clock *c)
{
    uint64_t slowest = SSP_FINISHED;
    const struct ssp_worker *w = c->workers.first;
    for (size_t i = 0; i < c->workers.n; i++, w++) {
        assert(i == 0 || w[-1].session < w->session);
        if (ssp_clock_counts(c, w) && w->clock < slowest)
            slowest = w->clock;
    }
    assert(c->slowest == slowest);
}

// Checks that an admin operation that is under way has work left in its store, and that
// a time for the work is set. Otherwise a request that waits for the end of the
// operation would wait for ever.
static void check_turn(const struct shard *s, const struct shard_table *t)
{
    assert(!t->turn.on || t->work);
    assert((!t->work && !t->again) || s->work_due != VAN_NEVER);
    assert(!t->turn.on || !cut_going(t->store));
}

// Checks that each table has its own number, and that its store is valid.
static void check_tables(const struct shard *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const struct shard_table *t = s->tables[i];
        if (t == NULL)
            continue;
        assert(t->spec.id == i && t->store != NULL);
        assert(t->version > 0); // a pull with version 0 asks for all partitions
        assert(t->n_applied <= (uint32_t)1 << s->bits);
        assert(t->spec.mode == WIRE_SYNC || t->n_applied == 0);
        if (t->spec.mode == WIRE_SYNC)
            for (const struct sync_group *g = &t->sync; g != NULL; g = g->next)
                check_batches(&g->clock);
        if (t->spec.mode == WIRE_SSP)
            check_delay(&t->ssp);
        check_turn(s, t);
        bytes += t->bytes;
        store_check(t->store);
    }
    assert(bytes == s->bytes); // the limit of --memory applies to s->bytes
}

// Checks that exactly the tables of the current save have cuts under way, that the save
// has a writer while rows are to be written, and that a failed save has a reason.
static void check_save(const struct shard *s, const struct save_run *r)
{
    uint32_t cuts = 0, going = 0;
    for (uint32_t i = 0; i < s->n_tables; i++)
        going += s->tables[i] != NULL && cut_going(s->tables[i]->store);
    for (uint32_t i = 0; r != NULL && i < r->n; i++) {
        const struct shard_table *t = s->tables[r->tables[i].id];
        assert(!r->tables[i].cut || (t != NULL && cut_going(t->store)));
        cuts += r->tables[i].cut;
    }
    assert(cuts == going);
    if (r == NULL)
        return;
    assert(r->n <= SAVE_MAX_TABLES && r->at <= r->n);
    assert((r->writer != NULL) == (r->state == SAVE_CUTS));
    assert(r->state != SAVE_FAILED || r->why.code != 0);
    assert(r->state != SAVE_WRITTEN || (r->at == r->n && !r->open && cuts == r->n));
    assert(r->state == SAVE_CUTS || r->state == SAVE_WRITTEN || r->state == SAVE_FAILED ||
           cuts == 0);
    assert(r->seen <= s->now && r->moved <= s->now);
}

static bool is_handed(const struct shard *s, enum wire_space space, uint32_t partition)
{
    for (const struct outgoing *o = s->moves.out; o != NULL; o = o->next)
        if (o->move.space == space && o->move.partition == partition)
            return true;
    return false;
}

// Checks that the requests for a partition are stopped only while another shard fetches
// the partition, because only the end of that move lets them go on. Also checks the
// counts of partitions whose requests must wait.
static void check_sources(const struct shard *s)
{
    for (const struct source_link *l = s->moves.sources; l != NULL; l = l->next) {
        uint32_t users = 0;
        for (const struct incoming *m = s->moves.in; m != NULL; m = m->next)
            users += m->source == l;
        users += chain_uses(s, l);
        assert(users == l->users);
        session_check(&l->s, s->now);
    }
}

static void check_moves(const struct shard *s)
{
    struct roles now = s->roles;
    roles_count(&now, member_roster(s->member), member_id(s->member));
    assert(now.n_unsettled == s->roles.n_unsettled);
    for (const struct outgoing *o = s->moves.out; o != NULL; o = o->next)
        assert(o->gone || o->move.fills ||
               roles_of(&now, o->move.space, o->move.partition) ==
                   (o->handing ? ROLE_HANDING : ROLE_HERE));
    for (uint32_t i = 0; i < WIRE_SPACES; i++)
        for (uint32_t p = 0; p < (uint32_t)1 << s->bits && s->roles.n_unsettled > 0; p++)
            assert(now.of[i][p] != ROLE_HANDING || is_handed(s, (enum wire_space)i, p));
    for (const struct incoming *m = s->moves.in; m != NULL; m = m->next)
        assert(m->state == INCOMING_DROPS || m->n == 0 ||
               (m->state == INCOMING_HERE) ==
                   (roles_of(&now, m->move.space, m->move.partition) != ROLE_AWAY));
}

void shard_check(const struct shard *s)
{
    struct counts c = {0};
    if (member_roster(s->member)->n_nodes <= MOST && s->n_pending <= MOST) {
        check_peers(s, &c);
        check_held(s, &c);
    }
    check_tables(s);
    if (s->ready && (s->moves.in != NULL || s->moves.out != NULL))
        check_moves(s);
    check_sources(s);
    check_save(s, s->saves.run);
    assert(s->woken == 0); // pending_settle has tried all requests that were woken
}

#endif
