// The sender's side of a shard's channels.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/pending.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// A request that waits for bytes is answered without bytes after this time, so that the
// receiver finds out that a link is silent.
#define HOLD_NS SECOND_NS
// PIECE_BYTES: most bytes of a message. MOST_BYTES: bytes that are kept for a receiver
// before pushes wait; FEW_BYTES: the same if --memory has no room beside the rows.
enum { PIECE_BYTES = 2 << 20, MOST_BYTES = 64 << 20, FEW_BYTES = 4 << 20 };
enum { ACK_BYTES = 2 * sizeof(uint64_t) }; // of an acknowledgement in a request

struct chain_outlet *outlets_find(const struct shard *s, uint32_t node)
{
    struct chain_outlet *o = s->chain->outlets;
    while (o != NULL && o->node != node)
        o = o->next;
    return o;
}

int outlets_add_table(struct shard *s, struct chain_outlet *o,
                      const struct shard_table *t)
{
    struct channel_record r = {
        .kind = RECORD_TABLE, .bits = s->bits, .epoch = member_roster(s->member)->epoch};
    struct buf content = BUF_INIT(WIRE_SPAN_MAX);
    int rc = records_add_table(t, &content);
    r.common = content.data;
    r.n_common = content.len;
    if (rc == 0)
        rc = outlet_append(&o->o, &r);
    buf_free(&content);
    return rc;
}

// The channel begins with all tables, because the receiver gets a table from clients only
// if it owns a partition, and with the numbers of tables that were dropped.
static int add_tables(struct shard *s, struct chain_outlet *o)
{
    for (uint32_t i = 0; i < s->n_tables; i++)
        if (s->tables[i] != NULL)
            TRY(outlets_add_table(s, o, s->tables[i]));
    for (uint32_t i = 0; i < SPEC_MAX_TABLES; i++)
        if (s->tables[i] == NULL && s->chain->drops[i] > 0)
            TRY(records_add_drop(s, &o->o, i, s->chain->drops[i]));
    return 0;
}

struct chain_outlet *outlets_get(struct shard *s, uint32_t node)
{
    struct chain_outlet *o = outlets_find(s, node);
    if (o != NULL)
        return o;
    o = mem_zalloc(sizeof(*o));
    if (o == NULL)
        return NULL;
    outlet_open(&o->o);
    o->node = node;
    if (add_tables(s, o) != 0) {
        outlet_close(&o->o);
        mem_free(o);
        return NULL;
    }
    o->next = s->chain->outlets;
    s->chain->outlets = o;
    return o;
}

void outlets_free(struct shard *s, struct chain_outlet *o)
{
    struct chain_outlet **at = &s->chain->outlets;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    outlet_close(&o->o);
    mem_free(o);
}

uint64_t outlets_most(const struct shard *s)
{
    uint64_t left = s->o.max_bytes > s->bytes ? s->o.max_bytes - s->bytes : 0;
    if (s->o.max_bytes == 0 || left > MOST_BYTES)
        return MOST_BYTES;
    return left > FEW_BYTES ? left : FEW_BYTES;
}

// Returns whether the receiver, or a member after it, lacks place i of a record.
static bool is_lacking(const struct shard *s, const struct chain_outlet *o,
                       const struct channel_record *r, uint32_t i)
{
    const struct chain_place *p = &s->chain->of[r->space][r->places[i].partition];
    // A record from before p->next was the next member was redirected to it.
    return p->next == o && r->epoch >= p->next_since &&
           r->places[i].position >= p->committed;
}

// Returns whether the outlet need not keep a record any more, which ends at byte `end`.
static bool is_done(const struct shard *s, const struct chain_outlet *o,
                    const struct channel_record *r, uint64_t end)
{
    if (end > o->used)
        return false;
    for (uint32_t i = 0; i < r->n_places; i++)
        if (is_lacking(s, o, r, i))
            return false;
    return true;
}

