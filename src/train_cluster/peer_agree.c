// See peer_agree.h. Each worker has a row of its own, with its rank as the key. It sets
// the row before a barrier, and all workers read it after the barrier:
//
//   CALL     number of the worker's call of training; a worker that has died, left or come
//            anew has another number in its row, or no row
//   PASSES   number of passes of this call that the worker has done
//   PARTS    parts of a hash of the worker's options and files
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/peer_agree.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "client/client.h"
#include "cluster/member.h"
#include "rule/rule.h"
#include "train/saved/run_options.h"
#include "train_cluster/peer.h"

// Each part has 12 bits of the hash, which a float holds exactly.
enum { TABLE = SPEC_MAX_TABLES - 2, CALL = 0, PASSES, PARTS, PART_BITS = 12, WIDTH = 7 };

static int wait(struct client *c, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(c, ts, e) : e->code;
}

// Makes this worker's row after this number of passes of the call.
static int say_of(const struct run *r, uint32_t passes, float ret[WIDTH], struct err *e)
{
    char *text = NULL;
    struct train_config c = *r->config;
    c.epochs = 0; // not compared, because the first worker counts passes from its save on
    TRY(run_options_print(&c, &text, e));
    uint64_t hash = hash_bytes(text, strlen(text), 0);
    mem_free(text);
    if (!r->config->cluster->peer->own_files)
        hash = mix64(hash ^ r->data_identity->hash);
    ret[CALL] = (float)r->config->cluster->peer->call;
    ret[PASSES] = (float)passes;
    for (int i = PARTS; i < WIDTH; i++)
        ret[i] = (float)(hash >> ((i - PARTS) * PART_BITS) & ((1u << PART_BITS) - 1));
    return 0;
}

static int say(struct client *c, const struct run *r, uint32_t passes, struct err *e)
{
    float mine[WIDTH];
    const uint64_t key = member_rank(client_member(c));
    struct client_push p = {
        .table = TABLE, .keys = &key, .n = 1, .values = mine, .op = WIRE_ASSIGN};
    TRY(say_of(r, passes, mine, e));
    return wait(c, client_push(c, &p, e), e);
}

int peer_agree_say(struct client *c, const struct run *r, struct err *e)
{
    struct table_config t = table_config_defaults();
    snprintf(t.name, sizeof(t.name), "tug-peers");
    t.accessor.dim = WIDTH;
    t.accessor.rule = rule_defaults(RULE_SUM);
    TRY(wait(c, client_table(c, TABLE, &t, e), e));
    return say(c, r, 0, e);
}

int peer_agree_done(struct client *c, const struct run *r, uint32_t passes, struct err *e)
{
    return say(c, r, passes, e);
}

// Returns the number of ranks. A worker beyond the number that the cluster was made for
// has a higher rank.
static uint32_t ranks(const struct roster *r)
{
    uint32_t n = r->workers;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_WORKER && r->nodes[i].rank >= n)
            n = r->nodes[i].rank + 1;
    return n;
}

uint32_t peer_agree_ranks(struct client *c)
{
    return ranks(member_roster(client_member(c)));
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
    return err_set(
        e, TUG_EIO,
        "%s ha%s not done %s part of pass %u of this call: died or left, and the "
        "pass lacks examples. It is not saved: start all workers again, from the "
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

static int check_one(const struct roster *r, uint32_t rank, const float *said,
                     const float *mine, bool own_files, struct err *e)
{
    char name[ROSTER_NAME_MAX];
    bool takes_part = said[CALL] == mine[CALL];
    if (!takes_part && rank >= r->workers)
        return 0; // the worker has joined since the barrier
    if (!takes_part)
        return err_set(
            e, TUG_EIO,
            "%s takes no part in this worker's call %.0f of training: it has died or "
            "left, or makes other calls. All workers have to make the same calls: "
            "start all of them again, from the last save",
            name_of(r, rank, name), (double)mine[CALL]);
    if (memcmp(said + PARTS, mine + PARTS, (WIDTH - PARTS) * sizeof(*said)) != 0)
        return err_set(
            e, TUG_EUSAGE,
            "the workers were given different options%s: all have to make "
            "the same calls in the same order",
            own_files ? ""
                      : ", or different files, though they share the files of a run");
    if (said[PASSES] < mine[PASSES])
        return gone(r, &rank, 1, (uint32_t)mine[PASSES], e);
    return 0;
}

int peer_agree_check(struct client *c, const struct run *r, uint32_t passes,
                     struct err *e)
{
    const struct roster *roster = member_roster(client_member(c));
    uint32_t n = ranks(roster);
    uint64_t *keys = mem_array(n + 1, sizeof(*keys));
    float mine[WIDTH], *said = mem_array(n + 1, sizeof(mine));
    struct client_pull p = {.table = TABLE, .keys = keys, .n = n, .values = said};
    int rc = keys == NULL || said == NULL ? err_nomem(e, "what workers agree on")
                                          : say_of(r, passes, mine, e);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        keys[i] = i;
    if (rc == 0)
        rc = wait(c, client_pull(c, &p, e), e);
    // fetched again, as a newer one may have arrived
    roster = member_roster(client_member(c));
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = check_one(roster, i, said + i * WIDTH, mine,
                       r->config->cluster->peer->own_files, e);
    mem_free(keys);
    mem_free(said);
    return rc;
}
