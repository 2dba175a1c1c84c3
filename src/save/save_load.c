// Loads rows of saves into stores. If a file has the same partitions as the store, only
// the wanted partitions are read. Otherwise all rows are read, and each goes to the
// partition of its key.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rule/rule.h"
#include "save/save_internal.h"
#include "store/store.h"

static int differ(const char *path, const char *table, const char *what, const char *then,
                  const char *now, struct err *e)
{
    return err_set(
        e, TUG_EUSAGE,
        "table '%s' was saved to '%s' with %s %s and cannot become one with %s %s", table,
        path, what, then, what, now);
}

static int same_rule(const struct rule_params *then, const struct rule_params *now,
                     const char *what, const char *path, const char *table, struct err *e)
{
    if (then->kind != now->kind)
        return differ(path, table, what, rule_info(then->kind)->name,
                      rule_info(now->kind)->name, e);
    if (then->block != now->block)
        return err_set(e, TUG_EUSAGE,
                       "table '%s' was saved to '%s' with blocks of %u weights in its "
                       "%s, not %u",
                       table, path, then->block, what, now->block);
    return 0;
}

// Checks the width of rows, which also depends on whether rows have a time to live.
static int same_widths(const struct table_config *then, const struct table_config *now,
                       const char *path, struct err *e)
{
    struct accessor a, b;
    TRY(accessor_make(&a, &then->accessor, e));
    TRY(accessor_make(&b, &now->accessor, e));
    if (a.width == b.width && a.extra_width == b.extra_width)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "table '%s' was saved to '%s' with rows of %u and %u floats, not %u and "
        "%u: ttl-steps must be 0 for both or for none",
        then->name, path, a.width, a.extra_width, b.width, b.extra_width);
}

int save_same_rows(const struct table_config *then, const struct table_config *now,
                   const char *path, struct err *e)
{
    const struct accessor_options *a = &then->accessor, *b = &now->accessor;
    const struct accessor_class *x = accessor_find(a->name, e);
    const struct accessor_class *y = accessor_find(b->name, e);
    if (x == NULL || y == NULL)
        return TUG_EUSAGE;
    if (x != y)
        return differ(path, then->name, "accessor", a->name, b->name, e);
    if (a->dim != b->dim)
        return err_set(
            e, TUG_EUSAGE,
            "table '%s' was saved to '%s' with dim %u and cannot become one with dim %u",
            then->name, path, a->dim, b->dim);
    TRY(same_rule(&a->rule, &b->rule, "rule", path, then->name, e));
    if (a->dim > 0)
        TRY(same_rule(&a->extra, &b->extra, "embedx-rule", path, then->name, e));
    return same_widths(then, now, path, e);
}

static int check_shape(const struct rows_reader *r, const char *path,
                       const struct save_manifest *m, const struct save_table *t,
                       struct err *e)
{
    const struct rows_shape *s = rows_shape(r);
    struct accessor a;
    TRY(accessor_make(&a, &t->config.accessor, e));
    bool by_range = t->config.place == CONFIG_RANGE;
    if (s->width == a.width && s->extra_width == a.extra_width &&
        s->partition_bits == t->partition_bits && s->by_range == by_range &&
        s->mode == m->mode)
        return 0;
    return err_set(e, TUG_EDATA,
                   "'%s' is not a file of table '%s' in a %s: its rows have another "
                   "width, partitions or mode",
                   path, t->config.name, save_mode_name(m->mode));
}

static int open_file(const struct save_chain *c, size_t save, const struct save_table *t,
                     size_t file, struct rows_reader **ret, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_join(path, c->paths[save], t->files[file].name, e));
    TRY(rows_open(ret, c->root, path, &t->files[file].info, e));
    int rc = check_shape(*ret, path, &c->saves[save], t, e);
    if (rc != 0)
        rows_close(*ret);
    return rc;
}

// Adds the name of the file to an error about its rows, unless the reader has done so.
static int in_file(const struct save_chain *c, size_t save, const struct save_table *t,
                   size_t file, struct err *e)
{
    char path[FILE_PATH_MAX];
    if (e == NULL || file_join(path, c->paths[save], t->files[file].name, NULL) != 0 ||
        strstr(e->text, path) != NULL)
        return TUG_EDATA;
    return err_wrap(e, "'%s'", path);
}

// The latest day and the partitions of a table's files in one save.
struct glance {
    uint32_t day;
    uint8_t seen[1 << 13]; // one bit per partition, set if a file has the partition
};

