// Nodes that have joined: their ids, ranks and links.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "cluster/scheduler/scheduler_internal.h"

enum {
    // The lowest id of servers and workers; as in ps-lite, servers have even ids, workers
    // odd ones.
    FIRST_ID = 8,
    FIRST_GUEST_ID = 1000000,
    MAX_LOOPS = 1024,
    MAX_GUESTS = ROSTER_MAX_NODES / 8, // limit of guests, so that workers still find room
};

static struct sched_node *by_ticket(struct scheduler *s, uint64_t ticket)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used && s->nodes[i].ticket == ticket)
            return &s->nodes[i];
    return NULL;
}

static uint32_t find_process(const struct scheduler *s, uint64_t process,
                             enum wire_role role)
{
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (s->processes[i].used && s->processes[i].process == process &&
            s->processes[i].role == role)
            return i;
    return SCHEDULER_NOBODY;
}

static bool has_living_nodes(const struct scheduler *s, uint32_t process)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].process == process && s->nodes[i].n.alive)
            return true;
    return false;
}

uint32_t scheduler_alive(const struct scheduler *s, enum wire_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        n += s->nodes[i].n.role == role && s->nodes[i].n.alive;
    return n;
}

// Returns whether this node holds its rank in this role: it is alive, or has left in
// order.
static bool holds_rank(const struct sched_node *n, enum wire_role role)
{
    return n->n.role == role && (n->n.alive || n->left);
}

static bool rank_taken(const struct scheduler *s, enum wire_role role, uint32_t rank)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (holds_rank(&s->nodes[i], role) && s->nodes[i].n.rank == rank)
            return true;
    return false;
}

// Returns the lowest free rank. One scan of all nodes covers many ranks, because thousands of
// nodes may join at one time.
static uint32_t free_rank(const struct scheduler *s, enum wire_role role)
{
    enum { RANKS = 4096 };
    for (uint32_t first = 0;; first += RANKS) {
        uint8_t taken[RANKS] = {0};
        for (uint32_t i = 0; i < s->n_nodes; i++) {
            const struct sched_node *n = &s->nodes[i];
            if (holds_rank(n, role) && n->n.rank >= first && n->n.rank - first < RANKS)
                taken[n->n.rank - first] = 1;
        }
        const uint8_t *is_free = memchr(taken, 0, RANKS);
        if (is_free != NULL)
            return first + (uint32_t)(is_free - taken);
    }
}

// Returns the number of servers or workers in the options of the cluster.
static uint32_t wanted_of(const struct scheduler *s, enum wire_role role)
{
    return role == WIRE_SERVER ? s->o.servers : s->o.workers;
}

// Returns the rank that the node asks for, if that rank is free and below the number for
// which the cluster was made; otherwise the lowest free rank.
static uint32_t rank_for(const struct scheduler *s, const struct msg_join *m)
{
    uint32_t wanted = wanted_of(s, m->role);
    if (m->wish > 0 && m->wish <= wanted && !rank_taken(s, m->role, m->wish - 1))
        return m->wish - 1;
    return free_rank(s, m->role);
}

// Returns whether a name has no control characters, which must not be printed.
static bool is_printable(struct wire_text t)
{
    return printable_check(t.data, t.n);
}

static const char *check_join(const struct msg_join *m)
{
    if (m->role < WIRE_SCHEDULER || m->role > WIRE_DRIVER)
        return "nodes of this role do not join a cluster";
    if (m->loops == 0 || m->loops > MAX_LOOPS || m->loop >= m->loops ||
        (m->role == WIRE_SCHEDULER && m->loops > 1))
        return "the numbers of the process's loops are inconsistent";
    if (m->tables > WIRE_TABLES_DENSE)
        return "it asks for a kind of tables that is not known";
    if (m->address.n >= VAN_ADDRESS_MAX || m->host.n >= WIRE_TEXT_MAX)
        return "its address or host name is too long";
    if (!is_printable(m->address) || !is_printable(m->host))
        return "its address or host name cannot be printed";
    if (m->zone.n >= WIRE_ZONE_MAX || !is_printable(m->zone))
        return "the name of its zone is too long or cannot be printed";
    if (m->role == WIRE_SERVER && m->address.n == 0)
        return "a server must listen";
    return NULL;
}

// Refuses a node that joins under the process number of a node with another role: all
// loops of a process have one role.
static const char *check_number(const struct scheduler *s, const struct msg_join *m,
                                char to[ERR_TEXT_MAX])
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const struct process *p = &s->processes[i];
        if (!p->used || p->process != m->process || p->role == m->role)
            continue;
        snprintf(to, ERR_TEXT_MAX,
                 "its process has already joined as a %s, and a process has one role; "
                 "start another process",
                 wire_role_name(p->role));
        return to;
    }
    return NULL;
}

