// Opens and closes a store, and manages its lists.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "base/hash.h"
#include "store/parcel_internal.h"

enum {
    LIST_FIRST = 8,
    CHECKED_ROWS = 1 << 16, // most rows that are checked when a store closes
};

static int store_grow(void **at, uint32_t *cap, uint32_t n, size_t more, size_t size)
{
    assert(n <= *cap);
    if (more <= *cap - n)
        return 0;
    if (more > TABLE_MAX_ROWS - n)
        return TUG_ENOMEM;
    uint32_t want = *cap < LIST_FIRST ? LIST_FIRST : *cap;
    while (want - n < more)
        want *= 2;
    void *larger = mem_realloc_array(*at, want, size);
    if (larger == NULL)
        return TUG_ENOMEM;
    *at = larger;
    *cap = want;
    return 0;
}

int handle_list_reserve(struct handle_list *l, size_t more)
{
    void *at = l->at;
    int rc = store_grow(&at, &l->cap, l->n, more, sizeof(*l->at));
    l->at = at;
    return rc;
}

int handle_list_add(struct handle_list *l, uint32_t handle)
{
    TRY(handle_list_reserve(l, 1));
    l->at[l->n++] = handle;
    return 0;
}

int key_list_reserve(struct key_list *l, size_t more)
{
    void *at = l->at;
    int rc = store_grow(&at, &l->cap, l->n, more, sizeof(*l->at));
    l->at = at;
    return rc;
}

int key_list_add(struct key_list *l, uint64_t key)
{
    TRY(key_list_reserve(l, 1));
    l->at[l->n++] = key;
    return 0;
}

int handle_bits_reserve(struct handle_bits *b, uint32_t handles)
{
    size_t words = ((size_t)handles + 63) / 64;
    if (words <= b->n_words)
        return 0;
    size_t more = b->n_words + b->n_words / 2 + 64;
    words = words > more ? words : more;
    uint64_t *larger = mem_realloc_array(b->words, words, sizeof(*larger));
    if (larger == NULL)
        return TUG_ENOMEM;
    memset(larger + b->n_words, 0, (words - b->n_words) * sizeof(*larger));
    b->words = larger;
    b->n_words = words;
    return 0;
}

static struct table_options rows_of(const struct store *s)
{
    struct table_options t = {.seed = s->config.seed, .id = s->o.id};
    const struct table_config *c = &s->config;
    accessor_inits(&s->accessor, c->init_low, c->init_high, c->extra_low, c->extra_high,
                   &t);
    t.width = s->accessor.width;
    t.partition_bits = s->o.partition_bits;
    return t;
}

// Returns whether new rows are tame: a push to a tame row certainly leaves it finite.
static bool begins_tame(const struct store *s)
{
    const struct table_config *c = &s->config;
    const float firsts[] = {c->init_low, c->init_high, c->extra_low, c->extra_high};
    bool tame = finite_below(firsts, sizeof(firsts) / sizeof(*firsts),
                             ACCESSOR_TAME_PUSH);
    for (uint32_t g = 0; g < s->accessor.n_groups; g++) {
        float n0 = s->accessor.groups[g].rule.n0;
        tame &= n0 >= 0 && n0 < ACCESSOR_TAME_PUSH;
    }
    return tame;
}

static int open_rows(struct store *s, struct err *e)
{
    const struct accessor *a = &s->accessor;
    s->wild = !begins_tame(s);
    struct table_options t = rows_of(s);
    TRY(table_open(&s->rows, &t, e));
    s->view = table_slabs(s->rows);
    s->first = mem_array(a->width + a->extra_width + 1, sizeof(float));
    int rc = 0;
    if (a->extra_width > 0)
        rc = slabs_open(&s->extras, a->extra_width, 8, &s->extra_view);
    if (s->first == NULL || rc != 0)
        return err_nomem(e, "a table");
    return 0;
}

// Sets the members of the store that depend on the lifecycle. Makes a scratch row to
// learn whether new rows have their extra row at once.
static void set_life(struct store *s)
{
    static const struct life_class none;
    const struct accessor *a = &s->accessor;
    s->life = a->class != NULL ? &a->class->life : &none;
    s->lives = accessor_has_lifecycle(a);
    if (a->extra_width == 0 || s->life->earned == NULL)
        return;
    memset(s->first, 0, a->width * sizeof(float));
    if (s->life->begin != NULL)
        s->life->begin(a, s->first, (struct life_time){0});
    s->begins_whole = !a->life.embedx_late && s->life->earned(a, s->first);
}

static int open_parts(struct store *s, struct err *e)
{
    s->n_parts = 1u << s->o.partition_bits;
    s->admin_at = s->demote_at = s->n_parts;
    s->parts = mem_zalloc(s->n_parts * sizeof(*s->parts));
    s->not_owned = mem_zalloc(s->n_parts * sizeof(*s->not_owned));
    if (s->parts == NULL || s->not_owned == NULL)
        return err_nomem(e, "a table's partitions");
    s->entry = s->config.entry;
    s->entry.seed = s->config.seed ^ mix64(s->o.id);
    s->admits = entry_find(s->entry.policy) != entry_find("");
    return 0;
}

