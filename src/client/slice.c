// Cuts requests into slices, one or more for each loop. A placement gives each partition
// a place: its position in the order of sending, in which the partitions of a loop are
// neighbours. Keys are arranged if their places ascend; a slice ends where the next
// loop's places begin; and arranging keys is a counting sort by place.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "client/private.h"

void placement_free(struct client *c)
{
    for (int i = 0; i < WIRE_SPACES; i++) {
        struct placement *p = &c->placements[i];
        mem_free(p->place);
        mem_free(p->partition);
        mem_free(p->starts);
        mem_free(p->loops);
        mem_free(p->loop);
        *p = (struct placement){0};
    }
    mem_free(c->counts);
    c->counts = NULL;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

// Writes the distinct owners, ascending, to ret, which has room for n, and returns their
// number.
static uint32_t distinct(const uint32_t *owners, size_t n, uint32_t *ret)
{
    memcpy(ret, owners, n * sizeof(*ret));
    qsort(ret, n, sizeof(*ret), by_number);
    uint32_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ret[i] != ret[m - 1])
            ret[m++] = ret[i];
    return m;
}

// Fills the arrays of a placement. `nodes` are the loops, ascending.
static int slice_fill(struct client *c, struct placement *p, const uint32_t *owners,
                      const uint32_t *nodes, size_t partitions)
{
    uint32_t n = p->n_loops, first = member_rank(c->member) % n, place = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = nodes[(first + i) % n];
        p->loops[i] = peer_of(c, node);
        if (p->loops[i] == NULL)
            return TUG_ENOMEM;
        p->starts[i] = place;
        for (size_t k = 0; k < partitions; k++) {
            if (owners[k] != node)
                continue;
            p->partition[place] = (uint32_t)k;
            p->loop[k] = (uint16_t)i;
            p->place[k] = place++;
        }
    }
    p->starts[n] = place;
    return 0;
}

static int slice_make(struct client *c, struct placement *p, const uint32_t *owners,
                      size_t partitions)
{
    *p = (struct placement){0};
    p->place = mem_array(partitions, sizeof(*p->place));
    p->partition = mem_array(partitions, sizeof(*p->partition));
    p->loop = mem_array(partitions, sizeof(*p->loop));
    uint32_t *nodes = mem_array(partitions, sizeof(*nodes));
    int rc = TUG_ENOMEM;
    if (p->place != NULL && p->partition != NULL && p->loop != NULL && nodes != NULL) {
        p->n_loops = distinct(owners, partitions, nodes);
        p->starts = mem_array(p->n_loops + 1, sizeof(*p->starts));
        p->loops = mem_array(p->n_loops, sizeof(struct peer *));
        if (p->starts != NULL && p->loops != NULL)
            rc = slice_fill(c, p, owners, nodes, partitions);
    }
    mem_free(nodes);
    return rc;
}

// Makes the placements from the member's roster. If this fails, the old ones stay.
int placement_update(struct client *c)
{
    const struct roster *r = member_roster(c->member);
    size_t partitions = (size_t)1 << r->partition_bits;
    struct client fresh = {0};
    int rc = 0;
    fresh.counts = mem_array(partitions + 1, sizeof(*fresh.counts));
    if (fresh.counts == NULL)
        rc = TUG_ENOMEM;
    for (int i = 0; i < WIRE_SPACES && rc == 0; i++)
        rc = slice_make(c, &fresh.placements[i], r->owners[i], partitions);
    if (rc != 0) {
        placement_free(&fresh);
        return rc;
    }
    placement_free(c);
    memcpy(c->placements, fresh.placements, sizeof(c->placements));
    c->counts = fresh.counts;
    c->partition_bits = r->partition_bits;
    c->epoch = r->epoch;
    return 0;
}

void placement_arrange(struct client *c, const struct placement *p, enum wire_space space,
                       const uint64_t *keys, size_t n, uint32_t *ret_order)
{
    assert(c->counts != NULL); // placement_update has succeeded once
    uint32_t *counts = c->counts, bits = c->partition_bits;
    size_t partitions = (size_t)1 << bits;
    memset(counts, 0, (partitions + 1) * sizeof(*counts));
    for (size_t i = 0; i < n; i++)
        counts[p->place[roster_partition(bits, space, keys[i])] + 1]++;
    for (size_t k = 1; k < partitions; k++)
        counts[k] += counts[k - 1];
    for (size_t i = 0; i < n; i++)
        ret_order[counts[p->place[roster_partition(bits, space, keys[i])]]++] = (uint32_t)
            i;
}

int client_arrange(struct client *c, uint32_t table, const uint64_t *keys, size_t n,
                   uint32_t *ret_order)
{
    const struct table_spec *spec = client_spec(c, table);
    if (spec == NULL || c->epoch == 0 || n > UINT32_MAX)
        return TUG_EUSAGE;
    placement_arrange(c, &c->placements[spec->space], spec->space, keys, n, ret_order);
    return 0;
}

