// Leases: a primary sends an answer only if no other member of the chain can have taken
// its place (docs/design/0046-replicas.md).
//
//   primary                                    another member of the chain
//   asks READ_LEASE, and notes the time        grants READ_LEASED, and notes the time
//   sends answers until asked + lease          if it is promoted: sends no answer before
//                                              granted + lease + lease / 8
//
// Each counts by its own clock. The member grants after it was asked, and its time is
// longer, so the primary stops first, also if their clocks drift a little.
//
// A member grants only if its roster is not newer than the primary's: it may have been
// promoted in the newer one. A loop that is filled becomes a member, and may be promoted,
// before the primary knows. So the loop that fills it, which is a member, names it with
// each grant (`also`), and the primary needs its lease, too. A lease that this member
// granted before was over by the primary's clock at a time that the filled loop waits
// for: it counts the facts of the partition as a grant.
//
// An answer needs a lease that was not over at the time at which the answer was made. It
// may be sent later, also by a lease that was asked for after this time.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "protocol/keys.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

#define LEASE_NS (SECOND_NS / 4)
// Leases are renewed until no answer was about keys for so long.
#define READS_NS SECOND_NS
// The number of requests: see REQUEST in inlets.c.
#define REQUEST ((uint64_t)1 << 62)

static uint64_t lease_of(const struct shard *s)
{
    return s->o.lease_ns != 0 ? s->o.lease_ns : LEASE_NS;
}

static struct chain_lease *find(const struct shard *s, uint64_t node)
{
    struct chain_lease *l = s->chain->leases;
    while (l != NULL && l->node != node)
        l = l->next;
    return l;
}

static int need(struct shard *s, uint32_t node)
{
    struct chain_lease *l = find(s, node);
    if (l != NULL) {
        l->needed = true;
        return 0;
    }
    l = mem_zalloc(sizeof(*l));
    struct source_link *source = l != NULL ? source_link_take(s, node) : NULL;
    if (source == NULL) {
        mem_free(l);
        return TUG_ENOMEM;
    }
    *l = (struct chain_lease){.next = s->chain->leases,
                              .node = node,
                              .source = source,
                              .needed = true,
                              .since = s->now};
    s->chain->leases = l;
    leave_look(s, s->now);
    return 0;
}

static void end(struct shard *s, struct chain_lease **at)
{
    struct chain_lease *l = *at;
    *at = l->next;
    source_link_release(s, l->source);
    mem_free(l->also);
    mem_free(l);
}

void read_leases_close(struct shard *s)
{
    while (s->chain->leases != NULL)
        end(s, &s->chain->leases);
}

uint32_t read_leases_use(const struct shard *s, const struct source_link *l)
{
    const struct chain_lease *x = s->chain->leases;
    while (x != NULL && x->source != l)
        x = x->next;
    return x != NULL;
}

// Calls `each` for each other member of a chain that this shard leads, also for one that
// it fills.
static int each_member(struct shard *s, const struct roster *r, enum wire_space space,
                       uint32_t partition, int (*each)(struct shard *s, uint32_t node))
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    uint32_t n = roster_chain(r, space, partition, chain);
    const struct chain_outlet *next = s->chain->of[space][partition].next;
    if (n == 0 || chain[0] != member_id(s->member))
        return 0;
    for (uint32_t i = 1; i < n; i++)
        TRY(each(s, chain[i]));
    return next != NULL ? each(s, next->node) : 0;
}

static int need_also(struct shard *s)
{
    for (const struct chain_lease *l = s->chain->leases; l != NULL; l = l->next)
        for (size_t i = 0; i < l->n_also && l->needed; i++)
            if (l->also[i] != member_id(s->member))
                TRY(need(s, (uint32_t)l->also[i]));
    return 0;
}

// Returns when a lease is over, with those that it does not replace.
static uint64_t until(const struct shard *s, const struct chain_lease *l)
{
    uint64_t at = l->until;
    for (size_t i = 0; i < l->n_also; i++) {
        const struct chain_lease *also = find(s, l->also[i]);
        at = clock_earlier(at, also != NULL ? also->until : 0);
    }
    return at;
}

static void count(struct shard *s)
{
    struct chain *c = s->chain;
    c->leased_until = c->lacks_leases ? 0 : VAN_NEVER;
    for (const struct chain_lease *l = c->leases; l != NULL; l = l->next)
        c->leased_until = clock_earlier(c->leased_until, until(s, l));
}