void outlets_take(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        struct channel_record r;
        uint64_t first = o->o.first, at = first;
        while (first < o->used && outlet_record(&o->o, &at, &r) && is_done(s, o, &r, at))
            first = at;
        if (first == o->o.first)
            continue;
        outlet_drop(&o->o, first);
        inlets_again(s);
        pending_wake(s, WANTS_MEMBER);
    }
}

static void answer(struct shard *s, struct chain_outlet *o, const char *bytes, size_t n)
{
    struct msg_records m = {
        .epoch = member_roster(s->member)->epoch, .at = o->at, .bytes = {bytes, n}};
    inlets_join(s, o->node, &m);
    van_send(s->van, o->link, MSG_RECORDS, o->request, &m, NULL);
    o->link = 0;
}

// Notes since when the receiver has taken no records that wait for it.
static void watch(struct shard *s, struct chain_outlet *o)
{
    bool waits = o->used < outlet_end(&o->o);
    if (waits && !o->waits) {
        o->moved_at = s->now;
        leave_look(s, o->moved_at);
    }
    o->waits = waits;
}

void outlets_send(struct shard *s)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        watch(s, o);
        const char *bytes = NULL;
        // A receiver that repeats its request, and reads no answer, must not fill the
        // memory.
        if (o->link == 0 || van_queued(s->van, o->link) > PIECE_BYTES)
            continue;
        size_t n = outlet_from(&o->o, o->at, PIECE_BYTES, &bytes);
        if (n > 0 || o->until <= s->now)
            answer(s, o, bytes, n);
    }
}

uint64_t outlets_tick(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (o->link != 0) {
            // After its time, the answer waits until earlier ones were sent.
            uint64_t at = o->until > s->now ? o->until : s->now + SECOND_NS / 1000;
            next = clock_earlier(next, at);
        }
    return next;
}

bool chain_is_server(const struct roster *r, uint64_t node)
{
    const struct roster_node *n = node <= UINT32_MAX ? roster_find(r, (uint32_t)node)
                                                     : NULL;
    return n != NULL && n->alive && n->role == WIRE_SERVER;
}

static struct chain_outlet *again_to(struct shard *s, const struct channel_record *r,
                                     uint32_t i, const void *ctx)
{
    const struct chain_outlet *o = ctx;
    return is_lacking(s, o, r, i) ? outlets_find(s, o->node) : NULL;
}

// Begins the channel anew at its end: appends again the places that the receiver lacks, and
// the records without places that it has not taken; drops what was there. Returns 0 or
// TUG_ENOMEM.
static int begin_anew(struct shard *s, struct chain_outlet *o)
{
    uint64_t end = outlet_end(&o->o), at;
    struct channel_record r;
    places_clear(s);
    for (at = o->o.first; at < end && outlet_record(&o->o, &at, &r);) {
        places_count(s, &r, again_to, o);
        if (r.n_places == 0 && at > o->used)
            o->more += channel_bytes(&r);
    }
    TRY(places_reserve(s));
    for (at = o->o.first; at < end && outlet_record(&o->o, &at, &r);) {
        places_append(s, &r, again_to, o);
        if (r.n_places == 0 && at > o->used)
            (void)outlet_append(&o->o, &r); // there is room
    }
    outlet_drop(&o->o, end);
    o->used = end;
    // Answers about tables wait for what was appended again.
    gate_raise(&s->chain->gate, NEEDS_NODE | o->node, outlet_end(&o->o));
    o->moved_at = s->now;
    return 0;
}

// Takes the numbers of records that a node and all members after it have. Such a number also
// grows while the node applies a long record partition by partition.
static void take_acks(struct shard *s, struct chain_outlet *o,
                      const struct wire_span *acks)
{
    const uint64_t *x = acks->data;
    for (uint64_t i = 0; i + 1 < acks->n / sizeof(*x); i += 2) {
        uint64_t space = x[i] >> 32, partition = x[i] & UINT32_MAX;
        if (space >= WIRE_SPACES || partition >> s->bits != 0)
            continue;
        struct chain_place *p = &s->chain->of[space][partition];
        uint64_t before = p->committed;
        if (p->next == o)
            inlets_commit(s, p, x[i + 1]);
        if (p->committed > before)
            o->moved_at = s->now;
    }
}