// Checks a join against the nodes that `process` has so far. Returns the reason why the
// join is refused, or NULL.
static const char *check_process(const struct scheduler *s, uint32_t process,
                                 const struct msg_join *m)
{
    if (s->processes[process].loops != m->loops)
        return "its process has joined with another number of loops";
    if (!has_living_nodes(s, process))
        return "its process counts as dead; start it again";
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used && s->nodes[i].process == process &&
            s->nodes[i].n.loop == m->loop)
            return "this loop of its process has joined already";
    return NULL;
}

static const char *check_room(const struct scheduler *s, const struct msg_join *m,
                              char to[ERR_TEXT_MAX])
{
    if (m->role == WIRE_SCHEDULER && scheduler_alive(s, WIRE_SCHEDULER) > 0)
        // Two schedulers would have the same id.
        return "the cluster has its scheduler already";
    if (m->role != WIRE_SERVER)
        return NULL;
    if (m->fixed != 0 && scheduler_has_chains(s))
        return "handlers of the server's own program hold state that has no replicas; "
               "start the scheduler without --replicas";
    if (s->phase == SCHEDULER_GATHERING && free_rank(s, WIRE_SERVER) < s->o.servers)
        return NULL;
    if (m->late != 0 && s->phase <= SCHEDULER_RUNNING && m->fixed == 0 &&
        !scheduler_fixed(s))
        return NULL;
    if (m->late != 0)
        return s->phase > SCHEDULER_RUNNING ? "the run is over: no server can join it"
                                            : "servers cannot be added later: handlers "
                                              "of the servers' own program "
                                              "hold state that does not move";
    snprintf(
        to, ERR_TEXT_MAX,
        "this cluster was started for %u server%s, and %s; a server that is added later "
        "is started with --join",
        s->o.servers, s->o.servers == 1 ? "" : "s",
        s->o.servers == 1 ? "it has joined" : "all of them have joined");
    return to;
}

static uint32_t new_process(struct scheduler *s, const struct msg_join *m)
{
    uint32_t rank = m->role == WIRE_DRIVER ? s->n_guests : rank_for(s, m);
    uint32_t at = 0;
    while (at < s->n_processes && s->processes[at].used)
        at++;
    if (at == s->n_processes &&
        scheduler_grow(&s->processes, &s->n_processes, &s->cap_processes,
                       sizeof(*s->processes)) == NULL)
        return SCHEDULER_NOBODY;
    struct process *p = &s->processes[at];
    *p = (struct process){.used = true};
    p->process = m->process;
    p->role = m->role;
    p->rank = rank;
    p->loops = m->loops;
    p->fixed = m->role == WIRE_SERVER && m->fixed != 0;
    if (m->role == WIRE_SERVER && m->zone.n > 0)
        memcpy(p->zone, m->zone.data, m->zone.n);
    // The scheduler's own member is not late, even if it joins just after the cluster has
    // become ready.
    p->late = s->phase != SCHEDULER_GATHERING && m->role != WIRE_SCHEDULER;
    p->sign_at = s->now;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].link != 0 && s->links[i].beats_of == m->process &&
            proof_role_fits(m->role, s->links[i].role)) {
            s->links[i].beats = at;
            p->beats = true;
        }
    return at;
}

static struct sched_node *new_place(struct scheduler *s)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (!s->nodes[i].used)
            return &s->nodes[i];
    return scheduler_grow(&s->nodes, &s->n_nodes, &s->cap_nodes, sizeof(*s->nodes));
}

static bool id_given(const struct scheduler *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used && s->nodes[i].n.id == id)
            return true;
    return false;
}

// Programs for ps-lite compute ids from ranks and ranks from ids. So the first node of a
// rank has the id of that rank. Further loops, replacements of dead nodes, and nodes
// beyond the numbers in the options have higher ids.
static uint32_t new_id(struct scheduler *s, const struct msg_join *m, uint32_t rank)
{
    bool serves = m->role == WIRE_SERVER;
    uint32_t first = FIRST_ID + !serves, wanted = wanted_of(s, m->role);
    if (m->role == WIRE_SCHEDULER)
        return 1;
    if (m->role == WIRE_DRIVER)
        return FIRST_GUEST_ID + s->n_guests++;
    if (m->loop == 0 && rank < wanted && !id_given(s, first + 2 * rank))
        return first + 2 * rank;
    return first + 2 * (wanted + (serves ? s->more_servers++ : s->more_workers++));
}

