// Makes room in the index for a partition that arrives, and for those after it: an index
// that grows row by row would be several times slower.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Returns how many of the partitions up to this one this shard has or gets. Partitions
// move in ascending order, so about this share of the next ones will come, too: a plan
// gives a new server the first partitions of each owner, which often are adjacent.
static uint32_t count_mine(const struct shard *s, enum wire_space space, uint32_t last)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p <= last; p++)
        n += roles_of(&s->roles, space, p) != ROLE_AWAY;
    for (const struct incoming *m = s->moves.in; m != NULL; m = m->next)
        n += m->move.space == space && m->move.partition <= last &&
             roles_of(&s->roles, space, m->move.partition) == ROLE_AWAY;
    return n;
}

static uint32_t count_servers(const struct roster *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        n += r->nodes[i].role == WIRE_SERVER && r->nodes[i].alive;
    return n > 0 ? n : 1;
}

void partition_reserve(const struct shard *s, const struct shard_table *t,
                       uint32_t partition, uint64_t rows)
{
    enum { FEW = 1024, MOST = 1 << 26, MANY_SERVERS = 16 };
    enum wire_space space = t->spec.space;
    uint32_t servers = count_servers(member_roster(s->member)), mine = 1, of = servers;
    uint64_t all = (rows << s->bits) / servers;
    uint64_t most = s->o.max_bytes / (store_accessor(t->store)->width * 4 + 16);
    if (rows < FEW || rows > MOST || all > MOST || (most != 0 && all > most))
        return;
    // An equal share is the least to expect. Ranges are reserved for the whole table. If
    // there are many servers, each gets fewer partitions than one part of the index has.
    uint64_t had = space != WIRE_SPACE_RANGE ? count_mine(s, space, partition) : 0;
    if (had * servers > partition + 1 && servers <= MANY_SERVERS)
        mine = (uint32_t)had, of = partition + 1;
    store_reserve_partition(t->store, partition, rows, mine, of);
}
