// See publisher.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/publisher.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/saves.h"
#include "kit/test.h"
#include "train/rows/run_tables.h"

enum { BITS = 3 };

// Returns a value for which all computations of this test are exact in floats.
static float latent(uint32_t number)
{
    return (float)number / 64;
}

double publisher_score(uint32_t number)
{
    double v = (double)latent(number);
    return 4.0 * number + 3 * PUBLISHER_DIM * v * v;
}

static struct saved_run *run_of(void)
{
    struct saved_run *run = mem_zalloc(sizeof(*run));
    struct model_options *m = &run->options.model;
    assert_non_null(run);
    OK(model_find("fm", &m->ops, &ok_e));
    model_defaults(m, m->ops, RULE_ADAGRAD);
    m->dim = PUBLISHER_DIM;
    m->normalize = false;
    snprintf(run->schema.format, sizeof(run->schema.format), "libsvm");
    return run;
}

static struct store *open_one(const struct table_config *c, uint32_t id)
{
    struct store *s;
    struct store_options o = {.config = c, .id = id, .partition_bits = BITS};
    OK(store_open(&s, &o, &ok_e));
    return s;
}

static void open_stores(struct publisher *p, const struct model_options *o)
{
    struct model m;
    OK(model_init(&m, o, &ok_e));
    struct table_config sparse = run_living_defaults(o), dense = run_dense(&m);
    OK(table_config_parse(&sparse, ALL_PUBLISHED "embedx-threshold=0", &ok_e));
    snprintf(sparse.name, sizeof(sparse.name), RUN_SPARSE);
    sparse.accessor.dim = m.layout.dim;
    OK(table_config_set(&dense, "deltas", "yes", &ok_e));
    p->sparse = open_one(&sparse, 0);
    p->dense = open_one(&dense, 1);
}

static void close_stores(struct publisher *p)
{
    store_close(p->sparse);
    store_close(p->dense);
}

static bool load(struct publisher *p)
{
    struct save_chain c;
    if (save_chain_open(&c, p->dir, NULL) != 0)
        return false;
    bool good = save_load(&c, RUN_SPARSE, p->sparse, NULL, NULL, NULL) == 0 &&
                save_load(&c, RUN_DENSE, p->dense, NULL, NULL, NULL) == 0;
    save_chain_close(&c);
    return good;
}

void publisher_open(struct publisher *p, const char *dir, uint64_t rows)
{
    struct saved_run *run = run_of();
    *p = (struct publisher){.dir = dir, .rows = rows};
    OK(saved_run_print(run, &p->about, &ok_e));
    open_stores(p, &run->options.model);
    if (!load(p)) {
        close_stores(p);
        open_stores(p, &run->options.model);
    }
    mem_free(run);
}

void publisher_close(struct publisher *p)
{
    close_stores(p);
    mem_free(p->about);
}

static void assign(struct store *s, struct table_entry *order, uint64_t n,
                   const float *value, uint32_t width)
{
    uint64_t *keys = mem_array(n, sizeof(*keys));
    float *values = mem_array(n * width, sizeof(*values));
    assert_true(keys != NULL && values != NULL);
    table_sort_by_key(order, n);
    for (uint64_t i = 0; i < n; i++) {
        keys[i] = order[i].handle;
        memcpy(values + i * width, value, width * sizeof(*value));
    }
    struct store_push push = {.op = STORE_ASSIGN,
                              .keys = keys,
                              .n = n,
                              .values = values,
                              .rate = 1,
                              .scale = 1};
    OK(store_push(s, &push, NULL, &ok_e));
    mem_free(keys);
    mem_free(values);
}

void publisher_set(struct publisher *p, uint32_t number, uint64_t rows)
{
    struct table_entry *order = mem_array(rows + 1, sizeof(*order));
    float values[1 + PUBLISHER_DIM], bias = (float)number;
    assert_non_null(order);
    for (uint64_t key = 0; key < rows; key++)
        order[key] = (struct table_entry){store_partition(p->sparse, key), (uint32_t)key};
    values[0] = (float)number;
    for (uint32_t c = 0; c < PUBLISHER_DIM; c++)
        values[1 + c] = latent(number);
    assign(p->sparse, order, rows, values, 1 + PUBLISHER_DIM);
    order[0] = (struct table_entry){0};
    assign(p->dense, order, 1, &bias, 1);
    mem_free(order);
}

static void damage_file(const char *dir)
{
    const char *path = saves_path(dir, "sparse-0.rows");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t middle = lseek(fd, 0, SEEK_END) / 2;
    char byte;
    assert_int_equal(pread(fd, &byte, 1, middle), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, middle), 1);
    close(fd);
}

uint32_t publisher_save_as_is(struct publisher *p, enum save_mode mode, uint32_t keep,
                              bool damage)
{
    struct store *const both[] = {p->sparse, p->dense};
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    OK(save_begin(p->dir, mode, &m, path, &ok_e));
    OK(save_add_stores(&m, path, both, 2, 0, &ok_e));
    m.about = mem_strdup(p->about);
    if (damage)
        damage_file(path);
    OK(save_commit(p->dir, &m, keep, &ok_e));
    store_set_published_by(p->sparse, m.checksum);
    store_set_published_by(p->dense, m.checksum);
    uint32_t number = m.number;
    save_manifest_free(&m);
    return number;
}

uint32_t publisher_save(struct publisher *p, enum save_mode mode, uint32_t keep,
                        bool damage)
{
    char path[FILE_PATH_MAX];
    uint32_t number = 1;
    if (save_find(p->dir, path, NULL) == 0)
        number += save_number(strrchr(path, '/') + 1);
    // Also skips the number of an unfinished save, which a dead publisher has left.
    while (save_path(path, p->dir, number, NULL) == 0 && access(path, F_OK) == 0)
        number++;
    publisher_set(p, number, p->rows);
    assert_int_equal(publisher_save_as_is(p, mode, keep, damage), number);
    return number;
}
