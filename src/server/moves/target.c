// The new owner's side of a move: fetches the bytes of a partition, installs them, and
// reports its progress to the scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "server/moves/moves.h"
#include "server/moves/partition.h"
#include "server/moves/stream.h"
#include "server/shard_internal.h"

#define MS (SECOND_NS / 1000)
#define ASK_AGAIN_NS (2 * SECOND_NS) // pause before an unanswered request is repeated
// Pause after an answer without bytes. Before the first bytes it begins with BEGIN_NS,
// because the source may only lack the newest roster, and doubles up to NOTHING_NS.
#define BEGIN_NS (MS / 2)
#define NOTHING_NS (10 * MS)
#define WAIT_NS (5 * MS)        // pause after the scheduler's answer "not yet"
#define PROGRESS_NS (500 * MS)  // interval of reports about progress
#define LATE_NS (2 * SECOND_NS) // time by which hand-overs may delay such a report

// Partitions are handed over together, in one epoch, because each hand-over stops all
// requests for the partition, and each epoch makes clients cut their requests anew. A
// partition that is copied waits at most COPIED_NS for the others that are being fetched;
// one that has arrived waits at most ARRIVED_NS, because no loop serves it while it waits.
#define COPIED_NS (200 * MS)
#define ARRIVED_NS (10 * MS)

// FEW_BYTES: partitions can be handed over when their sources have at most this many bytes
// left together, which take a few ms. STAGE_BYTES: while complete records of this size wait
// to be applied, no further bytes are fetched. AHEAD_BYTES: while more bytes than this wait
// to be applied, no copy of another partition begins.
enum { FEW_BYTES = 1 << 20, STAGE_BYTES = 2 << 20, AHEAD_BYTES = 1 << 20 };

// ---------------------------------------------------------------- the scheduler

static struct incoming *incoming_find(struct shard *s, uint64_t id)
{
    struct incoming *m = s->moves.in;
    while (m != NULL && m->move.id != id)
        m = m->next;
    return m;
}

static void enter(struct shard *s, struct incoming *m, enum incoming_state state)
{
    m->state = state;
    m->since = s->now;
    s->moves.again = true;
}

void incoming_fail(struct shard *s, struct incoming *m)
{
    assert(m->why.code != 0);
    if (m->why.reason == REASON_DISK)
        m->why.code = TUG_ENOMEM; // another loop is to get the partition
    source_link_leave(s, m);
    moves_buffer_leave(s, &m->bytes);
    enter(s, m, INCOMING_FAILED);
    m->say_at = s->now;
}

// Called when the scheduler has given the move up. If all rows have arrived, they stay
// until the roster says as well that the move was given up.
static void incoming_give_up(struct shard *s, struct incoming *m)
{
    m->say_at = VAN_NEVER;
    if (m->state == INCOMING_HERE)
        return;
    source_link_leave(s, m);
    moves_buffer_leave(s, &m->bytes);
    enter(s, m, INCOMING_OVER);
}

// Returns the scheduler's answer for one of the moves of a report.
static enum wire_moved word_for(const struct incoming *m, uint64_t answer)
{
    enum wire_moved word = answer & ((1 << WIRE_MOVED_BITS) - 1);
    if (word != WIRE_MOVE_SOME)
        return word;
    return answer >> (WIRE_MOVED_BITS + m->place) & 1 ? WIRE_MOVE_GO_ON : WIRE_MOVE_WAIT;
}

static void take_word(struct shard *s, struct incoming *m, uint8_t said,
                      enum wire_moved word)
{
    if (said == WIRE_MOVE_COPIED && m->state == INCOMING_ASKS) {
        if (word == WIRE_MOVE_GO_ON) {
            enter(s, m, INCOMING_ENDS);
            m->due = s->now;
        }
        m->say_at = s->now + (word == WIRE_MOVE_GO_ON ? PROGRESS_NS : WAIT_NS);
    } else if (said == WIRE_MOVE_ARRIVED && m->state == INCOMING_HERE) {
        m->say_at = word == WIRE_MOVE_GO_ON ? VAN_NEVER : s->now + WAIT_NS;
    } else if (said == WIRE_MOVE_FAILED) {
        m->say_at = VAN_NEVER;
    }
}

