// The receiver's side of a shard's channels.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

#define ASK_AGAIN_NS (2 * SECOND_NS) // pause before an unanswered request is repeated
#define TRY_NS (SECOND_NS / 100)     // pause before a record is tried again
#define REFUSED_MOST 7               // the pause after a refusal doubles at most so often
#define UNFIT_NS SECOND_NS           // time for which a record is tried
// The numbers of requests begin with this bit, so that they differ from those of moves. Then
// follows how often the channel was asked to begin anew.
#define REQUEST ((uint64_t)1 << 63)
// While so many bytes wait because a record cannot be applied, no more are kept.
enum { STAGE_BYTES = 8 << 20 };

static int inlets_begin(struct shard *s, uint32_t node)
{
    struct chain *c = s->chain;
    for (const struct chain_inlet *x = c->inlets; x != NULL; x = x->next)
        if (x->node == node)
            return 0;
    struct chain_inlet *x = mem_zalloc(sizeof(*x));
    struct source_link *l = x != NULL ? source_link_take(s, node) : NULL;
    if (l == NULL) {
        mem_free(x);
        return TUG_ENOMEM;
    }
    inlet_open(&x->i);
    x->node = node;
    x->source = l;
    x->try_at = VAN_NEVER;
    x->told = x->all = true;
    x->next = c->inlets;
    c->inlets = x;
    return 0;
}

static void inlets_end(struct shard *s, struct chain_inlet **at)
{
    struct chain_inlet *x = *at;
    *at = x->next;
    source_link_release(s, x->source);
    inlet_close(&x->i);
    mem_free(x->acks);
    mem_free(x);
}

void inlets_close(struct shard *s)
{
    while (s->chain->inlets != NULL)
        inlets_end(s, &s->chain->inlets);
}

uint32_t chain_uses(const struct shard *s, const struct source_link *l)
{
    if (s->chain == NULL)
        return 0;
    const struct chain_inlet *x = s->chain->inlets;
    while (x != NULL && x->source != l)
        x = x->next;
    return (x != NULL) + read_leases_use(s, l);
}

void inlets_again(struct shard *s)
{
    for (struct chain_inlet *x = s->chain->inlets; x != NULL; x = x->next)
        x->try_at = s->now;
}

// Asks again at once, because the sender may have got the roster, too.
static void ask_after_roster(struct shard *s, struct chain_inlet *x)
{
    if (x->refused > 0)
        x->due = s->now;
    x->refused = 0;
}

// A channel is kept as long as its sender lives, because its bytes have one numbering.
int inlets_follow(struct shard *s, const struct roster *r)
{
    for (struct chain_inlet **at = &s->chain->inlets; *at != NULL;) {
        const struct roster_node *n = roster_find(r, (*at)->node);
        if (n == NULL || !n->alive) {
            inlets_end(s, at);
        } else {
            ask_after_roster(s, *at);
            at = &(*at)->next;
        }
    }
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
            if (s->chain->of[space][p].from != 0)
                TRY(inlets_begin(s, s->chain->of[space][p].from));
    for (const struct incoming *m = s->moves.in; m != NULL; m = m->next)
        if (m->move.fills && m->source != NULL)
            TRY(inlets_begin(s, m->source->node));
    return 0;
}

static struct chain_inlet *inlet_from(const struct shard *s, uint32_t node)
{
    struct chain_inlet *x = s->chain->inlets;
    while (x != NULL && x->node != node)
        x = x->next;
    return x;
}

// Adds the place to the list of those to acknowledge.
static void acknowledge(struct chain_inlet *x, struct chain_place *p)
{
    x->told = true;
    if (p->acks || x->all)
        return;
    if (x->n_acks == x->max_acks) {
        uint32_t max = x->max_acks > 0 ? 2 * x->max_acks : 64;
        struct chain_place **acks = mem_realloc_array(x->acks, max, sizeof(*acks));
        if (acks == NULL) {
            x->all = true;
            return;
        }
        x->acks = acks;
        x->max_acks = max;
    }
    x->acks[x->n_acks++] = p;
    p->acks = true;
}

void inlets_commit(struct shard *s, struct chain_place *p, uint64_t n)
{
    n = n < p->applied ? n : p->applied;
    if (n <= p->committed)
        return;
    p->committed = n;
    struct chain_inlet *x = p->from != 0 ? inlet_from(s, p->from) : NULL;
    if (x != NULL)
        acknowledge(x, p);
}

