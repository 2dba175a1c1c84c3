// A shard's chains: the roster's changes, records of pushes, and answers that wait.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/chain.h"

#include <assert.h>

#include "base/alloc.h"
#include "protocol/keys.h"
#include "server/background.h"
#include "server/chain/records.h"
#include "server/clocks/pending.h"
#include "server/moves/stream.h"
#include "server/rows/place.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

#define RETRY_NS (SECOND_NS / 100)

int chain_open(struct shard *s, const struct roster *r)
{
    size_t n = roster_partitions(r);
    if (r->replicas <= 1)
        return 0;
    struct chain *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return TUG_ENOMEM;
    c->of[0] = mem_zalloc(WIRE_SPACES * n * sizeof(*c->of[0]));
    c->notes = mem_array(n, sizeof(*c->notes));
    c->routes = mem_array(n, sizeof(struct chain_outlet *));
    c->runs = mem_array(n + 1, sizeof(*c->runs));
    c->left = mem_array(n, sizeof(*c->left));
    c->pushed = c->has_row = c->acks = BUF_INIT(SIZE_MAX / 2);
    c->max_published = WIRE_SPAN_MAX / sizeof(uint64_t);
    c->follow_at = c->leased_until = c->leave_at = c->tell_at = VAN_NEVER;
    gate_open(&c->gate, s->o.budget);
    s->chain = c;
    if (c->of[0] == NULL || c->notes == NULL || c->routes == NULL || c->runs == NULL ||
        c->left == NULL) {
        chain_close(s);
        return TUG_ENOMEM;
    }
    for (uint32_t i = 1; i < WIRE_SPACES; i++)
        c->of[i] = c->of[0] + i * n;
    return 0;
}

void chain_close(struct shard *s)
{
    struct chain *c = s->chain;
    if (c == NULL)
        return;
    gate_close(&c->gate);
    inlets_close(s);
    read_leases_close(s);
    while (c->outlets != NULL)
        outlets_free(s, c->outlets);
    mem_free(c->needs);
    mem_free(c->of[0]);
    mem_free(c->notes);
    mem_free(c->routes);
    mem_free(c->runs);
    mem_free(c->left);
    unbacked_close(s);
    buf_free(&c->pushed);
    buf_free(&c->has_row);
    buf_free(&c->acks);
    mem_free(c);
    s->chain = NULL;
}

void chain_drop_link(struct shard *s, van_link link)
{
    if (s->chain == NULL)
        return;
    gate_drop_link(&s->chain->gate, link);
    outlets_drop_link(s, link);
}

// ---------------------------------------------------------------- the roster

static uint32_t partitions(const struct shard *s)
{
    return (uint32_t)1 << s->bits;
}

static const struct outgoing *going(const struct shard *s, uint32_t space, uint32_t p)
{
    const struct outgoing *o = s->moves.out;
    while (o != NULL && (o->move.space != space || o->move.partition != p))
        o = o->next;
    return o;
}

static const struct incoming *coming(const struct shard *s, uint32_t space, uint32_t p)
{
    const struct incoming *m = s->moves.in;
    while (m != NULL && (m->move.space != space || m->move.partition != p ||
                         m->state == INCOMING_DROPS))
        m = m->next;
    return m;
}

// Begins to drop the rows of a partition whose chain this shard has left. If memory is
// out, returns false, and the caller has to try again.
static bool leave(struct shard *s, uint32_t space, uint32_t p)
{
    struct outgoing *o = mem_zalloc(sizeof(*o));
    if (o == NULL)
        return false;
    o->move = (struct roster_move){.space = (enum wire_space)space, .partition = p};
    o->bytes = BUF_INIT(SIZE_MAX / 2);
    o->gone = true;
    o->next = s->moves.out;
    s->moves.out = o;
    return true;
}

// Called when this shard begins to lead a partition: clients have other versions of its rows
// from its last owner, and batches may be complete which that owner has not applied.
static void begin_to_lead(struct shard *s, uint32_t space, uint32_t p)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL && s->tables[i]->spec.space == space) {
            s->tables[i]->changed_at[p] = ++s->tables[i]->version;
            background_again(s, i);
        }
}