int read_leases_follow(struct shard *s, const struct roster *r)
{
    int rc = 0;
    for (struct chain_lease *l = s->chain->leases; l != NULL; l = l->next)
        l->needed = false;
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < (uint32_t)1 << s->bits && rc == 0; p++)
            rc = each_member(s, r, (enum wire_space)space, p, need);
    if (rc == 0)
        rc = need_also(s);
    for (struct chain_lease **at = &s->chain->leases; *at != NULL && rc == 0;)
        if ((*at)->needed)
            at = &(*at)->next;
        else
            end(s, at);
    s->chain->lacks_leases = rc != 0;
    count(s);
    return rc;
}

void read_leases_unknown(struct shard *s)
{
    uint64_t at = van_now(s->van) + lease_of(s) + lease_of(s) / 8;
    s->chain->granted_until = at > s->chain->granted_until ? at : s->chain->granted_until;
}

// ---------------------------------------------------------------- the primary

static bool is_used(const struct shard *s)
{
    const struct chain *c = s->chain;
    return c->gate.first != NULL ||
           (c->about_keys_at != 0 && s->now < c->about_keys_at + READS_NS);
}

uint64_t read_leases_missing(const struct shard *s, const struct chain_lease *l)
{
    uint64_t used = s->chain->reads_since, at = used > l->since ? used : l->since;
    if (used == 0)
        return VAN_NEVER;
    return l->until > at ? l->until : at;
}

void read_leases_send(struct shard *s)
{
    uint64_t *since = &s->chain->reads_since;
    if (!is_used(s)) {
        *since = 0;
        return;
    }
    if (*since == 0) {
        *since = s->now;
        leave_look(s, s->now);
    }
    for (struct chain_lease *l = s->chain->leases; l != NULL; l = l->next) {
        if (l->source->s.state != SESSION_OPEN || l->due > s->now)
            continue;
        struct msg_read_lease m = {.session = member_session(s->member),
                                   .epoch = member_roster(s->member)->epoch,
                                   .asked = s->now,
                                   .lease = lease_of(s)};
        l->asked = s->now;
        l->due = s->now + lease_of(s) / 3;
        van_send(s->van, l->source->s.link, MSG_READ_LEASE, REQUEST, &m, NULL);
    }
}

uint64_t read_leases_tick(const struct shard *s)
{
    const struct chain *c = s->chain;
    uint64_t next = VAN_NEVER;
    if (c->gate.first != NULL && c->quiet_until > s->now)
        next = c->quiet_until;
    for (const struct chain_lease *l = c->leases; l != NULL && is_used(s); l = l->next)
        if (l->source->s.state == SESSION_OPEN)
            next = clock_earlier(next, l->due);
    return next;
}

// Notes the nodes whose leases are needed as well, which must be living servers. Returns 0,
// TUG_EDATA or TUG_ENOMEM.
static int take_also(const struct roster *r, struct chain_lease *l,
                     const struct wire_span *also)
{
    size_t n = also->n / sizeof(*l->also);
    if (n > r->n_nodes)
        return TUG_EDATA;
    for (size_t i = 0; i < n; i++)
        if (!chain_is_server(r, ((const uint64_t *)also->data)[i]))
            return TUG_EDATA;
    uint64_t *ids = n > 0 ? mem_alloc(n * sizeof(*ids)) : NULL;
    if (n > 0 && ids == NULL)
        return TUG_ENOMEM;
    if (n > 0)
        memcpy(ids, also->data, n * sizeof(*ids));
    mem_free(l->also);
    l->also = ids;
    l->n_also = n;
    return 0;
}

static void take(struct shard *s, struct chain_lease *l, const struct msg_read_leased *m)
{
    const struct roster *r = member_roster(s->member);
    if (m->epoch > r->epoch)
        member_want_roster(s->member, m->epoch);
    if (m->granted == 0 || m->asked > l->asked || m->asked + lease_of(s) <= l->until ||
        take_also(r, l, &m->also) != 0)
        return;
    l->until = m->asked + lease_of(s);
    // If memory is out, a lease is missing, and answers wait for the next grant.
    (void)read_leases_follow(s, r);
}

bool read_leases_message(struct shard *s, const struct source_link *l,
                         const struct van_message *m, bool greeted)
{
    struct chain_lease *x = s->chain->leases;
    while (x != NULL && x->source != l)
        x = x->next;
    if (x == NULL)
        return false;
    if (greeted) {
        x->due = s->now;
        return false;
    }
    if (m->request != REQUEST)
        return false;
    // Another answer is a refusal: the lease is asked for again.
    if (m->type == MSG_READ_LEASED)
        take(s, x, &m->m->read_leased);
    return true;
}

size_t read_leases_most(const struct chain *c)
{
    size_t n = 2; // the time, and the leases of all
    for (const struct chain_lease *l = c->leases; l != NULL; l = l->next)
        n++;
    return n;
}

