// See peer_agree.h. In a collective call each worker gives its state (struct peer_state),
// and compares it with the states of the others. A worker that has died or left gave no
// state; a worker that has joined since then gave none, or the state of another call.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/peer_agree.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "client/client.h"
#include "cluster/member.h"
#include "os/log.h"
#include "train/saved/run_options.h"
#include "train_cluster/driver_internal.h"
#include "train_cluster/peer.h"

// The state that a worker sends to the other workers as the bytes of this struct. All
// processes of a cluster have the same build, and tug supports only one byte order.
struct peer_state {
    uint32_t call; // number of the worker's call of training; 0: the worker sent no state
    uint32_t passes; // number of passes of this call that the worker has done
    uint64_t hash;   // hash of the worker's options and files
};

static int say_of(const struct run *r, uint32_t passes, struct peer_state *ret,
                  struct err *e)
{
    char *text = NULL;
    struct train_config c = *r->config;
    // `epochs` is not compared: the first worker counts passes from its save on.
    c.epochs = 0;
    TRY(run_options_print(&c, &text, e));
    uint64_t hash = hash_bytes(text, strlen(text), 0);
    mem_free(text);
    if (!r->config->cluster->peer->own_files)
        hash = mix64(hash ^ r->data_identity->hash);
    *ret = (struct peer_state){r->config->cluster->peer->call, passes, hash};
    return 0;
}

struct meeting {
    const struct run *run;
    struct waiting waiting;
};

// Logs from time to time which workers are missing. Returns whether the run was
// interrupted.
static bool stops_meeting(void *ctx, const char *missing)
{
    struct meeting *x = ctx;
    double seconds;
    if (missing[0] != '\0' && waiting_is_due(&x->waiting, &seconds))
        log_warn("waiting for %s for %.0f s already, to begin or end a pass together: "
                 "still alive, but slow, or not in this call of training",
                 missing, seconds);
    return run_interrupted(x->run);
}

// Waits until all living workers have come to the barrier that this worker has entered.
// Waits for slow workers, but not for dead ones.
static int wait_for_all(struct run *r, struct err *e)
{
    struct meeting x = {r, waiting_begin(r->config->cluster->peer->patience)};
    return client_meet(r->driver->remote.client, WIRE_GROUP_WORKERS, VAN_NEVER,
                       stops_meeting, &x, e);
}

int peer_meet(struct run *r, struct err *e)
{
    member_barrier(client_member(r->driver->remote.client), WIRE_GROUP_WORKERS);
    return wait_for_all(r, e);
}

// Makes a collective call with all workers that are alive.
static int peer_agree_collect(struct run *r, struct member_collect k,
                              struct wire_text *ret, struct err *e)
{
    struct member *m = client_member(r->driver->remote.client);
    k.index = member_rank(m);
    TRY(member_collect(m, &k, e));
    TRY(wait_for_all(r, e));
    return member_collected(m, ret, e);
}

int peer_reduce(struct run *r, enum wire_collect op, enum wire_number type,
                const void *values, size_t n, void *ret, struct err *e)
{
    const struct roster *roster = member_roster(client_member(r->driver->remote.client));
    size_t bytes = n * sizeof(uint64_t), some;
    struct wire_text result;
    for (size_t at = 0; at < bytes; at += some) {
        some = member_collect_piece(bytes - at, op, roster->workers);
        struct member_collect k = {.call = "results of training",
                                   .op = op,
                                   .type = type,
                                   .first = at / sizeof(uint64_t),
                                   .bytes = (const char *)values + at,
                                   .n = some};
        TRY(peer_agree_collect(r, k, &result, e));
        if (result.n != some)
            return err_set(e, TUG_EDATA,
                           "the scheduler's answer to the results of "
                           "training is damaged");
        memcpy((char *)ret + at, result.data, some);
    }
    return 0;
}

// Returns the number of ranks. Workers that joined in addition to those that the cluster
// was made for have higher ranks.
static uint32_t ranks(const struct roster *r)
{
    uint32_t n = r->workers;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_WORKER && r->nodes[i].rank >= n)
            n = r->nodes[i].rank + 1;
    return n;
}

