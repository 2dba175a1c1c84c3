// See saves.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/saves.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"
#include "store/store_internal.h"

enum { BATCH = 512 };

const char *saves_path(const char *dir, const char *name)
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

const char *saves_fresh(const char *name)
{
    const char *path = saves_path(files_dir, name);
    files_remove(path);
    return path;
}

bool saves_owns(void *ctx, uint32_t partition)
{
    const struct saves_owner *x = ctx;
    return partition % x->n == x->i;
}

// Pushes to a store. The pushes are the same however the partitions are divided among
// owners.
static void saves_push_some(struct store *s, struct saves_owner x, uint64_t seed,
                            uint32_t keys)
{
    struct table_entry order[BATCH];
    uint64_t sorted[BATCH];
    uint32_t width = stores_value_width(s, STORE_GRADIENT), n = 0;
    float *values = mem_array(BATCH * width, sizeof(float));
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t key = mix64(random_below(seed, 1, i, keys) + 1);
        uint32_t p = store_partition(s, key);
        bool twice = false;
        for (uint32_t j = 0; j < n && !twice; j++)
            twice = sorted[j] == key;
        if (!twice && saves_owns(&x, p)) {
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

void saves_push(struct store *s, struct saves_owner x, uint64_t seed, int batches,
                uint32_t keys)
{
    for (int i = 0; i < batches; i++)
        saves_push_some(s, x, seed * 1000 + (uint64_t)i, keys);
}

// ---------------------------------------------------------- images of the rows of stores

static int add_record(void *ctx, uint64_t key, const float *row, const float *extra,
                      struct err *e)
{
    (void)e;
    struct rows_image *x = ctx;
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

void rows_image_add(struct rows_image *x, struct store *s)
{
    x->width = store_accessor(s)->width;
    x->extra_width = store_accessor(s)->extra_width;
    assert_true(x->extra_width <= 64);
    if (x->records.max == 0)
        x->records = BUF_INIT(256 << 20);
    for (uint32_t p = 0; p < s->n_parts; p++)
        OK(store_each(s, p, add_record, x, &ok_e));
}

void rows_image_free(struct rows_image *x)
{
    mem_free(x->keys);
    buf_free(&x->records);
    *x = (struct rows_image){0};
}

bool rows_image_equal(struct rows_image *a, struct rows_image *b)
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

struct rows_image rows_image_of(struct store *s)
{
    struct rows_image x = {0};
    rows_image_add(&x, s);
    return x;
}

bool rows_same(struct store *a, struct store *b)
{
    struct rows_image x = rows_image_of(a), y = rows_image_of(b);
    bool same = rows_image_equal(&x, &y);
    rows_image_free(&x);
    rows_image_free(&y);
    return same;
}

// ---------------------------------------------------------------- saving and loading

int saves_one(struct store *s, const char *dir, enum save_mode mode, uint32_t keep,
              struct err *e)
{
    char path[FILE_PATH_MAX];
    return save_stores(dir, mode, &s, 1, NULL, 0, keep, path, e);
}

int saves_load(struct store *s, const char *from, struct err *e)
{
    struct save_chain c;
    TRY(save_chain_open(&c, from, e));
    int rc = save_load(&c, store_config(s)->name, s, NULL, NULL, e);
    save_chain_close(&c);
    return rc;
}

struct store *saves_loaded(const char *from, const char *settings, uint32_t bits)
{
    struct store *s = stores_open(settings, bits);
    OK(saves_load(s, from, &ok_e));
    return s;
}