// Puts a slice into its peer's list, in the order of the requests; its place is almost
// always the end.
static void queue(struct slice *s)
{
    struct peer *p = s->peer;
    struct slice *at = p->last;
    if (p->first == NULL)
        p->client->next_due = min_u64(p->client->next_due,
                                      silence_begin(&p->s, van_now(p->client->van)));
    while (at != NULL && at->request->ts > s->request->ts)
        at = at->before;
    s->before = at;
    s->behind = at != NULL ? at->behind : p->first;
    if (s->before != NULL)
        s->before->behind = s;
    else
        p->first = s;
    if (s->behind != NULL)
        s->behind->before = s;
    else
        p->last = s;
}

static void unqueue(struct slice *s)
{
    struct peer *p = s->peer;
    list_remove(p->first, p->last, s, before, behind);
}

static int slice_add(struct request *r, struct peer *p, size_t begin, size_t n)
{
    assert(p->client == r->client && begin + n <= r->n);
    struct slice *s = slice_take(r->client);
    if (s == NULL)
        return TUG_ENOMEM;
    s->request = r;
    s->peer = p;
    s->begin = begin;
    s->n = (uint32_t)n;
    s->next = r->slices;
    r->slices = s;
    r->open++;
    queue(s);
    return 0;
}

void slice_drop(struct slice *s)
{
    struct request *r = s->request;
    struct slice **at = &r->slices;
    assert(s->id != 0 && r->open > 0);
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    r->open--;
    unqueue(s);
    if (s->placing)
        r->pins--; // the link is closed, or the body has arrived
    slice_give(s);
}

static void drop_all(struct request *r)
{
    while (r->slices != NULL)
        slice_drop(r->slices);
}

// Adds slices for the keys from `begin` on as long as their places ascend. Returns the
// index of the first key without a slice, or SIZE_MAX without memory.
static size_t cut_run(struct request *r, size_t begin, size_t end)
{
    const struct client *c = r->client;
    enum wire_space space = r->spec->space;
    const struct placement *p = &c->placements[space];
    uint32_t bits = c->partition_bits, least = 0, limit = 0, loop = 0;
    size_t from = begin;
    for (size_t i = begin; i < end; i++) {
        uint32_t partition = roster_partition(bits, space, r->keys[i]);
        uint32_t place = p->place[partition];
        if (place >= least && place < limit) {
            least = place;
            continue;
        }
        if (i > from && slice_add(r, p->loops[loop], from, i - from) != 0)
            return SIZE_MAX;
        from = i;
        if (place < least)
            return i;
        loop = p->loop[partition];
        least = place;
        limit = p->starts[loop + 1];
    }
    if (end > from && slice_add(r, p->loops[loop], from, end - from) != 0)
        return SIZE_MAX;
    return end;
}

// Adds a slice without keys for each loop that has no slice yet.
static int add_missing(struct request *r, enum wire_space space)
{
    const struct placement *p = &r->client->placements[space];
    for (uint32_t i = 0; i < p->n_loops; i++) {
        const struct slice *s = r->slices;
        while (s != NULL && s->peer != p->loops[i])
            s = s->next;
        if (s == NULL)
            TRY(slice_add(r, p->loops[i], r->n, 0));
    }
    return 0;
}

int slice_cut_all(struct request *r)
{
    int rc = add_missing(r, r->spec->space);
    if (rc != 0)
        drop_all(r);
    return rc;
}

int slice_cut_sum(struct request *r)
{
    if (r->sum != NULL)
        *r->sum = 0;
    return slice_cut_all(r);
}

int slice_cut_first(struct request *r)
{
    struct peer *first = NULL;
    for (int space = 0; space < WIRE_SPACES; space++) {
        const struct placement *p = &r->client->placements[space];
        for (uint32_t i = 0; i < p->n_loops; i++)
            if (first == NULL || p->loops[i]->node < first->node)
                first = p->loops[i];
    }
    return first != NULL ? slice_add(r, first, 0, 0) : 0;
}

int slice_cut_everywhere(struct request *r)
{
    int rc = 0;
    for (int space = 0; space < WIRE_SPACES && rc == 0; space++)
        rc = add_missing(r, (enum wire_space)space);
    if (rc != 0)
        drop_all(r);
    return rc;
}

int slice_cut(struct request *r)
{
    size_t reached = cut_run(r, 0, r->n);
    if (reached < r->n &&
        reached != SIZE_MAX) { // keys are not arranged for this placement
        drop_all(r);
        return TUG_EUSAGE;
    }
    if (reached == SIZE_MAX || (r->all_loops && add_missing(r, r->spec->space) != 0)) {
        drop_all(r);
        return TUG_ENOMEM;
    }
    return 0;
}

