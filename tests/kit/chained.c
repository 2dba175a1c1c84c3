// See chained.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/chained.h"

#include <string.h>

#include "kit/test.h"

struct chained chained;

const struct roster *chained_roster(void)
{
    return scheduler_roster(w.s);
}

// ---------------------------------------------------------------- the watcher

bool chained_lives(uint32_t id)
{
    const struct roster_node *n = roster_find(chained_roster(), id);
    return n != NULL && n->alive;
}

uint32_t chained_takers(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.s->n_processes; i++) {
        const struct process *p = &w.s->processes[i];
        n += p->used && p->role == WIRE_SERVER && p->here > 0 && p->placed &&
             !p->draining;
    }
    return n;
}

void chained_look(void)
{
    const struct roster *r = chained_roster();
    chained.epoch = r->epoch;
    memset(chained.filled, 0, sizeof(chained.filled));
    for (int space = 0; space < WIRE_SPACES && r->epoch != 0; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++)
            chained.n[space][p] = roster_chain(r, (enum wire_space)space, p,
                                               chained.chains[space][p]);
    for (uint32_t i = 0; i < w.s->moving.n; i++) {
        const struct move *x = &w.s->moving.list[i];
        chained.filled[x->space][x->partition] = x->to;
    }
}

// A chain changes only as follows: members leave, and the loop that was filled is appended.
// A living member leaves only while as many others remain as there should be.
static void watch_chain(int space, uint32_t p)
{
    const uint32_t *before = chained.chains[space][p];
    uint32_t now[ROSTER_MAX_CHAIN], at = 0, left = 0;
    uint32_t n = roster_chain(chained_roster(), (enum wire_space)space, p, now);
    for (uint32_t i = 0; i < chained.n[space][p]; i++) {
        if (at < n && now[at] == before[i])
            at++;
        else
            left += chained_lives(before[i]) && before[i] != chained.out;
    }
    if (at + 1 == n && now[at] == chained.filled[space][p] && now[at] != 0)
        at++;
    assert_int_equal(at, n);
    uint32_t least = chained_takers() < chained.replicas ? chained_takers()
                                                         : chained.replicas;
    assert_true(left == 0 || n >= least);
    assert_true(n <= chained.replicas + 1);
    for (uint32_t i = 0; i < n; i++)
        assert_true(chained_lives(now[i]) || w.s->changed ||
                    w.s->phase != SCHEDULER_RUNNING);
}

void chained_watch(void)
{
    const struct roster *r = chained_roster();
    bool changed = false;
    for (int space = 0; space < WIRE_SPACES && chained.epoch != 0; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            uint32_t now[ROSTER_MAX_CHAIN];
            uint32_t n = roster_chain(r, (enum wire_space)space, p, now);
            changed |= n != chained.n[space][p] ||
                       memcmp(now, chained.chains[space][p], n * sizeof(*now)) != 0;
            watch_chain(space, p);
        }
    if (chained.epoch != 0)
        assert_int_equal(changed, r->epoch != chained.epoch);
    chained_look();
}

void chained_run(uint64_t until)
{
    until += sim_now(w.sim);
    while (sim_step(w.sim, until))
        chained_watch();
}

// ---------------------------------------------------------------- the cluster

struct scheduler_options chained_options(void)
{
    struct scheduler_options o = world_options(0, 1);
    o.partition_bits = CHAINED_BITS;
    o.replicas = chained.replicas;
    o.server_timeout_ns = chained.server_timeout;
    memset(o.session_key, 7, sizeof(o.session_key));
    if (chained.with_journal)
        o.journal = &chained.journal.base;
    return o;
}

struct actor *chained_add_server(bool late)
{
    static const char *const hosts[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.host = hosts[w.n % 8];
    o.late = late;
    o.zone = chained.zones != NULL ? chained.zones[w.n] : NULL;
    struct actor *a = world_add_with(&w, &o);
    a->together = true;
    return a;
}

void chained_open_seed(uint64_t seed, uint32_t n, uint32_t r)
{
    chained.replicas = r;
    struct scheduler_options o = chained_options();
    o.servers = n;
    world_open(&w, seed, &o);
    chained.epoch = 0;
    chained.out = 0;
    for (uint32_t i = 0; i < n; i++) {
        chained_add_server(false);
        chained_run(SECONDS / 2);
    }
    world_add(&w, WIRE_WORKER);
    chained_run(2 * SECONDS);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m));
}