// Returns the move that fills the partition, if this shard does not have the facts yet.
static const struct incoming *fill_of(const struct shard *s, enum wire_space space,
                                      uint32_t partition)
{
    const struct incoming *m = s->moves.in;
    while (m != NULL && (m->move.space != space || m->move.partition != partition ||
                         m->state > INCOMING_ENDS))
        m = m->next;
    return m;
}

enum verdict { APPLIES, SKIPS, WAITS };

// Decides what to do with a place of a record: see chain.h.
static enum verdict judge_place(struct shard *s, struct chain_inlet *x,
                                const struct channel_record *r,
                                const struct channel_place *place)
{
    const struct chain_place *p = &s->chain->of[r->space][place->partition];
    uint64_t bugs = s->o.member.bugs;
    if (r->epoch < p->from_since && !bug_in(bugs, WITHOUT_RECORD_EPOCHS))
        return SKIPS;
    // Only the source may send records after the facts, which have the position. If another
    // member comes before this shard in a later roster, it sends its records again.
    const struct incoming *m = fill_of(s, r->space, place->partition);
    if (m != NULL)
        return m->source == NULL || m->source->node == x->node ? WAITS : SKIPS;
    if (p->from != x->node || p->unfit ||
        (place->position < p->applied && !bug_in(bugs, WITHOUT_RECORD_POSITIONS)))
        return SKIPS;
    if (place->position > p->applied && !bug_in(bugs, WITHOUT_RECORD_POSITIONS)) {
        err_set(&x->why, TUG_EDATA, "records %llu to %llu of partition %u are missing",
                (unsigned long long)p->applied, (unsigned long long)place->position - 1,
                place->partition);
        return WAITS;
    }
    // It does not wait for room at the next member. The primary waits, and keeps the record
    // until all members have it; and if channels form a ring, their first records would wait
    // for each other.
    return APPLIES;
}

// Judges all places of a record. Returns WAITS if one of them has to wait, or SKIPS if none
// is to be applied.
static enum verdict judge(struct shard *s, struct chain_inlet *x,
                          const struct channel_record *r)
{
    enum verdict all = r->n_places == 0 ? APPLIES : SKIPS;
    if (r->epoch > member_roster(s->member)->epoch) {
        member_want_roster(s->member, r->epoch);
        return WAITS;
    }
    x->passes = false;
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_place *p = &s->chain->of[r->space][r->places[i].partition];
        enum verdict v = judge_place(s, x, r, &r->places[i]);
        if (v == WAITS)
            return WAITS;
        p->applies = v == APPLIES;
        x->passes |= p->applies && p->next != NULL;
        all = p->applies ? APPLIES : all;
    }
    return all;
}

// The route on which applied places are passed on.
static struct chain_outlet *passed_to(struct shard *s, const struct channel_record *r,
                                      uint32_t i, const void *ctx)
{
    return records_applies(s, r, i) ? places_next(s, r, i, ctx) : NULL;
}

// Counts the first n of the places to apply as applied; the others were not.
static void count_applied(struct shard *s, const struct channel_record *r, uint32_t n)
{
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_place *p = &s->chain->of[r->space][r->places[i].partition];
        if (!p->applies)
            continue;
        p->applies = n > 0;
        if (n == 0)
            continue;
        n--;
        p->applied++;
        if (p->next == NULL)
            inlets_commit(s, p, p->applied);
    }
}

// Applies a record and passes it on to the next members. If that fails, places that were
// applied are skipped when the record is tried again.
static int apply(struct shard *s, struct chain_inlet *x, const struct channel_record *r)
{
    uint32_t n;
    if (x->passes) {
        places_clear(s);
        places_count(s, r, passed_to, NULL);
        if (places_reserve(s) != 0)
            return err_nomem(&x->why, "the records of partitions for a replica");
    }
    int rc = records_apply(s, r, &n, &x->why);
    count_applied(s, r, n);
    if (n > 0 && x->passes)
        places_append(s, r, passed_to, NULL);
    return rc;
}

// Takes the first record. Returns false if it has to wait.
static bool take_one(struct shard *s, struct chain_inlet *x,
                     const struct channel_record *r)
{
    enum verdict v = judge(s, x, r);
    if (v == WAITS || (v == APPLIES && apply(s, x, r) != 0))
        return false;
    // A record that is sent again may have been acknowledged to another loop only.
    for (uint32_t i = 0; i < r->n_places; i++) {
        struct chain_place *p = &s->chain->of[r->space][r->places[i].partition];
        if (p->from == x->node && !p->applies)
            acknowledge(x, p);
    }
    inlet_take(&x->i, r);
    x->told = true;
    return true;
}

