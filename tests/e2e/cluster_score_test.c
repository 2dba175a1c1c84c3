// The workers score --valid and --test. The metrics are bit-identical to those of the
// driver and of one process, with groups and weights, for plain and compressed files,
// also when a worker dies.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <signal.h>

#include "base/random.h"
#include "kit/processes.h"

enum { ROWS = 20000, USERS = 300 };

// Writes rows "label,user,item,w,pad". They are so long that the file has many pieces.
// Some of these rows have the weight 0, and some have no user.
static void write_rows(const char *path, uint64_t seed, uint64_t rows)
{
    struct buf b = BUF_INIT(1 << 24);
    buf_printf(&b, "y,user,item,w,pad\n");
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t user = random_below(seed, 1, i, USERS),
                 item = random_below(seed, 2, i, 50);
        bool y = random_f64(seed, 3, i) <
                 0.15 + 0.5 * (double)item / 50 + 0.2 * (double)(user % 2);
        buf_printf(&b, "%d,", y);
        if (user % 20 != 0)
            buf_printf(&b, "%llu", (unsigned long long)user);
        buf_printf(&b, ",%llu,%.3f,%070d\n", (unsigned long long)item,
                   (double)random_below(seed, 4, i, 4000) / 1000, 0);
    }
    files_write(path, buf_str(&b));
    buf_free(&b);
}

static int begin(void **state)
{
    int rc = cluster_begin(state);
    write_rows("train.csv", 1, ROWS);
    write_rows("valid.csv", 2, ROWS);
    write_rows("test.csv", 3, 2 * ROWS);
    return rc;
}

#define TRAIN                                                                            \
    "train --data train.csv --format csv --label y --weight-column w --model lr "        \
    "--drop pad --patience 0 --mode sync --batch 512 --group user --json "
#define FILES "--epochs 3 --valid valid.csv --test test.csv "
#define BY_WORKERS "--score-by workers "

static const char *const names[] = {"auc",  "pr_auc", "logloss", "ne",
                                    "copc", "mae",    "rmse",    "gauc"};
enum { NAMES = sizeof(names) / sizeof(*names) };

struct found {
    double test[NAMES], valid[NAMES], epoch, examples;
};

static struct found found(void)
{
    struct found f = {0};
    json_t *o = e2e_json();
    const json_t *test = json_object_get(o, "test"), *valid = json_object_get(o, "valid");
    test = test != NULL ? test : o;
    for (size_t i = 0; i < NAMES; i++) {
        f.test[i] = json_number_value(json_object_get(test, names[i]));
        f.valid[i] = json_number_value(json_object_get(valid, names[i]));
        if (!(f.valid[i] > 0 && f.test[i] > 0))
            cluster_fail("'%s' is not there: %s", names[i], e2e_out);
    }
    f.epoch = json_number_value(json_object_get(valid, "epoch"));
    json_decref(o);
    return f;
}

static struct found launched(unsigned servers, unsigned workers, const char *words)
{
    cluster_start("run", "launch --servers %u --workers %u -- %s", servers, workers,
                  words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    return found();
}

static void same_metrics(void **state)
{
    (void)state;
    tug_ends(0, TRAIN FILES);
    struct found one = found(), other;
    other = launched(1, 2, TRAIN FILES);
    assert_memory_equal(&one, &other, sizeof(one));
    other = launched(1, 1, TRAIN FILES BY_WORKERS);
    assert_memory_equal(&one, &other, sizeof(one));
    other = launched(2, 3, TRAIN FILES BY_WORKERS);
    assert_memory_equal(&one, &other, sizeof(one));
}

// Scores several compressed files, whose length is unknown until they are read.
static void compressed(void **state)
{
    (void)state;
    tug_ends(0, TRAIN FILES);
    struct found one = found();
    files_write("cut.sh",
                "head -n 9000 test.csv | gzip > a.csv.gz\n"
                "(head -n 1 test.csv; tail -n +9001 test.csv) | gzip > b.csv.gz\n"
                "gzip -c valid.csv > valid.csv.gz\n");
    assert_int_equal(cluster_system("sh cut.sh"), 0);
    struct found other = launched(
        1, 3,
        TRAIN BY_WORKERS
        "--epochs 3 --test a.csv.gz --test b.csv.gz --valid valid.csv.gz");
    assert_memory_equal(&one, &other, sizeof(one));
}

// The remaining workers score the pieces of a dead worker, each of them once.
static void a_worker_dies(void **state)
{
    (void)state;
#define LONG TRAIN "--epochs 8 --valid test.csv --test test.csv --batch 4096 "
    tug_ends(0, LONG);
    struct found one = found();
    for (int pass = 1; pass <= 3; pass++) {
        cluster_start(
            "run", "launch --servers 1 --workers 3 --dead-timeout 2 -- " LONG BY_WORKERS);
        pid_t worker = cluster_node("run", "worker 1");
        char text[32];
        snprintf(text, sizeof(text), "pass %d/8 done", pass);
        cluster_await("run", text);
        kill(worker, SIGKILL);
        (void)cluster_wait("run", CLUSTER_PATIENCE);
        cluster_none_left();
        struct found other = found();
        assert_memory_equal(&one, &other, sizeof(one));
    }
}

static void write_labels(const char *path, uint64_t seed, uint64_t rows)
{
    struct buf b = BUF_INIT(1 << 24);
    buf_printf(&b, "click,buy,user,item,pad\n");
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t user = random_below(seed, 1, i, USERS),
                 item = random_below(seed, 2, i, 50);
        bool click = random_f64(seed, 3, i) < 0.2 + 0.5 * (double)item / 50;
        buf_printf(&b, i % 7 == 0 ? "%d," : "%d,%d", click,
                   click && random_f64(seed, 4, i) < 0.4);
        buf_printf(&b, ",%llu,%llu,%070d\n", (unsigned long long)user,
                   (unsigned long long)item, 0);
    }
    files_write(path, buf_str(&b));
    buf_free(&b);
}

