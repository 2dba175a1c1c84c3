// Internals that the files of the scheduler share: links, processes, nodes, and the state
// of the cluster.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_SCHEDULER_INTERNAL_H
#define TUG_CLUSTER_SCHEDULER_SCHEDULER_INTERNAL_H

#include "base/buf.h"
#include "cluster/chains.h"
#include "cluster/leases/leases.h"
#include "cluster/proof.h"
#include "cluster/scheduler/collect.h"
#include "cluster/scheduler/refusals.h"
#include "cluster/scheduler/scheduler.h"
#include "os/clock.h"

enum { SCHEDULER_GROUPS = 8, SCHEDULER_OPERATIONS = 64, OPERATION_TEXT = 240 };
// Interval at which rosters, views and STOP are repeated.
#define SCHEDULER_RESEND_NS ((uint64_t)500000000)
#define SCHEDULER_NOBODY UINT32_MAX // "No entry", as an index of a node or a process

struct link {
    van_link link; // 0 if the link is gone; the next tick then removes this entry
    bool greeted;
    uint64_t heard;      // time of the last message on this link
    enum wire_role role; // role with which the peer was accepted
    uint32_t node;  // index of the node that joined over this link, or SCHEDULER_NOBODY
    uint32_t beats; // index of the process whose heartbeats arrive on this link, or
                    // SCHEDULER_NOBODY
    // The number of the process whose heartbeats arrive on this link, known even before
    // the process joins; 0: none.
    uint64_t beats_of;
};

// A process, with all its loops, which have the same role.
struct process {
    bool used; // false if this entry is free
    uint64_t process;
    enum wire_role role;
    uint32_t rank;
    uint16_t loops, here; // number of the process's loops, and of the loops that have
                          // joined
    bool late;            // whether the process joined a cluster that was running
    bool beats;           // whether the process has ever sent a heartbeat
    // Time at which the link of the process's heartbeats closed; 0: the link is open.
    uint64_t silent_at;
    uint64_t sign_at; // time of the process's last sign of life
    // The process's clock minus the scheduler's clock, at the last heartbeat.
    int64_t skew_ns;
    bool asked; // whether a signal has asked the process to end
    // For servers: the zone whose machines may fail together; "": its machine alone.
    char zone[WIRE_ZONE_MAX];
    // For servers: the process has handlers of its own with state, so its partitions
    // cannot move.
    bool fixed;
    bool placed; // the process takes part in placements: all its loops have joined
    // The process's partitions move to other servers; then the process is asked to leave.
    bool draining;
    bool known[SCHEDULER_GROUPS]; // whether the group waits for this process
    // A process counts its barriers in a group from 1; its barrier 1 is barrier `base` + 1
    // of the group. `reached` is the last barrier that the process has reached, in the
    // group's count.
    uint64_t base[SCHEDULER_GROUPS], reached[SCHEDULER_GROUPS];
    // The bytes that the worker brought to the workers' barrier, until that barrier is
    // complete; NULL: none. Owned by this entry.
    struct given *given;
};

// The time at which a move is tried again after earlier attempts have failed or were interrupted.
struct retry {
    uint64_t at;
    uint32_t fails; // the number of consecutive failures
    // The number of times that admin operations have interrupted the partition's present
    // move.
    uint32_t broken;
    // Reports that a member must leave the partition's chain: the member (0: none), the
    // reason as a code, the roster's version that the primary must acknowledge first, and
    // the time of the last report.
    uint32_t out;
    int out_code;
    uint64_t out_version, out_heard;
    bool out_leads; // the member led the chain when the report came
    // The last two members that had to leave the chain (0: none), how often members had to
    // leave it in succession, and the time before which these two are not filled again.
    uint32_t last_out, before_out, outs;
    uint64_t again_at;
    uint64_t joined; // epoch since which the last loop that was filled is a member
};

// The work that a worker had done at some time.
struct work_mark {
    uint64_t at, examples, pieces;
};