// Logs why a record cannot be applied.
static void log_why(struct shard *s, const struct chain_inlet *x)
{
    char line[ERR_TEXT_MAX], name[ROSTER_NAME_MAX];
    struct err why = x->why;
    err_wrap(&why, "records of %s wait",
             roster_name_of(member_roster(s->member), x->node, name));
    if (s->o.log != NULL && refusals_note(&s->refusals, &why, s->now, line))
        s->o.log(s->o.log_ctx, line);
}

// This shard must leave all chains in which the sender is the member before it. Returns
// whether there are none.
static bool leave_all(struct shard *s, const struct chain_inlet *x)
{
    bool none = true;
    for (uint32_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < (uint32_t)1 << s->bits; p++)
            if (s->chain->of[space][p].from == x->node) {
                leave_because(s, (enum wire_space)space, p, &x->why);
                none = false;
            }
    return none;
}

// The first record cannot be applied. If it stays so, this shard must leave the chains of
// its places, also of those for which it would only have to wait. A record of a table has no
// places. Then the shard must leave all chains in which the sender is the member before it.
// When it has left them, it goes on without the record: if it is filled again, it gets the
// tables. The sender answers that the table was made only after that. Returns whether
// this shard goes on.
static bool fail(struct shard *s, struct chain_inlet *x, const struct channel_record *r)
{
    if (x->failed_at == 0)
        x->failed_at = s->now;
    if (x->why.code != TUG_EINTERRUPTED && s->now < x->failed_at + UNFIT_NS)
        return false;
    if (x->why.reason == REASON_NO_ROOM || x->why.reason == REASON_DISK)
        x->why.code = TUG_ENOMEM; // another loop is to be filled
    for (uint32_t i = 0; i < r->n_places; i++)
        if (s->chain->of[r->space][r->places[i].partition].from == x->node)
            leave_because(s, r->space, r->places[i].partition, &x->why);
    if (r->n_places > 0 || !leave_all(s, x))
        return false;
    log_why(s, x);
    inlet_take(&x->i, r);
    x->told = true;
    x->why.code = 0;
    x->failed_at = 0;
    return true;
}

// The channel's bytes are damaged. This shard leaves the chains in which it gets records
// through this channel, because they may be damaged at the sender, too.
static void begin_anew(struct shard *s, struct chain_inlet *x)
{
    (void)leave_all(s, x);
    inlet_begin(&x->i, 0);
    x->anew = true;
    x->number++; // the answer to the last request comes too late
    x->told = false;
    x->due = s->now + TRY_NS;
}

// Takes as many records as possible.
static void take(struct shard *s, struct chain_inlet *x)
{
    struct channel_record r;
    int rc = 1;
    x->why.code = 0;
    x->try_at = VAN_NEVER;
    while (rc == 1) {
        rc = inlet_record(&x->i, &r, &x->why);
        if (rc == 1 && r.bits != s->bits)
            rc = stream_damaged(&x->why);
        if (rc < 0)
            begin_anew(s, x);
        if (rc != 1)
            break;
        if (!take_one(s, x, &r))
            rc = TUG_EIO;
        if (x->why.code == 0)
            x->failed_at = 0;
        else if (fail(s, x, &r))
            rc = 1;
    }
    x->behind = rc != 0;
    if (rc != 0)
        x->try_at = s->now + TRY_NS;
    if (x->why.code != 0)
        log_why(s, x);
}

void inlets_take(struct shard *s)
{
    for (struct chain_inlet *x = s->chain->inlets; x != NULL; x = x->next)
        if (x->try_at <= s->now)
            take(s, x);
}

void inlets_keep(struct shard *s)
{
    for (struct chain_inlet *x = s->chain->inlets; x != NULL; x = x->next)
        if (inlet_keep(&x->i) != 0)
            x->due = s->now + TRY_NS; // the bytes are asked for again
}

static int add_ack(const struct shard *s, const struct chain_inlet *x,
                   const struct chain_place *p, struct buf *to)
{
    // All places lie in one array, space by space.
    uint64_t i = (uint64_t)(p - s->chain->of[0]), space = i >> s->bits;
    uint64_t ack[] = {space << 32 | (i - (space << s->bits)), p->committed};
    return p->from == x->node ? buf_add(to, ack, sizeof(ack)) : 0;
}

// Appends the acknowledgements of the next request.
static int add_acks(struct shard *s, const struct chain_inlet *x, struct buf *to)
{
    for (uint32_t i = 0; i < x->n_acks && !x->all; i++)
        TRY(add_ack(s, x, x->acks[i], to));
    for (uint64_t i = 0; i < (uint64_t)WIRE_SPACES << s->bits && x->all; i++)
        TRY(add_ack(s, x, &s->chain->of[0][i], to));
    return 0;
}

