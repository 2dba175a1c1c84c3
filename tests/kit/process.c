// A process of a simulated world: its heartbeats, and which of its links fall silent. See
// cast.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/heartbeat.h"
#include "kit/cast.h"

struct sim_process {
    struct node node;
    struct heartbeat *heartbeat;
    struct van *beats, *main;
    atomic_bool lost; // the scheduler has told this process that it was declared dead
};

// A stream of random numbers, which differs from those of the worlds.
enum { SILENT_LINKS = 0x200 };

// Chooses the links of this process that fall silent. The link of heartbeats falls silent
// at a high rate, because heartbeats are few; other links do so at a low rate, because
// they have many messages. Then the link of heartbeats does not break: if it broke several
// times in succession while the other link is silent, nothing would arrive.
static void choose_silent_links(const struct sim_process *p, uint64_t seed)
{
    uint64_t number = p->node.process;
    if (!sim_has_silences(seed))
        return;
    switch (random_below(seed, SILENT_LINKS, 2 * number, 3)) {
    case 0:
        sim_van_silences(p->beats, 0.3);
        break;
    case 1:
        sim_van_silences(p->main, 0.01 * random_f64(seed, SILENT_LINKS, 2 * number + 1));
        sim_van_breaks_none(p->beats);
        break;
    default:
        break;
    }
}

int sim_process_open(struct sim_process **ret, struct sim *s,
                     const struct member_options *o, struct van *main, uint64_t seed,
                     struct err *e)
{
    char name[64];
    struct sim_process *p = *ret = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "a process");
    p->main = main;
    p->node.cluster = o->cluster;
    p->node.process = o->process;
    p->node.generation = o->generation;
    snprintf(p->node.scheduler, sizeof(p->node.scheduler), "%s", o->scheduler);
    snprintf(name, sizeof(name), "heartbeats%llu", (unsigned long long)o->process);
    TRY(heartbeat_open(&p->heartbeat, &p->node, &p->lost, e));
    struct van_handler h = heartbeat_handler(p->heartbeat);
    TRY(sim_van_open(&p->beats, s, name, &h, e));
    heartbeat_serve(p->heartbeat, p->beats);
    sim_van_loses_none(p->beats);
    choose_silent_links(p, seed);
    return 0;
}

void sim_process_crash(struct sim_process *p, struct sim *s)
{
    sim_crash(s, p->main);
    sim_crash(s, p->beats);
}

void sim_process_stop(struct sim_process *p, struct sim *s, uint64_t until, uint64_t lag)
{
    sim_stop(s, p->main, until, lag);
    sim_stop(s, p->beats, until, lag);
}

void sim_process_stop_reading(struct sim_process *p, struct sim *s, uint64_t until)
{
    sim_stop_reading(s, p->main, until);
    sim_stop(s, p->beats, until, 0);
}

void sim_process_close(struct sim_process *p)
{
    if (p == NULL)
        return;
    van_free(p->beats);
    heartbeat_stop(p->heartbeat);
    mem_free(p);
}

bool sim_process_is_lost(const struct sim_process *p)
{
    return atomic_load(&p->lost);
}

bool sim_process_is_given_up(const struct sim_process *p, const struct member *m,
                             const struct scheduler *s)
{
    const struct roster_node *n = roster_find(scheduler_roster(s), member_id(m));
    return atomic_load(&p->lost) || (n != NULL && !n->alive);
}
