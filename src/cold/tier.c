// The cold tier on RocksDB.
//
// A key in RocksDB is 10 bytes, big-endian: 2 of the partition, 8 of the key, so that a
// partition is a range in the order of its keys. Rows have a Bloom filter and blocks of 4
// KiB, without compression: trained floats do not compress.
//
// There is no write-ahead log. RocksDB writes its batches whole and in order, so that
// after a crash the tier has the state after the last tier_flush, or after a later
// tier_write. Opening checks this: each flush stores its sequence number in the marker
// (tier_home.h), and a database with a lower number than the marker is damaged, even if
// it looks whole.
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/tier.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cold/rocks.h"
#include "cold/tier_home.h"
#include "os/descriptors.h"

enum {
    PARTITION_BYTES = 3,
    KEY_BYTES = PARTITION_BYTES + 8,
    LIMIT_BYTES = KEY_BYTES +
                  1, // length of a key that is greater than all keys of a partition
    DEFAULT_CACHE = 64 << 20,
    MIN_CACHE = 1 << 20,
    MAX_WRITE_BUFFER = 64 << 20,
    WRITE_BUFFERS = 3,
};

// A requested key, in the order of RocksDB's comparison.
struct wanted {
    uint64_t high; // partition and the upper 40 bits of the key
    uint32_t low;
    uint32_t at; // index of the key in the caller's arrays
};

// Memory for a batch of lookups; it grows with the largest batch.
struct gets {
    size_t n; // number of slices of the last batch
    size_t room;
    struct wanted *wanted;
    char (*bytes)[KEY_BYTES];
    const char **keys;
    size_t *key_sizes;
    rocksdb_pinnableslice_t **slices;
    char **errors;
};

struct tier {
    const struct rocks *rocks;
    struct tier_home home;
    uint32_t row_bytes;
    uint64_t memory; // bytes of cache and write buffers, which do not grow with the rows
    rocksdb_options_t *options;
    rocksdb_readoptions_t *reading;
    rocksdb_writeoptions_t *writing;
    rocksdb_flushoptions_t *flushing;
    rocksdb_t *db;
    // RocksDB's default family, the only one in use.
    rocksdb_column_family_handle_t *family;
    rocksdb_writebatch_t *batch;
    struct gets gets;
};

// Sets *e to TUG_EDATA for damage, or TUG_EIO for an error of the system, with RocksDB's
// reason `text`. Frees `text`.
static int tier_refused(const struct tier *t, const char *doing, char *text,
                        struct err *e)
{
    bool damage = strncmp(text, "Corruption", strlen("Corruption")) == 0;
    int rc = err_because(
        e, damage ? TUG_EDATA : TUG_EIO, REASON_DISK, 0, "cannot %s rows in '%s': %s%s",
        doing, t->home.dir, text,
        damage ? "; the rows are damaged: remove this directory, and load a save" : "");
    static const int limits[] = {EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, EROFS};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
        if (strstr(text, strerror(limits[i])) != NULL)
            err_limit(e, limits[i]);
    t->rocks->free(text);
    return rc;
}

static void put_key(char ret[KEY_BYTES], uint32_t partition, uint64_t key)
{
    uint32_t high = __builtin_bswap32(partition << 8);
    uint64_t low = __builtin_bswap64(key);
    memcpy(ret, &high, PARTITION_BYTES);
    memcpy(ret + PARTITION_BYTES, &low, sizeof(low));
}

static void put_limit(char ret[LIMIT_BYTES], uint32_t partition)
{
    put_key(ret, partition, UINT64_MAX);
    ret[LIMIT_BYTES - 1] = 0;
}