static int open_store(struct store *s, struct err *e)
{
    TRY(accessor_make(&s->accessor, &s->config.accessor, e));
    TRY(entry_check(&s->config.entry, e));
    TRY(accessor_scratch_init(&s->scratch, &s->accessor, kernels_get(), e));
    TRY(open_rows(s, e));
    TRY(open_parts(s, e));
    set_life(s);
    return s->o.cold_dir != NULL ? cold_open(s, e) : 0;
}

int store_open(struct store **ret, const struct store_options *o, struct err *e)
{
    *ret = NULL;
    if (o->partition_bits > 16)
        return err_set(e, TUG_EUSAGE, "%u bits of partitions are too many; use 0..16",
                       o->partition_bits);
    struct store *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "a table");
    s->config = *o->config;
    s->o = *o;
    s->o.config = &s->config;
    int rc = open_store(s, e);
    s->o.cold_dir = NULL; // NULL: the string belongs to the caller
    if (rc != 0) {
        store_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (s == NULL)
        return;
    if (s->parts != NULL && s->stats.rows <= CHECKED_ROWS)
        store_check_rows(s);
    if (s->cut != NULL)
        cut_close(s);
    parcel_copies_end(s);
    if (s->cold != NULL)
        cold_close(s);
    for (uint32_t p = 0; p < s->n_parts && s->parts != NULL; p++) {
        struct store_part *part = &s->parts[p];
        mem_free(part->rows.at);
        mem_free(part->changed.at);
        mem_free(part->gone.at);
        mem_free(part->published.at);
        entry_close(part->entry);
    }
    mem_free(s->parts);
    mem_free(s->not_owned);
    mem_free(s->batch.memory);
    mem_free(s->batch.kept);
    mem_free(s->walk.at);
    mem_free(s->extra_free.at);
    limbo_close(&s->extra_limbo);
    mem_free(s->changed.words);
    mem_free(s->marks.words);
    mem_free(s->turned.words);
    mem_free(s->first);
    slabs_close(&s->extras);
    accessor_scratch_fini(&s->scratch);
    table_close(s->rows);
    mem_free(s);
}

const struct accessor *store_accessor(const struct store *s)
{
    return &s->accessor;
}

uint32_t store_id(const struct store *s)
{
    return s->o.id;
}

uint32_t store_partition_bits(const struct store *s)
{
    return s->o.partition_bits;
}

const struct table_config *store_config(const struct store *s)
{
    return &s->config;
}

uint32_t store_partition(const struct store *s, uint64_t key)
{
    return store_partition_of(s, key);
}

bool store_all_in(const struct store *s, uint32_t partition, const uint64_t *keys,
                  size_t n)
{
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++)
        others |= store_partition_of(s, keys[i]) ^ partition;
    return others == 0;
}

uint64_t store_published_by(const struct store *s, bool *ret_mixed)
{
    uint64_t by = 0;
    bool known = false, mixed = false;
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct store_part *part = &s->parts[p];
        if (!store_leads(s, p))
            continue;
        mixed |= known && part->published_by != by;
        by = part->published_by;
        known = true;
    }
    if (ret_mixed != NULL)
        *ret_mixed = mixed;
    return mixed ? 0 : by;
}

bool store_follows(const struct store *s, uint64_t save, uint64_t other)
{
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct store_part *part = &s->parts[p];
        if (store_leads(s, p) && part->published_by != save &&
            part->published_by != other)
            return false;
    }
    return true;
}

void store_set_published_by(struct store *s, uint64_t checksum)
{
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (!s->parts[p].backup)
            s->parts[p].published_by = checksum;
}

void store_set_backup_published_by(struct store *s, uint32_t partition, uint64_t checksum)
{
    assert(partition < s->n_parts);
    s->parts[partition].published_by = checksum;
}

bool store_owns(const struct store *s, uint32_t partition)
{
    assert(partition < s->n_parts);
    return !s->not_owned[partition];
}

uint64_t store_rows_of(const struct store *s, uint32_t partition)
{
    assert(partition < s->n_parts);
    return (uint64_t)s->parts[partition].live + s->parts[partition].cold;
}

void store_set_owned(struct store *s, uint32_t partition, bool owned)
{
    assert(partition < s->n_parts);
    s->not_owned[partition] = !owned;
}

void store_set_backup(struct store *s, uint32_t partition, bool backup)
{
    assert(partition < s->n_parts);
    s->parts[partition].backup = backup;
}

bool store_is_apart(const struct store *s, uint32_t partition)
{
    assert(partition < s->n_parts);
    const struct store_part *part = &s->parts[partition];
    return part->backup && !cut_has(s, partition) && part->admin == s->admin_number;
}

void store_loaded(struct store *s)
{
    assert(s->cut == NULL); // during a cut the cut has the lists of changes
    for (uint32_t p = 0; p < s->n_parts; p++) {
        s->parts[p].changed.n = s->parts[p].gone.n = 0;
        s->parts[p].gone_lost = false;
    }
    if (s->changed.n_words > 0)
        memset(s->changed.words, 0, s->changed.n_words * sizeof(*s->changed.words));
    if (s->cold != NULL)
        cold_loaded(s);
}
