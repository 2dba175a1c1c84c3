// Reports to the scheduler that a member of chains cannot follow (MSG_MEMBER_OUT):
// this shard, which could not apply a record or cannot read or write rows that it
// leads on disk, the next member, which takes none, or a member of chains that this
// shard leads, which grants no lease. The scheduler takes that member out of these
// chains, in a new epoch, and lets it be filled again. Answers wait for that
// epoch, because the member may still have to lead.
//
// A shard that must leave a chain applies no more records of its partition, so that those of
// other partitions go on; it does not acknowledge them either.
//
// A report is not answered. It is repeated until the roster shows that it is not true any
// more. The scheduler carries it out when the primary has acknowledged a roster that was made
// after the report: if the primary has died, this shard must lead, because it has all
// acknowledged updates.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/buf.h"
#include "base/compare.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

#define AGAIN_NS (SECOND_NS / 4) // pause before a report is repeated
// The next member counts as slow if records wait for so long, and it takes none of them; a
// member whose lease this shard needs, if it grants none for so long.
#define SLOW_NS (5 * SECOND_NS)

void leave_because(struct shard *s, enum wire_space space, uint32_t partition,
                   const struct err *why)
{
    struct chain *c = s->chain;
    struct chain_place *p = &c->of[space][partition];
    if (p->unfit)
        return;
    p->unfit = true;
    c->n_unfit++;
    c->unfit_why = *why;
    c->leave_at = s->now;
}

static int add(const struct shard *s, const struct chain_place *p, struct buf *to)
{
    // All places lie in one array, space by space.
    uint64_t i = (uint64_t)(p - s->chain->of[0]), space = i >> s->bits;
    uint64_t place = space << 32 | (i - (space << s->bits));
    return buf_add(to, &place, sizeof(place));
}

static void say(struct shard *s, uint32_t node, const struct err *why, struct buf *places)
{
    struct msg_member_out m = {.epoch = member_roster(s->member)->epoch,
                               .node = node,
                               .code = why->code,
                               .why = wire_text(why->text),
                               .places = {places->data, places->len}};
    if (places->len > 0)
        member_tell(s->member, MSG_MEMBER_OUT, &m);
    places->len = 0;
}

static size_t n_places(const struct shard *s)
{
    return (size_t)WIRE_SPACES << s->bits;
}

// Returns whether this shard leads the partition, and another member can lead it instead.
static bool is_followed(const struct shard *s, enum wire_space space, uint32_t partition)
{
    return roles_of(&s->roles, space, partition) == ROLE_HERE &&
           s->chain->of[space][partition].next != NULL &&
           !roster_keeps_primaries(member_roster(s->member), space);
}

bool leave_led(struct shard *s, const struct err *why)
{
    struct chain *c = s->chain;
    bool all = true;
    if (c->about != ABOUT_KEYS)
        return false;
    for (uint32_t i = 0; i < c->keys->n_runs && all; i++)
        all = is_followed(s, c->space, c->keys->runs[i].partition);
    struct err full = *why;
    full.code = TUG_ENOMEM; // another loop is to be filled
    for (uint32_t i = 0; all && i < c->keys->n_runs; i++)
        leave_because(s, c->space, c->keys->runs[i].partition, &full);
    return all;
}

void leave_space(struct shard *s, enum wire_space space, const struct err *why)
{
    struct err full = *why;
    full.code = TUG_ENOMEM;
    for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
        if (is_followed(s, space, p))
            leave_because(s, space, p, &full);
}

// Other members have removed the rows beyond a budget that this shard could not remove. So it
// leaves these chains.
static void look_at_budgets(struct shard *s)
{
    for (uint32_t i = 0; i < s->n_tables; i++) {
        const struct shard_table *t = s->tables[i];
        uint32_t p;
        struct err why;
        while (t != NULL && store_take_overdue(t->store, &p)) {
            (void)err_nomem(&why, "keeping a table's budget");
            leave_because(s, t->spec.space, p, &why);
        }
    }
}

// Reports the chains that this shard must leave, and counts them again: it may have left
// some, or lead them now. If memory is out, the report comes later.
static void say_unfit(struct shard *s, struct buf *places)
{
    struct chain *c = s->chain;
    uint32_t mask = ((uint32_t)1 << s->bits) - 1;
    c->n_unfit = 0;
    for (size_t i = 0; i < n_places(s); i++) {
        struct chain_place *p = &c->of[0][i];
        enum wire_space space = (enum wire_space)(i >> s->bits);
        uint32_t partition = (uint32_t)i & mask;
        p->unfit = p->unfit && (roles_of(&s->roles, space, partition) == ROLE_BACKUP ||
                                is_followed(s, space, partition));
        c->n_unfit += p->unfit;
        if (p->unfit)
            (void)add(s, p, places);
    }
    say(s, member_id(s->member), &c->unfit_why, places);
}

