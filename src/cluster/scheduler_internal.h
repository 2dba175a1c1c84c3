// What the files of the scheduler share: links, processes, nodes, and how the cluster
// stands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_INTERNAL_H
#define TUG_CLUSTER_SCHEDULER_INTERNAL_H

#include "base/buf.h"
#include "base/clock.h"
#include "cluster/leases.h"
#include "cluster/proof.h"
#include "cluster/refusals.h"
#include "cluster/scheduler.h"

enum { SCHEDULER_GROUPS = 8 };
#define SCHEDULER_RESEND_NS ((uint64_t)500000000) // rosters, views, STOP: until they took
#define SCHEDULER_NOBODY UINT32_MAX               // among nodes and processes

struct link {
    van_link link; // 0: gone; the next tick takes it out
    bool greeted;
    uint64_t heard;      // when the last message came
    enum wire_role role; // as what it was let in
    uint32_t node;       // index, or SCHEDULER_NOBODY
    uint32_t
        beats; // index of the process whose heartbeats come here, or SCHEDULER_NOBODY
    uint64_t beats_of; // its id; heartbeats may come before the process joins. 0: none
};

// The loops of a process that are of one role.
struct process {
    bool used; // else the place is free
    uint64_t process;
    enum wire_role role;
    uint32_t rank;
    uint16_t loops, here; // how many it has, how many have joined
    bool late;            // joined when the cluster was ready
    bool beats;           // a heartbeat has come once
    uint64_t silent_at;   // when the link of heartbeats was closed; 0: it is not
    uint64_t sign_at;     // the last sign of life
    int64_t skew_ns;      // of its clock, as of the last heartbeat
    bool asked;           // a signal asks it to end
    // Barriers. Generations of a process begin at 1; those of a group at `base` of it.
    bool known[SCHEDULER_GROUPS]; // whether it is waited for
    uint64_t base[SCHEDULER_GROUPS], reached[SCHEDULER_GROUPS];
};

struct node {
    bool used; // else the place is free
    struct roster_node n;
    uint64_t ticket;
    uint32_t process; // index
    van_link link;    // 0: none
    uint64_t closed_at, gone_at;
    uint64_t pinged_at;               // when its process seemed to be silent
    bool left;                        // by LEAVE; dead is who is neither that nor alive
    bool lost;                        // while the cluster ran
    uint64_t roster_version;          // that it has
    uint64_t sent_version, roster_at; // that it was sent, and when
    uint64_t stop_at;                 // STOP sent when; 0: not yet
    uint64_t cut_request;             // the newest CUT that was answered
    uint64_t state_request;           // the newest that was answered by PASS_STATE
    bool drives; // the driver that has opened a pass; others are guests, who come and go
};

struct group {
    uint64_t completed; // generations
};

// A piece that servers may forget: told to those who know all deaths before it.
struct forget {
    struct msg_forget msg;
    uint64_t version;
};

// The participants of a save: the roster of that version, up to that session.
struct cut_of {
    uint64_t save, roster, newest;
};

// An encoded roster, shared by the scheduler and the links that have not sent all of it.
struct encoded_roster {
    uint32_t users;
    struct buf nodes, owners;
    struct msg_roster msg;
};

enum scheduler_phase {
    SCHEDULER_GATHERING,
    SCHEDULER_RUNNING,
    SCHEDULER_OVER,  // the driver has what it wants; workers leave
    SCHEDULER_ENDING // everybody is told to stop
};

struct scheduler {
    struct scheduler_options o;
    char host[64], address[VAN_ADDRESS_MAX];
    struct van *van;
    uint64_t now, served_at;
    uint64_t due;       // when the next tick was asked for
    uint64_t idle_look; // when tools that are silent are looked for

    struct link *links;
    uint32_t n_links, cap_links;
    struct node *nodes; // in the order of joining, but guests take the places of others
    uint32_t n_nodes, cap_nodes, used_nodes;
    struct process *processes;
    uint32_t n_processes, cap_processes;
    uint32_t n_servers, n_workers; // nodes that ever joined, for ids
    uint32_t n_guests;             // drivers
    uint64_t session;
    struct refusals refusals;

    struct roster roster;
    struct encoded_roster *encoded; // NULL: not made yet
    bool changed;                   // the node table: a new version is due
    uint64_t listed_at;
    uint64_t room_at; // no roster is sent before
    bool broken;      // a server is gone: the placement names nobody there