struct sched_node {
    bool used; // false if this entry is free
    struct roster_node n;
    uint64_t ticket;
    uint32_t process; // index of the node's process
    van_link link;    // 0: not connected
    uint64_t closed_at, gone_at;
    // For a worker: the time at which it last asked for work or reported work; initially
    // the time at which it joined.
    uint64_t progress_at;
    // For a worker: its work at two earlier times, or when it joined; the older one first.
    struct work_mark marks[2];
    // The time at which the node was asked for a sign of life, because its process seemed
    // silent.
    uint64_t pinged_at;
    // The node has sent LEAVE. A node that is not alive, but has not sent LEAVE, is dead.
    bool left;
    bool lost;               // the node died while the cluster ran
    uint64_t roster_version; // version of the roster that the node has acknowledged
    // The version of the roster last sent to the node, and the time at which it was sent.
    uint64_t sent_version, roster_at;
    uint64_t stop_at;       // time at which STOP was sent to the node; 0: not sent
    uint64_t cut_request;   // request number of the newest CUT that was answered
    uint64_t state_request; // request number of the newest request that was answered by
                            // PASS_STATE
    // The node is the driver that has opened a pass; other nodes of its role are guests.
    bool drives;
    // The node has asked for a hold, during which no partition changes its owner.
    bool holds;
    bool held; // the hold that the node asked for was granted
    // Time of the first HOLD message with which the node asked for its present hold.
    uint64_t hold_since;
    uint64_t hold_request; // request number of the node's newest HOLD
    // The server had no room for a partition, and gets no more until placements are planned
    // anew.
    bool full;
    bool came_back;     // the node was declared dead, and was heard again
    uint32_t in_flight; // the number of moves from and to this node that are in progress
    struct retry moves; // when moves to this node are tried again after failures
    uint64_t outs;      // scratch: number of chains that it leaves
};

// The move of a partition. The owner does not change before the target has all data of
// the partition. If partitions have replicas, each move fills a loop, which becomes a
// member of the partition's chain; `from` is the last member.
struct move {
    uint64_t id;
    enum wire_space space;
    uint32_t partition, from, to; // `from` and `to` are node ids
    bool over;      // the move is done, and the newest roster does not have it
    bool handing;   // the owner may stop serving the partition and hand it over
    bool reported;  // the report that is being served is about this move
    uint32_t place; // the move's place in that report
    uint64_t bytes, total;
    // The time at which the move began, and at which a message of its target last arrived.
    uint64_t began, heard;
    // The time at which `bytes` last grew, or at which the hand-over began.
    uint64_t grown;
    uint64_t handed_at; // the time at which the hand-over began
};

// The moves in progress, and the placement to which they lead.
struct moving {
    struct move *list; // sorted by space and partition
    uint32_t n, cap;
    uint64_t last_id;
    // The planned chain of each partition (`replicas` ids, 0 after the last one; without
    // replicas, the planned owner), and the failed moves of each partition; NULL before
    // the first plan.
    uint32_t *wanted[WIRE_SPACES];
    struct retry *retries[WIRE_SPACES];
    bool plan_again; // a plan is due, but could not be made for lack of memory
    bool even;       // the plan that is due divides partitions evenly
    char why[ROSTER_NAME_MAX + 32]; // reason of the newest plan
    uint64_t look_at;               // time at which further moves may begin
    uint64_t left; // the number of partitions whose chain is not the planned one
    // The number of chains that the newest plan cannot give enough members, as last logged.
    uint64_t shorter;
    uint64_t done, failed;
    uint64_t dropped;     // number of times that a member had to leave a chain
    uint64_t out_version; // the newest retry.out_version; 0: there was no report
    bool out_acked; // a node has acknowledged a roster: a report may be carried out now
    char out_why[ERR_TEXT_MAX]; // the reason in the last report
    // The time of the newest plan, and the number and bytes of the moves done since then.
    uint64_t planned_at, since_plan, bytes_since_plan;
    // The longest time that a hand-over has taken since the newest plan: about the
    // longest time for which a partition was not served.
    uint64_t longest_stop_ns;
    uint64_t told_at;    // time at which the progress of the moves was last logged
    uint64_t version;    // version of the roster with the newest change of a chain
    uint64_t held_epoch; // the placement's epoch when a hold was last granted
};

