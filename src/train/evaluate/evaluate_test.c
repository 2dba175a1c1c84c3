// Compares evaluation with a naive one. The metrics and the order are the same, bit for
// bit, for any number of threads and any windows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "train/evaluate/group_table.h"

enum { ROWS = 9000, FEATURES = 50, USERS = 3000, FIRST_USER = 1000, FIRST_SLICE = 9000 };

struct row {
    double label, score; // `score` is that of a logistic regression, computed by this
                         // test
    uint64_t user;       // 0: the row has no user
    uint64_t slice;
};
static struct row rows[ROWS];
static float *seen;
static size_t n_seen;

static float weight_of(uint64_t key)
{
    return random_f32(5, 1, key) * 4 - 2;
}

// Writes a file of random examples. Some occur twice, so that scores tie; some have
// unknown features.
static void write_rows(void)
{
    FILE *f = fopen(files_in("data"), "w");
    assert_non_null(f);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t like = i % 3 == 0 ? i / 2 : i;
        struct row *r = &rows[i];
        *r = (struct row){.label = random_f64(6, 2, i) < 0.3, .score = 0.5};
        fprintf(f, "%d", (int)r->label);
        // Field 0 is the user, a feature that the model does not know. Most users have
        // few rows.
        r->user = random_below(6, 4, i, 1 + random_below(6, 5, i, USERS));
        if (random_below(6, 7, i, 10) == 0)
            r->user = 0;
        if (r->user != 0)
            fprintf(f, " 0:%d:1", FIRST_USER + (int)r->user);
        r->slice = random_below(6, 8, i, 1 + random_below(6, 9, i, 7));
        fprintf(f, " 2:%d:1", FIRST_SLICE + (int)r->slice);
        for (uint64_t k = 0; k < 5; k++) {
            uint64_t key = random_below(6, 3, like * 5 + k, FEATURES + 5);
            fprintf(f, " 1:%d:0.5", (int)key);
            r->score += key < FEATURES ? 0.5 * (double)weight_of(key) : 0;
        }
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
}

static void open_model(struct parameters *p)
{
    training_linear(p, FEATURES, weight_of);
    *p->blocks[0] = 0.5f;
}

static int keep(void *ctx, const struct dataset *d, const float *predictions, size_t n,
                struct err *e)
{
    (void)ctx, (void)d, (void)e;
    memcpy(seen + n_seen, predictions, n * sizeof(*seen));
    n_seen += n;
    return 0;
}

static int run(struct team *team, const struct parameters *p, double held_out,
               size_t chunk_bytes, struct metrics *ret, struct group_table *table)
{
    const char *paths[] = {files_in("data")};
    struct source_options s = {.paths = paths, .n_paths = 1, .chunk_bytes = chunk_bytes};
    struct reader_options r = {.format = "libffm", .labels = true};
    uint64_t bad = 0;
    struct evaluation_options o = {.team = team,
                                   .parameters = p,
                                   .bad_lines = &bad,
                                   .held_out = {.share = held_out},
                                   .seed = 3,
                                   .group = "0",
                                   .by = "2",
                                   .top = 3,
                                   .table = table,
                                   .each = keep};
    n_seen = 0;
    int rc = reader_open(&o.reader, &r, &test_err);
    if (rc == 0)
        rc = source_open(&o.source, &s, &test_err);
    if (rc == 0)
        rc = evaluate(&o, ret, &test_err);
    source_close(o.source);
    reader_close(o.reader);
    if (rc != 0)
        group_table_free(table);
    return rc;
}

// Computes the AUC by user from all pairs of each user's rows.
static void naive_gauc(double held_out, struct metrics *m)
{
    static struct {
        double won, pairs, n;
    } users[USERS];
    double sum = 0, weights = 0;
    memset(users, 0, sizeof(users));
    for (size_t i = 0; i < ROWS; i++) {
        if (held_out > 0 && !held_out_has((struct held_out){.share = held_out}, 3, i))
            continue;
        users[rows[i].user].n++;
        for (size_t j = 0; j < ROWS; j++) {
            double d = rows[i].score - rows[j].score;
            if (rows[i].user != rows[j].user || rows[i].label == 0 || rows[j].label > 0 ||
                (held_out > 0 &&
                 !held_out_has((struct held_out){.share = held_out}, 3, j)))
                continue;
            users[rows[i].user].won += d > 1e-5 ? 1 : d > -1e-5 ? 0.5 : 0;
            users[rows[i].user].pairs++;
        }
    }
    m->without_group = (uint64_t)users[0].n;
    for (size_t u = 1; u < USERS; u++) {
        m->groups += users[u].pairs > 0;
        m->one_class += users[u].n > 0 && users[u].pairs == 0;
        if (users[u].pairs > 0) {
            sum += users[u].n * users[u].won / users[u].pairs;
            weights += users[u].n;
        }
    }
    m->gauc = sum / weights;
}

