// SPDX-License-Identifier: Apache-2.0
#include "cluster/leases/leases_internal.h"
#include "cluster/scheduler/scheduler_keep.h"
#include "kit/broken.h"
#include "kit/guest.h"
#include "kit/journals.h"
#include "kit/test.h"

static void check(void)
{
    scheduler_check(w.s);
}

// A cluster of two servers, two workers and a driver, which are nodes 0 to 4 in the order
// in which they joined.
enum { SERVER, OTHER_SERVER, WORKER, OTHER_WORKER, DRIVER };

static struct sched_node *node(int i)
{
    return &w.s->nodes[i];
}

static struct process *process(int i)
{
    return &w.s->processes[node(i)->process];
}

static struct link *link_of(int i)
{
    for (uint32_t k = 0; k < w.s->n_links; k++)
        if (w.s->links[k].node == (uint32_t)i)
            return &w.s->links[k];
    fail();
    return NULL;
}

static void break_room(void)
{
    w.s->n_links = w.s->cap_links + 1;
}

static void break_free_place(void)
{
    node(WORKER)->used = false;
}

static void break_id(void)
{
    node(SERVER)->n.id++; // an id of the range of workers
}

static void break_session(void)
{
    node(WORKER)->n.session = w.s->session + 1;
}

static void break_process(void)
{
    process(WORKER)->rank += 7;
}

static void break_left(void)
{
    node(WORKER)->left = true;
}

static void break_used(void)
{
    w.s->used_nodes++;
}

static void break_ticket(void)
{
    node(OTHER_WORKER)->ticket = node(WORKER)->ticket;
}

static void break_gone_link(void)
{
    struct link *l = link_of(WORKER);
    l->link = 0;
    node(WORKER)->link = 0;
}

static void break_link_of_node(void)
{
    link_of(WORKER)->node = DRIVER;
}

static void break_node_of_link(void)
{
    link_of(WORKER)->node = SCHEDULER_NOBODY;
}

static void break_beats(void)
{
    link_of(WORKER)->beats = node(SERVER)->process;
}

static void break_links(void)
{
    link_of(WORKER)->node = SCHEDULER_NOBODY;
    node(WORKER)->link = 0;
    w.s->links[0].link = w.s->links[1].link;
    w.s->nodes[w.s->links[0].node].link = w.s->links[1].link;
}

static void break_loops(void)
{
    process(WORKER)->here = 0;
}

static void break_rank(void)
{
    process(OTHER_WORKER)->rank = process(WORKER)->rank;
    node(OTHER_WORKER)->n.rank = node(WORKER)->n.rank;
}

static void break_barrier(void)
{
    process(WORKER)->reached[WIRE_GROUP_WORKERS] = 9;
}

static void break_given(void)
{
    static struct given none;
    process(WORKER)->given = &none;
}

static void break_process_count(void)
{
    process(WORKER)->here = 2;
}

static void break_order(void)
{
    struct roster_node n = w.s->roster.nodes[1];
    w.s->roster.nodes[1] = w.s->roster.nodes[2];
    w.s->roster.nodes[2] = n;
}

static void break_version(void)
{
    w.s->roster.newest = w.s->session + 1;
}

static void break_list(void)
{
    w.s->roster.nodes[2].alive = false; // the entry of a worker
    w.s->changed = false;
}

static void break_owner(void)
{
    w.s->roster.owners[WIRE_SPACE_RANGE][5] = node(WORKER)->n.id;
}

static void break_encoded(void)
{
    w.s->encoded->msg.owners.n -= 4;
}

static void break_phase(void)
{
    w.s->phase = SCHEDULER_GATHERING; // the wrong phase, because there is a placement
}

static void break_end(void)
{
    w.s->finished = true;
}

static void break_driver(void)
{
    w.s->driven = !w.s->driven;
}

static void break_forgets(void)
{
    assert_int_equal(scheduler_forgets_room(w.s), 0);
    scheduler_forgets_add(w.s, 1, 1);
    w.s->forgets.list[0].version = w.s->roster.version + 2;
}

static void break_leases(void)
{
    leases_worker_dead(w.s->leases, node(WORKER)->n.id);
}

// Begins a move of partition 0 of sparse tables, between the two servers.
static struct move *made_move(void)
{
    struct moving *m = &w.s->moving;
    uint32_t from = w.s->roster.owners[WIRE_SPACE_SPARSE][0];
    struct move *x = scheduler_grow(&m->list, &m->n, &m->cap, sizeof(*x));
    x->id = m->last_id = 1;
    x->from = from;
    x->to = from == node(SERVER)->n.id ? node(OTHER_SERVER)->n.id : node(SERVER)->n.id;
    node(SERVER)->in_flight = node(OTHER_SERVER)->in_flight = 1;
    w.s->changed = true;
    return x;
}

static void break_move(void)
{
    made_move()->to = node(WORKER)->n.id;
}

