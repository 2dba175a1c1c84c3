// Stores, traffic and images of them, for tests of saves: an image is all rows by
// ascending key, whatever the partitions and owners.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_SAVE_TESTING_H
#define TUG_SAVE_SAVE_TESTING_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/random.h"
#include "save/save.h"
#include "store/store_internal.h"

enum { TABLE_ID = 7, BATCH = 512 };

#define CTR                                                                              \
    "name=users; accessor=ctr; dim=3; rule=adagrad; embedx-rule=adagrad; "               \
    "embedx-threshold=2; embedx-init=0.1; delete-threshold=0.3; "
#define ALL_PUBLISHED "base-threshold=0; delta-threshold=0; delta-keep-days=100000; "

#define OK(call)                                                                         \
    do {                                                                                 \
        struct err ok_e = {0};                                                           \
        int ok_rc = (call);                                                              \
        if (ok_rc != 0)                                                                  \
            fail_msg("%s: %d %s", #call, ok_rc, ok_e.text);                              \
    } while (0)

// A directory of this test, in memory where that is possible: what a disk does is tested
// with faults, and syncing takes its time.
static inline char *test_dir(void)
{
    static char path[64];
    const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    if (*path == '\0') {
        snprintf(path, sizeof(path), "%s/tug-save-XXXXXX", in);
        if (mkdtemp(path) == NULL)
            path[0] = '\0';
    }
    return path;
}

// Paths stay good for long enough.
static inline const char *path_of(const char *dir, const char *name)
{
    static char paths[8 << 20];
    static size_t used;
    char path[FILE_PATH_MAX];
    OK(file_join(path, dir, name, &ok_e));
    size_t n = strlen(path) + 1;
    used = used + n > sizeof(paths) ? 0 : used;
    char *ret = memcpy(paths + used, path, n);
    used += n;
    return ret;
}

static inline const char *in_dir(const char *name)
{
    return path_of(test_dir(), name);
}

// As rm -r.
static inline void remove_all(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *x = d != NULL ? readdir(d) : NULL; x != NULL; x = readdir(d))
        if (x->d_name[0] != '.')
            remove_all(path_of(path, x->d_name));
    if (d != NULL)
        closedir(d);
    (void)remove(path);
}

static inline const char *fresh_dir(const char *name)
{
    const char *path = in_dir(name);
    remove_all(path);
    return path;
}

static inline struct store *open_store(const char *settings, uint32_t bits)
{
    struct table_config c = table_config_defaults();
    struct store *s;
    OK(table_config_parse(&c, settings, &ok_e));
    OK(table_config_check(&c, &ok_e));
    struct store_options o = {.config = &c, .id = TABLE_ID, .partition_bits = bits};
    OK(store_open(&s, &o, &ok_e));
    return s;
}

// Owner i of n has every n-th partition.
struct owner {
    uint32_t i, n;
};
static inline bool owns(void *ctx, uint32_t partition)
{
    const struct owner *x = ctx;
    return partition % x->n == x->i;
}

// Pushes to a store and its owner: the same ones whoever owns what.
static inline void push_some(struct store *s, struct owner x, uint64_t seed,
                             uint32_t keys)
{
    struct table_entry order[BATCH];
    uint64_t sorted[BATCH];
    uint32_t width = store_value_width(s, STORE_GRADIENT), n = 0;
    float *values = mem_array(BATCH * width, sizeof(float));
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t key = mix64(random_below(seed, 1, i, keys) + 1);
        uint32_t p = store_partition(s, key);
        bool twice = false;
        for (uint32_t j = 0; j < n && !twice; j++)
            twice = sorted[j] == key;
        if (!twice && owns(&x, p)) {
            order[n] = (struct table_entry){(uint64_t)p << 32 | n, 0};
            sorted[n++] = key;
        }
    }
    table_sort_by_key(order, n);
    uint64_t in_order[BATCH];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t key = in_order[i] = sorted[(uint32_t)order[i].key];
        for (uint32_t c = 0; c < width; c++)
            values[i * width + c] = random_f32(seed, key, c);
    }
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = in_order,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .scale = 1};
    OK(store_push(s, &p, NULL, &ok_e));
    mem_free(values);
}

