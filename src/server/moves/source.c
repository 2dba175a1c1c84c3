// The owner's side of a move: gives the bytes of a partition to the loop that is to have
// it. When that loop asks for the end, the partition stops, and its bytes are written once
// and kept, so that any piece can be asked for again.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "server/clocks/pending.h"
#include "server/moves/moves.h"
#include "server/moves/parcel.h"
#include "server/shard_internal.h"

enum { PIECE_BYTES = 2 << 20 };
#define RETRY_NS (SECOND_NS / 100)

static struct outgoing *find(const struct shard *s, uint64_t id)
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

// Answers that there is nothing yet. If the target knows of a newer roster, or this shard
// does, it asks again when both have it.
static enum outcome answer_nothing(struct shard *s, const struct request *q)
{
    struct msg_parcel m = {.move = q->m->move_wanted.move, .at = q->m->move_wanted.at};
    van_send(s->van, q->peer->link, MSG_PARCEL, q->id, &m, NULL);
    return ANSWERED;
}

static enum outcome answer_piece(struct shard *s, const struct request *q,
                                 const struct outgoing *o)
{
    uint64_t at = q->m->move_wanted.at, n = o->bytes.len - at;
    struct van_release release;
    n = n < PIECE_BYTES ? n : PIECE_BYTES;
    char *piece = pool_take(s->pool, n + 1, &release);
    if (piece == NULL)
        return answer_nothing(s, q);
    memcpy(piece, o->bytes.data + at, n);
    struct msg_parcel m = {.move = o->move.id,
                           .at = at,
                           .total = o->bytes.len,
                           .last = at + n == o->bytes.len,
                           .bytes = {piece, n}};
    van_send(s->van, q->peer->link, MSG_PARCEL, q->id, &m, &release);
    return ANSWERED;
}

// Stops the partition and writes its bytes.
static int hand_over(struct shard *s, const struct roster_move *move,
                     struct outgoing **ret, struct err *e)
{
    struct outgoing *o = mem_zalloc(sizeof(*o));
    *ret = NULL;
    if (o == NULL)
        return err_nomem(e, "a partition that moves");
    o->move = *move;
    o->bytes = BUF_INIT(SIZE_MAX / 2);
    int rc = partition_get(s, move->space, move->partition, &o->bytes, e);
    if (rc != 0) {
        buf_free(&o->bytes);
        mem_free(o);
        return rc;
    }
    o->next = s->moves.out;
    s->moves.out = o;
    roles_set(&s->roles, move->space, move->partition, ROLE_HANDING);
    roles_count(&s->roles, member_roster(s->member), member_id(s->member));
    *ret = o;
    return 0;
}

enum outcome move_wanted_serve(struct shard *s, struct request *q)
{
    const struct msg_move_wanted *m = &q->m->move_wanted;
    const struct roster *r = member_roster(s->member);
    const struct roster_move *move = move_of(r, m->move);
    struct err e = {0};
    if (move == NULL || r->owners[move->space][move->partition] != member_id(s->member))
        return answer_nothing(s, q);
    struct outgoing *o = find(s, m->move);
    if (move->to != q->peer->node)
        err_set(&e, TUG_EUSAGE, "partition %u moves to node %u, not to node %u",
                move->partition, move->to, q->peer->node);
    else if (o == NULL &&
             (!m->finish || !partition_is_free(s, move->space) ||
              roles_of(&s->roles, move->space, move->partition) != ROLE_HERE))
        return answer_nothing(s, q); // a save or an admin operation is under way
    else if (o == NULL)
        hand_over(s, move, &o, &e);
    if (e.code == 0 && m->at >= o->bytes.len)
        err_set(&e, TUG_EUSAGE, "partition %u has %zu bytes, and none from byte %llu on",
                move->partition, o->bytes.len, (unsigned long long)m->at);
    if (e.code == 0)
        return answer_piece(s, q, o);
    shard_refuse(s, q, &e);
    return ANSWERED;
}

// Frees the outgoing partition at *at. Requests for it may go on.
static void outgoing_free(struct shard *s, struct outgoing **at)
{
    struct outgoing *o = *at;
    *at = o->next;
    buf_free(&o->bytes);
    mem_free(o);
    pending_wake(s, WANTS_MOVE);
}

// Ends what the roster does not have any more: the partition is this shard's again, or
// goes.
void outgoing_follow(struct shard *s, const struct roster *r)
{
    for (struct outgoing **at = &s->moves.out; *at != NULL;) {
        struct outgoing *o = *at;
        const struct roster_move *m = roster_move_of(r, o->move.space, o->move.partition);
        bool mine = r->owners[o->move.space][o->move.partition] == member_id(s->member);
        if (mine && !o->gone && m != NULL && m->id == o->move.id) {
            at = &o->next;
            continue;
        }
        if (mine && !o->gone) {
            roles_set(&s->roles, o->move.space, o->move.partition, ROLE_HERE);
            outgoing_free(s, at);
            continue;
        }
        o->gone = true;
        at = &o->next;
    }
    (void)outgoing_tick(s);
}

// Drops the partitions that have gone, unless a save still reads them.
uint64_t outgoing_tick(struct shard *s)
{
    uint64_t next = VAN_NEVER;
    for (struct outgoing **at = &s->moves.out; *at != NULL;) {
        struct outgoing *o = *at;
        struct err e;
        buf_free(o->gone ? &o->bytes : &(struct buf){0});
        if (o->gone && partition_is_free(s, o->move.space) &&
            partition_drop(s, o->move.space, o->move.partition, &e) == 0) {
            outgoing_free(s, at);
            continue;
        }
        next = o->gone ? s->now + RETRY_NS : next;
        at = &o->next;
    }
    return next;
}
