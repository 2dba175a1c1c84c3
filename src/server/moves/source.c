// The owner's side of a move: sends the records of a partition to its next
// owner, the target. Each piece is kept until the next one is asked for, so it
// can be asked for again.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/search.h"
#include "server/clocks/pending.h"
#include "server/moves/moves.h"
#include "server/moves/partition.h"
#include "server/moves/partition_copy.h"
#include "server/room.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// PIECE_BYTES: most bytes of a message. AHEAD_BYTES: bytes that are copied before the
// target asks for them. LOG_BYTES: most bytes of pushes that are kept for a slow target.
// LOG_LEAST: bytes of pushes that may be kept even if --memory has no room for them.
enum { PIECE_BYTES = 2 << 20, AHEAD_BYTES = 1 << 20 };
enum { LOG_BYTES = 256 << 20, LOG_LEAST = 8 << 20 };

static struct outgoing *outgoing_find(const struct shard *s, uint64_t id)
{
    struct outgoing *o = s->moves.out;
    while (o != NULL && (o->move.id != id || o->gone))
        o = o->next;
    return o;
}

static const struct roster_move *move_of(const struct roster *r, uint64_t id)
{
    for (uint32_t i = 0; i < r->n_moves; i++)
        if (r->moves[i].id == id)
            return &r->moves[i];
    return NULL;
}

// Answers that there are no bytes yet; the target will ask again. This is also the answer
// if the rosters of the target and this shard differ.
static enum outcome answer_nothing(struct shard *s, const struct shard_request *q)
{
    struct msg_parcel m = {.move = q->m->move_wanted.move, .at = q->m->move_wanted.at};
    van_send(s->van, q->peer->link, MSG_PARCEL, q->id, &m, NULL);
    return ANSWERED;
}

static enum outcome answer_piece(struct shard *s, const struct shard_request *q,
                                 const struct outgoing *o)
{
    uint64_t at = q->m->move_wanted.at, skip = at - o->sent;
    uint64_t n = o->bytes.len - skip, total = o->sent + o->bytes.len;
    struct van_release release;
    if (n == 0 && o->copy != NULL) // a save or an admin operation keeps rows from being
                                   // copied
        return answer_nothing(s, q);
    total += partition_copy_left(o->copy);
    n = n < PIECE_BYTES ? n : PIECE_BYTES;
    // A target that repeats its request, and reads no answer, must not fill the memory.
    bool room = s->o.budget == NULL || room_now(s, q->peer, n);
    char *piece = room ? pool_take(s->pool, n + 1, &release) : NULL;
    if (piece == NULL)
        return answer_nothing(s, q);
    if (n > 0)
        memcpy(piece, o->bytes.data + skip, n);
    struct msg_parcel m = {.move = o->move.id,
                           .at = at,
                           .total = total,
                           .last = o->handing && at + n == total,
                           .bytes = {piece, n}};
    van_send(s->van, q->peer->link, MSG_PARCEL, q->id, &m, &release);
    return ANSWERED;
}

void outgoing_stop(struct shard *s, struct outgoing *o)
{
    partition_copy_close(o->copy);
    o->copy = NULL;
    moves_buffer_leave(s, &o->bytes);
}

static int outgoing_begin(struct shard *s, const struct roster_move *move,
                          struct outgoing **ret, struct err *e)
{
    struct outgoing *o = mem_zalloc(sizeof(*o));
    if (o == NULL)
        return err_nomem(e, "a partition that moves");
    o->move = *move;
    o->bytes = BUF_INIT(SIZE_MAX / 2);
    moves_buffer_take(s, &o->bytes);
    int rc = partition_copy_open(&o->copy, s, move->space, move->partition, &o->bytes, e);
    if (rc != 0) {
        buf_free(&o->bytes);
        mem_free(o);
        return rc;
    }
    struct outgoing **end = &s->moves.out; // the oldest partition is dropped first
    while (*end != NULL)
        end = &(*end)->next;
    *end = o;
    *ret = o;
    return 0;
}

// Copies rows until there are enough bytes for the next piece, which begins at byte `at`.
static int copy(struct shard *s, struct outgoing *o, uint64_t at, struct err *e)
{
    uint64_t begun = moves_slice_begin(s);
    moves_buffer_take(s, &o->bytes);
    o->bytes.max = SIZE_MAX / 2;
    while (!partition_copy_done(o->copy) && o->bytes.len - (at - o->sent) < AHEAD_BYTES &&
           partition_is_free(s, o->move.space)) {
        TRY(partition_copy_next(o->copy, &o->bytes, e));
        if (moves_slice_over(s, begun))
            break;
    }
    if (partition_copy_done(o->copy)) {
        partition_copy_close(o->copy);
        o->copy = NULL;
    }
    return 0;
}

