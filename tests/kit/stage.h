// The base of simulated worlds: a scheduler, servers and clients in one network, all as
// in processes, made from one number; and strangers. A world defines the differences, and
// what clients do. A living process must not be declared dead.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_STAGE_H
#define TUG_KIT_STAGE_H

#include "client/client.h"
#include "kit/cast.h"
#include "kit/seeds.h"
#include "kit/shards.h"
#include "kit/strangers.h"
#include "server/shard.h"

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)

enum { STAGE_SERVERS = 3, STAGE_CLIENTS = 9 };

struct stage_server {
    struct shard *shard;
    struct van *van;
    struct sim_process *process;
    bool lost; // it was stopped for longer than its lease
};

struct stage_client {
    struct stage *stage;
    enum wire_role role;
    uint32_t number;
    struct client *client; // NULL: it is not there yet
    struct van *van;
    struct sim_process *process;
    bool dead;
    bool ghost;       // it is not: it was stopped for longer than its lease
    bool fades;       // what a ghost asked for has failed
    uint64_t dies_at; // VAN_NEVER: it does not
};

// A kind of worlds: of structs that begin with their stage.
struct stage_world {
    size_t bytes;
    uint64_t stream;                      // of random numbers, for what the world chooses
    int (*open)(void *w, struct err *e);  // the parts, one after the other
    void (*act)(void *w);                 // all do what they want to do now
    void (*work)(void *w);                // from the beginning to the end
    void (*count)(void *w, uint64_t *to); // how much happened
    void (*close)(void *w); // accepts a half-built one; NULL: its stage is all there is
};

struct stage {
    const struct stage_world *world;
    const struct seeds_run *o;
    uint64_t draws;
    struct sim *sim;
    struct scheduler *scheduler;
    struct van *scheduler_van;
    bool restarted; // the scheduler: it knows nobody, and nobody it
    uint32_t lives; // crashed as a whole
    uint32_t n_servers, n_clients;
    struct stage_server servers[STAGE_SERVERS];
    struct stage_client *clients[STAGE_CLIENTS]; // in the order in which they came
    struct sim_strangers *strangers;
    uint64_t events, deaths;
    uint64_t pauses, next_pause;
    struct err said;    // by the call that failed last
    struct err failure; // what did not hold, first
};

// Makes the seed's world, lets it live and closes it. TUG_EINTERNAL names a broken
// invariant.
int stage_run(const struct stage_world *world, const struct seeds_run *o, struct err *e);
void stage_close(void *stage); // for a world that closes itself
// All processes crash at once; a new, empty network replaces theirs.
int stage_again(struct stage *s, struct err *e);

uint64_t stage_draw(struct stage *s, uint64_t n); // below n
bool stage_one_in(struct stage *s, uint64_t n);

int stage_open_scheduler(struct stage *s, const struct scheduler_options *o,
                         struct err *e);
// The next one. Its place in the cluster is set here; `wrap`, which may be NULL, sees what
// its van would call first.
typedef struct van_handler (*stage_wrap)(void *ctx, uint32_t i, struct van_handler inner);
int stage_open_server(struct stage *s, struct shard_options *o, stage_wrap wrap,
                      void *ctx, struct err *e);
// Its place and its deadlines are set here. It must not move.
int stage_open_client(struct stage *s, struct stage_client *c, enum wire_role role,
                      uint32_t i, struct client_options *o, struct err *e);
int stage_open_strangers(struct stage *s, const struct sim_seen *seen, struct err *e);

// Lets some time pass, in which all act; false at the end, or if an invariant is broken.
bool stage_step(struct stage *s, uint64_t until);
// Waits until messages on their way have arrived.
void stage_settle(struct stage *s, uint64_t ns);
// Dies if its time has come; not before the scheduler could tell the dead from the
// living. Some of the dead are ghosts: they were stopped until others gave them up, and
// then continue their work.
bool stage_dies(struct stage_client *c);
// A server is stopped for longer than its lease, and goes on: the cluster ends.
void stage_lose_server(struct stage *s, uint32_t i);
// Whether the client acts now: it lives, or is a ghost, and is not stopped.
bool stage_acts(const struct stage_client *c);
void stage_check_living(struct stage *s);

// Notes a broken invariant: only the first is kept.
void stage_failed(struct stage *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Requests, which must go well, with s->said as their errors. Gives ts: it has begun.
client_ts stage_begun(struct stage_client *c, client_ts ts, const char *what);
// Returns true once, when it is done; *ts is 0 then. Requests of a ghost may fail.
bool stage_is_over(struct stage_client *c, client_ts *ts, const char *what);

uint64_t stage_resent(const struct stage *s); // messages of workers that were sent again
// The first float of the key's rows on all servers, together.
int64_t stage_sum(const struct stage *s, uint32_t table, uint64_t key);

#endif
