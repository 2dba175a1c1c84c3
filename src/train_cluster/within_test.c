// Whole runs in one process with features that have a lifecycle, whose rows several
// threads update in place. Rows and their counters agree with a count of the data, and a
// run with a server gives the same. Then every allocation of a run fails in turn.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "os/log.h"
#include "rule/rule.h"
#include "save/save.h"
#include "train/config.h"
#include "train/rows/living_steps.h"
#include "train/rows/run_rows.h"
#include "train/rows/run_tables.h"
#include "train_cluster/within.h"

static struct train_result result;
static const char *data[1];
static struct table_config table;
static struct train_cluster how;

static struct train_config config_of(const char *model, const char *settings, int threads)
{
    struct train_config c = {
        .data = {data, 1},
        .test = {data, 1},
        .reader = {.format = "libffm", .loss = LOSS_LOGISTIC, .labels = true},
        .model = training_model(model),
        .epochs = 2,
        .batch = 32,
        .threads = threads,
        .data_in = DATA_IN_MEMORY,
        .window_bytes = 1 << 20,
        .keep = 100,
        .cluster = &how,
        .table = &table,
    };
    how = (struct train_cluster){.mode = CONFIG_ASYNC};
    table = run_living_defaults(&c.model);
    if (table_config_parse(&table, settings, &test_err) != 0)
        fail_msg("%s", test_err.text);
    return c;
}

static void train(const struct train_config *c)
{
    size_t live = mem_live();
    if (within_run(c, &result, &test_err) != 0)
        fail_msg("%s", test_err.text);
    assert_int_equal(mem_live(), live);
}

// Loads the sparse table of a save.
static struct store *load(const char *saved)
{
    struct save_chain chain;
    struct store *s = NULL;
    if (save_chain_open(&chain, saved, &test_err) != 0)
        fail_msg("%s", test_err.text);
    const struct save_table *t = &chain.saves[0].tables[0];
    assert_string_equal(t->config.name, RUN_SPARSE);
    struct store_options o = {.config = &t->config, .partition_bits = t->partition_bits};
    assert_int_equal(store_open(&s, &o, &test_err), 0);
    if (save_load(&chain, RUN_SPARSE, s, NULL, NULL, &test_err) != 0)
        fail_msg("%s", test_err.text);
    save_chain_close(&chain);
    return s;
}

static void counts_of(const struct store *s, const float *row, float ret[2])
{
    store_accessor(s)->class->life.stats(store_accessor(s), row, ret);
}

// The shows of each key in the data, by batch in the order of the first pass.
struct tally {
    uint32_t batches;
    float shows, clicks;
    float least[2], most[2]; // shows of the key in the two batches with the fewest and
                             // with the most
    float now;               // shows in the current batch
};

struct naive {
    struct table *ids;
    struct tally *of;
    uint32_t n;
};

static int resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    return table_rows(ctx, keys, n, ret_ids);
}

static struct dataset *read_data(const struct train_config *c, struct table *ids)
{
    struct dataset *d;
    struct source *s;
    struct reader *r;
    struct team *team = training_team(1);
    uint64_t bad = 0;
    struct source_options so = {
        .paths = data, .n_paths = 1, .chunk_bytes = RUN_CHUNK_BYTES};
    assert_int_equal(source_open(&s, &so, NULL), 0);
    assert_int_equal(reader_open(&r, &c->reader, NULL), 0);
    struct dataset_options o = {.source = s,
                                .reader = r,
                                .team = team,
                                .resolve = resolve,
                                .resolve_ctx = ids,
                                .bad_lines = &bad};
    assert_int_equal(dataset_load(&d, &o, NULL), 0);
    team_close(team);
    reader_close(r);
    source_close(s);
    return d;
}

static void end_of_batch(struct tally *t)
{
    float x = t->now;
    if (x == 0)
        return;
    t->now = 0;
    t->batches++;
    t->shows += x;
    float most = x;
    for (int i = 0; i < 2; i++) {
        if (t->batches == 1 || x < t->least[i]) {
            float other = t->least[i];
            t->least[i] = x;
            x = t->batches == 1 ? INFINITY : other;
        }
        if (most > t->most[i]) {
            float other = t->most[i];
            t->most[i] = most;
            most = other;
        }
    }
}