// Ends the records of the partition with its facts. From now on requests for it wait.
// A partition that fills a backup is served on: from now on the target is its next member.
static int hand_over(struct shard *s, struct outgoing *o, struct err *e)
{
    size_t before = o->bytes.len;
    o->bytes.max = SIZE_MAX / 2;
    TRY(partition_get_facts(s, o->move.space, o->move.partition, &o->bytes, e));
    if (o->move.fills) {
        int rc = chain_begin_next(s, o->move.space, o->move.partition, o->move.to, e);
        o->bytes.len = rc != 0 ? before : o->bytes.len;
        o->handing = rc == 0;
        return rc;
    }
    o->handing = true;
    roles_set(&s->roles, o->move.space, o->move.partition, ROLE_HANDING);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    return 0;
}

// Frees the bytes before `at`, which have arrived at the target. This moves the other
// bytes within the buffer, which costs as much as sending them, so it is done only when
// half of the bytes have arrived.
static void forget(struct shard *s, struct outgoing *o, uint64_t at)
{
    uint64_t n = at - o->sent;
    if (n < o->bytes.len / 2 || n == 0)
        return;
    memmove(o->bytes.data, o->bytes.data + n, o->bytes.len - n);
    o->bytes.len -= n;
    o->sent = at;
    if (o->bytes.len == 0)
        moves_buffer_leave(s, &o->bytes);
}

static int prepare(struct shard *s, const struct msg_move_wanted *m, struct outgoing *o,
                   struct err *e)
{
    if (o->why.code != 0) {
        *e = o->why;
        return e->code;
    }
    if (m->at - o->sent > o->bytes.len)
        return err_set(e, TUG_EUSAGE, "partition %u has no bytes from byte %llu on",
                       o->move.partition, (unsigned long long)m->at);
    forget(s, o, m->at);
    o->asked |= m->at > 0;
    if (o->copy != NULL && copy(s, o, m->at, &o->why) != 0) {
        outgoing_stop(s, o);
        *e = o->why;
        return e->code;
    }
    if (m->finish && !o->handing && o->copy == NULL &&
        partition_is_free(s, o->move.space)) {
        if (bug_in(s->o.member.bugs, WITHOUT_LAST_PUSHES))
            o->bytes.len = m->at - o->sent;
        return hand_over(s, o, e);
    }
    return 0;
}

static bool can_copy(enum moves_role role)
{
    return role == ROLE_HERE || role == ROLE_BACKUP;
}

enum outcome move_wanted_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_move_wanted *m = &q->m->move_wanted;
    const struct roster *r = member_roster(s->member);
    const struct roster_move *move = move_of(r, m->move);
    struct err e = {0};
    if (move == NULL ||
        roster_tail(r, move->space, move->partition) != member_id(s->member))
        return answer_nothing(s, q);
    struct outgoing *o = outgoing_find(s, m->move);
    if (move->to != q->peer->node)
        err_set(&e, TUG_EUSAGE, "partition %u moves to node %u, not to node %u",
                move->partition, move->to, q->peer->node);
    else if (o == NULL && (!partition_is_free(s, move->space) ||
                           !can_copy(roles_of(&s->roles, move->space, move->partition))))
        return answer_nothing(s, q); // a save or an admin operation is under way
    else if (o == NULL)
        outgoing_begin(s, move, &o, &e);
    if (e.code == 0 && m->at < o->sent)
        return answer_nothing(s, q); // a late request that came over a link that has
                                     // broken
    if (e.code == 0 && prepare(s, m, o, &e) == 0)
        return answer_piece(s, q, o);
    if (e.reason == REASON_DISK && s->chain != NULL) // a copy cannot be made here
        leave_because(s, move->space, move->partition, &e);
    shard_refuse(s, q, &e);
    return ANSWERED;
}

// Returns the first of n keys, which ascend by partition, whose partition is not below
// this one.
static size_t first_of(const struct shard_table *t, const uint64_t *keys, size_t n,
                       uint32_t partition)
{
    return search_first(0, n, i, store_partition(t->store, keys[i]) >= partition);
}

