// The base of simulated worlds: a scheduler, servers and clients in one network, with the
// code of real processes, and strangers; everything depends on one number. A world
// defines the differences, and the actions of its clients. A living process must not be
// declared dead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_STAGE_H
#define TUG_KIT_STAGE_H

#include "client/client.h"
#include "kit/cast.h"
#include "kit/restarts.h"
#include "kit/seeds.h"
#include "kit/shards.h"
#include "kit/strangers.h"
#include "server/shard.h"

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)

// STAGE_SERVERS: most servers at the start; STAGE_PLACES: most servers, including those
// that join late.
enum { STAGE_SERVERS = 3, STAGE_PLACES = 6, STAGE_CLIENTS = 9, STAGE_EPOCHS = 256 };

#define STAGE_CALM_NS (300 * SECOND)

struct stage_server {
    struct shard *shard;
    struct van *van;
    struct sim_process *process;
    bool lost;         // the server was stopped until it was declared dead
    bool late;         // it has joined the running cluster
    bool leaves, gone; // leaves: the server was drained and leaves; gone: the server has
                       // left
    bool dead;         // it was killed while it owned nothing, or its process has ended
    // It is dead because it was stopped until it is declared dead, which has not happened yet.
    bool ghost;
    uint64_t wakes;          // a ghost continues at this time
    uint64_t next_stop;      // the server is not stopped again before this time
    _Atomic uint64_t newest; // generation of the scheduler that its process knows
};

struct stage_client {
    struct stage *stage;
    enum wire_role role;
    uint32_t number;
    struct client *client; // NULL before the client has started
    struct van *van;
    struct sim_process *process;
    bool dead;
    bool ghost;       // the client was not killed, but stopped until it was declared dead
    bool fades;       // one of the ghost's requests has failed
    uint64_t dies_at; // time at which the client dies; VAN_NEVER: never
    _Atomic uint64_t newest; // generation of the scheduler that its process knows
};

// A kind of world. The struct behind `w` (`bytes` long) must begin with a struct stage.
struct stage_world {
    size_t bytes;
    uint64_t stream; // random stream for the world's choices
    // Opens the parts of the world, one after the other.
    int (*open)(void *w, struct err *e);
    void (*act)(void *w);                 // lets all parts act
    void (*work)(void *w);                // runs the world from begin to end
    void (*count)(void *w, uint64_t *to); // adds the numbers of events to `to`
    // Called after the scheduler was started again with its journal. May be NULL.
    void (*again)(void *w);
    // Whether, in some of these worlds, a replaced scheduler goes on with a copy of the
    // journal (restarts_parts).
    bool parts;
    // Closes the world, also one that is opened only in part; NULL: only the stage is
    // closed.
    void (*close)(void *w);
};

struct stage {
    const struct stage_world *world;
    const struct seeds_run *o;
    uint64_t draws;
    struct sim *sim;
    struct scheduler *scheduler;
    struct van *scheduler_van;
    // The scheduler was restarted without a journal, so that it and the nodes do not know
    // each other.
    bool restarted;
    uint32_t lives; // the number of times that all processes have crashed
    uint32_t n_servers, n_clients;
    struct stage_server servers[STAGE_PLACES];
    // The clients, in the order in which they started.
    struct stage_client *clients[STAGE_CLIENTS];
    struct restarts restarts; // deaths and starts of a scheduler with a journal
    struct stage_epoch {
        uint64_t epoch, hash;
    } epochs[STAGE_EPOCHS]; // the newest placements that a node has had, by their epoch
    struct sim_strangers *strangers;
    uint64_t events, deaths;
    uint64_t pauses, next_pause;
    // From this time on nothing new goes wrong: all work must then end within STAGE_CALM_NS.
    // 0: something may go wrong all the time.
    uint64_t calm_at;
    bool calm;
    struct err said;    // error of the call that failed last
    struct err failure; // the first broken invariant
};

// Opens the seed's world, runs it and closes it. Returns TUG_EINTERNAL if an invariant
// was broken; *e then describes it.
int stage_run(const struct stage_world *world, struct seeds_run *o, struct err *e);
void stage_close(void *stage); // for a world that closes itself
// Crashes all processes at once, and replaces their network by a new, empty one.
int stage_again(struct stage *s, struct err *e);

