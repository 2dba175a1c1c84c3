// Batches of sync tables: the contributions to a batch are added up key by key, in the
// order of the tree of sums, and pushed to the store partition by partition, with
// ascending keys. So the rows do not depend on which worker contributed what.
//
// With reduce = mean, gradients are divided by the number of examples of the batch,
// except for rows that are sums (sums-from). For rule `average` the store gets the
// mean of the contributions with the key, for `assign` the last one. Sums and
// statistics (show, click) are added whatever `reduce` says; the slot is that of
// the last contribution.
//
// The memory for adding up is reserved before a contribution is acknowledged. Only the
// store can still fail: rows are made when the batch is applied, since admin operations
// and entry policies may have removed or refused them meanwhile. Then the batch is kept,
// with the number of partitions that were applied, and is tried again. Pulls that wait
// for it are answered with the reason.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync_sum.h"

#include <string.h>

#include "base/alloc.h"
#include "rule/rule.h"
#include "server/clocks/sync.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/cut.h"
#include "table/tree_sum.h"

enum {
    // Number of keys that are pushed together, unless a partition has more.
    PUSH_KEYS = 4096
};

struct sync_scratch {
    size_t keys;  // capacity: keys of one partition in all contributions together
    size_t width; // floats per key
    // The distinct keys of a partition, the contributions that have each key (as bits),
    // and their positions, SHARD_MICROS for each key.
    struct key_set seen;
    struct table_entry *entries;
    uint16_t *has;
    uint32_t *at;
    float *sums;
    // The combined push, with partitions in ascending order.
    uint64_t *key;
    float *values;
    uint32_t *partitions;
    uint8_t *has_row; // whether a key has a row, for the records of backups
    size_t n, n_partitions;
};

void sync_scratch_free(struct sync_scratch *x)
{
    if (x == NULL)
        return;
    key_set_fini(&x->seen);
    mem_free(x->entries);
    mem_free(x->has);
    mem_free(x->at);
    mem_free(x->sums);
    mem_free(x->key);
    mem_free(x->values);
    mem_free(x->partitions);
    mem_free(x->has_row);
    mem_free(x);
}

static size_t most(const struct sync_scratch *x)
{
    return x->keys + PUSH_KEYS;
}

static struct sync_scratch *sync_sum_make(size_t keys, size_t width)
{
    struct sync_scratch *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return NULL;
    x->keys = 2 * keys; // twice the number needed now, so that slightly larger batches
                        // need no new allocation
    x->width = width;
    x->entries = mem_array(x->keys, sizeof(*x->entries));
    x->has = mem_array(x->keys, sizeof(*x->has));
    x->at = mem_array(x->keys, SHARD_MICROS * sizeof(*x->at));
    x->sums = mem_array((size_t)SHARD_MICROS * width, sizeof(*x->sums));
    x->key = mem_array(most(x), sizeof(*x->key));
    x->values = mem_array(most(x), width * sizeof(*x->values));
    x->partitions = mem_array(most(x), sizeof(*x->partitions));
    x->has_row = mem_array(most(x), sizeof(*x->has_row));
    if (key_set_reserve(&x->seen, x->keys) != 0 || x->entries == NULL || x->has == NULL ||
        x->at == NULL || x->sums == NULL || x->key == NULL || x->values == NULL ||
        x->partitions == NULL || x->has_row == NULL) {
        sync_scratch_free(x);
        return NULL;
    }
    return x;
}

// Reserves memory for this many keys of a partition in all contributions together.
static int reserve(struct shard *s, const struct shard_table *t, size_t keys)
{
    struct sync_scratch *old = s->sync;
    size_t width = t->spec.accessor.push_width;
    if (old != NULL && keys <= old->keys && width <= old->width)
        return 0;
    keys = old != NULL && old->keys > keys ? old->keys : keys;
    width = old != NULL && old->width > width ? old->width : width;
    struct sync_scratch *x = sync_sum_make(keys, width);
    if (x == NULL)
        return TUG_ENOMEM;
    sync_scratch_free(old);
    s->sync = x;
    return 0;
}

int sync_reserve(struct shard *s, const struct shard_table *t, const struct sync_group *g,
                 const struct msg_push *m, const struct keys *k)
{
    const struct sync_batch *b = &g->clock.open[m->clock % SHARD_MAX_CLOCKS];
    size_t keys = k->longest;
    for (uint32_t i = 0; i < b->n; i++)
        if (!sync_part_within(&b->parts[i], m->micro, m->micros))
            keys += ((const struct contribution *)b->parts[i].what)->longest;
    return reserve(s, t, keys);
}