// Gets the name of the worker with this rank, or of the worker that has left if another
// has taken the rank.
static const char *name_of(const struct roster *r, uint32_t rank,
                           char to[ROSTER_NAME_MAX])
{
    const struct roster_node *found = NULL;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const struct roster_node *n = &r->nodes[i];
        if (n->role == WIRE_WORKER && n->rank == rank && (found == NULL || !n->alive))
            found = n;
    }
    if (found != NULL)
        return roster_name(found, to);
    snprintf(to, ROSTER_NAME_MAX, "worker %u", rank);
    return to;
}

static int gone(const struct roster *r, const uint32_t *ranks, size_t n, uint32_t pass,
                struct err *e)
{
    char names[ERR_TEXT_MAX / 2] = "", name[ROSTER_NAME_MAX];
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(names);
        snprintf(names + at, sizeof(names) - at, "%s%s", at > 0 ? ", " : "",
                 name_of(r, ranks[i], name));
    }
    return err_set(e, TUG_EIO,
                   "%s ha%s died or left before %s part of pass %u of this call of "
                   "training was done, so the pass lacks examples. It "
                   "is not saved: start all workers again, from the "
                   "last save",
                   names, n == 1 ? "s" : "ve", n == 1 ? "its" : "their", pass);
}

uint64_t peer_agree_session(struct client *c, uint32_t rank)
{
    const struct roster *r = member_roster(client_member(c));
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_WORKER && r->nodes[i].rank == rank &&
            r->nodes[i].alive)
            return r->nodes[i].session;
    return 0;
}

int peer_agree_gone(struct client *c, const uint32_t *ranks, size_t n, uint32_t pass,
                    struct err *e)
{
    return gone(member_roster(client_member(c)), ranks, n, pass, e);
}

static int check_one(const struct roster *r, uint32_t rank, const struct peer_state *said,
                     const struct peer_state *mine, bool own_files, struct err *e)
{
    char name[ROSTER_NAME_MAX];
    bool takes_part = said->call == mine->call;
    if (!takes_part && rank >= r->workers)
        // The worker has joined since this barrier, so it has no state to compare.
        return 0;
    // A worker that sent no state at the end of a pass has died or left during the pass.
    if (said->call == 0 && mine->passes > 0)
        return gone(r, &rank, 1, mine->passes, e);
    if (!takes_part)
        return err_set(
            e, TUG_EIO,
            "%s takes no part in this worker's call %u of training: it has died or "
            "left, or makes other calls. All workers have to make the same calls: "
            "start all of them again, from the last save",
            name_of(r, rank, name), mine->call);
    if (said->hash != mine->hash)
        return err_set(
            e, TUG_EUSAGE,
            "the workers were given different options%s: all have to make "
            "the same calls in the same order",
            own_files ? ""
                      : ", or different files, though they share the files of a run");
    if (said->passes < mine->passes)
        return gone(r, &rank, 1, mine->passes, e);
    return 0;
}

// Returns the state that the worker of this rank sent; zeros if it sent none.
static struct peer_state said_by(struct wire_text parts, uint32_t rank)
{
    struct wire_part p;
    struct peer_state ret = {0};
    while (wire_next_part(&parts, &p) == 1)
        if (p.index == rank && p.bytes.n == sizeof(ret))
            memcpy(&ret, p.bytes.data, sizeof(ret));
    return ret;
}

int peer_agree(struct run *r, uint32_t passes, struct err *e)
{
    const struct roster *roster;
    struct wire_text parts;
    struct peer_state mine;
    TRY(say_of(r, passes, &mine, e));
    struct member_collect k = {.call = "training", .bytes = &mine, .n = sizeof(mine)};
    TRY(peer_agree_collect(r, k, &parts, e));
    roster = member_roster(client_member(r->driver->remote.client));
    for (uint32_t rank = 0; rank < ranks(roster); rank++) {
        struct peer_state said = said_by(parts, rank);
        TRY(check_one(roster, rank, &said, &mine, r->config->cluster->peer->own_files,
                      e));
    }
    return 0;
}