// Returns when a node counts as slow that has done nothing since this time.
static uint64_t slow_at(const struct shard *s, uint64_t since)
{
    return max_u64(since, s->chain->loads_until) + SLOW_NS;
}

static bool is_slow(const struct shard *s, const struct chain_outlet *o)
{
    return o->waits && s->now >= slow_at(s, o->moved_at);
}

static void say_slow(struct shard *s, const struct chain_outlet *o, struct buf *places)
{
    struct err why;
    err_set(&why, TUG_EIO,
            "it has taken none of the %llu bytes of records that wait for it for %llu s",
            (unsigned long long)(outlet_end(&o->o) - o->used),
            (unsigned long long)((s->now - o->moved_at) / SECOND_NS));
    for (size_t i = 0; i < n_places(s); i++) {
        const struct chain_place *p = &s->chain->of[0][i];
        if (p->next == o && p->committed < p->applied)
            (void)add(s, p, places);
    }
    say(s, o->node, &why, places);
}

void leave_look(struct shard *s, uint64_t since)
{
    if (since != VAN_NEVER)
        s->chain->leave_at = clock_earlier(s->chain->leave_at, slow_at(s, since));
}

void leave_after_load(struct shard *s)
{
    struct chain *c = s->chain;
    uint64_t begun = s->now;
    s->now = van_now(s->van);
    // The members after this one load one after the other.
    uint64_t members = member_roster(s->member)->replicas - 1;
    uint64_t until = s->now + 2 * members * (s->now - begun);
    c->loads_until = max_u64(c->loads_until, until);
    if (c->reads_since != 0)
        c->reads_since = s->now;
    for (struct chain_outlet *o = c->outlets; o != NULL; o = o->next)
        o->moved_at = s->now;
}

// Returns whether this shard leads the chain, and needs a lease of the node for it.
static bool needs_lease(const struct shard *s, size_t place, uint32_t node)
{
    const struct roster *r = member_roster(s->member);
    enum wire_space space = (enum wire_space)(place >> s->bits);
    uint32_t partition = (uint32_t)place & (((uint32_t)1 << s->bits) - 1);
    const struct chain_outlet *next = s->chain->of[0][place].next;
    return r->owners[space][partition] == member_id(s->member) &&
           (roster_is_member(r, space, partition, node) ||
            (next != NULL && next->node == node));
}

static void say_missing(struct shard *s, const struct chain_lease *l, uint64_t since,
                        struct buf *places)
{
    struct err why;
    err_set(&why, TUG_EIO,
            "it has granted the primary no lease for %llu s, without which the primary "
            "must not answer",
            (unsigned long long)((s->now - since) / SECOND_NS));
    for (size_t i = 0; i < n_places(s); i++)
        if (needs_lease(s, i, l->node))
            (void)add(s, &s->chain->of[0][i], places);
    say(s, l->node, &why, places);
}

// Reports nodes that grant no leases. A node that lacks records, too, is reported once more.
static void look_at_leases(struct shard *s, struct buf *places)
{
    for (const struct chain_lease *l = s->chain->leases; l != NULL; l = l->next) {
        uint64_t since = read_leases_missing(s, l);
        if (since != VAN_NEVER && s->now >= slow_at(s, since)) {
            say_missing(s, l, since, places);
            s->chain->leave_at = clock_earlier(s->chain->leave_at, s->now + AGAIN_NS);
        } else {
            leave_look(s, since);
        }
    }
}

void leave_send(struct shard *s)
{
    struct chain *c = s->chain;
    look_at_budgets(s);
    if (s->now < c->leave_at)
        return;
    struct buf places = BUF_INIT(WIRE_SPAN_MAX);
    c->leave_at = VAN_NEVER;
    if (c->n_unfit > 0)
        say_unfit(s, &places);
    if (c->n_unfit > 0)
        c->leave_at = s->now + AGAIN_NS;
    look_at_leases(s, &places);
    for (struct chain_outlet *o = c->outlets; o != NULL; o = o->next) {
        if (is_slow(s, o)) {
            say_slow(s, o, &places);
            c->leave_at = clock_earlier(c->leave_at, s->now + AGAIN_NS);
        } else if (o->waits) {
            leave_look(s, o->moved_at);
        }
    }
    buf_free(&places);
}