int sync_reserve_group(struct shard *s, const struct shard_table *t,
                       const struct sync_group *g)
{
    size_t most_keys = 0;
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        const struct sync_batch *b = &g->clock.open[i];
        size_t keys = 0;
        for (uint32_t p = 0; p < b->n; p++)
            keys += ((const struct contribution *)b->parts[p].what)->longest;
        most_keys = keys > most_keys ? keys : most_keys;
    }
    return reserve(s, t, most_keys);
}

// A batch that is being added up.
struct merge {
    struct shard *s;
    struct shard_table *t;
    struct sync_group *group;
    const struct sync_batch *batch;
    uint32_t run[SHARD_MICROS]; // index of the next run of each contribution
    float scale;  // factor of gradients, if gradients are averaged over examples
    bool by_rows; // the factor is passed to the rows, which scale gradients and l2 by it
    bool notes;   // records for backups are appended
    const struct sync_decided *decided;
};

static const struct contribution *part(const struct merge *m, uint32_t i)
{
    return m->batch->parts[i].what;
}

static const struct key_run *next_run(const struct merge *m, uint32_t i)
{
    return &part(m, i)->runs[m->run[i]];
}

static uint32_t least_partition(const struct merge *m)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < m->batch->n; i++)
        if (next_run(m, i)->partition < least)
            least = next_run(m, i)->partition;
    return least;
}

static void skip_partition(struct merge *m, uint32_t partition)
{
    for (uint32_t i = 0; i < m->batch->n; i++)
        m->run[i] += next_run(m, i)->partition == partition;
}

// Returns the smallest partition of the group among the next runs, skipping
// runs of other partitions; UINT32_MAX at the end, because the run that marks
// the end has this partition.
static uint32_t next_partition(struct merge *m)
{
    uint32_t least;
    while ((least = least_partition(m)) != UINT32_MAX &&
           (sync_group_of(m->t, least) != m->group || !store_owns(m->t->store, least)))
        skip_partition(m, least);
    return least;
}

// Moves to the first run whose partition has not applied the batch yet; in a group of a
// single partition, to the run of this partition.
static void seek(struct merge *m)
{
    bool common = m->group == &m->t->sync;
    for (uint32_t i = 0; i < m->batch->n; i++) {
        if (!common)
            m->run[i] = contribution_run(part(m, i), m->group->partition);
        while (common && next_run(m, i)->partition < m->t->n_applied)
            m->run[i]++;
    }
}

static size_t keys_of(const struct merge *m, uint32_t partition)
{
    size_t keys = 0;
    for (uint32_t i = 0; i < m->batch->n; i++) {
        const struct key_run *run = next_run(m, i);
        if (run->partition == partition)
            keys += run[1].begin - run->begin;
    }
    return keys;
}

uint64_t sync_examples(const struct sync_batch *b)
{
    uint64_t examples = 0;
    for (uint32_t i = 0; i < b->n; i++)
        examples += ((const struct contribution *)b->parts[i].what)->examples;
    return examples;
}

static float scale_of(const struct shard_table *t, const struct sync_batch *b)
{
    uint64_t examples = sync_examples(b);
    return t->spec.config.mean && examples > 0 ? 1 / (float)examples : 1;
}

// Returns whether rows scale gradients and l2 themselves (merge.by_rows): if rows count
// their updates, and all values of a push are gradients.
static bool scaled_by_rows(const struct shard_table *t)
{
    const struct accessor *a = &t->spec.accessor;
    bool steps = a->count != ACCESSOR_NO_COUNT && t->spec.config.sums_from == 0;
    for (uint32_t g = 0; g < a->n_groups; g++)
        steps &= rule_info(a->groups[g].rule.kind)->reduce == RULE_STEP;
    return steps;
}

// Returns whether the batch repeats examples of an earlier pass (the flag WIRE_AGAIN).
// All contributions should have the same flag; if they differ, the batch counts as new.
static bool comes_again(const struct merge *m)
{
    bool again = true;
    for (uint32_t i = 0; i < m->batch->n; i++)
        again = again && part(m, i)->again;
    return again;
}