void chained_open(uint32_t n, uint32_t r)
{
    chained.with_journal = false;
    chained_open_seed(1, n, r);
}

uint32_t chained_leads(int space, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++)
        n += chained_roster()->owners[space][p] == id;
    return n;
}

uint32_t chained_member_of(int space, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++)
        n += roster_is_member(chained_roster(), (enum wire_space)space, p, id);
    return n;
}

void chained_check_settled(uint32_t members)
{
    assert_int_equal(chained_roster()->n_moves, 0);
    assert_int_equal(w.s->moving.left, 0);
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            uint32_t chain[ROSTER_MAX_CHAIN];
            assert_int_equal(
                roster_chain(chained_roster(), (enum wire_space)space, p, chain),
                members);
        }
    for (uint32_t i = 0; i < w.n; i++) {
        struct actor *a = &w.actors[i];
        if (a->crashed || member_left(a->m) || member_ended(a->m, NULL))
            continue;
        const struct roster *r = member_roster(a->m);
        assert_int_equal(r->epoch, chained_roster()->epoch);
        assert_int_equal(r->replicas, chained.replicas);
        for (int space = 0; space < WIRE_SPACES; space++) {
            assert_memory_equal(r->owners[space], chained_roster()->owners[space],
                                CHAINED_PARTITIONS * sizeof(uint32_t));
            assert_memory_equal(r->backups[space], chained_roster()->backups[space],
                                CHAINED_PARTITIONS * chained.replicas * sizeof(uint32_t));
        }
    }
}

void chained_check_log(const char *words, bool there)
{
    if ((strstr(w.log, words) != NULL) != there)
        fail_msg("%s in the log:\n%s", words, w.log);
}

bool chained_drain(uint32_t id)
{
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_DRAIN, &(struct msg_drain){.node = id});
    van_free(guest.v);
    chained_look(); // the guest has run the simulation
    return guest.type == MSG_OK;
}

struct move chained_fill(void)
{
    assert_true(w.s->moving.n > 0);
    return w.s->moving.list[0];
}

struct actor *chained_actor(uint32_t id)
{
    uint32_t i = 0;
    while (i < w.n && member_id(w.actors[i].m) != id)
        i++;
    assert_in_range(i, 0, w.n - 1);
    return &w.actors[i];
}

// ---------------------------------------------------------------- reports

// Whether the server `me` reports that the node must leave the partition's chain: the node
// follows the server, or is the server itself and does not lead.
static bool is_reported(const struct roster *r, enum wire_space space, uint32_t p,
                        uint32_t me, uint32_t node)
{
    return me == node ? roster_is_member(r, space, p, me) && r->owners[space][p] != me
                      : roster_next(r, space, p, me) == node;
}

uint32_t chained_tell_out(struct actor *a, uint32_t node, int code,
                          bool (*is_out)[CHAINED_PARTITIONS])
{
    const struct roster *r = member_roster(a->m);
    uint64_t places[WIRE_SPACES * CHAINED_PARTITIONS];
    uint32_t me = member_id(a->m), n = 0;
    for (uint64_t space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            bool reported = is_reported(r, (enum wire_space)space, p, me, node);
            if (is_out != NULL && !reported)
                is_out[space][p] = true; // it has left, and may be filled again
            if (reported && (is_out == NULL || !is_out[space][p]))
                places[n++] = space << 32 | p;
        }
    struct msg_member_out m = {.epoch = r->epoch,
                               .node = node,
                               .code = code,
                               .why = wire_text("its disk is slow"),
                               .places = {places, n * sizeof(*places)}};
    if (n > 0)
        member_tell(a->m, MSG_MEMBER_OUT, &m);
    return n;
}

uint32_t chained_report_out(struct actor *a, uint32_t node, int code)
{
    bool is_out[WIRE_SPACES][CHAINED_PARTITIONS] = {0};
    uint32_t n = 0;
    chained.out = node;
    for (int i = 0; i < 12; i++) {
        uint32_t k = chained_tell_out(a, node, code, is_out);
        n = i == 0 ? k : n;
        chained_run(SECONDS / 4);
    }
    chained.out = 0;
    return n;
}