// Sets the role of a partition by the roster: an owner serves it, another member has its
// rows, and other shards drop it.
static bool follow_role(struct shard *s, const struct roster *r, uint32_t space,
                        uint32_t p)
{
    uint32_t me = member_id(s->member);
    enum wire_space of = (enum wire_space)space;
    enum moves_role role = roles_of(&s->roles, of, p);
    bool owner = r->owners[space][p] == me;
    tables_lead(s, of, p, owner);
    if (role == ROLE_AWAY || role == ROLE_HANDING)
        return true;
    if (!roster_is_member(r, of, p, me))
        return going(s, space, p) != NULL || coming(s, space, p) != NULL ||
               leave(s, space, p);
    if (owner && role == ROLE_BACKUP) {
        begin_to_lead(s, space, p);
        s->chain->of[space][p].quiet_until = s->chain->granted_until;
        s->chain->quiet_until = s->chain->granted_until;
    }
    roles_set(&s->roles, of, p, owner ? ROLE_HERE : ROLE_BACKUP);
    return true;
}

// Returns the node to which the records of a partition go; 0: to none.
static uint32_t next_of(const struct shard *s, const struct roster *r, uint32_t space,
                        uint32_t p)
{
    enum wire_space of = (enum wire_space)space;
    const struct outgoing *o = going(s, space, p);
    if (roles_of(&s->roles, of, p) == ROLE_AWAY)
        return 0;
    uint32_t next = roster_next(r, of, p, member_id(s->member));
    if (next == 0 && o != NULL && o->move.fills && o->handing && !o->gone)
        return o->move.to;
    return next;
}

static uint32_t node_of(const struct chain_outlet *o)
{
    return o != NULL ? o->node : 0;
}

// Returns whether the kept records of a partition must be sent again: the next member is
// another one. If this shard has missed rosters, the same node may have left the chain in one
// of them, and have been filled again without these records.
static bool is_redirected(const struct shard *s, const struct chain_place *p)
{
    uint64_t epoch = member_roster(s->member)->epoch;
    return node_of(p->next) != p->to || (p->to != 0 && epoch > s->chain->epoch + 1);
}

// Returns the outlet to which a place of a record of outlet `ctx` must be sent again.
static struct chain_outlet *redirected_to(struct shard *s, const struct channel_record *r,
                                          uint32_t i, const void *ctx)
{
    const struct chain_place *p = &s->chain->of[r->space][r->places[i].partition];
    return p->next == ctx && p->to != 0 && is_redirected(s, p) &&
                   r->epoch >= p->next_since
               ? outlets_find(s, p->to)
               : NULL;
}

// Calls `each` for each record that is kept.
static void each_kept(struct shard *s,
                      void (*each)(struct shard *s, const struct channel_record *r,
                                   places_route to, const void *ctx))
{
    struct channel_record r;
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        for (uint64_t at = o->o.first; at < o->end && outlet_record(&o->o, &at, &r);)
            each(s, &r, redirected_to, o);
}

// Makes room for the records that must be sent again, and appends them to the channels
// to the partitions' new next members. Returns 0 or TUG_ENOMEM.
static int redirect(struct shard *s)
{
    // Records that are appended here lie behind o->end.
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        o->end = outlet_end(&o->o);
    places_clear(s);
    each_kept(s, places_count);
    TRY(places_reserve(s));
    each_kept(s, places_append);
    return 0;
}

static void set_next(struct shard *s, struct chain_place *p)
{
    if (!is_redirected(s, p))
        return;
    p->next = p->to != 0 ? outlets_find(s, p->to) : NULL;
    p->next_since = member_roster(s->member)->epoch;
    if (p->next == NULL)
        inlets_commit(s, p, p->applied);
}

// Finds each partition's next member. Returns 0, 1 if some next member has changed, or
// TUG_ENOMEM; then nothing has changed.
static int follow_next(struct shard *s, const struct roster *r)
{
    bool changed = false;
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t i = 0; i < partitions(s); i++) {
            struct chain_place *p = &s->chain->of[space][i];
            p->to = next_of(s, r, space, i);
            changed |= is_redirected(s, p);
            if (p->to != 0 && outlets_get(s, p->to) == NULL)
                return TUG_ENOMEM;
        }
    if (!changed)
        return 0;
    TRY(redirect(s));
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        o->is_next = false;
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t i = 0; i < partitions(s); i++) {
            struct chain_place *p = &s->chain->of[space][i];
            set_next(s, p);
            if (p->next != NULL)
                p->next->is_next = true;
        }
    return 1;
}