static void count_data(struct naive *m, const struct train_config *c)
{
    struct table_options o = {.width = 0};
    struct batch b = {0};
    assert_int_equal(table_open(&m->ids, &o, NULL), 0);
    struct dataset *d = read_data(c, m->ids);
    m->n = table_handles(m->ids);
    m->of = mem_zalloc(m->n * sizeof(*m->of));
    assert_non_null(m->of);
    struct order order = order_make(dataset_size(d), c->model.seed, 0);
    struct order_block hand = {0};
    for (uint64_t first = 0; first < order_positions(&order); first += c->batch) {
        uint64_t examples[64];
        assert_true(c->batch <= 64);
        size_t n = order_take(&order, &hand, first, c->batch, examples);
        assert_int_equal(dataset_gather(d, examples, n, &b), 0);
        for (size_t i = 0; i < n; i++)
            for (uint32_t j = b.start[i]; j < b.start[i + 1]; j++) {
                m->of[b.id[j]].now += 1;
                m->of[b.id[j]].clicks += b.label[i] > 0 ? 1.0f : 0.0f;
            }
        for (uint32_t i = 0; i < m->n; i++)
            end_of_batch(&m->of[i]);
    }
    batch_free(&b);
    dataset_close(d);
}

static void naive_free(struct naive *m)
{
    table_close(m->ids);
    mem_free(m->of);
}

static uint64_t key_of(const struct naive *m, uint32_t id)
{
    return table_row_key(table_row(table_slabs(m->ids), id));
}

// Checks the counters of a row. Batches with a key do not count for its row until the key
// is admitted; by which batch it is admitted depends on the threads.
static void check_row(const struct store *s, const struct tally *t, uint32_t threshold,
                      const float *row)
{
    float counts[2], before[2] = {0};
    counts_of(s, row, counts);
    for (uint32_t i = 0; i + 1 < threshold; i++) {
        before[0] += t->most[i];
        before[1] += t->least[i];
    }
    assert_true(counts[0] >= t->shows - before[0] && counts[0] <= t->shows - before[1]);
    assert_true(counts[1] <= t->clicks && counts[1] >= t->clicks - before[0]);
}

static void counts_like(const char *model, const char *settings, uint32_t threshold,
                        float earns)
{
    char out[FILE_PATH_MAX];
    struct naive m;
    struct train_config c = config_of(model, settings, 3);
    snprintf(out, sizeof(out), "%s", files_in("counted"));
    c.out = out;
    assert_true(run_steps_in_place(&c));
    train(&c);
    count_data(&m, &c);
    struct store *s = load(result.saved);
    uint64_t rows = 0;
    for (uint32_t i = 0; i < m.n; i++) {
        const struct tally *t = &m.of[i];
        const float *extra = NULL,
                    *row = t->batches > 0 ? store_row(s, key_of(&m, i), &extra) : NULL;
        assert_true((row != NULL) == (t->batches >= threshold));
        if (row == NULL)
            continue;
        float counts[2];
        counts_of(s, row, counts);
        check_row(s, t, threshold, row);
        bool worth = 0.1f * (counts[0] - counts[1]) + counts[1] >= earns;
        assert_true((extra != NULL) == (worth && store_accessor(s)->extra_width > 0));
        rows++;
    }
    assert_int_equal(store_stats(s).rows, rows);
    assert_int_equal(result.keys, rows);
    assert_true(rows > 100);
    store_close(s);
    naive_free(&m);
    files_remove(out);
}

static void test_rows_and_counters(void **state)
{
    (void)state;
    char text[FILE_PATH_MAX];
    snprintf(text, sizeof(text), "%s", training_data("counts.ffm", 3000, 500, 0));
    data[0] = text;
    counts_like("fm", "accessor=ctr; embedx-threshold=3.5", 1, 3.5f);
    counts_like("fm", "accessor=ctr; embedx-threshold=2.5; entry=count:3", 3, 2.5f);
    counts_like("ffm", "accessor=ctr_double; embedx-threshold=0; entry=count:2", 2, 0);
    counts_like("lr", "accessor=ctr; entry=count:3; deltas=no", 3, INFINITY);
}