// Makes RocksDB's options. tier_memory computes the memory that these options allow.
// Filters and indexes are outside the block cache, so that they stay in memory. Level 0
// may have more files than by RocksDB's default, because scanning these files costs less
// than waiting for a compaction.
static int make_options(struct tier *t, const struct tier_options *o, struct err *e)
{
    const struct rocks *r = t->rocks;
    uint64_t cache = o->cache_bytes > 0 ? o->cache_bytes : DEFAULT_CACHE;
    cache = cache > MIN_CACHE ? cache : MIN_CACHE;
    uint64_t buffer = cache / WRITE_BUFFERS;
    buffer = buffer < MAX_WRITE_BUFFER ? buffer : MAX_WRITE_BUFFER;
    char text[1024];
    snprintf(text, sizeof(text),
             "create_if_missing=%s;paranoid_checks=true;avoid_flush_during_shutdown=%s;"
             "info_log_level=FATAL_LEVEL;keep_log_file_num=1;stats_dump_period_sec=0;"
             "max_background_jobs=4;max_open_files=-1;compression=kNoCompression;"
             "memtable_prefix_bloom_size_ratio=0.1;memtable_whole_key_filtering=true;"
             "write_buffer_size=%" PRIu64 ";max_write_buffer_number=%d;"
             "level_compaction_dynamic_level_bytes=true;max_bytes_for_level_base=%" PRIu64
             ";block_based_table_factory={block_cache=%" PRIu64
             ";block_size=4096;format_version=5;filter_policy=bloomfilter:10:false;"
             "data_block_index_type=kDataBlockBinaryAndHash;};",
             t->home.scratch ? "true" : "false", o->durable ? "false" : "true", buffer,
             WRITE_BUFFERS, buffer * 4, cache);
    t->memory = cache + WRITE_BUFFERS * buffer;
    rocksdb_options_t *base = r->options_create();
    char *error = NULL;
    t->options = r->options_create();
    r->get_options_from_string(base, text, t->options, &error);
    r->options_destroy(base);
    return error == NULL ? 0 : tier_refused(t, "set up", error, e);
}

static int open_database(struct tier *t, struct err *e)
{
    const struct rocks *r = t->rocks;
    const char *name = "default";
    const rocksdb_options_t *options = t->options;
    char *error = NULL;
    t->db = r->open_column_families(t->options, t->home.rows, 1, &name, &options,
                                    &t->family, &error);
    if (error == NULL)
        return 0;
    t->db = NULL;
    if (strstr(error, "lock") != NULL && strstr(error, "LOCK") != NULL) {
        r->free(error);
        return err_set(e, TUG_EUSAGE, "'%s' is in use by another process", t->home.dir);
    }
    // A durable tier was complete when its marker was written, so a missing file was
    // lost.
    bool lost = !t->home.scratch && (strstr(error, "No such file") != NULL ||
                                     strstr(error, "does not exist") != NULL);
    int rc = tier_refused(t, "open", error, e);
    if (lost)
        e->code = rc = TUG_EDATA;
    return rc;
}

// Records that a new durable tier holds all its rows from now on. Checks that an existing
// durable tier has all rows that its marker promises.
static int check_kept(struct tier *t, struct err *e)
{
    uint64_t sequence = t->rocks->get_latest_sequence_number(t->db);
    if (t->home.scratch)
        return tier_home_keep(&t->home, sequence, e);
    if (sequence < t->home.sequence)
        return err_set(
            e, TUG_EDATA,
            "the rows in '%s' are damaged: written changes are missing (%" PRIu64
            " of %" PRIu64 " are there); remove this directory, and load a save",
            t->home.dir, sequence, t->home.sequence);
    return 0;
}

static int open_rocks(struct tier *t, const struct tier_options *o, struct err *e)
{
    const struct rocks *r = t->rocks;
    TRY(make_options(t, o, e));
    TRY(open_database(t, e));
    t->reading = r->readoptions_create();
    t->writing = r->writeoptions_create();
    t->flushing =
        r->flushoptions_create(); // by default RocksDB waits until the flush is done
    t->batch = r->writebatch_create();
    r->writeoptions_disable_WAL(t->writing, 1);
    return o->durable ? check_kept(t, e) : 0;
}

// Checks that the process may open enough files for one more tier; a tier needs more
// descriptors as it grows. A quarter of all descriptors is reserved for links, because
// otherwise no node could connect any more.
static int check_descriptors(const struct tier_options *o, struct err *e)
{
    uint64_t limit = descriptors_limit(), left = descriptors_left();
    if (left > limit / 4)
        return 0;
    return err_set(e, TUG_EIO,
                   "cannot open rows on disk in '%s': only %" PRIu64 " of %" PRIu64
                   " file descriptors are free, and links need those; raise the limit "
                   "(ulimit -n), or keep fewer tables on disk",
                   o->dir, left, limit);
}