static int see_partitions(struct glance *g, const struct rows_reader *r, const char *path,
                          const struct save_table *t, struct err *e)
{
    for (uint32_t p = 0; p >> t->partition_bits == 0; p++) {
        uint8_t bit = (uint8_t)(1u << p % 8);
        if (!rows_has(r, p))
            continue;
        if ((g->seen[p / 8] & bit) != 0)
            return err_set(
                e, TUG_EDATA,
                "'%s': partition %u of table '%s' is in two files; the save is "
                "damaged",
                path, p, t->config.name);
        g->seen[p / 8] |= bit;
    }
    if (rows_shape(r)->day > g->day)
        g->day = rows_shape(r)->day;
    return 0;
}

// Checks that all files of a table exist and are those that the manifest names, and that
// no partition is in two of them. Gets the latest day.
static int save_load_look_at(const struct save_chain *c, size_t save,
                             const struct save_table *t, uint32_t *ret_day, struct err *e)
{
    struct glance *g = mem_zalloc(sizeof(*g));
    int rc = g == NULL ? err_nomem(e, "a list of partitions") : 0;
    for (size_t i = 0; i < t->n_files && rc == 0; i++) {
        struct rows_reader *r;
        rc = open_file(c, save, t, i, &r, e);
        if (rc != 0)
            break;
        rc = see_partitions(g, r, c->paths[save], t, e);
        rows_close(r);
    }
    if (rc == 0)
        *ret_day = g->day;
    mem_free(g);
    return rc;
}

static int no_such_table(const struct save_chain *c, const char *table, struct err *e)
{
    const struct save_manifest *m = &c->saves[c->n - 1];
    char names[512] = "none";
    for (size_t i = 0, n = 0; i < m->n_tables && n < sizeof(names); i++) {
        int more = snprintf(names + n, sizeof(names) - n, "%s%s", i > 0 ? ", " : "",
                            m->tables[i].config.name);
        n += (size_t)(more > 0 ? more : 0);
    }
    return err_set(e, TUG_EUSAGE, "'%s' holds no table '%s'; there are: %s",
                   c->paths[c->n - 1], table, names);
}

int save_open_table(const struct save_chain *c, const char *table,
                    const struct save_table **ret, struct err *e)
{
    uint32_t day;
    *ret = save_find_table(&c->saves[c->n - 1], table);
    if (*ret == NULL)
        return no_such_table(c, table, e);
    return save_load_look_at(c, c->n - 1, *ret, &day, e);
}

// The context of finite_block, which checks that values are finite before it passes a
// block to fn. A store checks this itself, but the rows of a model are read without a
// store.
struct each_block {
    rows_block_fn fn;
    void *ctx;
    struct accessor accessor;
    const char *table;
};

static int finite_block(void *ctx, const struct rows_block *b, struct err *e)
{
    const struct each_block *x = ctx;
    const char *row = b->payload;
    bool rows = b->kind == ROWS_ROW, extras = b->kind == ROWS_EXTRA;
    for (uint32_t i = 0; i < b->n && (rows || extras); i++) {
        uint64_t key;
        memcpy(&key, row, sizeof(key));
        const float *floats = (const void *)(row + sizeof(key));
        if (!(rows ? accessor_row_finite(&x->accessor, floats, NULL)
                   : accessor_extra_finite(&x->accessor, floats)))
            return store_not_finite(key, x->table, e);
        row += sizeof(key) + b->width * sizeof(float);
    }
    return x->fn(x->ctx, b, e);
}

int save_each_block(const struct save_chain *c, const struct save_table *t, size_t file,
                    rows_block_fn fn, void *ctx, struct err *e)
{
    struct each_block x = {.fn = fn, .ctx = ctx, .table = t->config.name};
    struct rows_reader *r;
    TRY(accessor_make(&x.accessor, &t->config.accessor, e));
    TRY(open_file(c, c->n - 1, t, file, &r, e));
    int rc = rows_each(r, ROWS_ALL, finite_block, &x, e);
    rows_close(r);
    return rc == TUG_EDATA ? in_file(c, c->n - 1, t, file, e) : rc;
}

// The number of rows that are put in one call. It is small, so that the rows stay in the
// cache while the store makes and fills them.
enum { PUT_ROWS = 512 };

struct load {
    struct store *store;
    bool (*mine)(void *ctx, uint32_t partition);
    void *ctx;
    bool some;            // the other partitions of the store do not change
    bool same_partitions; // the file and the store have the same partitions
    bool same_entry;      // the saved table and the store have the same entry policy
    // The rows of a block in the form that the store needs: sorted by the store's
    // partitions, with the values in an array of their own.
    struct table_entry *order; // partition << 32 | index of the row
    uint64_t *keys;
    float *values;
    size_t cap_keys, cap_values;
};