// Compares the metrics of the three largest of seven slices, which have the smallest
// numbers.
static void check_table(const struct group_table *t, double held_out)
{
    assert_int_equal(t->groups, 7);
    assert_int_equal(t->n, 3);
    for (uint64_t s = 0; s < 3; s++) {
        const struct group_metrics *m = &t->line[s].metrics;
        uint64_t examples = 0;
        double positives = 0, loss = 0;
        for (size_t i = 0; i < ROWS; i++) {
            if (rows[i].slice != s ||
                (held_out > 0 &&
                 !held_out_has((struct held_out){.share = held_out}, 3, i)))
                continue;
            double p = 1 / (1 + exp(-rows[i].score));
            examples++;
            positives += rows[i].label;
            loss -= log(rows[i].label > 0 ? p : 1 - p);
        }
        assert_string_equal(t->line[s].value, files_path("%d", FIRST_SLICE + (int)s));
        assert_int_equal(m->examples, examples);
        assert_true((double)m->positives == positives);
        assert_true(fabs(m->logloss - loss / (double)examples) < 1e-5);
    }
}

static struct metrics naive(double held_out)
{
    struct metrics m = {0};
    double loss = 0, predicted = 0, observed = 0, won = 0, pairs = 0, precision = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (held_out > 0 && !held_out_has((struct held_out){.share = held_out}, 3, i))
            continue;
        double p = 1 / (1 + exp(-rows[i].score));
        loss -= rows[i].label > 0 ? log(p) : log(1 - p);
        predicted += p;
        observed += rows[i].label;
        m.mae += fabs(p - rows[i].label);
        m.rmse += (p - rows[i].label) * (p - rows[i].label);
        double above = 0, right = 0;
        m.examples++;
        for (size_t j = 0; j < ROWS; j++) {
            double d = rows[i].score - rows[j].score;
            if (rows[i].label == 0 ||
                (held_out > 0 &&
                 !held_out_has((struct held_out){.share = held_out}, 3, j)))
                continue;
            above += d < 1e-5;
            right += d < 1e-5 && rows[j].label > 0;
            if (rows[j].label > 0)
                continue;
            won += d > 1e-5    ? 1
                   : d > -1e-5 ? 0.5
                               : 0; // scores that are nearly equal as doubles are equal
                                    // as floats
            pairs++;
        }
        precision += rows[i].label > 0 ? right / above : 0;
    }
    m.auc = won / pairs;
    m.logloss = loss / (double)m.examples;
    m.copc = predicted / observed;
    m.pr_auc = precision / observed;
    m.mae /= (double)m.examples;
    m.rmse = sqrt(m.rmse / (double)m.examples);
    naive_gauc(held_out, &m);
    double rate = observed / (double)m.examples;
    m.ne = m.logloss / -(rate * log(rate) + (1 - rate) * log(1 - rate));
    return m;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-5;
}