// Fills in a new node. Returns false if memory is out.
static bool fill_node(struct scheduler *s, struct sched_node *n, uint32_t process,
                      const struct msg_join *m)
{
    uint64_t known_as;
    if (!proof_process(&known_as, s->o.session_key, m->process))
        return false;
    *n = (struct sched_node){.used = true, .process = process, .ticket = m->ticket};
    n->n = (struct roster_node){
        .id = new_id(s, m, s->processes[process].rank),
        .role = m->role,
        .tables = m->tables,
        .alive = true,
        .rank = s->processes[process].rank,
        .session = ++s->session,
        .process = known_as,
        .loop = m->loop,
        .pid = m->pid,
    };
    snprintf(n->n.host, sizeof(n->n.host), "%.*s", (int)m->host.n,
             m->host.n > 0 ? m->host.data : "");
    snprintf(n->n.address, sizeof(n->n.address), "%.*s", (int)m->address.n,
             m->address.n > 0 ? m->address.data : "");
    return true;
}

static bool is_full(const struct scheduler *s, enum wire_role role)
{
    uint32_t guests = 0;
    for (uint32_t i = 0; i < s->n_nodes && role == WIRE_DRIVER; i++)
        guests += s->nodes[i].used && s->nodes[i].n.role == WIRE_DRIVER;
    // one node less than the limit, because the scheduler itself is also in the roster
    return guests >= MAX_GUESTS || s->used_nodes >= ROSTER_MAX_NODES - 1;
}

bool scheduler_is_guest(const struct scheduler *s, const struct sched_node *n)
{
    return n->n.role == WIRE_DRIVER &&
           (n->n.pid != s->o.pid ||
            (s->o.host != NULL && strcmp(n->n.host, s->o.host) != 0));
}

// Adds a node. If it is refused, returns NULL with the reason in *ret_why. NULL without a
// reason means that memory is out; the node will ask again.
static struct sched_node *new_node(struct scheduler *s, const struct msg_join *m,
                                   const char **ret_why, char text[ERR_TEXT_MAX])
{
    *ret_why = check_join(m);
    // All loops count, including those that have joined, because members cannot read a
    // longer roster.
    if (*ret_why == NULL && is_full(s, m->role))
        *ret_why = "the cluster has as many nodes as it can have";
    if (*ret_why != NULL)
        return NULL;
    uint32_t process = find_process(s, m->process, m->role);
    *ret_why = process != SCHEDULER_NOBODY ? check_process(s, process, m)
                                           : check_number(s, m, text);
    if (*ret_why == NULL && process == SCHEDULER_NOBODY)
        *ret_why = check_room(s, m, text);
    if (*ret_why != NULL)
        return NULL;
    // A server that is added to a cluster waits until the cluster is complete.
    if (m->role == WIRE_SERVER && m->late != 0 && s->phase == SCHEDULER_GATHERING)
        return NULL;
    bool fresh = process == SCHEDULER_NOBODY;
    if (fresh)
        process = new_process(s, m);
    if (process == SCHEDULER_NOBODY)
        return NULL;
    struct sched_node *n = new_place(s);
    if (n == NULL || !fill_node(s, n, process, m) ||
        (m->role == WIRE_WORKER && leases_worker_joined(s->leases, n->n.id) != 0)) {
        if (n != NULL)
            n->used = n->n.alive = false;
        if (fresh)
            scheduler_free_process(s, process);
        return NULL;
    }
    s->used_nodes++;
    s->processes[process].here++;
    s->changed = true;
    char name[ROSTER_NAME_MAX];
    n->progress_at = s->now;
    n->marks[0] = n->marks[1] = (struct work_mark){.at = s->now};
    if (!scheduler_is_guest(s, n) && fresh) { // the join of a process is logged once, not
                                              // for each loop
        char loops[32] = "";
        if (m->loops > 1)
            snprintf(loops, sizeof(loops), ", with %u %s", m->loops,
                     m->role == WIRE_WORKER ? "lanes" : "loops");
        scheduler_say(s, "%s joined as node %u%s", scheduler_name(n, name), n->n.id,
                      loops);
        scheduler_note(s, "join", name, n->n.address);
    }
    return n;
}

void scheduler_keep_link(struct scheduler *s, van_link link, enum wire_role role)
{
    if (role != WIRE_DRIVER)
        van_joined(s->van, link);
}

void scheduler_close_link(struct scheduler *s, struct sched_node *n)
{
    van_link link = n->link;
    for (uint32_t i = 0; i < s->n_links; i++)
        if (s->links[i].link == link)
            scheduler_forget_link(s, &s->links[i]);
    scheduler_part(s, link);
}

static void attach(struct scheduler *s, struct sched_node *n, struct link *l)
{
    assert(n->used && l->link != 0 && l->greeted);
    if (n->link == l->link)
        return;
    if (n->link != 0)
        scheduler_close_link(s, n);
    if (l->node != SCHEDULER_NOBODY) // a link belongs only to the node that joined over
                                     // it last
        s->nodes[l->node].link = 0;
    n->link = l->link;
    scheduler_keep_link(s, l->link, n->n.role);
    n->sent_version = 0;
    n->stop_at = 0;
    l->node = (uint32_t)(n - s->nodes);
}