static bool is_mine(const struct load *l, uint32_t partition)
{
    return l->mine == NULL || l->mine(l->ctx, partition);
}

static int save_load_reserve(struct load *l, size_t n, size_t values, struct err *e)
{
    if (n > l->cap_keys) {
        mem_free(l->order);
        mem_free(l->keys);
        l->order = mem_array(n, sizeof(*l->order));
        l->keys = mem_array(n, sizeof(*l->keys));
        l->cap_keys = l->order != NULL && l->keys != NULL ? n : 0;
        if (l->cap_keys == 0)
            return err_nomem(e, "rows of a save");
    }
    if (values > l->cap_values) {
        mem_free(l->values);
        l->values = mem_array(values, sizeof(*l->values));
        l->cap_values = l->values != NULL ? values : 0;
        if (l->values == NULL)
            return err_nomem(e, "rows of a save");
    }
    return 0;
}

// Selects the rows of the block that are wanted, and sorts them.
static size_t choose(struct load *l, const struct rows_block *b)
{
    size_t stride = sizeof(uint64_t) + b->width * sizeof(float), n = 0;
    uint32_t last = 0;
    bool sorted = true;
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t key;
        memcpy(&key, (const char *)b->payload + i * stride, sizeof(key));
        uint32_t p = l->same_partitions ? b->partition : store_partition(l->store, key);
        if (!l->same_partitions && !is_mine(l, p))
            continue;
        sorted = sorted && p >= last;
        last = p;
        l->order[n++] = (struct table_entry){.key = (uint64_t)p << 32 | i};
    }
    if (!sorted)
        table_sort_by_key(l->order, n);
    return n;
}

// Unpacks rows [from, from + n) of the selected ones.
static void unpack(struct load *l, const struct rows_block *b, size_t from, size_t n)
{
    size_t values = b->width * sizeof(float), stride = sizeof(uint64_t) + values;
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)b->payload +
                          (uint32_t)l->order[from + i].key * stride;
        memcpy(&l->keys[i], row, sizeof(*l->keys));
        if (values > 0)
            memcpy(l->values + i * b->width, row + sizeof(uint64_t), values);
    }
}

static int put_some(struct load *l, const struct rows_block *b, size_t n, struct err *e)
{
    if (b->kind == ROWS_GONE)
        return store_remove(l->store, l->keys, n, e);
    return b->kind == ROWS_ROW ? store_put_rows(l->store, l->keys, n, l->values, e)
                               : store_put_extras(l->store, l->keys, n, l->values, e);
}

static int load_block(void *ctx, const struct rows_block *b, struct err *e)
{
    struct load *l = ctx;
    if (b->kind == ROWS_PARTITION)
        return l->same_partitions && l->same_entry && is_mine(l, b->partition)
                   ? store_put_partition(l->store, b->partition, b->payload, b->n, e)
                   : 0;
    TRY(save_load_reserve(l, b->n, (size_t)(b->n < PUT_ROWS ? b->n : PUT_ROWS) * b->width,
                          e));
    size_t chosen = choose(l, b);
    for (size_t at = 0; at < chosen; at += PUT_ROWS) {
        size_t n = chosen - at < PUT_ROWS ? chosen - at : PUT_ROWS;
        unpack(l, b, at, n);
        TRY(put_some(l, b, n, e));
    }
    return 0;
}

static int load_file(struct load *l, struct rows_reader *r, struct err *e)
{
    const struct rows_shape *shape = rows_shape(r);
    const struct store *s = l->store;
    l->same_partitions = shape->partition_bits == store_partition_bits(s) &&
                         shape->by_range == (store_config(s)->place == CONFIG_RANGE);
    if (!l->same_partitions || l->mine == NULL)
        return rows_each(r, ROWS_ALL, load_block, l, e);
    for (uint32_t p = 0; p < 1u << shape->partition_bits; p++)
        if (is_mine(l, p))
            TRY(rows_each(r, p, load_block, l, e));
    return 0;
}

// Returns whether the saved state of the entry policy can be used by the store's policy.
static bool same_entry(const struct save_table *t, const struct store *s)
{
    const struct entry_options *a = &t->config.entry, *b = &store_config(s)->entry;
    return strcmp(a->policy, b->policy) == 0 && a->capacity == b->capacity &&
           a->error == b->error && a->by_shows == b->by_shows &&
           t->config.seed == store_config(s)->seed && t->id == store_id(s);
}