static void scheduler_answers(void *ctx, const struct van_message *x)
{
    struct shard *s = ctx;
    uint64_t saying = s->moves.saying;
    s->moves.saying = 0;
    for (struct incoming *m = s->moves.in; m != NULL; m = m->next) {
        if (!m->reported || x == NULL)
            continue;
        if (x->type != MSG_OK) // the scheduler does not know this move
            m->say_at = s->now + SECOND_NS;
        else if (word_for(m, x->m->ok.value) != WIRE_MOVE_OVER)
            take_word(s, m, s->moves.said, word_for(m, x->m->ok.value));
        else if (m->move.id == saying)
            incoming_give_up(s, m);
        else // the answer is not about this move
            m->say_at = s->now;
    }
}

static uint8_t state_of(const struct incoming *m)
{
    switch (m->state) {
    case INCOMING_ASKS:
        return WIRE_MOVE_COPIED;
    case INCOMING_HERE:
        return WIRE_MOVE_ARRIVED;
    case INCOMING_FAILED:
        return WIRE_MOVE_FAILED;
    default:
        return WIRE_MOVE_COPYING;
    }
}

// Returns whether the partition waits for others that will soon have the same state, so
// that they are reported together.
static bool waits_for_others(const struct shard *s, const struct incoming *m)
{
    bool copied = m->state == INCOMING_ASKS;
    enum incoming_state before = copied ? INCOMING_COPIES : INCOMING_ENDS;
    if ((!copied && m->state != INCOMING_HERE) ||
        s->now >= m->since + (copied ? COPIED_NS : ARRIVED_NS))
        return false;
    const struct incoming *x = s->moves.in;
    while (x != NULL && x->state != before)
        x = x->next;
    return x != NULL;
}

// Returns the number of bytes that must still be fetched or applied.
static uint64_t bytes_left(const struct incoming *m)
{
    return m->total - m->n + m->bytes.len;
}

// Lists the other moves that are reported with m, which have its state. Partitions are
// handed over together only if their sources have few bytes left. The moves that do not
// fit a report are in the next one.
static int list_others(struct shard *s, const struct incoming *m, struct buf *to)
{
    uint64_t left = bytes_left(m);
    uint32_t n = 1;
    for (struct incoming *x = s->moves.in; x != NULL; x = x->next) {
        struct wire_moving one = {x->move.id, x->n, x->total};
        x->reported = x == m;
        x->place = 0;
        if (x == m || n == WIRE_MOVES_MOST || x->state != m->state ||
            x->say_at == VAN_NEVER ||
            (m->state != INCOMING_ASKS && m->state != INCOMING_HERE))
            continue;
        left += m->state == INCOMING_ASKS ? bytes_left(x) : 0;
        if (left > FEW_BYTES)
            continue;
        TRY(wire_put_moving(to, &one));
        x->reported = true;
        x->place = n++;
        x->say_at = s->now + PROGRESS_NS;
    }
    return 0;
}

static void incoming_say(struct shard *s, struct incoming *m)
{
    struct buf others = BUF_INIT(WIRE_TEXT_MAX);
    struct msg_move_says x = {.move = m->move.id,
                              .state = state_of(m),
                              .bytes = m->n,
                              .total = m->total,
                              .code = m->why.code,
                              .why = wire_text(m->why.text)};
    m->say_at = s->now + PROGRESS_NS;
    int rc = list_others(s, m, &others);
    x.others = (struct wire_text){others.data, (uint32_t)others.len};
    s->moves.saying = m->move.id;
    s->moves.said = x.state;
    if (rc != 0 || member_ask(s->member, MSG_MOVE_SAYS, &x, scheduler_answers, s) != 0)
        s->moves.saying = 0; // it is reported again after a while
    buf_free(&others);
}

// ---------------------------------------------------------------- the source

static void ask(struct shard *s, struct incoming *m)
{
    struct msg_move_wanted x = {.session = member_session(s->member),
                                .move = m->move.id,
                                .at = m->n,
                                .finish = m->state == INCOMING_ENDS};
    m->due = s->now + ASK_AGAIN_NS;
    s->moves.asked = true;
    van_send(s->van, m->source->s.link, MSG_MOVE_WANTED, m->move.id, &x, NULL);
}

static bool has_record(const struct incoming *m)
{
    return partition_has_record(m->bytes.data, m->bytes.len);
}