struct group {
    uint64_t completed; // number of complete barriers
};

// The result of the workers' last complete barrier, if it was a collective call.
struct collected {
    struct err why; // code 0: the call succeeded, or the barrier had no call
    struct buf result;
};

// A finished piece. A server may forget the pushes of the piece once it has a roster of
// this version, because that roster lists all deaths from before the piece was done.
struct forget {
    struct msg_forget msg; // msg.pass 0: this place in the list is free
    uint64_t version;      // FORGET_HELD: a worker may still push the piece
    bool changed, kept;    // the place is in `changed`; the journal has a piece here
};
#define FORGET_HELD UINT64_MAX

// Finished pieces that servers have not forgotten. A piece stays in its place of the list,
// which has its own row in the journal.
struct forgets {
    struct forget *list; // `cap` places; the last of the first `n` is in use
    uint32_t n, cap, used;
    uint32_t free_from; // no place before this one is free
    uint32_t *changed;  // the places whose rows the journal does not have yet
    uint32_t n_changed, cap_changed;
};

// An unbacked table (scheduler_unbacked.c), or the last one that had this number.
struct unbacked {
    uint32_t table;
    enum wire_space space;
    uint64_t drops; // how often the number was dropped
    bool exists;
    char name[64];
};

// The workers that take part in a save: those in the roster of version `roster`, with
// sessions up to `newest`, and the session of the driver.
struct cut_of {
    uint64_t save, roster, newest, saver;
};

// An encoded roster, shared by the scheduler and the links that have not sent all of it.
struct encoded_roster {
    uint32_t users;
    struct buf nodes, owners;
    struct msg_roster msg;
};

// An operation of the cluster, for tug status.
struct operation {
    uint64_t unix_ns;
    const char *what; // "join", "death", ...
    // The node or peer that did the operation or is its object.
    char who[ROSTER_NAME_MAX];
    char text[OPERATION_TEXT];
};

enum scheduler_phase {
    SCHEDULER_GATHERING,
    SCHEDULER_RUNNING,
    SCHEDULER_OVER,  // the driver has finished; workers leave
    SCHEDULER_ENDING // all nodes are asked to stop
};

struct scheduler {
    struct scheduler_options o;
    char host[64], address[VAN_ADDRESS_MAX];
    struct van *van;
    uint64_t now, served_at;
    uint64_t due;       // time at which the next tick is due
    uint64_t mark_at;   // time at which the work of workers is marked next
    uint64_t idle_look; // time of the next check for silent tools

    struct link *links;
    uint32_t n_links, cap_links;
    // The nodes in the order of joining, except that guests reuse free entries.
    struct sched_node *nodes;
    uint32_t n_nodes, cap_nodes, used_nodes;
    struct process *processes;
    uint32_t n_processes, cap_processes;
    // Numbers of servers and workers whose ids lie above the ids of the ranks for which
    // the cluster was made, and the number of drivers that ever joined. The next ids are
    // computed from these numbers.
    uint32_t more_servers, more_workers, n_guests;
    uint64_t session;
    struct refusals refusals;
    // The last operations, as a ring buffer.
    struct operation operations[SCHEDULER_OPERATIONS];
    uint64_t n_operations; // the number of all operations so far

    struct roster roster;
    struct encoded_roster *encoded; // NULL if not made yet
    bool changed; // the node table has changed since the roster was made
    uint64_t listed_at;
    uint64_t room_at;      // no roster is sent before this time
    uint64_t false_deaths; // number of nodes of servers that were declared dead, and were
                           // heard again
    bool broken;           // servers have died, so that some partitions have no owner

    struct moving moving;
    struct unbacked *unbacked;
    uint32_t n_unbacked, cap_unbacked;

    struct group groups[SCHEDULER_GROUPS];
    struct collected collected;