// Finds the member before this shard for each partition. While the shard is filled, that
// is the source, from the facts on.
static void follow_from(struct shard *s, const struct roster *r)
{
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t i = 0; i < partitions(s); i++) {
            struct chain_place *p = &s->chain->of[space][i];
            enum wire_space of = (enum wire_space)space;
            const struct incoming *m = coming(s, space, i);
            uint32_t from = 0;
            if (roles_of(&s->roles, of, i) == ROLE_BACKUP)
                from = roster_previous(r, of, i, member_id(s->member));
            if (from == 0 && m != NULL && m->state == INCOMING_HERE)
                continue; // the source stays the member before
            if (from == p->from)
                continue;
            // This shard may have missed rosters. In the first of them the member before
            // it may have changed, and may have sent records since.
            p->from_since = r->epoch > s->chain->epoch ? s->chain->epoch + 1 : r->epoch;
            p->from = from;
            p->acks = false; // the list of its last inlet still has it
        }
}

static bool is_alive(const struct roster *r, uint32_t node)
{
    const struct roster_node *n = roster_find(r, node);
    return n != NULL && n->alive;
}

static void free_dead(struct shard *s, const struct roster *r)
{
    for (struct chain_outlet *o = s->chain->outlets, *next; o != NULL; o = next) {
        next = o->next;
        if (!is_alive(r, o->node))
            outlets_free(s, o);
    }
}

// Answers waiting requests with the roster, so that their clients send them again: the
// members of their chains have changed. Pushes that were applied are found as repeats.
static void answer_rosters(struct shard *s, const struct roster *r)
{
    van_link link;
    uint64_t request;
    while (gate_take(&s->chain->gate, &link, &request))
        place_send_roster(s, link, request, r);
}

void chain_follow(struct shard *s, const struct roster *r)
{
    struct chain *c = s->chain;
    bool left = true;
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < partitions(s); p++)
            left &= follow_role(s, r, space, p);
    roles_count(&s->roles, r, member_id(s->member));
    follow_from(s, r);
    int rc = follow_next(s, r);
    if (rc == 1 && r->epoch != c->epoch)
        answer_rosters(s, r);
    if (rc >= 0) {
        free_dead(s, r);
        rc = inlets_follow(s, r);
    }
    if (rc >= 0)
        rc = read_leases_follow(s, r);
    c->epoch = rc >= 0 ? r->epoch : c->epoch;
    c->follow_at = rc < 0 || !left ? s->now + RETRY_NS : VAN_NEVER;
    inlets_again(s);
    unbacked_look(s);
    pending_wake(s, WANTS_MEMBER);
}

int chain_begin_next(struct shard *s, enum wire_space space, uint32_t partition,
                     uint32_t node, struct err *e)
{
    struct chain_place *p = &s->chain->of[space][partition];
    assert(p->next == NULL);
    struct chain_outlet *o = outlets_get(s, node);
    if (o == NULL)
        return err_nomem(e, "a partition's next member");
    p->next = o;
    o->is_next = true;
    p->next_since = member_roster(s->member)->epoch;
    if (read_leases_follow(s, member_roster(s->member)) == 0)
        return 0;
    p->next = NULL;
    (void)read_leases_follow(s, member_roster(s->member)); // it needs no memory
    return err_nomem(e, "the lease of a partition's next member");
}

int chain_get_facts(const struct shard *s, enum wire_space space, uint32_t partition,
                    struct buf *to)
{
    if (s->chain == NULL)
        return 0;
    uint64_t facts[] = {s->chain->of[space][partition].applied,
                        member_roster(s->member)->epoch};
    TRY(stream_add_u64s(to, facts, 2));
    TRY(chain_get_drops(s, to));
    return admin_get(&s->admin, space, partition, to);
}

static bool session_is_over(const void *ctx, uint64_t session)
{
    return roster_session_over(ctx, session);
}