int tier_open(struct tier **ret, const struct tier_options *o, struct err *e)
{
    struct err own;
    const struct rocks *rocks;
    e = e != NULL ? e : &own;
    *ret = NULL;
    if (o->dir == NULL || *o->dir == '\0')
        return err_set(e, TUG_EUSAGE, "rows on disk need a directory");
    TRY(check_descriptors(o, e));
    TRY(rocks_load(&rocks, e));
    struct tier *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, o->dir);
    t->rocks = rocks;
    t->row_bytes = o->row_bytes;
    int rc = tier_home_open(&t->home, o->dir, o->durable, o->about, e);
    if (rc == 0)
        rc = open_rocks(t, o, e);
    if (rc != 0) {
        tier_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

static void release_slices(struct tier *t)
{
    for (size_t i = 0; i < t->gets.n; i++)
        if (t->gets.slices[i] != NULL)
            t->rocks->pinnableslice_destroy(t->gets.slices[i]);
    t->gets.n = 0;
}

static void free_gets(struct gets *g)
{
    mem_free(g->wanted);
    mem_free(g->bytes);
    mem_free(g->keys);
    mem_free(g->key_sizes);
    mem_free(g->slices);
    mem_free(g->errors);
    *g = (struct gets){0};
}

static void close_rocks(struct tier *t)
{
    const struct rocks *r = t->rocks;
    release_slices(t);
    if (t->batch != NULL)
        r->writebatch_destroy(t->batch);
    if (t->flushing != NULL)
        r->flushoptions_destroy(t->flushing);
    if (t->writing != NULL)
        r->writeoptions_destroy(t->writing);
    if (t->reading != NULL)
        r->readoptions_destroy(t->reading);
    if (t->family != NULL)
        r->column_family_handle_destroy(t->family);
    if (t->db != NULL)
        r->close(t->db);
    if (t->options != NULL)
        r->options_destroy(t->options);
}

void tier_close(struct tier *t)
{
    if (t == NULL)
        return;
    close_rocks(t);
    tier_home_close(&t->home);
    free_gets(&t->gets);
    mem_free(t);
}

static int tier_make_room(struct tier *t, size_t n, struct err *e)
{
    struct gets *g = &t->gets;
    if (n <= g->room)
        return 0;
    free_gets(g);
    g->wanted = mem_array(n, sizeof(*g->wanted));
    g->bytes = mem_array(n, sizeof(*g->bytes));
    g->keys = mem_array(n, sizeof(*g->keys));
    g->key_sizes = mem_array(n, sizeof(*g->key_sizes));
    g->slices = mem_array(n, sizeof(rocksdb_pinnableslice_t *));
    g->errors = mem_array(n, sizeof(char *));
    if (g->wanted == NULL || g->bytes == NULL || g->keys == NULL ||
        g->key_sizes == NULL || g->slices == NULL || g->errors == NULL) {
        free_gets(g);
        return err_nomem(e, "reading rows from disk");
    }
    for (size_t i = 0; i < n; i++) {
        g->keys[i] = g->bytes[i];
        g->key_sizes[i] = KEY_BYTES;
    }
    g->room = n;
    return 0;
}

static int tier_compare(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

// Sorts the requested keys in RocksDB's order, so that rows of one block are read
// together.
static void sort_wanted(struct gets *g, const uint32_t *partitions, const uint64_t *keys,
                        size_t n)
{
    bool sorted = true;
    for (size_t i = 0; i < n; i++) {
        g->wanted[i] = (struct wanted){.high = (uint64_t)partitions[i] << 40 |
                                               keys[i] >> 24,
                                       .low = (uint32_t)keys[i] & 0xffffff,
                                       .at = (uint32_t)i};
        sorted = sorted &&
                 (i == 0 || tier_compare(&g->wanted[i - 1], &g->wanted[i]) <= 0);
    }
    if (!sorted)
        qsort(g->wanted, n, sizeof(*g->wanted), tier_compare);
    for (size_t i = 0; i < n; i++) {
        size_t at = g->wanted[i].at;
        put_key(g->bytes[i], partitions[at], keys[at]);
    }
}

// Returns the error of the first row that has one, and frees the errors of all other
// rows.
static char *first_error(struct tier *t, size_t n)
{
    char *first = NULL;
    for (size_t i = 0; i < n; i++) {
        char *error = t->gets.errors[i];
        if (first == NULL)
            first = error;
        else if (error != NULL)
            t->rocks->free(error);
    }
    return first;
}

static int too_long(const struct tier *t, size_t size, struct err *e)
{
    return err_because(
        e, TUG_EDATA, REASON_DISK, 0,
        "the rows in '%s' are damaged: one has %zu bytes, more than %" PRIu32,
        t->home.dir, size, t->row_bytes);
}

int tier_get(struct tier *t, const uint32_t *partitions, const uint64_t *keys, size_t n,
             uint8_t *found, const void **rows, uint32_t *sizes, struct err *e)
{
    struct gets *g = &t->gets;
    release_slices(t);
    if (n == 0)
        return 0;
    TRY(tier_make_room(t, n, e));
    sort_wanted(g, partitions, keys, n);
    t->rocks->batched_multi_get_cf(t->db, t->reading, t->family, n, g->keys, g->key_sizes,
                                   g->slices, g->errors, true);
    g->n = n;
    char *error = first_error(t, n);
    if (error != NULL)
        return tier_refused(t, "read", error, e);
    for (size_t i = 0; i < n; i++) {
        size_t at = g->wanted[i].at, size;
        found[at] = g->slices[i] != NULL;
        if (!found[at])
            continue;
        rows[at] = t->rocks->pinnableslice_value(g->slices[i], &size);
        if (size > t->row_bytes)
            return too_long(t, size, e);
        sizes[at] = (uint32_t)size;
    }
    return 0;
}

int tier_put(struct tier *t, uint32_t partition, uint64_t key, const void *row,
             uint32_t size, struct err *e)
{
    char bytes[KEY_BYTES];
    if (size > t->row_bytes)
        return err_set(e, TUG_EINTERNAL,
                       "a row for '%s' has %" PRIu32 " bytes, not %" PRIu32, t->home.dir,
                       size, t->row_bytes);
    put_key(bytes, partition, key);
    t->rocks->writebatch_put(t->batch, bytes, sizeof(bytes), row, size);
    return 0;
}

int tier_delete(struct tier *t, uint32_t partition, uint64_t key, struct err *e)
{
    char bytes[KEY_BYTES];
    (void)e;
    put_key(bytes, partition, key);
    t->rocks->writebatch_delete(t->batch, bytes, sizeof(bytes));
    return 0;
}

int tier_write(struct tier *t, struct err *e)
{
    char *error = NULL;
    t->rocks->write(t->db, t->writing, t->batch, &error);
    if (error != NULL)
        return tier_refused(t, "write", error, e);
    t->rocks->writebatch_clear(t->batch);
    return 0;
}

void tier_drop(struct tier *t)
{
    t->rocks->writebatch_clear(t->batch);
}

static int each(struct tier *t, rocksdb_iterator_t *it, tier_row_fn row, void *ctx,
                struct err *e)
{
    const struct rocks *r = t->rocks;
    char *error = NULL;
    for (; r->iter_valid(it); r->iter_next(it)) {
        size_t key_size, size;
        uint64_t key;
        const char *bytes = r->iter_key(it, &key_size);
        const char *value = r->iter_value(it, &size);
        if (key_size != KEY_BYTES || size > t->row_bytes)
            return too_long(t, size, e);
        memcpy(&key, bytes + PARTITION_BYTES, sizeof(key));
        TRY(row(ctx, __builtin_bswap64(key), value, (uint32_t)size, e));
    }
    r->iter_get_error(it, &error);
    return error == NULL ? 0 : tier_refused(t, "read", error, e);
}

int tier_each(struct tier *t, uint32_t partition, uint64_t from, tier_row_fn row,
              void *ctx, struct err *e)
{
    const struct rocks *r = t->rocks;
    char first[KEY_BYTES], limit[LIMIT_BYTES];
    put_key(first, partition, from);
    put_limit(limit, partition);
    rocksdb_readoptions_t *reading = r->readoptions_create();
    r->readoptions_set_iterate_upper_bound(reading, limit, sizeof(limit));
    r->readoptions_set_fill_cache(
        reading,
        0); // so that rows that are read only once do not displace cached rows
    rocksdb_iterator_t *it = r->create_iterator(t->db, reading);
    r->iter_seek(it, first, sizeof(first));
    int rc = each(t, it, row, ctx, e);
    r->iter_destroy(it);
    r->readoptions_destroy(reading);
    return rc;
}

int tier_clear(struct tier *t, uint32_t partition, struct err *e)
{
    char first[KEY_BYTES], limit[LIMIT_BYTES];
    put_key(first, partition, 0);
    put_limit(limit, partition);
    t->rocks->writebatch_delete_range(t->batch, first, sizeof(first), limit,
                                      sizeof(limit));
    return tier_write(t, e);
}

int tier_flush(struct tier *t, struct err *e)
{
    char *error = NULL;
    uint64_t sequence = t->rocks->get_latest_sequence_number(t->db);
    t->rocks->flush(t->db, t->flushing, &error);
    if (error != NULL)
        return tier_refused(t, "write", error, e);
    return t->home.scratch ? 0 : tier_home_keep(&t->home, sequence, e);
}

uint64_t tier_memory(const struct tier *t, uint64_t rows)
{
    return t->memory + rows + rows / 2;
}