    struct leases *leases;
    bool driven; // a driver has opened a pass
    // The last answer to a driver. The answer is repeated if it was lost.
    struct msg_pass_state state;
    struct buf reports;
    uint32_t state_of; // node id of the driver that got `state`
    uint64_t state_request;
    struct forgets forgets;
    struct cut_of cut;
    uint64_t views_at; // time at which views were sent last; 0: no views are due

    enum scheduler_phase phase;
    uint64_t phase_at;
    // A signal has asked a process that the run needs to end, so the run
    // must end with a save.
    bool asked;
    struct err end;  // the reason why the cluster ends
    struct err fail; // the first failure of a worker: the result, if no worker is left to
                     // finish the run
    bool finished;

    // The journal and what waits for it (scheduler_keep.c); NULL without a journal.
    struct keep *keep;
    // No restored node without a link is declared dead before this time.
    uint64_t rejoin_until;
    // Time at which the scheduler last noticed that it had been stopped, and the silence
    // that it has forgiven for short stops (scheduler_forgive_silence).
    uint64_t late_at, forgiven;
    bool restored; // the journal had the state of a cluster
    // The number of schedulers that were started with this journal; 1 without one.
    uint64_t generation;
    bool replaced;      // a scheduler of a later generation has taken over
    uint64_t unix_base; // time since 1970 at which this scheduler was started

    uint64_t events; // number of events so far, which scheduler_check counts
    bool made_up;    // tests: the state is impossible and is not checked
};

// Appends a zeroed element to the array that *p_array points to, and returns it; NULL if
// memory is out.
void *scheduler_grow(void *p_array, uint32_t *n, uint32_t *cap, size_t bytes);

bool scheduler_has_room(const struct scheduler *s, van_link link);
void scheduler_send(struct scheduler *s, van_link link, uint16_t type, uint64_t request,
                    const void *msg);
// Sends a message before the decision in it is durable. The next scheduler must not depend
// on the decision (leases_tells_early).
void scheduler_send_early(struct scheduler *s, van_link link, uint16_t type,
                          uint64_t request, const void *msg);
void scheduler_part(struct scheduler *s, van_link link); // closes the link
void scheduler_refuse(struct scheduler *s, van_link link, uint64_t request, int code,
                      const char *why);
