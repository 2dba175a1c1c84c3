// Encodes and decodes rosters, and answers common questions about them.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/roster.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/printable.h"
#include "base/search.h"

void roster_free(struct roster *r)
{
    mem_free(r->nodes);
    for (int space = 0; space < WIRE_SPACES; space++) {
        mem_free(r->owners[space]);
        mem_free(r->backups[space]);
    }
    mem_free(r->moves);
    mem_free(r->unbacked);
    *r = (struct roster){0};
}

// Returns how many ids `backups` has for each space.
static uint64_t backup_ids(const struct roster *r)
{
    return r->replicas > 1 ? (uint64_t)roster_partitions(r) * r->replicas : 0;
}

// Allocates the arrays of nodes, owners and backups, sized by the counts in *ret.
static int roster_make_room(struct roster *ret)
{
    ret->nodes = NULL;
    ret->moves = NULL;
    ret->unbacked = NULL;
    memset(ret->owners, 0, sizeof(ret->owners));
    memset(ret->backups, 0, sizeof(ret->backups));
    if (ret->n_nodes > 0)
        ret->nodes = mem_array(ret->n_nodes, sizeof(*ret->nodes));
    if (ret->n_moves > 0)
        ret->moves = mem_array(ret->n_moves, sizeof(*ret->moves));
    if (ret->n_unbacked > 0)
        ret->unbacked = mem_array(ret->n_unbacked, sizeof(*ret->unbacked));
    bool missing = (ret->n_nodes > 0 && ret->nodes == NULL) ||
                   (ret->n_moves > 0 && ret->moves == NULL) ||
                   (ret->n_unbacked > 0 && ret->unbacked == NULL);
    for (int space = 0; space < WIRE_SPACES && ret->epoch != 0; space++) {
        ret->owners[space] = mem_array(roster_partitions(ret), sizeof(uint32_t));
        missing |= ret->owners[space] == NULL;
        if (backup_ids(ret) == 0)
            continue;
        ret->backups[space] = mem_array(backup_ids(ret), sizeof(uint32_t));
        missing |= ret->backups[space] == NULL;
    }
    if (!missing)
        return 0;
    roster_free(ret);
    return TUG_ENOMEM;
}

static int put_unbacked(const struct roster *r, struct buf *to)
{
    for (uint32_t i = 0; i < r->n_unbacked; i++) {
        const struct roster_unbacked *x = &r->unbacked[i];
        struct wire_unbacked_table line = {x->table, (uint8_t)x->space, x->drops};
        TRY(wire_put_unbacked_table(to, &line));
    }
    return 0;
}

int roster_encode(const struct roster *r, struct buf *nodes, struct buf *owners,
                  struct msg_roster *ret)
{
    assert(nodes != owners);
    buf_clear(nodes);
    buf_clear(owners);
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const struct roster_node *n = &r->nodes[i];
        struct wire_node line = {
            .id = n->id,
            .role = (uint8_t)n->role,
            .tables = (uint8_t)n->tables,
            .alive = n->alive,
            .rank = n->rank,
            .session = n->session,
            .process = n->process,
            .loop = n->loop,
            .pid = n->pid,
            .host = wire_text(n->host),
            .address = wire_text(n->address),
        };
        TRY(wire_put_node(nodes, &line));
    }
    size_t nodes_end = nodes->len; // the moves are put behind the nodes
    for (uint32_t i = 0; i < r->n_moves; i++) {
        const struct roster_move *x = &r->moves[i];
        struct wire_move line = {.move = x->id,
                                 .space = (uint8_t)x->space,
                                 .partition = x->partition,
                                 .to = x->to,
                                 .fills = x->fills};
        TRY(wire_put_move(nodes, &line));
    }
    size_t moves_end = nodes->len;
    TRY(put_unbacked(r, nodes));
    for (int space = 0; space < WIRE_SPACES && r->epoch != 0; space++)
        TRY(buf_add(owners, r->owners[space], roster_partitions(r) * sizeof(uint32_t)));
    size_t owners_end = owners->len; // the backups are put behind the owners
    for (int space = 0; space < WIRE_SPACES && r->epoch != 0; space++)
        TRY(buf_add(owners, r->backups[space], backup_ids(r) * sizeof(uint32_t)));
    *ret = (struct msg_roster){
        .epoch = r->epoch,
        .version = r->version,
        .newest = r->newest,
        .generation = r->generation,
        .partition_bits = (uint8_t)r->partition_bits,
        .replicas = (uint8_t)r->replicas,
        .servers = r->servers,
        .workers = r->workers,
        .nodes = {nodes->data, nodes_end},
        .owners = {owners->data, owners_end},
        .backups = {owners->data + owners_end, owners->len - owners_end},
        .moves = {nodes->data + nodes_end, (uint32_t)(moves_end - nodes_end)},
        .unbacked = {nodes->data + moves_end, (uint32_t)(nodes->len - moves_end)},
    };
    return 0;
}