// Makes room in the index for the save's rows. Has an effect only for the first save of
// the chain, which has most rows. If only some partitions are wanted and placement is by
// range, makes no room: keys may be spread unevenly over ranges, so the number of wanted
// rows is unknown.
static void reserve_index(const struct load *l, const struct save_table *t)
{
    struct store *s = l->store;
    uint64_t rows = 0;
    for (size_t i = 0; i < t->n_files; i++)
        rows += t->files[i].info.rows;
    if (l->mine == NULL) {
        store_reserve(s, rows, NULL);
        return;
    }
    uint32_t n = 1u << store_partition_bits(s);
    uint64_t *each = store_config(s)->place != CONFIG_RANGE ? mem_array(n, sizeof(*each))
                                                            : NULL;
    for (uint32_t p = 0; each != NULL && p < n; p++)
        each[p] = is_mine(l, p) ? rows / n + 1 : 0;
    if (each != NULL)
        store_reserve(s, 0, each);
    mem_free(each);
}

static int load_save(struct load *l, const struct save_chain *c, size_t save,
                     const struct save_table *t, struct err *e)
{
    reserve_index(l, t);
    l->same_entry = same_entry(t, l->store);
    for (size_t i = 0; i < t->n_files; i++) {
        struct rows_reader *r;
        TRY(open_file(c, save, t, i, &r, e));
        int rc = load_file(l, r, e);
        rows_close(r);
        TRY(rc == TUG_EDATA ? in_file(c, save, t, i, e) : rc);
    }
    return 0;
}

// Makes all checks that are possible without reading all rows. Called before the first
// row is loaded.
static int check_load(const struct save_chain *c, const char *table, struct store *s,
                      uint32_t *ret_day, struct err *e)
{
    const struct save_table *newest = save_find_table(&c->saves[c->n - 1], table);
    if (newest == NULL)
        return no_such_table(c, table, e);
    TRY(save_same_rows(&newest->config, store_config(s), c->paths[c->n - 1], e));
    for (size_t i = 0; i < c->n; i++) {
        const struct save_table *t = save_find_table(&c->saves[i], table);
        if (t != NULL)
            TRY(save_load_look_at(c, i, t, ret_day, e));
    }
    return 0;
}

static void begin_day(const struct load *l, uint32_t day)
{
    struct store *s = l->store;
    if (!l->some) {
        // Sets the day also for partitions that belong to other loops, because the
        // status shows the day of the store.
        store_set_day(s, day);
        return;
    }
    for (uint32_t p = 0; p >> store_partition_bits(s) == 0; p++)
        if (is_mine(l, p))
            store_set_day_in(s, p, day);
}

// Ends the load in the wanted partitions. If the save ended the day, the day of these
// partitions ends, too.
static int end_some(const struct load *l, const struct save_manifest *newest,
                    struct err *e)
{
    struct store *s = l->store;
    for (uint32_t p = 0; p >> store_partition_bits(s) == 0; p++) {
        if (!is_mine(l, p))
            continue;
        TRY(store_loaded_in(s, p, newest->checksum, e));
        if (newest->mode == SAVE_DAY)
            store_day_in(s, p);
    }
    return 0;
}

// Ends the load. If the save ended the day, the day of the store ends, too.
static int end_load(const struct load *l, const struct save_manifest *newest,
                    struct err *e)
{
    struct store *s = l->store;
    if (newest->step > store_step_of(s))
        store_set_step(s, newest->step);
    if (l->some)
        return end_some(l, newest, e);
    if (newest->mode == SAVE_DAY)
        store_day(s);
    store_loaded(s);
    store_set_published_by(s, newest->checksum);
    return 0;
}

int save_check(const struct save_chain *c, const char *table, struct store *s,
               struct err *e)
{
    uint32_t day = 0;
    return check_load(c, table, s, &day, e);
}

static int load_all(struct load *l, const struct save_chain *c, const char *table,
                    struct err *e)
{
    uint32_t day = 0;
    TRY(check_load(c, table, l->store, &day, e));
    int rc = 0;
    for (size_t i = 0; i < c->n && rc == 0; i++) {
        const struct save_table *t = save_find_table(&c->saves[i], table);
        if (i == c->n - 1)
            begin_day(l, day);
        if (t != NULL)
            rc = load_save(l, c, i, t, e);
    }
    if (rc == 0)
        rc = end_load(l, &c->saves[c->n - 1], e);
    mem_free(l->order);
    mem_free(l->keys);
    mem_free(l->values);
    return rc;
}

int save_load(const struct save_chain *c, const char *table, struct store *s,
              bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e)
{
    struct load l = {.store = s, .mine = mine, .ctx = ctx};
    return load_all(&l, c, table, e);
}

int save_load_some(const struct save_chain *c, const char *table, struct store *s,
                   bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e)
{
    struct load l = {.store = s, .mine = mine, .ctx = ctx, .some = true};
    return load_all(&l, c, table, e);
}