// Makes the next request. Its acknowledgements stay in c->acks.
static struct msg_records_wanted make_request(struct shard *s, struct chain_inlet *x)
{
    struct buf *acks = &s->chain->acks;
    buf_clear(acks);
    // A place may be in the list twice, and the sender refuses more than all places.
    x->all |= x->n_acks > (uint64_t)WIRE_SPACES << s->bits;
    bool all = add_acks(s, x, acks) == 0;
    struct msg_records_wanted m = {.session = member_session(s->member),
                                   .epoch = member_roster(s->member)->epoch,
                                   .at = x->anew ? CHANNEL_ANEW : x->i.at,
                                   .used = x->i.at - inlet_left(&x->i),
                                   .acks = {acks->data, acks->len}};
    for (uint32_t i = 0; i < x->n_acks && all; i++)
        x->acks[i]->acks = false;
    x->n_acks = all ? 0 : x->n_acks;
    x->all = x->all && !all;
    x->told = x->answered = false;
    x->due = s->now + ASK_AGAIN_NS;
    x->number += x->anew;
    return m;
}

// The receiver answers on the link of the last request that came alone. So the request goes
// with records only if the receiver has answered on the present link.
void inlets_join(struct shard *s, uint32_t node, struct msg_records *m)
{
    struct chain_inlet *x = inlet_from(s, node);
    if (x == NULL || !x->told || !x->answered || x->anew || x->due <= s->now ||
        x->source->s.state != SESSION_OPEN)
        return;
    const struct msg_records_wanted r = make_request(s, x);
    m->wanted = REQUEST + x->number;
    m->wanted_at = r.at;
    m->used = r.used;
    m->acks = r.acks;
}

void inlets_send(struct shard *s)
{
    for (struct chain_inlet *x = s->chain->inlets; x != NULL; x = x->next)
        if (x->source->s.state == SESSION_OPEN && (x->told || x->due <= s->now)) {
            x->all |= x->due <= s->now; // the last acknowledgements may be lost
            const struct msg_records_wanted m = make_request(s, x);
            van_send(s->van, x->source->s.link, MSG_RECORDS_WANTED, REQUEST + x->number,
                     &m, NULL);
        }
}

void inlets_repeat(struct shard *s, uint32_t node)
{
    struct chain_inlet *x = inlet_from(s, node);
    if (x != NULL)
        x->told = x->all = true;
}

uint64_t inlets_tick(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (const struct chain_inlet *x = s->chain->inlets; x != NULL; x = x->next) {
        next = clock_earlier(next, x->try_at);
        if (x->source->s.state == SESSION_OPEN)
            next = clock_earlier(next, x->due);
    }
    return next;
}

bool inlets_message(struct shard *s, const struct source_link *l,
                    const struct van_message *m, bool greeted)
{
    struct chain_inlet *x = s->chain->inlets;
    while (x != NULL && x->source != l)
        x = x->next;
    if (x == NULL)
        return false;
    if (greeted) {
        x->told = x->all = true;
        x->answered = false;
        return false;
    }
    if ((m->request & REQUEST) == 0)
        return false;
    if (m->type == MSG_RECORDS && m->m->records.wanted != 0)
        outlets_joined(s, x->node, &m->m->records);
    if (m->request != REQUEST + x->number)
        return true; // from before the channel began anew
    if (m->type != MSG_RECORDS) {
        // A refusal: the sender's roster differs, or it has no memory. A sender with a newer
        // roster may never count this shard again.
        x->due = s->now + (TRY_NS << x->refused);
        x->refused += x->refused < REFUSED_MOST;
        return true;
    }
    const struct msg_records *r = &m->m->records;
    x->refused = 0;
    if (r->epoch > member_roster(s->member)->epoch)
        member_want_roster(s->member, r->epoch);
    if (x->anew)
        inlet_begin(&x->i, r->at);
    x->anew = false;
    x->answered = true;
    // Bytes that cannot be kept are asked for again.
    if ((!x->behind || inlet_left(&x->i) < STAGE_BYTES) &&
        inlet_add(&x->i, r->at, r->bytes.data, r->bytes.n) == 0) {
        x->try_at = s->now;
        x->told = true;
        x->all |= r->bytes.n == 0; // there is time to repeat what may be lost
    } else {
        x->due = s->now + TRY_NS;
    }
    return true;
}

bool chain_message(struct shard *s, const struct source_link *l,
                   const struct van_message *m, bool greeted)
{
    return read_leases_message(s, l, m, greeted) || inlets_message(s, l, m, greeted);
}