// Returns whether a name or address is short enough and has no control characters, which
// must not be printed.
static bool text_fits(struct wire_text t, size_t cap)
{
    return t.n < cap && printable_check(t.data, t.n);
}

static bool node_read(struct roster_node *ret, const struct wire_node *line)
{
    if (line->role < WIRE_SCHEDULER || line->role > WIRE_DRIVER ||
        line->tables > WIRE_TABLES_DENSE || line->alive > 1 || line->id == 0 ||
        !text_fits(line->host, sizeof(ret->host)) ||
        !text_fits(line->address, sizeof(ret->address)))
        return false;
    *ret = (struct roster_node){
        .id = line->id,
        .role = line->role,
        .tables = line->tables,
        .alive = line->alive,
        .rank = line->rank,
        .session = line->session,
        .process = line->process,
        .loop = line->loop,
        .pid = line->pid,
    };
    if (line->host.n > 0)
        memcpy(ret->host, line->host.data, line->host.n);
    if (line->address.n > 0)
        memcpy(ret->address, line->address.data, line->address.n);
    return true;
}

static int count_nodes(struct wire_text list, uint32_t *ret)
{
    struct wire_node line;
    int more;
    for (*ret = 0; (more = wire_next_node(&list, &line)) == 1; ++*ret)
        if (*ret == ROSTER_MAX_NODES)
            return TUG_EDATA;
    return more;
}

static int read_nodes(struct roster *r, struct wire_text list, struct err *e)
{
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        struct wire_node line;
        if (wire_next_node(&list, &line) != 1 || !node_read(&r->nodes[i], &line))
            return err_set(e, TUG_EDATA, "line %u of the roster is inconsistent", i);
        if (i > 0 && r->nodes[i].id <= r->nodes[i - 1].id)
            return err_set(e, TUG_EDATA, "the roster's nodes are not in order");
    }
    return 0;
}

static int read_owners(struct roster *r, struct wire_span owners, struct err *e)
{
    uint64_t bytes = roster_partitions(r) * sizeof(uint32_t);
    if (owners.n != (r->epoch == 0 ? 0 : bytes * WIRE_SPACES))
        return err_set(e, TUG_EDATA,
                       "the roster's list of owners has %llu bytes, which do not fit its "
                       "number of partitions",
                       (unsigned long long)owners.n);
    if (r->epoch == 0)
        return 0;
    for (int space = 0; space < WIRE_SPACES; space++) {
        memcpy(r->owners[space], (const char *)owners.data + bytes * (unsigned)space,
               bytes);
        const struct roster_node *n = NULL;
        for (uint32_t p = 0; p < roster_partitions(r); p++) {
            if (n == NULL || n->id != r->owners[space][p])
                n = roster_find(r, r->owners[space][p]);
            if (n == NULL || n->role != WIRE_SERVER || !n->alive)
                return err_set(e, TUG_EDATA,
                               "the roster gives partition %u to node %u, which is not a "
                               "live server",
                               p, r->owners[space][p]);
        }
    }
    return 0;
}

static bool is_living_server(const struct roster *r, uint32_t id)
{
    const struct roster_node *n = roster_find(r, id);
    return n != NULL && n->role == WIRE_SERVER && n->alive;
}

