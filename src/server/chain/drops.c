// Counts how often each table number was dropped. Records of tables and drops have this count,
// because they may come late and over several channels. A loop that is filled learns the counts
// with the rows and the facts of the partition, before it is a member of the chain.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/roster.h"
#include "server/chain/chain.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// A roster names tables by numbers that index chain.drops.
_Static_assert((int)ROSTER_TABLES == (int)SPEC_MAX_TABLES,
               "a roster can name each table");

// Returns whether the partition has arrived, and its chain does not have this shard yet.
static bool is_filled(const struct shard *s, enum wire_space space, uint32_t p)
{
    const struct incoming *m = s->moves.in;
    while (m != NULL && (m->move.space != space || m->move.partition != p ||
                         m->state != INCOMING_HERE))
        m = m->next;
    return m != NULL;
}

bool chain_has_some(const struct shard *s, enum wire_space space)
{
    const struct roster *r = member_roster(s->member);
    for (uint32_t p = 0; p >> s->bits == 0; p++)
        if (roles_of(&s->roles, space, p) != ROLE_AWAY &&
            (roster_is_member(r, space, p, member_id(s->member)) ||
             is_filled(s, space, p)))
            return true;
    return false;
}

static int interrupted(uint64_t table, struct err *e)
{
    return err_set(e, TUG_EINTERRUPTED, "table %llu was dropped while a partition moved",
                   (unsigned long long)table);
}

int chain_check_drops(uint64_t table, uint64_t drops, struct err *e)
{
    return drops <= INT32_MAX
               ? 0
               : err_set(
                     e, TUG_EDATA,
                     "another server says that table %llu was dropped %llu times, "
                     "which is not possible; if that happens again, replace that server",
                     (unsigned long long)table, (unsigned long long)drops);
}

int chain_learn_drops(struct shard *s, uint64_t table, uint64_t drops, struct err *e)
{
    if (s->chain == NULL)
        return 0;
    if (table >= SPEC_MAX_TABLES)
        return stream_damaged(e);
    TRY(chain_check_drops(table, drops, e));
    uint64_t *own = &s->chain->drops[table];
    struct shard_table *t = s->tables[table];
    // The source gets the record of the drop soon, and its table must not be made again here.
    // Or this shard gets the record of the source's table, and then drops its older one.
    if ((drops < *own && t == NULL) ||
        (drops > *own && t != NULL && !chain_has_some(s, t->spec.space)))
        return interrupted(table, e);
    *own = drops > *own ? drops : *own;
    if (t != NULL)
        t->drops = *own;
    return 0;
}

int chain_get_drops(const struct shard *s, struct buf *to)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < SPEC_MAX_TABLES; i++)
        n += s->tables[i] == NULL && s->chain->drops[i] > 0;
    TRY(stream_add_u64s(to, &n, 1));
    for (uint64_t i = 0; i < SPEC_MAX_TABLES; i++)
        if (s->tables[i] == NULL && s->chain->drops[i] > 0)
            TRY(stream_add_u64s(to, (uint64_t[]){i, s->chain->drops[i]}, 2));
    return 0;
}

int chain_take_drops(struct shard *s, struct stream *x, struct err *e)
{
    uint64_t n, one[2];
    if (!stream_u64s(x, &n, 1) || n > SPEC_MAX_TABLES)
        return stream_damaged(e);
    for (; n > 0; n--) {
        if (!stream_u64s(x, one, 2) || one[0] >= SPEC_MAX_TABLES)
            return stream_damaged(e);
        TRY(chain_check_drops(one[0], one[1], e));
        if (one[1] <= s->chain->drops[one[0]])
            continue;
        if (s->tables[one[0]] != NULL) // the record of the drop comes soon
            return interrupted(one[0], e);
        s->chain->drops[one[0]] = one[1];
    }
    return 0;
}
