// What the files of the public client (tug/tug.h) share: the client core, lent out by a
// pump, and the calls that its callers made.
//
//   tug_client.c   its life, tables, barriers
//   tug_calls.c    pushes, pulls, waiting
//   tug_tables.c   tables by settings: their life, saves and loads
//   tug_own.c      a program's own accessors, rules and entry policies
//   tug_profile.c  profiles, asked for by a tool (facade/tool.h)
//
// On top of the public calls: tug_communicator.c, tug_dense.c, tug_auc.c, tug_metric.c,
// tug_reduce.c, tug_dump.c.
//
// All of this belongs to the thread that has the van.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_TUG_CLIENT_H
#define TUG_FACADE_TUG_CLIENT_H

#include <stdatomic.h>

#include "client/client.h"
#include "client/merge.h"
#include "cluster/node.h"
#include "facade/last_error.h"
#include "facade/pump.h"
#include "facade/role.h"
#include "server/embedded.h"
#include "tug/tug.h"

#define SECOND ((uint64_t)1000000000)

// A request of a caller's, from tug_push or tug_pull until it was waited for.
struct call {
    struct pump_work work;
    struct call *next; // of the same bucket, or of unused ones
    struct tug_client *client;
    client_ts ts;
    bool ended;
    int rc;
    struct err why;
    tug_done_fn done;
    void *ctx;

    // Where keys repeat: values of distinct ones, and what was pulled for them.
    struct client_merge *merge;
    bool merged;
    float *rows;
    size_t cap_rows;
    float *pulled; // of them: what is pulled
    float *target; // of a pull: where its rows go in the end
    uint32_t width, push_width;
};

// A program's settings for later requests to a table.
struct call_terms {
    uint64_t clock;        // of pulls, ssp and sync
    uint8_t micro, micros; // of pushes, sync
    float rate;            // of pushes
};

struct tug_client {
    struct tug_client_options o;
    struct role environment;
    struct embedded *embedded; // NULL: the cluster is another's
    struct node node;
    struct van *van;
    struct pump *pump;
    struct client *client;
    struct van_handler beneath; // the client's
    uint32_t workers, servers;
    // Calls by their number, so that it costs the same however many are open.
    struct call **buckets; // a power of two
    size_t n_buckets, n_calls;
    size_t unfinished; // under way, or their callback has not returned
    struct call *unused;
    uint64_t saves;     // begun
    uint32_t trainings; // calls of tug_model_train that went through it
    bool again;         // pushes are of a later pass
    // Pushes with updates that were left out; of the first one, set before.
    atomic_uint_least64_t left_out, left_out_key;
    atomic_uint left_out_table;
    struct call_terms terms[SPEC_MAX_TABLES];
};

// Whether none is under way, and no callback is to run any more.
bool calls_over(const struct tug_client *c);
void calls_free(struct tug_client *c);
// tug_assign.
int calls_assign(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                 const float *values, tug_done_fn done, void *ctx,
                 uint64_t *ret_timestamp);
// TUG_EUSAGE in a callback: before anything is asked whose answer would have to be waited for.
int calls_may_wait(const struct tug_client *c);
// The same, and takes the van.
int calls_enter(struct tug_client *c);
// Waits for a call whose arrays will be freed: gives up a call that takes too long, so
// that nothing is written to them later.
int calls_wait_or_cancel(struct tug_client *c, uint64_t ts);
// Likewise for a request of the client, made while the van was lent; returns its code.
int calls_wait_for(struct tug_client *c, client_ts ts, double seconds);
// tug_barrier with other groups, too: the sum of enum wire_group.
int calls_barrier(struct tug_client *c, uint8_t group);
// Returns the settings of a table that this client has made or found.
int calls_spec(struct tug_client *c, uint32_t table, struct table_spec *ret);

// Returns whether a push still has `width` floats a key: a table that was dropped and
// made anew may have others, and users of the old one have arrays of the old ones.
int calls_check_push(struct tug_client *c, uint32_t table, uint32_t width);

#endif