// Checks the bytes and the acknowledgements of a request.
static int check_request(const struct shard *s, const struct chain_outlet *o, uint64_t at,
                         uint64_t used, const struct wire_span *acks, struct err *e)
{
    if (acks->n / ACK_BYTES > (uint64_t)WIRE_SPACES << s->bits)
        return err_set(e, TUG_EUSAGE,
                       "%llu acknowledgements are more than the partitions",
                       (unsigned long long)(acks->n / ACK_BYTES));
    if (at != CHANNEL_ANEW && (at > outlet_end(&o->o) || used > at))
        return err_set(e, TUG_EUSAGE, "the channel to node %u has %llu bytes, not %llu",
                       o->node, (unsigned long long)outlet_end(&o->o),
                       (unsigned long long)at);
    return 0;
}

// Takes a request that was checked, for records from byte `at` on. The answer goes to `link`.
static void take_request(struct shard *s, struct chain_outlet *o, van_link link,
                         uint64_t request, uint64_t at, uint64_t used,
                         const struct wire_span *acks)
{
    if (at < o->o.first)
        return; // a late request; the receiver has these bytes
    if (used > o->used) {
        o->used = used;
        o->moved_at = s->now;
    }
    take_acks(s, o, acks);
    o->link = o->asks = link;
    o->request = request;
    // If the channel begins anew, the answer says at which byte, also if there are none.
    o->at = at == CHANNEL_ANEW ? o->o.first : at;
    o->until = at == CHANNEL_ANEW ? s->now : s->now + HOLD_NS;
}

enum outcome records_wanted_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_records_wanted *m = &q->m->records_wanted;
    const struct roster *r = member_roster(s->member);
    struct chain_outlet *o = NULL;
    struct err e = {0};
    if (m->epoch > r->epoch)
        member_want_roster(s->member, m->epoch);
    if (s->chain == NULL)
        err_set(&e, TUG_EUSAGE, "the partitions of this cluster have no replicas");
    else if (!chain_is_server(r, q->peer->node) || q->peer->node == member_id(s->member))
        err_set(&e, TUG_EUSAGE, "node %u is not a server in epoch %llu", q->peer->node,
                (unsigned long long)r->epoch);
    else if ((o = outlets_get(s, q->peer->node)) == NULL)
        err_nomem(&e, "the records of partitions for a replica");
    else if (q->id < o->request || (q->id == o->request && m->at == CHANNEL_ANEW))
        return ANSWERED; // a late request, from before the channel began anew
    else if (check_request(s, o, m->at, m->used, &m->acks, &e) == 0 &&
             m->at == CHANNEL_ANEW && begin_anew(s, o) != 0)
        err_nomem(&e, "the records that a replica asks for again");
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    // The end of the last link may not be known yet.
    if (o->asks != 0 && o->asks != q->peer->link)
        inlets_repeat(s, o->node);
    take_request(s, o, q->peer->link, q->id, m->at, m->used, &m->acks);
    return ANSWERED;
}

void outlets_drop_link(struct shard *s, van_link link)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (o->asks == link) {
            o->link = o->asks = 0;
            inlets_repeat(s, o->node);
        }
}

// If the request is wrong, the node repeats it alone, and then gets the error.
void outlets_joined(struct shard *s, uint32_t node, const struct msg_records *m)
{
    struct chain_outlet *o = outlets_find(s, node);
    struct err e;
    if (o != NULL && o->asks != 0 && m->wanted >= o->request &&
        m->wanted_at != CHANNEL_ANEW &&
        check_request(s, o, m->wanted_at, m->used, &m->acks, &e) == 0)
        take_request(s, o, o->asks, m->wanted, m->wanted_at, m->used, &m->acks);
}