// Returns whether the backups of a partition whose owner is known form a chain: living
// servers that differ from each other and from the owner, and then only zeros.
static bool backups_fit(const struct roster *r, int space, uint32_t partition)
{
    const uint32_t *ids = r->backups[space] + (size_t)partition * r->replicas;
    for (uint32_t i = 0; i < r->replicas; i++) {
        if (ids[i] == 0) {
            if (i + 1 < r->replicas && ids[i + 1] != 0)
                return false;
            continue;
        }
        if (!is_living_server(r, ids[i]) || ids[i] == r->owners[space][partition])
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (ids[k] == ids[i])
                return false;
    }
    return true;
}

static int read_backups(struct roster *r, struct wire_span backups, struct err *e)
{
    uint64_t bytes = r->epoch == 0 ? 0 : backup_ids(r) * sizeof(uint32_t);
    if (backups.n != bytes * WIRE_SPACES)
        return err_set(e, TUG_EDATA,
                       "the roster's list of backups has %llu bytes, which do not fit "
                       "%u replicas",
                       (unsigned long long)backups.n, r->replicas);
    for (int space = 0; space < WIRE_SPACES && bytes != 0; space++) {
        memcpy(r->backups[space], (const char *)backups.data + bytes * (unsigned)space,
               bytes);
        for (uint32_t p = 0; p < roster_partitions(r); p++)
            if (!backups_fit(r, space, p))
                return err_set(e, TUG_EDATA,
                               "the roster's backups of partition %u (%s) are not "
                               "different living servers",
                               p, wire_space_name((enum wire_space)space));
    }
    return 0;
}

static int count_moves(struct wire_text list, uint32_t *ret)
{
    struct wire_move line;
    int more;
    for (*ret = 0; (more = wire_next_move(&list, &line)) == 1;)
        ++*ret;
    return more;
}

static bool move_fits(const struct roster *r, const struct wire_move *line)
{
    if (r->epoch == 0 || line->move == 0 || line->space >= WIRE_SPACES ||
        line->partition >= roster_partitions(r) || !is_living_server(r, line->to))
        return false;
    // Owners change by moves if there are no replicas, and chains change by fills if there
    // are. While a chain has a member too many, the member that leaves goes first.
    const enum wire_space space = (enum wire_space)line->space;
    uint32_t chain[ROSTER_MAX_CHAIN];
    return line->fills == (r->replicas > 1) &&
           roster_chain(r, space, line->partition, chain) <= r->replicas &&
           !roster_is_member(r, space, line->partition, line->to);
}

static int compare_moves(enum wire_space a_space, uint32_t a, enum wire_space b_space,
                         uint32_t b)
{
    return a_space != b_space ? (a_space > b_space) - (a_space < b_space)
                              : (a > b) - (a < b);
}

static int read_moves(struct roster *r, struct wire_text list, struct err *e)
{
    for (uint32_t i = 0; i < r->n_moves; i++) {
        struct roster_move *x = &r->moves[i];
        struct wire_move line;
        if (wire_next_move(&list, &line) != 1 || !move_fits(r, &line))
            return err_set(e, TUG_EDATA, "move %u of the roster is inconsistent", i);
        *x = (struct roster_move){line.move, line.space, line.partition, line.to,
                                  line.fills != 0};
        if (i > 0 &&
            compare_moves(x[-1].space, x[-1].partition, x->space, x->partition) >= 0)
            return err_set(e, TUG_EDATA, "the roster's moves are not in order");
    }
    return 0;
}

static int count_unbacked(struct wire_text list, uint32_t *ret)
{
    struct wire_unbacked_table line;
    int more;
    for (*ret = 0; (more = wire_next_unbacked_table(&list, &line)) == 1;)
        ++*ret;
    return more;
}

static int read_unbacked(struct roster *r, struct wire_text list, struct err *e)
{
    for (uint32_t i = 0; i < r->n_unbacked; i++) {
        struct wire_unbacked_table line;
        struct roster_unbacked *x = &r->unbacked[i];
        if (wire_next_unbacked_table(&list, &line) != 1 || line.table >= ROSTER_TABLES ||
            line.space >= WIRE_SPACES || (i > 0 && line.table <= x[-1].table))
            return err_set(e, TUG_EDATA,
                           "unbacked table %u of the roster is inconsistent", i);
        *x = (struct roster_unbacked){line.table, line.space, line.drops};
    }
    return 0;
}