// Returns the sum of the shows of all rows.
static uint64_t shows_of(const struct store *s, const struct naive *m)
{
    uint64_t shows = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        const float *extra, *row = NULL;
        float counts[2];
        if (m->of[i].batches > 0)
            row = store_row(s, key_of(m, i), &extra);
        if (row != NULL) {
            counts_of(s, row, counts);
            shows += (uint64_t)counts[0];
        }
    }
    return shows;
}

static void test_as_by_a_server(void **state)
{
    (void)state;
    char here[FILE_PATH_MAX], there[FILE_PATH_MAX], text[FILE_PATH_MAX];
    struct naive m;
    snprintf(text, sizeof(text), "%s", training_data("server.ffm", 4000, 12, 0));
    snprintf(here, sizeof(here), "%s", files_in("here"));
    snprintf(there, sizeof(there), "%s", files_in("there"));
    data[0] = text;
    struct train_config c = config_of("fm", "accessor=ctr; embedx-threshold=3", 1);
    count_data(&m, &c);
    c.out = here;
    c.epochs = 4;
    train(&c);
    struct train_result alone = result;
    c.out = there;
    how.rules = TRAIN_RULES_SERVER;
    assert_false(run_steps_in_place(&c));
    train(&c);
    struct store *x = load(alone.saved), *y = load(result.saved);
    assert_int_equal(alone.keys, result.keys);
    assert_int_equal(store_stats(x).rows, store_stats(y).rows);
    assert_int_equal(store_stats(x).extra_rows, store_stats(y).extra_rows);
    assert_int_equal(shows_of(x, &m), shows_of(y, &m));
    assert_int_equal(shows_of(x, &m), 4 * 4000);
    // Steps after each example learn faster than sums over a batch (docs/design/0006).
    assert_true(alone.test.auc > 0.9 && result.test.auc > 0.5);
    store_close(x);
    store_close(y);

    // Each run resumes from the save of the other run.
    c.out = here;
    c.resume = TRAIN_RESUME;
    c.epochs = 5;
    train(&c);
    assert_true(result.test.auc >= alone.test.auc - 0.05);
    c.out = there;
    how.rules = TRAIN_RULES_AUTO;
    train(&c);
    assert_int_equal(result.epochs, 5);
    x = load(result.saved);
    assert_int_equal(shows_of(x, &m), 4 * 4000); // an example counts once
    store_close(x);
    naive_free(&m);
    files_remove(here);
    files_remove(there);
}

// With one thread, a run that was saved and resumed gives the same result as a run
// without a break.
static void test_resumes(void **state)
{
    (void)state;
    char one[FILE_PATH_MAX], two[FILE_PATH_MAX], text[FILE_PATH_MAX];
    snprintf(text, sizeof(text), "%s", training_data("again.ffm", 1000, 60, 0));
    snprintf(one, sizeof(one), "%s", files_in("one"));
    snprintf(two, sizeof(two), "%s", files_in("two"));
    data[0] = text;
    struct train_config c = config_of(
        "fm", "accessor=ctr; entry=count:5; embedx-threshold=2", 1);
    c.out = one;
    c.epochs = 4;
    train(&c);
    double auc = result.test.auc;
    c.out = two;
    c.epochs = 2;
    train(&c);
    c.resume = TRAIN_RESUME;
    c.epochs = 4;
    train(&c);
    assert_true(result.test.auc == auc);
    files_remove(one);
    files_remove(two);
}

// Streams data in windows: each window has ids of its own.
static void test_windows(void **state)
{
    (void)state;
    char text[FILE_PATH_MAX];
    struct naive m;
    snprintf(text, sizeof(text), "%s", training_data("windows.ffm", 6000, 200, 400));
    data[0] = text;
    struct train_config c = config_of("fm", "accessor=ctr; embedx-threshold=3", 2);
    c.data_in = DATA_IN_STREAM;
    char out[FILE_PATH_MAX];
    snprintf(out, sizeof(out), "%s", files_in("windows"));
    c.out = out;
    train(&c);
    count_data(&m, &c);
    struct store *s = load(result.saved);
    assert_int_equal(shows_of(s, &m), 4 * 6000);
    assert_int_equal(store_stats(s).rows, result.keys);
    store_close(s);
    naive_free(&m);
    files_remove(out);
}