// Returns whether this is one of the worlds in which, with replicas, changes and partings
// follow each other quickly.
bool stage_is_quick(const struct stage *s);

uint64_t stage_draw(struct stage *s, uint64_t n); // a random number below n
bool stage_one_in(struct stage *s, uint64_t n);

// Returns the injected bugs (cluster/bugs.h) of all nodes that the following functions
// open.
uint64_t stage_bugs(const struct stage *s);
int stage_open_scheduler(struct stage *s, const struct scheduler_options *o,
                         struct err *e);
// Opens the next server, and sets its place in the cluster in *o. `wrap`, which may be
// NULL, returns a handler that gets the calls of the server's van first.
typedef struct van_handler (*stage_wrap)(void *ctx, uint32_t i, struct van_handler inner);
int stage_open_server(struct stage *s, struct shard_options *o, stage_wrap wrap,
                      void *ctx, struct err *e);
// Opens a client, and sets its place and its deadlines in *o. *c must not be moved.
int stage_open_client(struct stage *s, struct stage_client *c, enum wire_role role,
                      uint32_t i, struct client_options *o, struct err *e);
// Kills a client and forgets it, so that *c may be opened again as another process.
void stage_close_client(struct stage_client *c);
int stage_open_strangers(struct stage *s, const struct sim_seen *seen, struct err *e);

// Lets some time pass, in which all parts act. Returns false if the time `until` is
// reached or an invariant is broken.
bool stage_step(struct stage *s, uint64_t until);
// Lets one event happen, or the scheduler die or start. Returns false if nothing is due
// before `until` or an invariant is broken.
bool stage_let(struct stage *s, uint64_t until);
// Returns whether the scheduler's process is away. Its functions must not be called then,
// and its state may differ from the durable state.
bool stage_is_down(const struct stage *s);
// Returns whether the scheduler has finished; false if it has died.
bool stage_finished(const struct stage *s, struct err *why);
// Draws the time from which on nothing new goes wrong, and returns when all work must have
// ended.
uint64_t stage_draw_calm(struct stage *s);
// Waits until messages under way have arrived.
void stage_settle(struct stage *s, uint64_t ns);
// Lets a client die if its time has come, but not before the scheduler could tell dead
// processes from living ones. Some dead clients are ghosts: they were stopped until they
// were declared dead, and then continue their work. Returns whether it has died.
bool stage_dies(struct stage_client *c);
// Stops a server until it is declared dead; then the server continues, and the cluster
// ends.
void stage_lose_server(struct stage *s, uint32_t i);
// Lets a server die; `ghost`: it is stopped until it was declared dead, and then continues.
void stage_kill_server(struct stage *s, uint32_t i, bool ghost);
// Returns whether a server is a ghost. If it was not declared dead, because the scheduler was
// stopped, too, it lives on after a while. The scheduler's process must exist.
bool stage_is_ghost(struct stage *s, struct stage_server *x);
// Returns whether the client acts now: it is alive or a ghost, and is not stopped.
bool stage_acts(const struct stage_client *c);
void stage_check_living(struct stage *s);
// Returns whether a server was told to leave, because it was drained.
bool stage_was_drained(const struct stage *s, const struct stage_server *x);
// Returns whether a server is alive and belongs to the cluster.
bool stage_is_there(const struct stage_server *x);

// Records a broken invariant; only the first one is kept.
void stage_failed(struct stage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Records that a request was begun, with s->said as its error. Returns ts, which must not
// be 0.
client_ts stage_begun(struct stage_client *c, client_ts ts, const char *what);
// Returns true once, when the request is done, and sets *ts to 0. Requests of a ghost (a
// client that was stopped until it was declared dead) may fail.
bool stage_is_over(struct stage_client *c, client_ts *ts, const char *what);

// Returns the number of messages that workers have sent again.
uint64_t stage_resent(const struct stage *s);
// Returns the sum, over all servers, of the first float of the key's rows.
int64_t stage_sum(const struct stage *s, uint32_t table, uint64_t key);

#endif