    struct group groups[SCHEDULER_GROUPS];

    struct leases *leases;
    bool driven;                 // a driver has opened a pass
    struct msg_pass_state state; // the last answer to a driver, in case it was lost
    struct buf reports;
    uint32_t state_of; // node id
    uint64_t state_request;
    struct forget *forgets;
    uint32_t n_forgets, cap_forgets;
    struct cut_of cut;
    uint64_t views_at; // when views were repeated

    enum scheduler_phase phase;
    uint64_t phase_at;
    bool asked; // the run is to end in order: a process that it needs was asked to end
    struct err end;  // why it ends
    struct err fail; // the first failure, should it come to that
    bool finished;

    uint64_t events; // as scheduler_check counts them
    bool made_up;    // tests: the state is one that cannot be, and not looked at
};

// One more element of an array that `p` points to, zeroed; NULL: out of memory.
void *scheduler_grow(void *p_array, uint32_t *n, uint32_t *cap, size_t bytes);

bool scheduler_has_room(const struct scheduler *s, van_link link);
void scheduler_send(struct scheduler *s, van_link link, uint16_t type, uint64_t request,
                    const void *msg);
void scheduler_refuse(struct scheduler *s, van_link link, uint64_t request, int code,
                      const char *why);
void scheduler_say(struct scheduler *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *scheduler_name(const struct node *n, char to[ROSTER_NAME_MAX]);
uint64_t scheduler_unix_ns(const struct scheduler *s);

// The functions that serve each message to the scheduler, from any peer or from a node
// that has joined.
#define TO_DOOR(NAME, name)                                                              \
    void scheduler_##name##_serve(struct scheduler *s, struct link *l, uint64_t request, \
                                  const struct msg_##name *m);
#define TO_SCHEDULER(NAME, name)                                                         \
    void scheduler_##name##_serve(struct scheduler *s, struct node *n, uint64_t request, \
                                  const struct msg_##name *m);
#include "wire/messages.def"

// The nodes: scheduler_nodes.c.
void scheduler_forget_link(struct scheduler *s, struct link *l); // it is closed
// Tools come as guests, as many as they like: their links still go for others'.
void scheduler_keep_link(struct scheduler *s, van_link link, enum wire_role role);
void scheduler_close_link(struct scheduler *s, struct node *n);
uint32_t scheduler_alive(const struct scheduler *s, enum wire_role role);

// Life and death of processes: scheduler_signs.c.
void scheduler_gone(struct scheduler *s, struct node *n, bool left); // not alive any more
uint64_t scheduler_find_dead(struct scheduler *s); // returns when to look again
// Guests that have gone are forgotten after a while. Returns when to look again.
uint64_t scheduler_forget_guests(struct scheduler *s);
// The place is free again, and no link's heartbeats are of who takes it next.
void scheduler_free_process(struct scheduler *s, uint32_t process);

// The roster and the placement: scheduler_roster.c.
int scheduler_list(struct scheduler *s); // makes the node table again; 0 or TUG_ENOMEM
void scheduler_send_roster(struct scheduler *s, struct node *n, van_link link,
                           uint64_t request);
void scheduler_drop_roster(void *encoded); // one user less; NULL is fine
uint64_t scheduler_spread_roster(struct scheduler *s);

// Barriers: scheduler_barrier.c.
void scheduler_barriers_again(struct scheduler *s); // somebody is gone
// Returns the names of the awaited nodes; empty if there are none.
const char *scheduler_missing(const struct scheduler *s, uint8_t group, char *to,
                              size_t cap);

// Data and passes: scheduler_work.c.
uint64_t scheduler_work_tick(struct scheduler *s);

// The end: scheduler_end.c.
void scheduler_lost(struct scheduler *s, struct node *n); // it has just died
void scheduler_end(struct scheduler *s, int code, const char *why);
void scheduler_stop_node(struct scheduler *s, struct node *n);
uint64_t scheduler_end_tick(struct scheduler *s);

// Asserts what must hold between two events: scheduler_check.c.
#ifndef NDEBUG
void scheduler_check(struct scheduler *s);
#else
static inline void scheduler_check(struct scheduler *s)
{
    (void)s;
}
#endif

// Writes one JSON object. Returns 0, TUG_ENOMEM or TUG_EDATA (too long).
int scheduler_json(const struct scheduler *s, struct buf *ret);

#endif