// Turns the sum of the contributions into the value that the update rule `kind` needs:
// `sum` stays the sum, or becomes the last contribution, the mean, or the scaled sum.
static void reduce(float scale, enum rule_kind kind, const float *last, uint32_t n_parts,
                   float *sum, uint32_t n)
{
    switch (rule_info(kind)->reduce) {
    case RULE_ADD:
        return;
    case RULE_LAST:
        memcpy(sum, last, n * sizeof(*sum));
        return;
    case RULE_MEAN:
        for (uint32_t i = 0; i < n; i++)
            sum[i] /= (float)n_parts;
        return;
    case RULE_STEP:
        for (uint32_t i = 0; i < n && scale != 1; i++)
            sum[i] *= scale;
    }
}

static void add_up(const struct merge *m, uint64_t key, const uint32_t *at, uint32_t has,
                   float *ret)
{
    float scale = m->by_rows || table_config_sums(&m->t->spec.config, key) ? 1 : m->scale;
    const struct accessor *a = &m->t->spec.accessor;
    float *values[SHARD_MICROS];
    const float *from[SHARD_MICROS];
    uint8_t first[SHARD_MICROS];
    size_t width = a->push_width;
    uint32_t n = 0, column = 0;
    assert(has != 0 && width <= m->s->sync->width);
    for (; has != 0; has &= has - 1, n++) {
        uint32_t i = (uint32_t)__builtin_ctz(has);
        from[n] = part(m, i)->values + at[i] * width;
        first[n] = m->batch->parts[i].micro;
        values[n] = n == 0 ? ret : m->s->sync->sums + n * width;
        memcpy(values[n], from[n], width * sizeof(float));
    }
    tree_sum(kernels_get(), first, values, n, width);
    for (uint32_t g = 0; g < a->n_groups; column += a->groups[g++].n)
        reduce(scale, a->groups[g].rule.kind, from[n - 1] + column, n, ret + column,
               a->groups[g].n);
    column = a->push_width - (a->class != NULL ? a->class->kept_stats : 0);
    for (; column < width; column++)
        ret[column] = from[n - 1][column];
}

// Collects the distinct keys of the partition's runs, and for each key the contributions
// that have it. Returns the number of keys.
static uint32_t sync_sum_collect(struct merge *m, uint32_t partition)
{
    struct sync_scratch *x = m->s->sync;
    uint64_t *keys = x->key + x->n; // keys by number, before they are sorted
    // sync_reserve has reserved for the longest runs.
    assert(keys_of(m, partition) <= x->keys);
    uint32_t n = 0;
    key_set_clear(&x->seen, keys_of(m, partition));
    for (uint32_t i = 0; i < m->batch->n; i++) {
        const struct key_run *run = next_run(m, i);
        if (run->partition != partition)
            continue;
        for (uint32_t k = run->begin; k < run[1].begin; k++) {
            uint64_t key = part(m, i)->keys[k];
            uint32_t *place = key_set_place(&x->seen, keys, key);
            if (*place == 0) {
                keys[n] = key;
                x->entries[n] = (struct table_entry){key, n};
                x->has[n] = 0;
                *place = ++n;
            }
            uint32_t number = *place - 1;
            x->has[number] |= (uint16_t)(1u << i);
            x->at[(size_t)number * SHARD_MICROS + i] = k;
        }
        m->run[i]++;
    }
    return n;
}

static void add_partition(struct merge *m, uint32_t partition)
{
    struct sync_scratch *x = m->s->sync;
    size_t width = m->t->spec.accessor.push_width;
    uint32_t n = sync_sum_collect(m, partition);
    assert(n > 0 && x->n + n <= most(x));
    assert(m->group != &m->t->sync ||
           partition >= m->t->n_applied); // otherwise gradients would be applied twice
    table_sort_by_key(x->entries, n);
    for (uint32_t i = 0; i < n; i++, x->n++) {
        uint32_t k = x->entries[i].handle; // the key's index before the sort
        x->key[x->n] = x->entries[i].key;
        add_up(m, x->key[x->n], x->at + (size_t)k * SHARD_MICROS, x->has[k],
               x->values + x->n * width);
    }
    x->partitions[x->n_partitions++] = partition;
}

static void remember(struct shard_table *t, struct sync_group *g,
                     const struct sync_scratch *x)
{
    uint32_t width = t->spec.accessor.pull_width;
    float *values = previous_take(&g->before, width, x->key, x->n);
    if (values != NULL && store_pull(t->store, x->key, x->n, values, NULL, NULL) != 0)
        g->before.lost = true;
}

