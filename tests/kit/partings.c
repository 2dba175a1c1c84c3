// See partings.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/partings.h"

#include "base/random.h"

enum { PARTINGS = 0x900 }; // a stream of random numbers, which differs from the worlds'

static uint64_t draw(struct partings *p, uint64_t n)
{
    return random_below(p->stage->o->seed, PARTINGS, p->draws++, n);
}

// A scheduler that dies and comes back is not parted from anybody, nor from a server whose
// heartbeats may be silent.
static struct van *other_end(struct partings *p, const struct stage_server *a)
{
    struct stage *s = p->stage;
    struct stage_server *b = &s->servers[draw(p, s->n_servers)];
    if (draw(p, 4) == 0 && !s->o->keeps && !s->restarted && !sim_has_silences(s->o->seed))
        return s->scheduler_van;
    return a != b && stage_is_there(b) ? b->van : NULL;
}

// In quick worlds partings are short and many, so that records are late while the chain changes.
static uint64_t length(struct partings *p, bool from_scheduler)
{
    if (stage_is_quick(p->stage))
        return 20 * MS + draw(p, 400 * MS);
    if (from_scheduler || draw(p, 2) == 0)
        return 400 * MS + draw(p, 1600 * MS);
    return 4 * SECOND + draw(p, 6 * SECOND);
}

static void begin(struct partings *p)
{
    struct stage *s = p->stage;
    uint64_t now = sim_now(s->sim);
    struct stage_server *a = &s->servers[draw(p, s->n_servers)];
    struct van *b = other_end(p, a);
    bool one_way = draw(p, 2) == 0, turned = draw(p, 2) == 0;
    p->next = now + (stage_is_quick(p->stage) ? draw(p, 500 * MS)
                                              : SECOND / 2 + draw(p, 10 * SECOND));
    if (b == NULL || !stage_is_there(a))
        return;
    p->from = turned ? b : a->van;
    p->to = turned ? a->van : b;
    p->until = now + length(p, b == s->scheduler_van);
    p->made++;
    if (one_way)
        sim_part_one_way(s->sim, p->from, p->to);
    else
        sim_partition(s->sim, p->from, p->to, true);
}

void partings_act(struct partings *p, bool over)
{
    uint64_t now = sim_now(p->stage->sim);
    if (p->from != NULL && (now >= p->until || p->stage->restarted)) {
        sim_partition(p->stage->sim, p->from, p->to, false);
        p->from = p->to = NULL;
    }
    if (p->from == NULL && now >= p->next && !over && !p->stage->calm)
        begin(p);
}

bool partings_done(const struct partings *p)
{
    return p->from == NULL;
}