// Keeps bytes until their record is complete. Rows count against --memory when they are
// applied. Before that only a few MiB are kept, except that a record may be larger; the
// bytes of such a record are checked here.
static int take_piece(struct shard *s, struct incoming *m, const struct msg_parcel *x,
                      struct err *e)
{
    if (x->total < m->n || x->bytes.n > x->total - m->n || x->bytes.n % STREAM_ALIGN != 0)
        return err_set(
            e, TUG_EDATA,
            "node %u sends bytes of partition %u that differ from those it announced",
            m->source->node, m->move.partition);
    if (m->bytes.len >= STAGE_BYTES && !has_record(m))
        TRY(partition_fits(s, m->bytes.len + x->bytes.n, e));
    moves_buffer_take(s, &m->bytes);
    if (buf_add(&m->bytes, x->bytes.data, x->bytes.n) != 0)
        return err_nomem(e, "a partition that arrives");
    m->n += x->bytes.n;
    m->total = x->total;
    m->last = x->last != 0;
    return 0;
}

// Returns whether enough bytes wait to be applied, so that no more are fetched.
static bool is_full(const struct incoming *m)
{
    return m->bytes.len >= STAGE_BYTES && has_record(m);
}

// Returns the rest after a slice in which records of m were applied: MOVES_REST, but half
// of it for each second in which the bytes that are left have not become fewer. Otherwise
// a partition could not move if its pushes take more of the loop's time than the slices.
static uint32_t rest_after(const struct shard *s, struct incoming *m)
{
    uint64_t left = m->total - m->n + m->bytes.len;
    if (m->fell_at == 0 || left < m->left) {
        m->left = left;
        m->fell_at = s->now;
    }
    return (uint32_t)MOVES_REST >> min_u64((s->now - m->fell_at) / SECOND_NS, 31);
}

// Applies complete records, as many as fit into a slice.
static int apply_some(struct shard *s, struct incoming *m, bool *ret_settled)
{
    const struct roster_move *move = &m->move;
    uint64_t begun = moves_slice_begin(s);
    size_t at = 0, used = 1;
    int rc = 0;
    *ret_settled = false;
    while (rc == 0 && used > 0 && !*ret_settled) {
        rc = partition_put_one(s, move->space, move->partition, m->bytes.data + at,
                               m->bytes.len - at, &used, ret_settled, &m->why);
        at += used;
        if (moves_slice_over(s, begun))
            break;
    }
    if (at > 0)
        memmove(m->bytes.data, m->bytes.data + at, m->bytes.len - at);
    m->bytes.len -= at;
    if (m->bytes.len == 0)
        moves_buffer_leave(s, &m->bytes);
    m->behind = !*ret_settled && has_record(m);
    s->moves.rest_until = moves_slice_end(s, begun, rest_after(s, m));
    if (m->behind)
        m->try_at = s->now;
    return rc;
}

static void apply(struct shard *s, struct incoming *m)
{
    const struct roster_move *move = &m->move;
    bool settled;
    m->try_at = VAN_NEVER;
    if (!partition_is_apart(s, move->space, move->partition) ||
        roles_of(&s->roles, move->space, move->partition) != ROLE_AWAY) {
        m->behind = has_record(m);
        m->try_at = s->now + NOTHING_NS; // a save or an admin operation is under way
        return;
    }
    int rc = apply_some(s, m, &settled);
    if (rc == 0 && settled && (!m->last || m->bytes.len > 0))
        rc = stream_damaged(&m->why);
    if (rc == 0 && m->last && !settled && !m->behind)
        rc = stream_damaged(&m->why);
    if (rc != 0) {
        incoming_fail(s, m);
    } else if (settled) {
        source_link_leave(s, m);
        moves_buffer_leave(s, &m->bytes);
        enter(s, m, INCOMING_HERE);
        m->say_at = s->now;
    } else if (m->state == INCOMING_COPIES && m->bytes.len == 0 &&
               m->total - m->n <= FEW_BYTES) {
        enter(s, m, INCOMING_ASKS);
        m->say_at = s->now;
    }
    if (rc == 0 && m->due == VAN_NEVER && !m->last && !is_full(m))
        m->due = s->now;
}

static uint64_t next_pause(uint64_t last)
{
    return last == 0 ? BEGIN_NS : clock_earlier(2 * last, NOTHING_NS);
}