static int mark(struct shard *s, uint32_t node)
{
    struct chain_lease *l = find(s, node);
    if (l != NULL)
        l->needed = true;
    return 0;
}

void read_leases_find(struct shard *s, enum wire_space space, const struct keys *k,
                      struct gate_need *needs, uint32_t *n)
{
    struct chain *c = s->chain;
    // s->now may be older than the request: if the process is stopped between reading the
    // clock and reading the messages, another loop may have taken over during this stop.
    uint64_t quiet = 0, now = bug_in(s->o.member.bugs, WITHOUT_FRESH_CLOCK)
                                  ? s->now
                                  : van_now(s->van);
    c->about_keys_at = now;
    for (uint32_t i = 0; i < k->n_runs && c->quiet_until > now; i++) {
        uint64_t at = c->of[space][k->runs[i].partition].quiet_until;
        quiet = at > quiet ? at : quiet;
    }
    if (quiet > now)
        needs[(*n)++] = (struct gate_need){NEEDS_TIME, quiet};
    if (c->leased_until > now || bug_in(s->o.member.bugs, WITHOUT_LEASES))
        return;
    if (c->lacks_leases) {
        needs[(*n)++] = (struct gate_need){NEEDS_LEASE, now};
        return;
    }
    for (struct chain_lease *l = c->leases; l != NULL; l = l->next)
        l->needed = false;
    for (uint32_t i = 0; i < k->n_runs; i++)
        each_member(s, member_roster(s->member), space, k->runs[i].partition, mark);
    for (struct chain_lease *l = c->leases; l != NULL; l = l->next)
        if (l->needed && until(s, l) <= now)
            needs[(*n)++] = (struct gate_need){NEEDS_LEASE | l->node, now};
}

bool read_leases_has(const struct shard *s, const struct gate_need *x)
{
    if ((x->what & NEEDS_TIME) != 0)
        return s->now >= x->least;
    if (x->what == NEEDS_LEASE)
        return s->chain->leased_until > x->least;
    const struct chain_lease *l = find(s, (uint32_t)x->what);
    // The node is not a member of a chain any more.
    return l == NULL || until(s, l) > x->least;
}

// ---------------------------------------------------------------- the other members

// Appends the nodes to which this shard passes records of chains that have the primary,
// but which are not members by this shard's roster.
static int add_also(const struct shard *s, uint32_t primary, struct buf *to)
{
    const struct roster *r = member_roster(s->member);
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t i = 0; i < (uint32_t)1 << s->bits; i++) {
            enum wire_space of = (enum wire_space)space;
            const struct chain_outlet *next = s->chain->of[space][i].next;
            uint64_t node = next != NULL ? next->node : 0;
            if (node == 0 || roster_is_member(r, of, i, (uint32_t)node) ||
                !roster_is_member(r, of, i, primary))
                continue;
            bool has = false;
            for (size_t k = 0; k < to->len / sizeof(node); k++)
                has |= ((const uint64_t *)(const void *)to->data)[k] == node;
            if (!has)
                TRY(buf_add(to, &node, sizeof(node)));
        }
    return 0;
}

enum outcome read_lease_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_read_lease *m = &q->m->read_lease;
    const struct roster *r = member_roster(s->member);
    struct buf also = BUF_INIT(WIRE_SPAN_MAX);
    struct err e = {0};
    if (m->epoch > r->epoch)
        member_want_roster(s->member, m->epoch);
    if (s->chain == NULL)
        err_set(&e, TUG_EUSAGE, "the partitions of this cluster have no replicas");
    else if (m->lease > 2 * lease_of(s)) // after a death, answers wait for its end
        err_set(&e, TUG_EUSAGE, "a lease of %llu ns is longer than %llu ns",
                (unsigned long long)m->lease, (unsigned long long)(2 * lease_of(s)));
    else if (add_also(s, q->peer->node, &also) != 0)
        err_nomem(&e, "the nodes of a lease");
    if (e.code != 0) {
        buf_free(&also);
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    struct msg_read_leased answer = {.epoch = r->epoch,
                                     .asked = m->asked,
                                     .granted = m->epoch >= r->epoch,
                                     .also = {also.data, also.len}};
    if (answer.granted != 0) {
        uint64_t at = van_now(s->van) + m->lease + m->lease / 8;
        if (at > s->chain->granted_until)
            s->chain->granted_until = at;
    }
    van_send(s->van, q->peer->link, MSG_READ_LEASED, q->id, &answer, NULL);
    buf_free(&also);
    return ANSWERED;
}