int chain_take_facts(struct shard *s, enum wire_space space, uint32_t partition,
                     struct stream *x, struct chain_facts *ret, struct err *e)
{
    uint64_t facts[2];
    if (s->chain == NULL)
        return 0;
    if (!stream_u64s(x, facts, 2))
        return stream_damaged(e);
    *ret = (struct chain_facts){facts[0], facts[1]};
    TRY(chain_take_drops(s, x, e));
    return admin_put(&s->admin, space, partition, partitions(s), chain_sessions(s),
                     session_is_over, member_roster(s->member), x, e);
}

void chain_begin_at(struct shard *s, enum wire_space space, uint32_t partition,
                    const struct chain_facts *facts)
{
    if (s->chain == NULL)
        return;
    const struct incoming *m = coming(s, space, partition);
    s->chain->of[space][partition] = (struct chain_place){
        .applied = facts->position,
        .committed = facts->position,
        .from = m != NULL && m->source != NULL ? m->source->node : 0,
        .from_since = facts->epoch};
    read_leases_unknown(s);
    inlets_again(s);
}

void chain_take(struct shard *s)
{
    if (s->chain->follow_at <= s->now)
        chain_follow(s, member_roster(s->member));
    outlets_take(s);
    inlets_take(s);
    inlets_keep(s);
}

static bool is_done(void *ctx, const struct gate_need *x)
{
    const struct shard *s = ctx;
    if ((x->what & (NEEDS_LEASE | NEEDS_TIME)) != 0)
        return read_leases_has(s, x);
    if ((x->what & NEEDS_NODE) != 0) {
        const struct chain_outlet *o = outlets_find(s, (uint32_t)x->what);
        return o == NULL || o->used >= x->least;
    }
    return s->chain->of[x->what >> 32][(uint32_t)x->what].committed >= x->least;
}

uint64_t chain_tick(struct shard *s)
{
    outlets_send(s); // takes requests along
    inlets_send(s);
    read_leases_send(s);
    leave_send(s);
    unbacked_send(s);
    gate_send(&s->chain->gate, s->van, is_done, s);
    uint64_t next = clock_earlier(outlets_tick(s), inlets_tick(s));
    next = clock_earlier(next, read_leases_tick(s));
    next = clock_earlier(next, s->chain->leave_at);
    next = clock_earlier(next, s->chain->tell_at);
    return clock_earlier(next, s->chain->follow_at);
}

// ---------------------------------------------------------------- requests

int chain_check_table(const struct shard *s, const struct table_spec *spec, struct err *e)
{
    uint32_t replicas = member_roster(s->member)->replicas;
    const struct table_config *c = &spec->config;
    if (c->replicas > 1 && c->replicas != replicas)
        return err_set(e, TUG_EUSAGE,
                       "table '%s' cannot have %u replicas: partitions of this cluster "
                       "have %u (--replicas); give the table 1%s, or leave replicas out",
                       c->name, c->replicas, replicas,
                       replicas > 1 ? " or the cluster's number" : "");
    if (s->chain == NULL || !c->cold_durable)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "table '%s' cannot have the setting cold-durable, because partitions "
        "have %u replicas: rows on disk would be from different moments; leave "
        "cold-durable out",
        c->name, replicas);
}

void chain_is_about(struct shard *s, enum chain_about about, enum wire_space space,
                    const struct keys *keys)
{
    s->chain->about = about;
    s->chain->space = space;
    s->chain->keys = keys;
}