static inline void push_many(struct store *s, struct owner x, uint64_t seed, int batches,
                             uint32_t keys)
{
    for (int i = 0; i < batches; i++)
        push_some(s, x, seed * 1000 + (uint64_t)i, keys);
}

// Images.

struct image {
    struct table_entry *keys; // handle: number of the record
    size_t n, cap;
    struct buf records; // key, row, whether there is an extra row, it or zeros
    size_t width, extra_width;
};

static inline int add_record(void *ctx, uint64_t key, const float *row,
                             const float *extra, struct err *e)
{
    (void)e;
    struct image *x = ctx;
    float zeros[64] = {0};
    uint32_t has = extra != NULL;
    if (x->n == x->cap) {
        x->cap = 2 * x->cap + 64;
        x->keys = mem_realloc_array(x->keys, x->cap, sizeof(*x->keys));
        assert_non_null(x->keys);
    }
    x->keys[x->n] = (struct table_entry){key, (uint32_t)x->n};
    x->n++;
    assert_int_equal(buf_add(&x->records, &key, sizeof(key)), 0);
    assert_int_equal(buf_add(&x->records, row, x->width * sizeof(float)), 0);
    assert_int_equal(buf_add(&x->records, &has, sizeof(has)), 0);
    return buf_add(&x->records, has ? extra : zeros, x->extra_width * sizeof(float));
}

static inline void image_add(struct image *x, struct store *s)
{
    x->width = store_accessor(s)->width;
    x->extra_width = store_accessor(s)->extra_width;
    assert_true(x->extra_width <= 64);
    if (x->records.max == 0)
        x->records = BUF_INIT(256 << 20);
    for (uint32_t p = 0; p < s->n_parts; p++)
        OK(store_each(s, p, add_record, x, &ok_e));
}

static inline void image_free(struct image *x)
{
    mem_free(x->keys);
    buf_free(&x->records);
    *x = (struct image){0};
}

static inline bool image_equal(struct image *a, struct image *b)
{
    if (a->n != b->n || a->records.len != b->records.len)
        return false;
    size_t size = a->n > 0 ? a->records.len / a->n : 0;
    table_sort_by_key(a->keys, a->n);
    table_sort_by_key(b->keys, b->n);
    for (size_t i = 0; i < a->n; i++)
        if (memcmp(a->records.data + a->keys[i].handle * size,
                   b->records.data + b->keys[i].handle * size, size) != 0)
            return false;
    return true;
}

static inline struct image image_of(struct store *s)
{
    struct image x = {0};
    image_add(&x, s);
    return x;
}

static inline bool same_rows(struct store *a, struct store *b)
{
    struct image x = image_of(a), y = image_of(b);
    bool same = image_equal(&x, &y);
    image_free(&x);
    image_free(&y);
    return same;
}

// Saving and loading.

static inline int save_one(struct store *s, const char *dir, enum save_mode mode,
                           uint32_t keep, struct err *e)
{
    char path[FILE_PATH_MAX];
    return save_stores(dir, mode, &s, 1, NULL, 0, keep, path, e);
}

static inline int load_one(struct store *s, const char *from, struct err *e)
{
    struct save_chain c;
    TRY(save_chain_open(&c, from, e));
    int rc = save_load(&c, store_config(s)->name, s, NULL, NULL, e);
    save_chain_close(&c);
    return rc;
}

static inline struct store *loaded(const char *from, const char *settings, uint32_t bits)
{
    struct store *s = open_store(settings, bits);
    OK(load_one(s, from, &ok_e));
    return s;
}

#endif
