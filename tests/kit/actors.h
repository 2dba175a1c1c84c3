// A cluster in the simulator, for tests: a scheduler and members that do what a script of
// their role says: barriers, leases, passes, leaving.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_ACTORS_H
#define TUG_KIT_ACTORS_H

#include "cluster/member.h"
#include "cluster/scheduler.h"
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
    int leaves_with; // code
    uint64_t act_at; // not before then does it go on with its script
    uint64_t barriers, reached;
    uint64_t version; // of the last roster it was shown
    bool asking, told_data, over;
    uint64_t pass;      // driver: that runs; worker: of the last lease
    bool opened, waits; // driver: the pass; for the test to go on
    struct msg_leased piece;
    bool has_piece;
    bool finished;  // its share
    uint64_t steps; // for its random numbers
};

struct world {
    uint64_t seed;
    struct sim *sim;
    struct scheduler *s;
    struct van *v;
    uint32_t n;
    struct actor actors[MAX_ACTORS];
    bool with_barriers, with_work;
    uint32_t pieces; // of the one file
    bool compressed; // and nobody knows how many
    uint64_t passes; // that the driver wants
    bool go_on;      // the driver may say that the run is over
    bool shares;     // passes of shares instead
    uint64_t reported[MAX_PIECES];
    uint32_t pending_by[MAX_PASSES][2 * MAX_PIECES]; // bits of actors that held a piece
    bool items[MAX_PASSES][ITEMS];                   // of shares, done
    uint64_t reported_pass;
    char log[4096];
};

struct scheduler_options world_options(uint32_t servers, uint32_t workers);
void world_open(struct world *w, uint64_t seed, const struct scheduler_options *o);
struct member_options world_member(struct world *w, enum wire_role role, uint32_t i);
struct actor *world_add(struct world *w, enum wire_role role);
void world_add_all(struct world *w, uint32_t servers, uint32_t workers, bool driver);
void world_crash(struct actor *a);
// Runs until `until` of virtual time has passed.
void world_run(struct world *w, uint64_t until);
// Runs until the cluster has finished and all have left; at most `limit`.
struct err world_finish(struct world *w, uint64_t limit);
void world_close(struct world *w);
// The scheduler's process is killed, and another one started at its address.
void world_restart_scheduler(struct world *w, const struct scheduler_options *o);
struct actor *world_add_with(struct world *w, struct member_options *o);

#endif