// Refuses a node that claims to have joined before, but whose id is unknown. With another
// id the node would own partitions whose rows it does not have.
static const char *check_identity(const struct scheduler *s, const struct sched_node *n,
                                  const struct msg_join *m, char to[ERR_TEXT_MAX])
{
    bool ours = m->session > s->o.session_base && m->session <= s->session;
    if ((m->node == 0 && m->session == 0) ||
        (n != NULL && m->node == n->n.id && m->session == n->n.session))
        return NULL;
    snprintf(to, ERR_TEXT_MAX,
             ours ? "the scheduler does not know node %u any more"
                  : "the scheduler was started again after node %u had joined, and knows "
                    "nothing of the cluster before; start the whole cluster again, and "
                    "resume from the last save",
             m->node);
    return to;
}

// Sends JOINED. If memory is out it sends nothing, and the node asks again.
static void tell_joined(struct scheduler *s, const struct sched_node *n, uint64_t request)
{
    const struct van_trust trust = van_trust(s->van, n->link);
    const struct proof_of whose = {n->n.session, n->n.id, (uint8_t)n->n.role};
    uint8_t secret[MAC_BYTES];
    if (!proof_secret(secret, s->o.session_key, &whose, trust.certificate))
        return;
    struct msg_joined joined = {
        .node = n->n.id,
        .session = n->n.session,
        .rank = n->n.rank,
        .generation = s->generation,
        .secret = {(const char *)secret, MAC_BYTES},
    };
    if (n->n.role == WIRE_SERVER)
        joined.key = (struct wire_text){(const char *)s->o.session_key, MAC_BYTES};
    scheduler_send(s, n->link, MSG_JOINED, request, &joined);
}

// Returns whether the node was alive when the cluster ended, but STOP did not reach it in
// time. Then the end of the cluster, and not its own silence, is the reason why the node
// cannot continue.
static bool missed_the_end(const struct scheduler *s, const struct sched_node *n)
{
    return s->phase == SCHEDULER_ENDING && !n->n.alive && !n->left && n->stop_at != 0;
}

void scheduler_join_serve(struct scheduler *s, struct link *l, uint64_t request,
                          const struct msg_join *m)
{
    char text[ERR_TEXT_MAX], name[ROSTER_NAME_MAX];
    struct sched_node *n = by_ticket(s, m->ticket);
    const char *why = check_identity(s, n, m, text);
    if (why == NULL && !proof_role_fits(m->role, l->role))
        why = "its certificate or token is for another role";
    if (why == NULL && n == NULL && s->phase == SCHEDULER_ENDING) {
        struct msg_stop stop = {.code = s->end.code,
                                .reason = (uint16_t)s->end.reason,
                                .why = wire_text(s->end.text)};
        scheduler_send(s, l->link, MSG_STOP, 0, &stop);
        return;
    }
    if (why == NULL && n == NULL) {
        n = new_node(s, m, &why, text);
    } else if (why == NULL && missed_the_end(s, n)) {
        // The node counts as left, so that its LEAVE is answered. STOP says why the
        // cluster ended.
        n->left = true;
    } else if (why == NULL && !n->n.alive && !n->left) {
        snprintf(text, sizeof(text),
                 "%s counts as dead: it gave no sign of life for %.3g s",
                 scheduler_name(n, name),
                 (double)scheduler_timeout_of(s, n->n.role) / SECOND_NS);
        scheduler_came_back(s, n);
        why = text;
    }
    if (why != NULL) {
        scheduler_refuse(s, l->link, request, TUG_EIO, why);
        return;
    }
    if (n == NULL)
        return;
    attach(s, n, l);
    if (n->n.role == WIRE_WORKER)
        leases_worker_told(s->leases, n->n.id, m->pass, m->piece);
    s->processes[n->process].sign_at = s->now;
    tell_joined(s, n, request);
    if (s->phase == SCHEDULER_ENDING)
        scheduler_stop_node(s, n);
}

void scheduler_forget_link(struct scheduler *s, struct link *l)
{
    assert(l->link != 0);
    l->link = 0;
    if (l->beats != SCHEDULER_NOBODY)
        s->processes[l->beats].silent_at = s->now;
    l->beats = SCHEDULER_NOBODY;
    l->beats_of = 0;
    if (l->node == SCHEDULER_NOBODY)
        return;
    struct sched_node *n = &s->nodes[l->node];
    l->node = SCHEDULER_NOBODY;
    n->link = 0;
    n->closed_at = s->now;
}
