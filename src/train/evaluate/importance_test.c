// Compares importance with a naive computation, which keeps the examples, gives each the
// features of its partner, and counts all pairs.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/importance.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"

// Slot 0 has one feature, slot 1 has up to three features with values, slot 2
// always has the same feature, slot 3 has no feature, and slot 4 has one that
// the model does not know.
enum { ROWS = 500, FEATURES = 40, SLOTS = 5, SEED = 7 };

struct row {
    bool label;
    double part[SLOTS]; // the amount that each slot adds to the score
};
static struct row rows[ROWS];

static unsigned draw(unsigned below)
{
    static uint64_t n;
    return (unsigned)random_below(3, 2, n++, below);
}

static float weight_of(uint64_t key)
{
    return key < FEATURES ? random_f32(5, 1, key) * 4 - 2 : 0;
}

static void add(FILE *f, struct row *r, unsigned slot, unsigned key, bool half)
{
    fprintf(f, " %u:%u:%s", slot, key, half ? "0.5" : "1");
    r->part[slot] += (double)weight_of(key) * (half ? 0.5 : 1);
}

static void write_rows(void)
{
    FILE *f = fopen(files_in("data"), "w");
    assert_non_null(f);
    for (unsigned i = 0; i < ROWS; i++) {
        struct row *r = &rows[i];
        unsigned key = draw(25);
        *r = (struct row){.label = draw(100) < (weight_of(key) > 0 ? 70 : 30)};
        fprintf(f, "%d", r->label);
        add(f, r, 0, key, false);
        for (unsigned k = draw(4); k > 0; k--)
            add(f, r, 1, 25 + draw(10), draw(2) > 0);
        add(f, r, 2, 36, false);
        add(f, r, 4, FEATURES + draw(9), false);
        fputc('\n', f);
    }
    assert_int_equal(fclose(f), 0);
}

static int run(struct team *team, const struct parameters *p, const char *only,
               struct importance *ret, struct metrics *ret_all)
{
    const char *paths[] = {files_in("data")};
    struct source_options s = {.paths = paths, .n_paths = 1, .chunk_bytes = 900};
    struct reader_options r = {.format = "libffm", .labels = true};
    uint64_t bad = 0;
    struct evaluation_options o = {
        .team = team, .parameters = p, .bad_lines = &bad, .seed = SEED};
    *ret = (struct importance){0};
    int rc = reader_open(&o.reader, &r, &test_err);
    if (rc == 0)
        rc = source_open(&o.source, &s, &test_err);
    if (rc == 0)
        rc = importance(&o, only, ret, ret_all, &test_err);
    source_close(o.source);
    reader_close(o.reader);
    if (rc != 0)
        importance_free(ret);
    return rc;
}

// Returns the score of example i if the features of `slots` are those of its partner, the
// example with which it is swapped.
static double score(unsigned i, unsigned slots, unsigned first)
{
    struct shuffle partners = shuffle_make(ROWS, SEED, first);
    const struct row *other = &rows[shuffle_at(&partners, i)];
    double sum = 0;
    for (unsigned s = 0; s < SLOTS; s++)
        sum += (slots >> s & 1 ? other : &rows[i])->part[s];
    return sum;
}

static void naive(unsigned slots, unsigned first, double *ret_auc, double *ret_loss)
{
    static double scores[ROWS];
    double won = 0, pairs = 0;
    *ret_loss = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        scores[i] = score(i, slots, first);
        *ret_loss += log1p(exp(rows[i].label ? -scores[i] : scores[i])) / ROWS;
    }
    for (unsigned i = 0; i < ROWS; i++)
        for (unsigned j = 0; j < ROWS; j++)
            if (rows[i].label && !rows[j].label) {
                double d = scores[i] - scores[j];
                won += fabs(d) < 1e-6 ? 0.5 : d > 0;
                pairs++;
            }
    *ret_auc = won / pairs;
}

static void assert_line(const struct importance *m, const char *name, unsigned slots,
                        unsigned first)
{
    double auc, loss, auc_before, loss_before;
    naive(0, 0, &auc_before, &loss_before);
    naive(slots, first, &auc, &loss);
    for (size_t i = 0; i < m->n; i++) {
        const struct importance_line *l = &m->line[i];
        if (strcmp(m->names.data + l->name, name) != 0)
            continue;
        assert_true(fabs(l->metrics.auc - auc) < 1e-4);
        assert_true(fabs(l->metrics.logloss - loss) < 1e-5);
        assert_true(fabs(l->auc_drop - (auc_before - auc)) < 1e-4);
        assert_true(fabs(l->loss_rise - (loss - loss_before)) < 1e-5);
        return;
    }
    fail_msg("%s is not there", name);
}

static void test_each(void **state)
{
    (void)state;
    struct parameters p;
    struct importance one, many;
    struct metrics all, same;
    struct team *alone = training_team(1), *team = training_team(3);
    training_linear(&p, FEATURES, weight_of);
    assert_int_equal(run(alone, &p, NULL, &one, &all), 0);
    assert_int_equal(one.n, 4); // no example has a feature in slot 3
    for (unsigned s = 0; s < SLOTS; s++)
        if (s != 3)
            assert_line(&one, (const char[]){(char)('0' + s), '\0'}, 1u << s, s);
    assert_true(one.line[0].auc_drop > 0.02);
    for (size_t i = 1; i < one.n; i++)
        assert_true(one.line[i - 1].auc_drop >= one.line[i].auc_drop);
    // A column without information does not change a bit.
    for (size_t i = 0; i < one.n; i++)
        if (one.names.data[one.line[i].name] > '1')
            assert_true(one.line[i].auc_drop == 0 && one.line[i].loss_rise == 0);
    assert_int_equal(run(team, &p, NULL, &many, &same), 0);
    assert_memory_equal(&all, &same, sizeof(all));
    assert_memory_equal(one.line, many.line, one.n * sizeof(*one.line));
    importance_free(&one);
    importance_free(&many);
    parameters_close(&p);
    team_close(alone);
    team_close(team);
}

static void test_named(void **state)
{
    (void)state;
    struct parameters p;
    struct importance m;
    struct metrics all;
    struct team *team = training_team(2);
    training_linear(&p, FEATURES, weight_of);
    assert_int_equal(run(team, &p, "1,1+0", &m, &all), 0);
    assert_int_equal(m.n, 2);
    assert_line(&m, "1", 2, 1);
    assert_line(&m, "1+0", 3, 1);
    importance_free(&m);
    assert_int_equal(run(team, &p, "1,nobody", &m, &all), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "no feature column 'nobody'"));
    parameters_close(&p);
    team_close(team);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    struct parameters p;
    struct importance m;
    struct metrics all;
    struct team *team = training_team(1);
    training_linear(&p, FEATURES, weight_of);
    FAIL_EACH_ALLOCATION(run(team, &p, NULL, &m, &all), importance_free(&m));
    parameters_close(&p);
    team_close(team);
}

static int begin(void **state)
{
    if (files_begin(state) != 0)
        return -1;
    write_rows();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, begin, files_end);
}