static void break_owner_of_move(void)
{
    struct move *x = made_move();
    w.s->roster.owners[WIRE_SPACE_SPARSE][0] =
        x->to; // as if the move had ended but was not removed
}

static void break_in_flight(void)
{
    made_move();
    node(SERVER)->in_flight = 0;
}

static void break_hold(void)
{
    node(WORKER)->holds = node(WORKER)->held = true;
    w.s->moving.held_epoch = w.s->roster.epoch - 1;
}

static void break_hand_over(void)
{
    made_move()->handing = true;
    node(WORKER)->holds = node(WORKER)->held = true;
    w.s->moving.held_epoch = w.s->roster.epoch;
}

static void break_told_moves(void)
{
    made_move();
    w.s->changed = false;
}

static void break_left_moves(void)
{
    w.s->moving.left = 1;
}

static void break_sealed(void)
{
    w.s->keep->out.sealed = w.s->keep->out.n + 1;
}

static void break_state(void)
{
    w.s->keep->state = KEEP_FAILED;
}

static void break_kept_rows(void)
{
    w.s->keep->of[ROW_PROCESS].n++;
}

static const struct broken with_journal[] = {
    {"journal_is_in_its_state", break_sealed},
    {"journal_is_in_its_state", break_state},
    {"journal_has_no_other_rows", break_kept_rows},
};

static void break_members(void)
{
    struct roster *r = &w.s->roster;
    uint32_t *backups = r->backups[WIRE_SPACE_SPARSE] + (size_t)3 * r->replicas;
    backups[1] = backups[0];
}

// Plans the present members in the other order, to which no step leads.
static void break_steps(void)
{
    struct roster *r = &w.s->roster;
    assert_int_equal(scheduler_plan_make_room(w.s), 0);
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < roster_partitions(r); p++) {
            w.s->moving.wanted[space][2 * p] = r->backups[space][2 * p];
            w.s->moving.wanted[space][2 * p + 1] = r->owners[space][p];
        }
    scheduler_plan_count(w.s);
}

static const struct broken with_replicas[] = {
    {"chain_is_possible", break_members},
    {"chain_is_possible", break_steps},
};

static const struct broken all[] = {
    {"counts_have_room", break_room},
    {"free_place_is_empty", break_free_place},
    {"id_is_of_its_role", break_id},
    {"session_was_given", break_session},
    {"node_fits_its_process", break_process},
    {"node_is_up_to_date", break_left},
    {"nodes_hold", break_used},
    {"node_is_the_only_one", break_ticket},
    {"gone_link_is_empty", break_gone_link},
    {"link_leads_to_its_node", break_link_of_node},
    {"links_hold", break_node_of_link},
    {"beats_are_of_the_process", break_beats},
    {"is_the_only_one", break_links},
    {"loops_are_counted", break_loops},
    {"rank_is_its_own", break_rank},
    {"barriers_are_counted", break_barrier},
    {"given_is_waiting", break_given},
    {"processes_hold", break_process_count},
    {"roster_is_in_order", break_order},
    {"roster_is_numbered", break_version},
    {"roster_agrees", break_list},
    {"partition_has_its_server", break_owner},
    {"encoded_roster_holds", break_encoded},
    {"run_is_in_its_phase", break_phase},
    {"run_is_in_its_phase", break_end},
    {"run_has_one_driver", break_driver},
    {"forgets_hold", break_forgets},
    {"leases_know_the_worker", break_leases},
    {"move_is_possible", break_move},
    {"move_is_possible", break_owner_of_move},
    {"moves_hold", break_in_flight},
    {"hold_holds", break_hold},
    {"hold_holds", break_hand_over},
    {"roster_has_the_moves", break_told_moves},
    {"moves_hold", break_left_moves},
};

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    guest_open_world(2, 2);
    guest_add_all(2, 2, true);
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    world_close(&w);
}

static void test_invariants_of_a_journal_can_fail(void **state)
{
    (void)state;
    struct memory_journal journal;
    struct scheduler_options o = world_options(2, 2);
    journals_open(&journal);
    o.journal = &journal.base;
    world_open(&w, 1, &o);
    guest_add_all(2, 2, true);
    expect_all_broken(with_journal, sizeof(with_journal) / sizeof(*with_journal), check);
    world_close(&w);
    journals_free(&journal);
}

static void test_invariants_of_chains_can_fail(void **state)
{
    (void)state;
    struct scheduler_options o = world_options(3, 2);
    o.replicas = 2;
    world_open(&w, 1, &o);
    guest_add_all(3, 2, true);
    expect_all_broken(with_replicas, sizeof(with_replicas) / sizeof(*with_replicas),
                      check);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_invariant_can_fail),
        cmocka_unit_test(test_invariants_of_a_journal_can_fail),
        cmocka_unit_test(test_invariants_of_chains_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