static double of_label(const json_t *o, const char *label, const char *name)
{
    const json_t *of = json_object_get(json_object_get(o, "labels"), label);
    if (!json_is_number(json_object_get(of, name)))
        cluster_fail("no '%s' of '%s' in: %s", name, label, e2e_out);
    return json_number_value(json_object_get(of, name));
}

// The rounding of a matrix product depends on the place of an example in its batch. So
// the metrics of the driver and of workers are only nearly equal. The number of examples
// of each label is exactly equal.
static void several_labels(void **state)
{
    (void)state;
    static const char *const labels[] = {"click", "buy"};
    json_t *by[2];
    write_labels("two.csv", 5, ROWS / 2);
    write_labels("two_test.csv", 6, ROWS);
    for (int i = 0; i < 2; i++) {
        cluster_start(
            "run",
            "launch --servers 1 --workers 3 -- train --data two.csv --format csv "
            "--label click,buy --model mlp --hidden 16 --tower 8 --dim 4 "
            "--drop pad --mode sync --json --test two_test.csv "
            "--valid two_test.csv --group user --score-by %s",
            i == 0 ? "driver" : "workers");
        cluster_ends("run", 0, CLUSTER_PATIENCE);
        by[i] = e2e_json();
    }
    for (int l = 0; l < 2; l++) {
        assert_true(of_label(by[0], labels[l], "examples") ==
                    of_label(by[1], labels[l], "examples"));
        // gauc is the last of the names, and only the first label has it.
        for (size_t i = 0; i < NAMES - (size_t)l; i++) {
            double a = of_label(by[0], labels[l], names[i]),
                   b = of_label(by[1], labels[l], names[i]);
            if (!(fabs(a - b) < 1e-4))
                cluster_fail("%s of %s: %.9f, by workers %.9f", names[i], labels[l], a,
                             b);
        }
    }
    json_decref(by[0]);
    json_decref(by[1]);
}

// A worker whose --group differs from the driver's is refused: its groups would give
// another gauc.
static void other_groups(void **state)
{
    (void)state;
    cluster_start("scheduler",
                  "scheduler --servers 1 --workers 1 -- " TRAIN FILES BY_WORKERS);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker",
                  "worker --scheduler 127.0.0.1:%u -- " TRAIN FILES BY_WORKERS
                  "--group item",
                  port);
    cluster_ends("worker", 2, CLUSTER_PATIENCE);
    cluster_said("worker", "--group 'user', this process 'item'");
    cluster_ends("scheduler", 2, CLUSTER_PATIENCE);
    (void)cluster_wait("server", CLUSTER_PATIENCE);
}

static void refused(void **state)
{
    (void)state;
    tug_ends(2, TRAIN FILES BY_WORKERS);
    e2e_says("--score-by only works on a cluster");
    tug_ends(2, "launch --workers 1 -- train --data train.csv --format csv --label y "
                "--mode sync --valid 0.1 --score-by workers");
    e2e_says("workers score files; give a file");
    tug_ends(2, "launch --workers 1 -- train --data train.csv --format csv --label y "
                "--score-by workers");
    e2e_says("--score-by needs --valid or --test");
    files_write("bad.csv", "y,user,item,w,pad\n1,2,3,1,0\n7,2,3,1,0\n");
    tug_ends(3, "launch --workers 2 -- " TRAIN BY_WORKERS "--epochs 1 --test bad.csv");
    e2e_says("bad.csv:3: ");
    files_write("empty.csv", "y,user,item,w,pad\n");
    tug_ends(3, "launch --workers 2 -- " TRAIN BY_WORKERS "--epochs 1 --test empty.csv");
    e2e_says("there is no example in the data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(same_metrics),  cluster_test(compressed),
        cluster_test(a_worker_dies), cluster_test(several_labels),
        cluster_test(other_groups),  cluster_test(refused)};
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