static void against_naive(void **state)
{
    (void)state;
    struct parameters p;
    open_model(&p);
    for (int i = 0; i < 2; i++) {
        double held_out = i == 0 ? 0 : 0.2;
        struct metrics want = naive(held_out), first;
        for (int threads = 1; threads <= 5; threads += 2) {
            struct metrics m;
            struct team *team = training_team(threads);
            size_t chunk_bytes = threads == 1 ? 1 << 20 : 128u << threads;
            struct group_table table = {0};
            assert_int_equal(run(team, &p, held_out, chunk_bytes, &m, &table), 0);
            check_table(&table, held_out);
            group_table_free(&table);
            assert_int_equal(m.examples, want.examples);
            for (size_t f = 0; f < METRICS_FIELDS; f++)
                if (!near(*metrics_value(&m, f), *metrics_value(&want, f)))
                    fail_msg("%s is %.9f, not %.9f", metrics_fields[f].name,
                             *metrics_value(&m, f), *metrics_value(&want, f));
            assert_int_equal(m.groups, want.groups);
            assert_int_equal(m.one_class, want.one_class);
            assert_int_equal(m.without_group, want.without_group);
            assert_true(m.groups > 100 && m.one_class > 10 && m.without_group > 50);
            if (threads == 1)
                first = m;
            assert_memory_equal(&m, &first, sizeof(m));
            // Every example has a prediction, in the order of the text.
            assert_int_equal(n_seen, ROWS);
            for (size_t k = 0; k < ROWS && i == 0; k++)
                assert_true(near((double)seen[k], 1 / (1 + exp(-rows[k].score))));
            team_close(team);
        }
    }
    parameters_close(&p);
}

// A held-out part has its share of the examples, and another seed selects other examples.
static void shares(void **state)
{
    (void)state;
    for (double share = 0.05; share < 1; share += 0.1) {
        uint64_t n = 0, both = 0;
        for (uint64_t i = 0; i < 10000; i++) {
            n += held_out_has((struct held_out){.share = share}, 1, i);
            both += held_out_has((struct held_out){.share = share}, 1, i) &&
                    held_out_has((struct held_out){.share = share}, 2, i);
        }
        assert_true(fabs((double)n / 10000 - share) < 0.02);
        assert_true(fabs((double)both / 10000 - share * share) < 0.02);
    }
    assert_false(held_out_has((struct held_out){0}, 1, 1));
    for (uint32_t parts = 2; parts < 20; parts++) // each position is in exactly one part
        for (uint64_t i = 0; i < 2000; i++) {
            uint32_t in = 0;
            for (uint32_t k = 0; k < parts; k++)
                in += held_out_has(held_out_part(k, parts), 5, i);
            assert_int_equal(in, 1);
        }
}

static int refuse(void *ctx, const struct dataset *d, const float *predictions, size_t n,
                  struct err *e)
{
    (void)ctx, (void)d, (void)predictions, (void)n;
    return err_set(e, TUG_EIO, "no room");
}

static void failures(void **state)
{
    (void)state;
    struct parameters p;
    struct metrics m;
    struct team *team = training_team(2);
    const char *paths[] = {files_write(files_in("bad"), "1 1:1\n2 1:1\n")};
    struct source_options s = {.paths = paths, .n_paths = 1};
    struct reader_options r = {.format = "libsvm", .labels = true};
    uint64_t bad = 0;
    struct evaluation_options o = {.team = team, .parameters = &p, .bad_lines = &bad};
    open_model(&p);
    assert_int_equal(reader_open(&o.reader, &r, NULL), 0);
    assert_int_equal(source_open(&o.source, &s, NULL), 0);
    assert_int_equal(evaluate(&o, &m, &test_err), TUG_EDATA);
    assert_non_null(strstr(test_err.text, "bad:2: "));
    assert_int_equal(source_rewind(o.source, SOURCE_START, NULL), 0);
    o.max_bad_lines = 1;
    o.each = refuse;
    assert_int_equal(evaluate(&o, &m, &test_err), TUG_EIO);
    assert_string_equal(test_err.text, "no room");
    assert_int_equal(bad, 1);
    source_close(o.source);
    reader_close(o.reader);
    parameters_close(&p);
    team_close(team);
}

static void failing_allocations(void **state)
{
    (void)state;
    struct parameters p;
    struct metrics m;
    struct team *team = training_team(1);
    open_model(&p);
    files_write(files_in("data"),
                "1 0:7:1 1:1:1\n0 0:7:1 1:2:1 2:1:1\n1 1:3:0.5 1:4:2\n");
    struct group_table table = {0};
    FAIL_EACH_ALLOCATION(run(team, &p, 0, 4096, &m, &table), group_table_free(&table));
    parameters_close(&p);
    team_close(team);
}

static int begin(void **state)
{
    seen = mem_array(ROWS, sizeof(*seen));
    if (seen == NULL || files_begin(state) != 0)
        return -1;
    write_rows();
    return 0;
}

static int end(void **state)
{
    mem_free(seen);
    return files_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_naive),
        cmocka_unit_test(shares),
        cmocka_unit_test(failures),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