const struct roster_unbacked *roster_unbacked_find(const struct roster *r, uint32_t table)
{
    for (uint32_t i = 0; i < r->n_unbacked; i++)
        if (r->unbacked[i].table == table)
            return &r->unbacked[i];
    return NULL;
}

bool roster_keeps_primaries(const struct roster *r, enum wire_space space)
{
    for (uint32_t i = 0; i < r->n_unbacked; i++)
        if (r->unbacked[i].space == space)
            return true;
    return false;
}

const struct roster_move *roster_move_of(const struct roster *r, enum wire_space space,
                                         uint32_t partition)
{
    uint64_t at = search_first(
        0, r->n_moves, i,
        compare_moves(r->moves[i].space, r->moves[i].partition, space, partition) >= 0);
    if (at == r->n_moves)
        return NULL; // `moves` may also be NULL
    const struct roster_move *x = &r->moves[at];
    return x->space == space && x->partition == partition ? x : NULL;
}

static int check_numbers(const struct msg_roster *m, struct err *e)
{
    if (m->partition_bits > ROSTER_MAX_PARTITION_BITS)
        return err_set(
            e, TUG_EDATA,
            "the roster has 2^%u partitions, which is more than a cluster can have",
            m->partition_bits);
    if (m->replicas == 0 || m->replicas > CHAINS_MAX_REPLICAS)
        return err_set(e, TUG_EDATA,
                       "the roster has %u replicas of each partition, which is not "
                       "between 1 and %d",
                       m->replicas, CHAINS_MAX_REPLICAS);
    if (m->servers > ROSTER_MAX_NODES || m->workers > ROSTER_MAX_NODES ||
        (m->servers == 0 && m->epoch != 0))
        return err_set(
            e, TUG_EDATA,
            "the roster has impossible numbers of nodes: %u servers and %u workers",
            m->servers, m->workers);
    return 0;
}

int roster_decode(struct roster *ret, const struct msg_roster *m, struct err *e)
{
    struct roster r = {
        .epoch = m->epoch,
        .version = m->version,
        .newest = m->newest,
        .generation = m->generation,
        .servers = m->servers,
        .workers = m->workers,
        .partition_bits = m->partition_bits,
        .replicas = m->replicas,
    };
    TRY(check_numbers(m, e));
    const struct wire_text lines = {m->nodes.data, (uint32_t)m->nodes.n};
    if (m->nodes.n > UINT32_MAX || count_nodes(lines, &r.n_nodes) != 0)
        return err_set(e, TUG_EDATA,
                       "the roster's list of nodes is cut short or too long");
    if (count_moves(m->moves, &r.n_moves) != 0)
        return err_set(e, TUG_EDATA, "the roster's list of moves is cut short");
    if (count_unbacked(m->unbacked, &r.n_unbacked) != 0)
        return err_set(e, TUG_EDATA, "the roster's list of unbacked tables is cut short");
    if (roster_make_room(&r) != 0)
        return err_nomem(e, "the roster");
    int rc = read_nodes(&r, lines, e);
    if (rc == 0)
        rc = read_owners(&r, m->owners, e);
    if (rc == 0)
        rc = read_backups(&r, m->backups, e);
    if (rc == 0)
        rc = read_moves(&r, m->moves, e);
    if (rc == 0)
        rc = read_unbacked(&r, m->unbacked, e);
    if (rc == 0)
        *ret = r;
    else
        roster_free(&r);
    return rc;
}

int roster_check_next(const struct roster *before, const struct roster *r, struct err *e)
{
    if (before->epoch == 0)
        return 0;
    if (r->epoch < before->epoch)
        return err_set(e, TUG_EDATA,
                       "a roster of epoch %llu arrived after one of epoch %llu",
                       (unsigned long long)r->epoch, (unsigned long long)before->epoch);
    if (r->partition_bits != before->partition_bits)
        return err_set(e, TUG_EDATA,
                       "a roster with 2^%u partitions arrived after one with 2^%u",
                       r->partition_bits, before->partition_bits);
    if (r->replicas != before->replicas)
        return err_set(e, TUG_EDATA,
                       "a roster with %u replicas arrived after one with %u", r->replicas,
                       before->replicas);
    return 0;
}