// Threads update rows while rows are made and removed all the time.
static void test_budget(void **state)
{
    (void)state;
    data[0] = training_data("budget.ffm", 4000, 1000, 0);
    struct train_config c = config_of(
        "fm", "accessor=ctr; embedx-threshold=0; budget-rows=1024", 4);
    c.epochs = 3;
    train(&c);
    assert_true(result.keys <= 1024 && result.keys > 500);
    assert_int_equal(result.trained_examples, 3 * 4000);
}

// Many threads update few rows, and use copies of their weights (hot.h).
static void test_few_rows(void **state)
{
    (void)state;
    char text[FILE_PATH_MAX], out[FILE_PATH_MAX];
    struct naive m;
    snprintf(text, sizeof(text), "%s", training_data("few.ffm", 40000, 3, 0));
    snprintf(out, sizeof(out), "%s", files_in("few"));
    data[0] = text;
    struct train_config c = config_of("fm", "embedx-threshold=1; count-passes=all", 4);
    assert_int_equal(table_config_set(&table, "accessor", "ctr", &test_err), 0);
    c.epochs = 10;
    c.out = out;
    train(&c);
    assert_int_equal(result.keys, 12);
    assert_true(result.test.auc > 0.95);
    count_data(&m, &c);
    struct store *s = load(result.saved);
    assert_int_equal(shows_of(s, &m), 10 * 4 * 40000);
    store_close(s);
    naive_free(&m);
    files_remove(out);
}

// The settings with which a run needs a server.
static void test_runs_that_need_a_server(void **state)
{
    (void)state;
    struct train_config c = config_of("fm", "entry=count:3", 2);
    assert_true(run_steps_in_place(&c));
    c.save_batches = 10;
    assert_false(run_steps_in_place(&c));
    c = config_of("fm", "entry=count:3", 2);
    c.deterministic = true;
    assert_false(run_steps_in_place(&c));
    c = config_of("fm", "cold=somewhere", 2);
    assert_false(run_steps_in_place(&c));
    c = config_of("fm", "embedx-rule=adagrad:clip=1", 2);
    assert_false(run_steps_in_place(&c));
    c = config_of("fm", "entry=count:3", 2);
    how.mode = CONFIG_SSP;
    assert_false(run_steps_in_place(&c));
}

// An interrupted run finishes its pass if it is to be saved.
static void test_interrupted(void **state)
{
    (void)state;
    static const atomic_bool now = true;
    struct train_config c = config_of("fm", "accessor=ctr", 2);
    struct run r = {.config = &c, .rows = &rows_living};
    assert_false(run_leaves_pass(&r));
    c.interrupted = &now;
    assert_true(run_leaves_pass(&r));
    c.out = "somewhere";
    assert_false(run_leaves_pass(&r));
    r.rows = &rows_own;
    assert_true(run_leaves_pass(&r));
}

// Diverging weights are reported with a key.
static void test_diverges(void **state)
{
    (void)state;
    data[0] = training_data("diverges.ffm", 2000, 4, 0);
    struct train_config c = config_of("fm", "accessor=ctr; embedx-threshold=0", 1);
    c.reader.loss = LOSS_SQUARED;
    table.accessor.rule = rule_defaults(RULE_SGD);
    table.accessor.rule.lr = 1000;
    assert_int_equal(within_run(&c, &result, &test_err), TUG_EDATA);
    assert_non_null(strstr(test_err.text, "is not finite (largest weight"));
}

static void test_no_memory(void **state)
{
    (void)state;
    data[0] = training_data("memory.ffm", 60, 5, 0);
    struct train_config c = config_of(
        "fm", "accessor=ctr; entry=count:2; embedx-threshold=1", 2);
    c.epochs = 2;
    FAIL_EACH_ALLOCATION(within_run(&c, &result, &test_err), (void)0);
}

int main(void)
{
    log_set_level(LOG_WARN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_and_counters),
        cmocka_unit_test(test_as_by_a_server),
        cmocka_unit_test(test_resumes),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_runs_that_need_a_server),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_diverges),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