void scheduler_say(struct scheduler *s, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *scheduler_name(const struct sched_node *n, char to[ROSTER_NAME_MAX]);
uint64_t scheduler_unix_ns(const struct scheduler *s);

// Records an operation (scheduler_operations.c). `what` is not copied; other texts are
// cut if they are too long.
void scheduler_note(struct scheduler *s, const char *what, const char *who,
                    const char *text);
void scheduler_operations_print(const struct scheduler *s, struct json_out *o);
// Returns whether this node is a guest: a tool, or a program that takes no part in the
// run. The driver of a run is in the scheduler's own process.
bool scheduler_is_guest(const struct scheduler *s, const struct sched_node *n);

// Each of these functions serves one type of message. TO_DOOR: any connected process may
// send it; TO_SCHEDULER: only a node that has joined.
#define TO_DOOR(NAME, name)                                                              \
    void scheduler_##name##_serve(struct scheduler *s, struct link *l, uint64_t request, \
                                  const struct msg_##name *m);
#define TO_SCHEDULER(NAME, name)                                                         \
    void scheduler_##name##_serve(struct scheduler *s, struct sched_node *n,             \
                                  uint64_t request, const struct msg_##name *m);
#include "wire/messages.def"

// Pieces that servers may forget (scheduler_forgets.c). scheduler_forgets_room makes room
// for one more, and returns 0 or TUG_ENOMEM; scheduler_forgets_add uses the room.
int scheduler_forgets_room(struct scheduler *s);
void scheduler_forgets_add(struct scheduler *s, uint64_t pass, uint64_t piece);
// Tells servers to forget the pieces that no worker can push any more.
void scheduler_forgets_send(struct scheduler *s);
void scheduler_forgets_free(struct scheduler *s);
// Restores the list from its rows: makes place i; then, after the last row, counts the
// pieces; and at last holds them until it is known which pieces the workers have.
bool scheduler_forgets_make(struct scheduler *s, uint32_t i);
void scheduler_forgets_restored(struct scheduler *s);
void scheduler_forgets_hold(struct scheduler *s);

// Defined in scheduler_nodes.c:
void scheduler_forget_link(struct scheduler *s, struct link *l); // l has closed
// Keeps the link of a node from being closed when other links need its place. Links of
// guests are not kept: any number of tools may join as guests.
void scheduler_keep_link(struct scheduler *s, van_link link, enum wire_role role);
void scheduler_close_link(struct scheduler *s, struct sched_node *n);
uint32_t scheduler_alive(const struct scheduler *s, enum wire_role role);

// Defined in scheduler_signs.c:
// Records that n is no longer alive.
void scheduler_gone(struct scheduler *s, struct sched_node *n, bool left);
// Called when a node that was declared dead is heard again.
void scheduler_came_back(struct scheduler *s, struct sched_node *n);
// Returns the shorter one of the dead timeouts of servers and of other nodes.
uint64_t scheduler_timeout(const struct scheduler *s);
// Returns the time without a sign of life after which a node of this role is dead.
uint64_t scheduler_timeout_of(const struct scheduler *s, enum wire_role role);

// The scheduler runs at least SCHEDULER_LATE_PART times in the shortest dead timeout. It
// notices that it was stopped if it runs later than planned by one such part.
enum { SCHEDULER_LATE_PART = 16 };
void scheduler_forgive_silence(struct scheduler *s);
uint64_t scheduler_find_dead(struct scheduler *s); // returns the time of the next call
// Forgets guests some time after they have gone. Returns the time of the next call.
uint64_t scheduler_forget_guests(struct scheduler *s);
// Frees the entry of a process, and detaches the entry from all links with heartbeats of
// the process, so that these do not count for the next process in this entry.
void scheduler_free_process(struct scheduler *s, uint32_t process);

// Defined in scheduler_roster.c:
int scheduler_list(struct scheduler *s); // makes the node table; 0 or TUG_ENOMEM
// Returns whether this node serves tables of the space. If `any` is true, no node was
// assigned to this space, so nodes for other tables also count.
bool scheduler_takes(const struct roster_node *n, int space, bool any);
void scheduler_send_roster(struct scheduler *s, struct sched_node *n, van_link link,
                           uint64_t request);
void scheduler_drop_roster(void *encoded); // drops one use of the roster; NULL is fine
uint64_t scheduler_spread_roster(struct scheduler *s);

// Defined in scheduler_barrier.c:
// Called when a node has left or died. If the run ends for this reason, call it after
// STOP was sent, so that nodes get the reason of the end, and not the error of a
// collective call that lacks the node.
void scheduler_barriers_again(struct scheduler *s);
// Returns the names of the nodes that the group waits for; empty if there are none.
const char *scheduler_missing(const struct scheduler *s, uint8_t group, char *to,
                              size_t cap);
// Drops the bytes that a process gave to a collective call if no node of the process is
// alive.
void scheduler_given_drop(struct scheduler *s, uint32_t process);
void scheduler_collected_free(struct scheduler *s);

// Defined in scheduler_plan.c: Makes a new plan of the placement for the reason `why`,
// after servers have joined or left. If `even` is true, partitions are also divided
// evenly among the servers that have some. Returns 0 or TUG_ENOMEM; the next tick then
// plans again.
int scheduler_plan(struct scheduler *s, bool even, const char *why);
// Returns whether servers would be left for the partitions of this process.
bool scheduler_can_drain(const struct scheduler *s, uint32_t process);
// Moves the partitions of a process to other processes (drain), or, if `back` is true,
// cancels the drain. Returns 0 or TUG_ENOMEM; the next tick then plans again.
int scheduler_drain(struct scheduler *s, uint32_t process, bool back);
// Returns whether handlers of the servers' program hold state, so that nothing can move.
bool scheduler_fixed(const struct scheduler *s);
// Makes a new plan for the reason `why`, and does not forget which moves have failed.
void scheduler_plan_again(struct scheduler *s, const char *why);
// Makes a new plan in which the node `full`, which has no room, gets no more partitions.
void scheduler_plan_around(struct scheduler *s, struct sched_node *full);
// Makes a new plan in which this node is avoided (scheduler_chain_avoids).
void scheduler_plan_without(struct scheduler *s, const struct sched_node *n);
uint64_t scheduler_plan_tick(struct scheduler *s); // returns the time of the next call
// Makes the missing arrays of a plan. In these, every partition stays with its owner.
// Returns 0 or TUG_ENOMEM.
int scheduler_plan_make_room(struct scheduler *s);
void scheduler_plan_count(struct scheduler *s); // counts the partitions left to move

// Defined in scheduler_moves.c:
uint64_t scheduler_moves_tick(struct scheduler *s); // returns the time of the next call
bool scheduler_owns(const struct scheduler *s, const struct sched_node *n);
struct sched_node *scheduler_node_of(struct scheduler *s, uint32_t id);
// Adds `more` to `in_flight` of both nodes of a move.
void scheduler_moves_count(struct scheduler *s, const struct move *x, int more);
// Begins the planned moves whose two ends have room for another move. Begins none while a
// node holds the placement or waits for a hold.
void scheduler_moves_begin(struct scheduler *s);
void scheduler_move_take_out(struct scheduler *s, struct move *x);
// Gives up a move that has failed, and tries it again later; soon if it was only
// interrupted.
void scheduler_move_fail(struct scheduler *s, struct move *x, int code, const char *why);
// Gives up the move of a partition, if there is one, because its chain has lost a member.
void scheduler_move_stop(struct scheduler *s, enum wire_space space, uint32_t partition);
// Gives up the fill of a loop by another one, if it is under way. It is tried again later.
void scheduler_fill_stop(struct scheduler *s, enum wire_space space, uint32_t partition,
                         uint32_t from, uint32_t to, const char *why);
// Gives up the moves that are not in the newest plan.
void scheduler_moves_sift(struct scheduler *s);
// Gives up the moves of a server that has died or left, and makes a new plan.
void scheduler_moves_lost(struct scheduler *s, const struct sched_node *n);
void scheduler_moves_print(const struct scheduler *s, struct json_out *o);
void scheduler_moving_free(struct scheduler *s);

// Logs and records an admin operation: its kind (enum wire_operation), the peer that
// requested it, and the peer's address.
void scheduler_note_admin(struct scheduler *s, uint8_t kind, const char *who,
                          enum wire_role role, const char *from, const char *what);

// Defined in scheduler_chains.c, for partitions with replicas:
bool scheduler_has_chains(const struct scheduler *s); // partitions have replicas
// Adds backups to the first placement of a space, whose owners are known. Returns 0 or
// TUG_ENOMEM.
int scheduler_chains_place(struct scheduler *s, int space, uint64_t *ret_shorter);
// Writes the numbers of replicas for the status; nothing if there are no chains.
void scheduler_chains_print(const struct scheduler *s, struct json_out *o);
// Logs how many chains are shorter than the option replicas, if the number has changed.
void scheduler_chains_tell(struct scheduler *s, uint64_t shorter);
// Copies the present chains of a space, as the planned ones are stored.
void scheduler_chains_copy(const struct scheduler *s, int space, uint32_t *ret);
// Orders the planned chains of a space so that steps lead to them.
void scheduler_chains_order(struct scheduler *s, int space);
// Plans the chains of a space. Returns 0 or TUG_ENOMEM.
int scheduler_chains_plan(struct scheduler *s, int space, struct chains_faults *ret);
// Returns whether the chain of a partition is the planned one.
bool scheduler_chain_is_settled(const struct scheduler *s, int space, uint32_t partition);
// Returns the id of the member that leaves next, or of the loop that is filled next; 0:
// none. A partition never has both.
uint32_t scheduler_chain_leaves(const struct scheduler *s, int space, uint32_t partition);
uint32_t scheduler_chain_fills(const struct scheduler *s, int space, uint32_t partition);
// Lets members leave chains in which other members have taken their places.
void scheduler_chains_settle(struct scheduler *s);
// Appends the target of a move to the chain of its partition. The caller begins an epoch.
void scheduler_chain_append(struct scheduler *s, const struct move *x);
// Removes a member of a chain that is not the only one. The caller begins an epoch.
void scheduler_chain_take_out(struct scheduler *s, int space, uint32_t partition,
                              uint32_t id);
// Begins an epoch, because chains have changed.
void scheduler_chains_begin_epoch(struct scheduler *s);

// Defined in scheduler_unbacked.c, for tables of which only primaries have rows:

// Returns whether there is an unbacked table.
bool scheduler_has_unbacked(const struct scheduler *s);
// Returns whether no partition of the space may get another primary.
bool scheduler_keeps_primaries(const struct scheduler *s, int space);
// Lets the primaries lead the planned chains of the space.
void scheduler_keep_primaries(struct scheduler *s, int space);
// Returns an unbacked table of which a process leads partitions; NULL if there is none.
const struct unbacked *scheduler_unbacked_led(const struct scheduler *s,
                                              uint32_t process);
// Writes the names of the unbacked tables of a space as "'a', 'b'"; if they do not all fit,
// as "'a', ...". The capacity is at least that of the longest name and 8 more.
void scheduler_unbacked_names(const struct scheduler *s, int space, char *to, size_t cap);
// Lists the tables for the roster; there is room for s->n_unbacked. Returns their number.
uint32_t scheduler_unbacked_list(const struct scheduler *s, struct roster_unbacked *ret);
bool scheduler_unbacked_make(struct scheduler *s, uint32_t i); // struct kind

// Defined in scheduler_members_out.c, for members of chains that cannot follow:

// Takes members out of chains, if they were reported and the primary has acknowledged a
// roster since.
void scheduler_members_out(struct scheduler *s);
// The scheduler was stopped, and may read messages of primaries that have died since: a
// report is carried out only when the primary has acknowledged another roster.
void scheduler_reports_again(struct scheduler *s);
// Returns the loop that left the chain last, if members had to leave it several times in
// succession; otherwise 0. If another loop has room, it takes the place.
uint32_t scheduler_chain_avoids(const struct scheduler *s, int space, uint32_t partition);

// Defined in scheduler_chains.c:
// Removes a server that has died or left from all chains with other members.
void scheduler_chains_lose(struct scheduler *s, const struct sched_node *n);
// Returns whether a node is in the chain of a partition.
bool scheduler_is_member(const struct scheduler *s, const struct sched_node *n);
// Returns whether a node is the only member of a chain; whether rows would be lost with it,
// because it is, or because it leads a partition of an unbacked table.
bool scheduler_is_alone(const struct scheduler *s, const struct sched_node *n);
bool scheduler_is_needed(const struct scheduler *s, const struct sched_node *n);

// Defined in scheduler_work.c:
uint64_t scheduler_work_tick(struct scheduler *s);
// Marks the work of all workers from time to time, so that scheduler_json can show the
// recent speed of each worker. Returns the time of the next call.
uint64_t scheduler_mark_work(struct scheduler *s);

// Defined in scheduler_end.c:
void scheduler_lost(struct scheduler *s, struct sched_node *n); // n has just died
void scheduler_end(struct scheduler *s, int code, const char *why);
void scheduler_end_with(struct scheduler *s, const struct err *why);
void scheduler_stop_node(struct scheduler *s, struct sched_node *n);
// Tells a server that was drained to leave.
void scheduler_stop_drained(struct scheduler *s, struct sched_node *n);
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

// Writes the status as one JSON object. Returns 0, TUG_ENOMEM or TUG_EDATA (too long).
int scheduler_json(const struct scheduler *s, struct buf *ret);

#endif
