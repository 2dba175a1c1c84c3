// See days.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/days.h"

#include <math.h>

#include "base/random.h"
#include "store/store_internal.h"

enum { STREAM = 0x500, MAX_OPERATIONS = 6 };

static uint64_t draw(struct sim_days *d, uint64_t n)
{
    return random_below(d->client->stage->o->seed, STREAM, d->draws++, n);
}

struct sim_days days_open(struct stage_client *c, uint32_t table)
{
    struct sim_days d = {.client = c, .table = table};
    d.left = (uint32_t)draw(&d, MAX_OPERATIONS);
    return d;
}

void days_let(struct sim_days *d)
{
    if (d->client == NULL || !stage_acts(d->client))
        return;
    struct stage *s = d->client->stage;
    uint64_t now = sim_now(s->sim);
    if (d->waits != 0) {
        if (!stage_is_over(d->client, &d->waits, "an admin operation"))
            return;
        d->ended += d->is_day;
        d->next_at = now + draw(d, SECOND);
        if (!d->is_day && d->removed != 0)
            stage_failed(s,
                         "a shrink has removed %llu rows, but the table has no lifecycle",
                         (unsigned long long)d->removed);
    } else if (d->left > 0 && now >= d->next_at) {
        struct client *c = d->client->client;
        d->left--;
        d->is_day = draw(d, 3) != 0;
        d->waits = stage_begun(
            d->client,
            d->is_day ? client_day(c, d->table, &s->said)
                      : client_shrink(c, d->table, NAN, &d->removed, &s->said),
            "an admin operation");
    }
}

bool days_are_over(const struct sim_days *d)
{
    return d->left == 0 && d->waits == 0;
}

void days_check(const struct sim_days *d, struct shard *server, uint32_t partition)
{
    const struct store *s = shards_store(server, d->table);
    if (s != NULL && s->parts[partition].day != d->ended)
        stage_failed(d->client->stage,
                     "partition %u has had %u days on node %u, but %u days have ended",
                     partition, s->parts[partition].day, member_id(shard_member(server)),
                     d->ended);
}