static struct peer *owner_of_page(const struct request *r)
{
    const struct placement *p = &r->client->placements[r->spec->space];
    return p->loops[p->loop[r->u.rows.message.partition]];
}

int slice_cut_partition(struct request *r)
{
    return slice_add(r, owner_of_page(r), 0, 0);
}

static bool is_well_placed(const struct slice *s)
{
    const struct request *r = s->request;
    const struct client *c = r->client;
    const struct placement *p = &c->placements[r->spec->space];
    if (r->kind->of_partition)
        return owner_of_page(r) == s->peer;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t k = roster_partition(c->partition_bits, r->spec->space,
                                      r->keys[s->begin + i]);
        if (p->loops[p->loop[k]] != s->peer)
            return false;
    }
    return true;
}

// Replaces a slice by slices under the new placement. Its keys are sorted by partition,
// so they are a few runs under any placement. Slices of a push have its number, so that
// each partition applies its keys once.
static int place_again(struct slice *s)
{
    struct request *r = s->request;
    size_t begin = s->begin, end = begin + s->n;
    if (r->kind->of_partition)
        TRY(slice_cut_partition(r));
    while (begin < end) {
        begin = cut_run(r, begin, end);
        if (begin == SIZE_MAX)
            return TUG_ENOMEM;
    }
    slice_drop(s);
    return 0;
}

// Returns true if the slice does not exist any more: other slices have its keys, or the
// request has ended.
bool slice_replace(struct slice *s)
{
    // Slices of whole requests are not replaced here, because these requests were cut
    // anew when the placement changed (slice_replace_all).
    if (s->placing || s->request->whole || is_well_placed(s))
        return false;
    if (place_again(s) != 0) {
        struct err e;
        err_nomem(&e, "a request's slices");
        request_end(s->request, e.code, &e);
    }
    return true;
}

// Cuts all keys of an open request anew. Loops that have answered their old slices get
// new ones, too, because the new slices may cover partitions that have moved to these
// loops.
static void cut_again(struct request *r)
{
    struct err e;
    struct slice *old = r->slices, **end = &r->slices;
    r->slices = NULL;
    // The old slices are not sent again. Copies of keys and values that the van still
    // sends are kept, at most one for each message under way.
    if (r->pins == 0)
        staging_give_all(r);
    int rc = r->kind->begin(r);
    while (*end != NULL)
        end = &(*end)->next;
    *end = old;
    // The old slices are removed only after the new ones exist. A peer without slices
    // does not count as silent, so otherwise frequent moves would hide a silent link.
    for (struct slice *next; old != NULL; old = next) {
        next = old->next;
        slice_drop(old);
    }
    if (rc == 0)
        return;
    err_nomem(&e, "a request's slices");
    request_end(r, e.code, &e);
}

static bool is_dead(const struct peer *p)
{
    const struct roster_node *n = roster_find(member_roster(p->client->member), p->node);
    return n == NULL || !n->alive;
}

// Counts the slices for loops that have died as answered.
static void let_dead_be(struct request *r)
{
    for (struct slice *s = r->slices, *more; s != NULL && r->state == REQUEST_OPEN;
         s = more) {
        more = s->next;
        if (is_dead(s->peer))
            slice_answered(s);
    }
}

// A drained server leaves after its last partition has moved, so the epoch stays the same.
void slice_let_all_dead_be(struct client *c)
{
    for (struct request *r = c->first, *next; r != NULL; r = next) {
        next = r->behind;
        if (r->state == REQUEST_OPEN && r->kind->lets_dead_be)
            let_dead_be(r);
    }
}

void slice_replace_all(struct client *c, uint64_t now)
{
    for (struct request *r = c->first, *next; r != NULL; r = next) {
        next = r->behind;
        if (r->state != REQUEST_OPEN || r->spec == NULL)
            continue;
        if (r->kind->placed != NULL && r->kind->placed(r) != 0) {
            struct err why = r->why;
            request_end(r, why.code, &why);
            continue;
        }
        if (r->whole) {
            cut_again(r);
            continue;
        }
        if (r->kind->lets_dead_be) {
            let_dead_be(r);
            continue;
        }
        // New slices are put at the front of the list, so this loop does not visit them.
        for (struct slice *s = r->slices, *more; s != NULL; s = more) {
            more = s->next;
            if (slice_replace(s)) {
                if (r->state != REQUEST_OPEN)
                    break;
            } else if (!s->sent && s->due > now && !s->no_room) {
                // The slice was refused. All such slices are sent again at the same time,
                // so that they keep their order.
                s->due = now;
                s->tries = 0;
            }
        }
    }
    c->next_due = now;
}
