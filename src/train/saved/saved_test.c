// Saves: written, loaded, found and removed, with every allocation failing in turn.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/saved.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "train/rows/run_tables.h"

static struct saved_run m;

// Opens tables with `n` rows whose values differ from all initial values.
static void open_parameters(struct parameters *p, const char *model, uint64_t n)
{
    struct model_options o = training_model(model);
    assert_int_equal(parameters_open(p, &o, NULL), 0);
    for (uint64_t key = 0; key < n; key++) {
        uint32_t id, width = p->model.accessor.width;
        assert_int_equal(parameters_resolve_new(p, &key, 1, &id), 0);
        float *row = table_row(table_slabs(p->sparse), id);
        for (uint32_t c = 0; c < width; c++)
            row[c] = random_f32(2, key, c) - 0.5f;
    }
    *p->blocks[0] = 0.25f;
}

static bool same_rows(const struct table *a, struct table *b)
{
    uint32_t handles[64], other, width = table_options(a)->width;
    uint64_t cursor = 0;
    for (size_t n; (n = table_scan(a, &cursor, handles, 64)) > 0;)
        for (size_t i = 0; i < n; i++) {
            const float *row = table_row(table_slabs(a), handles[i]);
            uint64_t key = table_row_key(row);
            table_find(b, &key, 1, &other);
            if (other == TABLE_NONE ||
                memcmp(row, table_row(table_slabs(b), other), width * sizeof(*row)) != 0)
                return false;
        }
    return table_stats(a).rows == table_stats(b).rows;
}

static void assert_same(const struct parameters *a, struct parameters *b)
{
    assert_true(same_rows(a->sparse, b->sparse));
    assert_true(same_rows(a->dense, b->dense));
}

static int save(struct team *team, const struct parameters *model,
                const struct parameters *training, uint32_t keep, char dir[FILE_PATH_MAX])
{
    memset(&m, 0, sizeof(m));
    m.options.model = model->model.options;
    snprintf(m.schema.format, sizeof(m.schema.format), "libsvm");
    m.has_best = training != NULL;
    struct saved_rows from = {.model = &model->model, .local = model},
                      other = {.model = &model->model, .local = training};
    const struct saved_rows *roles[SAVED_ROLES] = {&from,
                                                   training != NULL ? &other : NULL};
    return saved_write(files_in("out"), team, roles, &m, keep, dir, &test_err);
}

static void round_trip(void **state)
{
    (void)state;
    struct team *team = training_team(3);
    static const char *const names[] = {"lr", "fm", "ffm", "dcn"};
    for (size_t kind = 0; kind < sizeof(names) / sizeof(*names); kind++) {
        struct parameters model, training, loaded;
        char dir[FILE_PATH_MAX], found[FILE_PATH_MAX];
        open_parameters(&model, names[kind], 1000);
        open_parameters(&training, names[kind], 1700);
        *training.blocks[0] = -3;
        assert_int_equal(save(team, &model, &training, 1, dir), 0);
        assert_int_equal(save_find(files_in("out"), found, NULL), 0);
        assert_string_equal(found, dir);
        assert_int_equal(saved_read(&m, dir, &test_err), 0);
        assert_int_equal(saved_load(dir, &m, SAVED_MODEL, team, &loaded, NULL), 0);
        assert_same(&model, &loaded);
        assert_true(*loaded.blocks[0] == 0.25f);
        parameters_close(&loaded);
        assert_int_equal(saved_load(dir, &m, SAVED_TRAINING, team, &loaded, NULL), 0);
        assert_same(&training, &loaded);
        parameters_close(&loaded);
        parameters_close(&model);
        parameters_close(&training);
    }
    team_close(team);
}

// Loads only the tables that were asked for.
static void one_table(void **state)
{
    (void)state;
    struct team *team = training_team(2);
    struct parameters model, into;
    char dir[FILE_PATH_MAX];
    open_parameters(&model, "fm", 50);
    assert_int_equal(save(team, &model, NULL, 1, dir), 0);
    for (int dense = 0; dense < 2; dense++) {
        open_parameters(&into, "fm", 0);
        *into.blocks[0] = 9;
        assert_int_equal(
            saved_load_into(dir, SAVED_MODEL, !dense, dense, team, &into, NULL), 0);
        assert_int_equal(table_stats(into.sparse).rows, dense ? 0 : 50);
        assert_true(*into.blocks[0] == (dense ? 0.25f : 9));
        parameters_close(&into);
    }
    parameters_close(&model);
    team_close(team);
}