void incoming_take(struct shard *s, struct incoming *m, const struct van_message *x)
{
    const struct msg_parcel *p = &x->m->parcel;
    if (m->state > INCOMING_ENDS)
        return;
    if (x->type == MSG_ERROR) {
        wire_refusal(&x->m->error, NULL, &m->why);
        if (m->why.code == TUG_ENOMEM)
            m->why.code = TUG_EIO; // memory is short at the source, not here
        m->why.reason = REASON_NONE;
        incoming_fail(s, m);
        return;
    }
    if (x->type != MSG_PARCEL || p->move != m->move.id || p->at != m->n || m->last)
        return; // an answer to an earlier request, which is not needed any more
    if (p->bytes.n == 0 && !p->last) {
        m->pause = m->n > 0 ? NOTHING_NS : next_pause(m->pause);
        m->due = s->now + m->pause;
        if (m->state == INCOMING_COPIES && m->n > 0)
            m->try_at = s->now;
        return;
    }
    if (take_piece(s, m, p, &m->why) != 0) {
        incoming_fail(s, m);
        return;
    }
    if (!m->behind)
        m->try_at = s->now;
    if (m->last || is_full(m))
        m->due = VAN_NEVER; // after the last bytes, no more; else apply() asks for more
                            // when few bytes wait here
    else if (m->n < m->total)
        ask(s, m);
    else
        m->due = m->state == INCOMING_ENDS ? s->now : s->now + NOTHING_NS;
}

static bool is_begun(const struct shard *s, const struct incoming *m)
{
    return m->n > 0 || m->due > s->now;
}

// Returns whether the copy of m waits. Either its source still copies another partition
// for this shard: several copies at once would stop the source's requests for longer. Or
// enough bytes of other partitions wait to be applied: an earlier copy would only mean that
// both ends apply more pushes.
static bool waits_for_copy(const struct shard *s, const struct incoming *m)
{
    size_t staged = 0;
    if (m->state != INCOMING_COPIES || is_begun(s, m))
        return false;
    for (const struct incoming *x = s->moves.in; x != NULL; x = x->next) {
        if (x->source == m->source && x->state == INCOMING_COPIES && is_begun(s, x) &&
            (x->n == 0 || x->n < x->total))
            return true;
        if (x->move.space == m->move.space && x->try_at != VAN_NEVER)
            staged += x->bytes.len;
    }
    return staged > AHEAD_BYTES;
}

// Asks the source for more bytes when m->due has come. source_links_tick() opens the
// session.
static uint64_t fetch(struct shard *s, struct incoming *m)
{
    if (m->source->s.state != SESSION_OPEN)
        return VAN_NEVER;
    if (waits_for_copy(s, m))
        return s->now + NOTHING_NS; // earlier, when anything else happens
    if (m->due <= s->now)
        ask(s, m);
    return m->due;
}

// ---------------------------------------------------------------- the roster

static void incoming_free(struct shard *s, struct incoming *m)
{
    struct incoming **at = &s->moves.in;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    source_link_leave(s, m);
    moves_buffer_leave(s, &m->bytes);
    mem_free(m);
}

static uint64_t drop(struct shard *s, struct incoming *m)
{
    if (m->try_at == VAN_NEVER || m->try_at <= s->now)
        m->try_at = partition_drop_slice(s, m->move.space, m->move.partition);
    if (m->try_at != VAN_NEVER)
        return m->try_at;
    incoming_free(s, m);
    return VAN_NEVER;
}

static bool goes(const struct shard *s, const struct roster_move *move)
{
    const struct outgoing *o = s->moves.out;
    while (o != NULL &&
           (o->move.space != move->space || o->move.partition != move->partition))
        o = o->next;
    return o != NULL;
}

// Drops rows of the partition that this shard still has because it owned the partition
// earlier. Returns whether no rows are left.
static bool is_clear(struct shard *s, const struct incoming *m)
{
    const struct roster_move *move = &m->move;
    return m->n > 0 ||
           (!goes(s, move) &&
            (roles_of(&s->roles, move->space, move->partition) == ROLE_AWAY ||
             partition_drop_slice(s, move->space, move->partition) == VAN_NEVER));
}