enum outcome chain_is_about_all(struct shard *s)
{
    chain_is_about(s, ABOUT_ALL, WIRE_SPACE_SPARSE, NULL);
    for (const struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (o->is_next && outlet_kept(&o->o) >= outlets_most(s))
            return WANTS_MEMBER;
    return GOES_ON;
}

static uint32_t count_outlets(const struct chain *c)
{
    uint32_t n = 0;
    for (const struct chain_outlet *o = c->outlets; o != NULL; o = o->next)
        n++;
    return n;
}

// For tests: returns whether the answer does not wait for records of the partition. It
// never does, or not if this loop was promoted, or not for a loop that is being filled.
static bool answers_early(const struct shard *s, enum wire_space space,
                          uint32_t partition)
{
    uint64_t bugs = s->o.member.bugs;
    if (__builtin_expect(bugs == 0, true))
        return false;
    return bug_in(bugs, WITHOUT_CHAIN_ANSWERS) ||
           (bug_in(bugs, WITHOUT_TAIL) &&
            s->chain->of[space][partition].quiet_until != 0) ||
           (bug_in(bugs, WITHOUT_FILLED) &&
            roster_next(member_roster(s->member), space, partition,
                        member_id(s->member)) == 0);
}

// Returns the most needs that the answer can have.
static size_t most_needs(const struct shard *s)
{
    const struct chain *c = s->chain;
    switch (c->about) {
    case ABOUT_KEYS:
        return c->keys->n_runs + read_leases_most(c);
    case ABOUT_ALL:
        return (size_t)WIRE_SPACES << s->bits;
    case ABOUT_LED:
        return WIRE_SPACES * (((size_t)1 << s->bits) + read_leases_most(c));
    default:
        return count_outlets(c);
    }
}

// Adds the records of a partition that later members lack.
static void need_records(struct shard *s, enum wire_space space, uint32_t partition,
                         uint32_t *n)
{
    struct chain *c = s->chain;
    const struct chain_place *p = &c->of[space][partition];
    if (p->committed < p->applied && !answers_early(s, space, partition))
        c->needs[(*n)++] = (struct gate_need){(uint64_t)space << 32 | partition,
                                              p->applied};
}

// Finds what the answer needs and is not there yet. Returns 0 or TUG_ENOMEM.
static int find_needs(struct shard *s, uint32_t *ret_n)
{
    struct chain *c = s->chain;
    size_t most = most_needs(s);
    bool all = c->about == ABOUT_ALL || c->about == ABOUT_LED;
    *ret_n = 0;
    if (most > c->max_needs) {
        struct gate_need *needs = mem_realloc_array(c->needs, most, sizeof(*needs));
        if (needs == NULL)
            return TUG_ENOMEM;
        c->needs = needs;
        c->max_needs = most;
    }
    for (struct chain_outlet *o = c->outlets; c->about == ABOUT_TABLES && o != NULL;
         o = o->next)
        if (o->is_next && o->used < outlet_end(&o->o))
            c->needs[(*ret_n)++] = (struct gate_need){NEEDS_NODE | o->node,
                                                      outlet_end(&o->o)};
    for (uint32_t space = 0; all && space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < partitions(s); p++)
            if (roles_of(&s->roles, (enum wire_space)space, p) == ROLE_HERE)
                need_records(s, (enum wire_space)space, p, ret_n);
    for (uint32_t i = 0; c->about == ABOUT_KEYS && i < c->keys->n_runs; i++)
        need_records(s, c->space, c->keys->runs[i].partition, ret_n);
    if (c->about == ABOUT_KEYS)
        read_leases_find(s, c->space, c->keys, c->needs, ret_n);
    if (c->about == ABOUT_LED)
        chain_find_leases(s, ret_n);
    return 0;
}

bool chain_holds(struct shard *s, const struct shard_request *q, uint16_t type,
                 const void *msg, const struct van_release *release, uint64_t bytes)
{
    struct chain *c = s->chain;
    uint32_t n = 0;
    if (c->about == ABOUT_NONE)
        return false;
    int rc = find_needs(s, &n);
    if (rc == 0 && n == 0)
        return false;
    if (rc == 0 && gate_hold(&c->gate, q->peer->link, type, q->id, msg, release, bytes,
                             c->needs, n) == 0)
        return true;
    struct err e;
    err_because(&e, TUG_EIO, REASON_NO_ROOM, 0,
                "no room now for an answer that waits for replicas (--memory)");
    struct msg_error m = wire_error(&e);
    van_send(s->van, q->peer->link, MSG_ERROR, q->id, &m, NULL);
    if (release != NULL)
        release->release(release->ctx);
    return true;
}

bool chain_is_full(const struct shard *s, enum wire_space space, const struct keys *k)
{
    const struct chain_outlet *full = s->chain->outlets;
    while (full != NULL && outlet_kept(&full->o) < outlets_most(s))
        full = full->next;
    for (uint32_t i = 0; i < k->n_runs && full != NULL; i++) {
        const struct chain_place *p = &s->chain->of[space][k->runs[i].partition];
        if (p->next != NULL && outlet_kept(&p->next->o) >= outlets_most(s))
            return true;
    }
    return false;
}
