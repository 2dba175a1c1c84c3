// See records.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/records.h"

#include "cluster/roster.h"
#include "protocol/limits.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// The session and the identity of a push, by which a repeat is found if this loop serves
// the partition later.
struct notes {
    uint64_t session, number, pass, piece, table, group, low;
};
enum { NOTES = sizeof(struct notes) / sizeof(uint64_t) };

size_t records_push_bytes(size_t n, size_t width)
{
    return sizeof(struct notes) + partition_push_bytes(n, width);
}

int records_add_push(const struct shard_table *t, const struct msg_push *m,
                     const struct store_push *p, size_t first, size_t n, struct buf *to)
{
    struct notes x = {.session = m->session,
                      .number = m->number,
                      .pass = m->id_pass,
                      .piece = m->id_piece,
                      .table = t->spec.id,
                      .group = m->id_group,
                      .low = m->id_low};
    TRY(stream_add(to, &x, sizeof(x)));
    return partition_add_push(t, p, first, n, to);
}

int records_add_table(const struct shard_table *t, struct buf *to)
{
    uint64_t head[] = {t->spec.id, t->config.len};
    TRY(stream_add_u64s(to, head, 2));
    return stream_add(to, t->config.data, t->config.len);
}

// Begins to record the push as applied. All numbers that are too far below this one are
// acknowledged, because the primary has accepted the push: so the session's mark can be
// raised, and the number is never beyond the window.
static int begin_note(struct shard *s, enum wire_space space, const struct notes *x,
                      struct retries_push *ret, struct err *e)
{
    const struct retries_id id = {.pass = x->pass,
                                  .piece = x->piece,
                                  .table = (uint32_t)x->table,
                                  .group = (uint32_t)x->group,
                                  .low = (uint32_t)x->low};
    uint64_t low = x->number >= SHARD_WINDOW ? x->number + 1 - SHARD_WINDOW : 0;
    *ret = (struct retries_push){0};
    // A shard that has forgotten a session must not remember it again.
    if (roster_session_over(member_roster(s->member), x->session))
        return 0;
    return retries_begin(s->applied, x->session, x->number, low, space, &id, ret, e);
}

static int apply_push(struct shard *s, const struct channel_record *r, struct err *e)
{
    struct stream x = {r->bytes, r->n, 0};
    struct retries_push known;
    struct notes notes;
    const void *from = stream_take(&x, NOTES, sizeof(uint64_t));
    if (from == NULL)
        return stream_damaged(e);
    memcpy(&notes, from, sizeof(notes));
    if (notes.session == 0 || notes.number == UINT64_MAX)
        return stream_damaged(e);
    TRY(begin_note(s, r->space, &notes, &known, e));
    TRY(partition_put_push(s, r->space, r->partition, r->bytes + x.at, r->n - x.at, e));
    retries_note(&known, r->partition);
    return 0;
}

static int apply_table(struct shard *s, const struct channel_record *r, struct err *e)
{
    struct stream x = {r->bytes, r->n, 0};
    uint64_t head[2];
    if (!stream_u64s(&x, head, 2) || head[0] >= SPEC_MAX_TABLES ||
        head[1] > WIRE_TEXT_MAX)
        return stream_damaged(e);
    const char *config = stream_take(&x, head[1], 1);
    if (config == NULL)
        return stream_damaged(e);
    struct msg_table m = {.table = (uint32_t)head[0],
                          .config = {config, (uint32_t)head[1]}};
    return tables_make(s, &m, e);
}

int records_apply(struct shard *s, const struct channel_record *r, struct err *e)
{
    return r->kind == RECORD_PUSH    ? apply_push(s, r, e)
           : r->kind == RECORD_TABLE ? apply_table(s, r, e)
                                     : stream_damaged(e);
}