// Applies the bytes that have arrived. Returns when to apply more.
static uint64_t install(struct shard *s, struct incoming *m)
{
    // At the end of a move records are applied at once, because requests wait.
    bool rests = m->state != INCOMING_ENDS && s->now < s->moves.rest_until;
    if (m->try_at <= s->now && !rests) {
        apply(s, m);
        s->moves.again = true; // more bytes may be fetched now
    }
    if (m->state > INCOMING_ENDS)
        return VAN_NEVER;
    if (m->try_at <= s->now && m->state != INCOMING_ENDS &&
        m->try_at < s->moves.rest_until)
        return s->moves.rest_until;
    return m->try_at;
}

uint64_t incoming_fetch(struct shard *s, struct incoming *m)
{
    if (m->state > INCOMING_ENDS || m->last)
        return VAN_NEVER;
    if (m->state == INCOMING_COPIES && !is_clear(s, m))
        // Waits until those rows are dropped; the scheduler still gets reports.
        return s->now + NOTHING_NS;
    return fetch(s, m);
}

uint64_t incoming_tick(struct shard *s, struct incoming *m)
{
    if (m->state == INCOMING_DROPS)
        return drop(s, m);
    return m->state <= INCOMING_ENDS ? install(s, m) : VAN_NEVER;
}

// Returns when to report the state of the move.
static uint64_t report_at(const struct shard *s, const struct incoming *m)
{
    if (m->state == INCOMING_DROPS)
        return VAN_NEVER;
    if (m->say_at > s->now || !waits_for_others(s, m))
        return m->say_at;
    return m->since + (m->state == INCOMING_ASKS ? COPIED_NS : ARRIVED_NS);
}

// The move with the smallest number is reported first. The scheduler gives up a move that
// is not reported for a long time, so progress must not wait for ever, even if many
// partitions wait for their hand-over.
static uint64_t report_order(const struct incoming *m)
{
    return m->say_at + (state_of(m) == WIRE_MOVE_COPYING ? LATE_NS : 0);
}

uint64_t incoming_report(struct shard *s)
{
    struct incoming *first = NULL;
    uint64_t next = VAN_NEVER;
    for (struct incoming *m = s->moves.in; m != NULL; m = m->next) {
        uint64_t at = report_at(s, m);
        if (at > s->now)
            next = clock_earlier(next, at);
        else if (first == NULL || report_order(m) < report_order(first))
            first = m;
    }
    if (first == NULL || s->moves.saying != 0)
        return next; // the answer to the last report causes the next one
    incoming_say(s, first);
    return clock_earlier(next, s->moves.saying != 0 ? first->say_at : s->now);
}

static void incoming_begin(struct shard *s, const struct roster *r,
                           const struct roster_move *move)
{
    struct incoming *m = mem_zalloc(sizeof(*m));
    struct source_link *l = m != NULL ? source_link_take(s, roster_tail(r, move->space,
                                                                        move->partition))
                                      : NULL;
    if (l == NULL) {
        // Memory is out: the next roster begins the move again, or the
        // scheduler gives it up.
        mem_free(m);
        return;
    }
    m->source = l;
    m->move = *move;
    m->bytes = BUF_INIT(SIZE_MAX / 2);
    m->try_at = VAN_NEVER;
    m->say_at = s->now + PROGRESS_NS;
    struct incoming **end = &s->moves.in; // the oldest move is fetched first
    while (*end != NULL)
        end = &(*end)->next;
    *end = m;
}

void incoming_follow(struct shard *s, const struct roster *r)
{
    uint32_t me = member_id(s->member);
    for (struct incoming *m = s->moves.in, *next; m != NULL; m = next) {
        next = m->next;
        const struct roster_move *is = roster_move_of(r, m->move.space,
                                                      m->move.partition);
        if ((is != NULL && is->id == m->move.id) || m->state == INCOMING_DROPS)
            continue;
        if (m->state == INCOMING_HERE &&
            roster_is_member(r, m->move.space, m->move.partition, me)) {
            incoming_free(s, m);
            continue;
        }
        source_link_leave(s, m);
        moves_buffer_leave(s, &m->bytes);
        m->state = INCOMING_DROPS;
        m->say_at = m->try_at = VAN_NEVER;
        (void)drop(s, m);
    }
    for (uint32_t i = 0; i < r->n_moves; i++)
        if (r->moves[i].to == me && incoming_find(s, r->moves[i].id) == NULL)
            incoming_begin(s, r, &r->moves[i]);
}