// Values that are loaded are checked like values that are pushed: weights, states and
// dense parameters. This is so in saved_load, saved_load_into and saved_verify.
static void rows_that_are_not_finite(void **state)
{
    (void)state;
    struct team *team = training_team(2);
    for (int which = 0; which < 3; which++) {
        struct parameters model, into;
        char dir[FILE_PATH_MAX];
        open_parameters(&model, "fm", 50);
        uint32_t id;
        uint64_t key = 17;
        table_find(model.sparse, &key, 1, &id);
        const struct accessor_group *g = &model.model.accessor.groups[1];
        float *row = table_row(table_slabs(model.sparse), id);
        if (which < 2)
            row[which == 0 ? g->weights : g->state] = which == 0 ? (float)NAN
                                                                 : (float)INFINITY;
        else
            *model.blocks[0] = (float)NAN;
        assert_int_equal(save(team, &model, NULL, 1, dir), 0);
        assert_int_equal(saved_read(&m, dir, &test_err), 0);
        const char *file = which < 2 ? "sparse-0.rows': key 17 of table sparse has"
                                     : "dense-0.rows': key 0 of table dense has";
        struct err e = {0};
        assert_int_equal(saved_load(dir, &m, SAVED_MODEL, team, &into, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, file));
        assert_non_null(strstr(e.text, "weights or states that are not finite"));
        open_parameters(&into, "fm", 0);
        assert_int_equal(saved_load_into(dir, SAVED_MODEL, true, true, team, &into, &e),
                         TUG_EDATA);
        assert_non_null(strstr(e.text, file));
        struct save_chain chain;
        assert_int_equal(saved_open(&chain, dir, &e), 0);
        struct model packed;
        model_packed(&packed, &model.model);
        assert_int_equal(
            saved_verify(&chain, 0, team, &(struct parameters){.model = packed}, &e),
            TUG_EDATA);
        save_chain_close(&chain);
        parameters_close(&into);
        parameters_close(&model);
    }
    team_close(team);
}

static void finding(void **state)
{
    (void)state;
    char dir[FILE_PATH_MAX];
    struct err e = {0};
    files_remove(files_in("out"));
    assert_int_equal(save_find(files_in("out"), dir, &e), TUG_EDATA);
    assert_false(saved_any(files_in("out")));
    static const char *const names[] = {"out", "out/save-000002", "out/save-000010",
                                        "out/save-1000000", "out/save-999999"};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(mkdir(files_in("%s", names[i]), 0700), 0);
    // No save in the directory is finished.
    assert_int_equal(save_find(files_in("out"), dir, &e), TUG_EDATA);
    static const size_t newest[] = {1, 2, 4, 3};
    for (size_t i = 0; i < 4; i++) {
        char file[64];
        snprintf(file, sizeof(file), "%s/manifest.json", names[newest[i]]);
        files_write(files_in(file), "");
        assert_int_equal(save_find(files_in("out"), dir, &e), 0);
        assert_string_equal(dir, files_in("%s", names[newest[i]]));
    }
    assert_true(saved_any(files_in("out")));
    assert_int_equal(save_find(files_in("out/save-000002"), dir, &e), 0);
    assert_string_equal(dir, files_in("out/save-000002"));
    files_remove(files_in("out"));
}

// A manifest lacks a table (its checksum would have to be forged) or the description of
// the run.
static void incomplete(void **state)
{
    (void)state;
    struct team *team = training_team(1);
    struct parameters model, loaded;
    char dir[FILE_PATH_MAX], other[FILE_PATH_MAX];
    open_parameters(&model, "fm", 50);
    assert_int_equal(save(team, &model, NULL, 1, dir), 0);
    assert_int_equal(saved_load(dir, &m, SAVED_TRAINING, team, &loaded, &test_err),
                     TUG_EDATA);
    assert_non_null(strstr(test_err.text, "'training-sparse'"));
    struct table_config config = run_features(&model.model);
    struct store_options o = {.config = &config, .partition_bits = 8};
    struct store *s;
    assert_int_equal(store_open(&s, &o, &test_err), 0);
    static const char *const about[] = {NULL, "{}"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(save_stores(files_in("tables"), SAVE_CHECKPOINT, &s, 1, about[i],
                                     0, 1, other, &test_err),
                         0);
        assert_int_equal(saved_read(&m, other, &test_err), TUG_EDATA);
        assert_non_null(strstr(test_err.text, other));
        m.options.model = model.model.options;
        assert_int_equal(saved_load(other, &m, SAVED_MODEL, team, &loaded, &test_err),
                         TUG_EDATA);
        assert_non_null(
            strstr(test_err.text, i == 0 ? "no description of a model" : "'dense'"));
    }
    store_close(s);
    files_remove(files_in("tables"));
    parameters_close(&model);
    team_close(team);
}

static int save_and_forget(struct team *team, const struct parameters *p)
{
    char dir[FILE_PATH_MAX];
    int rc = save(team, p, NULL, 2, dir);
    if (rc != 0) { // a failed save leaves no file behind
        assert_false(saved_any(files_in("out")));
        assert_true(file_dir_is_empty(files_in("out")));
    } else {
        files_remove(files_in("out"));
    }
    return rc;
}

static void failing_allocations(void **state)
{
    (void)state;
    struct team *team = training_team(1);
    struct parameters p, loaded;
    char dir[FILE_PATH_MAX];
    files_remove(files_in("out"));
    open_parameters(&p, "fm", 20);
    FAIL_EACH_ALLOCATION(save_and_forget(team, &p), );
    assert_int_equal(save(team, &p, NULL, 1, dir), 0);
    FAIL_EACH_ALLOCATION(saved_load(dir, &m, SAVED_MODEL, team, &loaded, &test_err),
                         parameters_close(&loaded));
    parameters_close(&p);
    team_close(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(one_table),
        cmocka_unit_test(rows_that_are_not_finite),
        cmocka_unit_test(finding),
        cmocka_unit_test(incomplete),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