uint64_t roster_owners_sum(const struct roster *r)
{
    uint64_t sum = 0;
    for (int i = 0; i < WIRE_SPACES; i++)
        sum = hash_bytes(r->owners[i], roster_partitions(r) * sizeof(*r->owners[i]), sum);
    return sum != 0 ? sum : 1;
}

uint32_t roster_chain(const struct roster *r, enum wire_space space, uint32_t partition,
                      uint32_t ret[ROSTER_MAX_CHAIN])
{
    assert(r->epoch != 0 && partition < roster_partitions(r));
    uint32_t n = 0;
    ret[n++] = r->owners[space][partition];
    for (uint32_t i = 0; i < r->replicas && r->replicas > 1; i++) {
        uint32_t id = r->backups[space][(size_t)partition * r->replicas + i];
        if (id == 0)
            break;
        ret[n++] = id;
    }
    return n;
}

uint32_t roster_tail(const struct roster *r, enum wire_space space, uint32_t partition)
{
    uint32_t chain[ROSTER_MAX_CHAIN];
    return chain[roster_chain(r, space, partition, chain) - 1];
}

// Writes the members before and after `id`; 0 if they do not exist. Returns whether `id`
// is a member.
static bool find_neighbours(const struct roster *r, enum wire_space space,
                            uint32_t partition, uint32_t id, uint32_t *ret_previous,
                            uint32_t *ret_next)
{
    uint32_t chain[ROSTER_MAX_CHAIN], n = roster_chain(r, space, partition, chain);
    *ret_previous = *ret_next = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (chain[i] != id)
            continue;
        *ret_previous = i > 0 ? chain[i - 1] : 0;
        *ret_next = i + 1 < n ? chain[i + 1] : 0;
        return true;
    }
    return false;
}

bool roster_is_member(const struct roster *r, enum wire_space space, uint32_t partition,
                      uint32_t id)
{
    uint32_t previous, next;
    return find_neighbours(r, space, partition, id, &previous, &next);
}

uint32_t roster_next(const struct roster *r, enum wire_space space, uint32_t partition,
                     uint32_t id)
{
    uint32_t previous, next;
    find_neighbours(r, space, partition, id, &previous, &next);
    return next;
}

uint32_t roster_previous(const struct roster *r, enum wire_space space,
                         uint32_t partition, uint32_t id)
{
    uint32_t previous, next;
    find_neighbours(r, space, partition, id, &previous, &next);
    return previous;
}

const struct roster_node *roster_find(const struct roster *r, uint32_t id)
{
    uint64_t at = search_first(0, r->n_nodes, i, r->nodes[i].id >= id);
    return at < r->n_nodes && r->nodes[at].id == id ? &r->nodes[at] : NULL;
}

bool roster_session_over(const struct roster *r, uint64_t session)
{
    bool over = session != 0 && session <= r->newest;
    for (uint32_t i = 0; i < r->n_nodes && session != 0; i++) {
        if (r->nodes[i].session != session)
            continue;
        if (r->nodes[i].alive)
            return false;
        over = true;
    }
    return over;
}

const char *roster_name(const struct roster_node *n, char to[ROSTER_NAME_MAX])
{
    static const char *const roles[] = {"node",   "scheduler", "server",
                                        "worker", "driver",    "tool"};
    snprintf(to, ROSTER_NAME_MAX, "%s %u (%s:%u)", roles[n->role], n->rank, n->host,
             n->pid);
    return to;
}

const char *roster_name_of(const struct roster *r, uint32_t id, char to[ROSTER_NAME_MAX])
{
    const struct roster_node *n = roster_find(r, id);
    if (n != NULL)
        return roster_name(n, to);
    snprintf(to, ROSTER_NAME_MAX, "node %u", id);
    return to;
}
