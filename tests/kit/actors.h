// A cluster in the simulator, for tests: a scheduler, and members that follow a script
// for their role: barriers, leases, passes, leaving.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ACTORS_H
#define TUG_KIT_ACTORS_H

#include "cluster/member.h"
#include "cluster/scheduler/scheduler.h"
#include "kit/sim.h"

enum { MAX_ACTORS = 16, BARRIERS = 4, MAX_PIECES = 64, MAX_PASSES = 4, ITEMS = 60 };
#define SECONDS ((uint64_t)1000000000)
#define MILLIS ((uint64_t)1000000)
#define CLUSTER 77

struct world;

struct actor {
    struct world *w;
    struct van *v;
    struct member *m;
    enum wire_role role;
    bool crashed, late, told_ready;
    int leaves_with; // the code with which the actor leaves the cluster
    uint64_t act_at; // the actor does not continue its script before this time
    uint64_t barriers, reached;
    uint64_t version; // version of the last roster that the actor got
    bool asking, told_data, over;
    // For the driver: the current pass; for a worker: the pass of its last lease.
    uint64_t pass;
    // Members of the driver. opened: the pass is open. waits: the driver waits until the
    // test lets it continue.
    bool opened, waits;
    struct msg_leased piece;
    bool has_piece;
    bool finished; // the actor has finished its share of the pass
    // For a server: the move whose target is this server, and the state of this move that
    // the server reports next. If `fails_with` is not 0, moves to the server fail with
    // this code; in the state `mute` the server sends nothing more.
    uint64_t move, arrived;
    enum wire_move_state says;
    bool telling;
    int fails_with;
    enum wire_move_state mute; // 0: in no state
    bool together;             // the server reports all its moves together
    // The moves of the last report. some: only these moves go on together; the server
    // begins the others anew after them.
    uint64_t reported[WIRE_MOVES_MOST];
    uint32_t n_reported;
    bool some;
    // Number of the actor's steps so far, which chooses its random numbers.
    uint64_t steps;
};

struct world {
    uint64_t seed;
    struct sim *sim;
    struct scheduler *s;
    struct van *v;
    uint32_t n;
    struct actor actors[MAX_ACTORS];
    bool with_barriers, with_work;
    uint32_t pieces; // number of pieces in the one file
    // The file is compressed, so the scheduler does not know the number of pieces.
    bool compressed;
    uint64_t passes; // number of passes that the driver runs
    bool go_on;      // the driver may end the run
    bool shares;     // passes have shares instead of pieces
    uint64_t reported[MAX_PIECES];
    // For each piece, a bit for each actor that had it.
    uint32_t pending_by[MAX_PASSES][2 * MAX_PIECES];
    bool items[MAX_PASSES][ITEMS]; // for passes of shares: whether each item is done
    uint64_t reported_pass;
    char log[1 << 15];
};

struct scheduler_options world_options(uint32_t servers, uint32_t workers);
void world_open(struct world *w, uint64_t seed, const struct scheduler_options *o);
struct member_options world_member(struct world *w, enum wire_role role, uint32_t i);
struct actor *world_add(struct world *w, enum wire_role role);
void world_add_all(struct world *w, uint32_t servers, uint32_t workers, bool driver);
void world_crash(struct actor *a);
// Runs the simulation until the virtual time `until`.
void world_run(struct world *w, uint64_t until);
// Runs until the cluster has finished and all actors have left, for at most `limit`.
// Returns the cluster's result.
struct err world_finish(struct world *w, uint64_t limit);
void world_close(struct world *w);
// Kills the scheduler's process, and starts another one at its address.
void world_restart_scheduler(struct world *w, const struct scheduler_options *o);
struct actor *world_add_with(struct world *w, struct member_options *o);

#endif