// Returns how many bytes of pushes may be kept for targets: what --memory leaves beside
// the rows, but at least LOG_LEAST, so that partitions can leave a full server.
static uint64_t log_room(const struct shard *s)
{
    uint64_t left = s->o.max_bytes > s->bytes ? s->o.max_bytes - s->bytes : 0;
    if (s->o.max_bytes == 0 || left > LOG_BYTES)
        return LOG_BYTES;
    return left > LOG_LEAST ? left : LOG_LEAST;
}

// Appends the keys [first, first + n) of a push to the records. Breaks the move if
// there is no room for them.
static void note(struct shard *s, const struct shard_table *t, struct outgoing *o,
                 const struct store_push *p, size_t first, size_t n)
{
    uint64_t room = log_room(s);
    o->bytes.max = room;
    int rc = o->copy != NULL
                 ? partition_copy_push(o->copy, t, p, first, n, &o->bytes, &o->why)
             : n > 0 ? partition_get_push(s, t, o->move.partition, p, first, n, &o->bytes,
                                          &o->why)
                     : 0;
    if (rc == 0)
        return;
    if (rc == TUG_EDATA)
        err_set(&o->why, TUG_EIO,
                "pushes to partition %u come faster than its new owner takes them: more "
                "than %llu MB wait",
                o->move.partition, (unsigned long long)(room >> 20));
    outgoing_stop(s, o);
}

void moves_note(struct shard *s, const struct shard_table *t, const struct store_push *p,
                size_t n)
{
    if (t->unbacked)
        return;
    for (struct outgoing *o = s->moves.out; o != NULL; o = o->next) {
        uint32_t partition = o->move.partition;
        if (o->move.space != t->spec.space || o->why.code != 0 || o->handing || o->gone ||
            (!o->asked && bug_in(s->o.member.bugs, WITHOUT_POSITIONS)))
            continue;
        size_t first = first_of(t, p->keys, n, partition);
        size_t end = first + first_of(t, p->keys + first, n - first, partition + 1);
        note(s, t, o, p, first, end - first);
    }
}

// Frees the outgoing partition at *at. Requests for the partition need not wait any more.
void outgoing_free(struct shard *s, struct outgoing **at)
{
    struct outgoing *o = *at;
    *at = o->next;
    outgoing_stop(s, o);
    mem_free(o);
    pending_wake(s, WANTS_MOVE);
}

// Ends the moves that the roster does not have any more. The partition of such a move
// stays here, or is dropped if it belongs to another shard now.
void outgoing_follow(struct shard *s, const struct roster *r)
{
    for (struct outgoing **at = &s->moves.out; *at != NULL;) {
        struct outgoing *o = *at;
        const struct roster_move *m = roster_move_of(r, o->move.space, o->move.partition);
        bool mine = roster_is_member(r, o->move.space, o->move.partition,
                                     member_id(s->member));
        if (mine && !o->gone && m != NULL && m->id == o->move.id) {
            at = &o->next;
            continue;
        }
        if (mine && !o->gone) {
            if (!o->handing && !o->move.fills)
                assert(roles_of(&s->roles, o->move.space, o->move.partition) ==
                       ROLE_HERE);
            if (!o->move.fills)
                roles_set(&s->roles, o->move.space, o->move.partition, ROLE_HERE);
            outgoing_free(s, at);
            continue;
        }
        o->gone = true;
        at = &o->next;
    }
    (void)outgoing_tick(s);
}

// Drops rows of a partition that belongs to another shard now, unless a save still reads
// them. Returns whether none are left.
static bool drop(struct shard *s, struct outgoing *o)
{
    enum wire_space space = o->move.space;
    uint32_t partition = o->move.partition;
    uint64_t begun = moves_slice_begin(s), again = VAN_NEVER;
    outgoing_stop(s, o);
    if (roles_of(&s->roles, space, partition) != ROLE_AWAY)
        again = partition_drop_slice(s, space, partition);
    s->moves.drop_at = again != VAN_NEVER ? again : moves_slice_end(s, begun, MOVES_REST);
    return again == VAN_NEVER;
}

// Drops rows of the first partition that is gone. Requests are served between two
// partitions, and a busy shard also rests between them.
uint64_t outgoing_tick(struct shard *s)
{
    struct outgoing **at = &s->moves.out;
    while (*at != NULL && !(*at)->gone)
        at = &(*at)->next;
    if (*at == NULL)
        return VAN_NEVER;
    if (s->moves.drop_at <= s->now && drop(s, *at))
        outgoing_free(s, at);
    while (*at != NULL && !(*at)->gone)
        at = &(*at)->next;
    return *at != NULL ? s->moves.drop_at : VAN_NEVER;
}