// Makes room for the record of a push for backups, and sets who decides which keys have
// rows.
static int prepare(const struct merge *m, struct store_push *p)
{
    struct shard_table *t = m->t;
    if (m->notes) {
        TRY(chain_reserve_batch(m->s, t, m->group, p->n, &t->stuck));
        if (store_admits(t->store, STORE_GRADIENT) && !t->unbacked)
            p->has_row = m->s->sync->has_row;
    }
    if (m->decided == NULL || m->decided->has_row == NULL)
        return 0;
    if (m->decided->n != p->n)
        return stream_damaged(&t->stuck);
    p->has_row = (uint8_t *)(uintptr_t)m->decided->has_row; // is only read
    p->follows = true;
    return 0;
}

static int sync_sum_flush(struct merge *m)
{
    struct sync_scratch *x = m->s->sync;
    struct shard_table *t = m->t;
    size_t done = 0;
    if (x->n == 0)
        return 0;
    if (cut_going(t->store) && !cut_has_room(t->store, x->key, x->n))
        return err_set(&t->stuck, TUG_ENOMEM, "a save has no room for copies of rows");
    assert(x->n_partitions > 0 && x->n_partitions <= x->n);
    struct sync_group *g = m->group;
    size_t copied = g->before.n;
    remember(t, g, x);
    tables_limit(m->s, t);
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = x->key,
                           .n = x->n,
                           .values = x->values,
                           .rate = part(m, 0)->rate,
                           .pass = part(m, 0)->pass,
                           .scale = m->by_rows ? m->scale : 1,
                           .again = comes_again(m)};
    uint32_t from = g == &t->sync ? t->n_applied : g->partition;
    TRY(prepare(m, &p));
    int rc = store_push(t->store, &p, &done, &t->stuck);
    if (m->s->moves.out != NULL)
        moves_note(m->s, t, &p, done);
    // Drops the copies of rows that were not changed; a retry copies them again.
    previous_shorten(&g->before, copied + done);
    t->full = rc == TUG_ENOMEM && m->s->o.max_bytes != 0 && !t->work;
    uint32_t end = done > 0 ? store_partition(t->store, x->key[done - 1]) + 1 : 0;
    if (m->notes && done > 0)
        chain_note_batch(m->s, t, g, from, end, &p, done);
    if (done > 0 && g == &t->sync)
        t->n_applied = end;
    for (size_t i = 0; i < x->n_partitions && x->partitions[i] < end; i++)
        t->changed_at[x->partitions[i]] = t->version;
    x->n = x->n_partitions = 0;
    return rc;
}

// Appends the record about the partitions that have no keys of the batch and lie behind the
// last one that has some.
static int note_rest(const struct merge *m, bool has_keys)
{
    struct shard *s = m->s;
    bool common = m->group == &m->t->sync;
    const struct store_push none = {.n = 0};
    uint32_t from = common ? m->t->n_applied : m->group->partition,
             to = common ? (uint32_t)1 << s->bits : from + !has_keys;
    if (!m->notes || from == to)
        return 0;
    TRY(chain_reserve_batch(s, m->t, m->group, 0, &m->t->stuck));
    chain_note_batch(s, m->t, m->group, from, to, &none, 0);
    return 0;
}

int sync_apply_batch(struct shard *s, struct shard_table *t, struct sync_group *g,
                     const struct sync_decided *decided)
{
    struct sync_scratch *x = s->sync;
    struct merge m = {.s = s,
                      .t = t,
                      .group = g,
                      .batch = sync_clock_next(&g->clock),
                      .notes = s->chain != NULL && !g->backup,
                      .decided = decided};
    bool has_keys = false;
    assert(sync_clock_complete(&g->clock) && x != NULL);
    m.scale = scale_of(t, m.batch);
    m.by_rows = scaled_by_rows(t);
    t->version++;
    if (t->n_applied == 0 || g != &t->sync)
        previous_begin(&g->before);
    g->begun = true;
    seek(&m);
    x->n = x->n_partitions = 0;
    for (uint32_t p; (p = next_partition(&m)) != UINT32_MAX;) {
        add_partition(&m, p);
        has_keys = true;
        if (x->n >= PUSH_KEYS)
            TRY(sync_sum_flush(&m));
        if (g != &t->sync)
            break;
    }
    TRY(sync_sum_flush(&m));
    TRY(note_rest(&m, has_keys));
    if (g == &t->sync)
        t->n_applied = 0;
    g->begun = false;
    return 0;
}
