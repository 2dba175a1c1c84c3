// Models that a run publishes while it trains (--publish): the last publication equals
// the model, for every kind of model, in one process and on a cluster; a publisher that
// is killed leaves a usable save.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include "base/alloc.h"
#include "kit/processes.h"
#include "model/model.h"
#include "save/save.h"

#define DATA "--data data.ffm --format libffm --epochs 2 --quiet "
#define PUBLISHED "--publish served --publish-every 0.01 --publish-deltas 2 "

static void predict(const char *from, char **ret)
{
    tug_ends(0, "predict --from %s --data data.ffm", from);
    *ret = e2e_out;
    e2e_out = NULL;
}

static void assert_published(const char *served)
{
    char *is, *published;
    predict("model", &is);
    predict(served, &published);
    assert_string_equal(is, published);
    mem_free(is);
    mem_free(published);
}

static void forget(void)
{
    files_remove("model");
    files_remove("served");
}

static const char *layers_of(const struct model_ops *m)
{
    return m->dense != NULL ? "--hidden 8,4" : "";
}

// Returns whether a delta is among the saves, so that the comparison covered deltas.
static bool has_delta(const char *dir)
{
    struct save_chain c;
    OK(save_chain_open(&c, dir, &ok_e));
    bool has = c.saves[c.n - 1].number > 1 && (c.n > 1 || c.saves[0].number > 2);
    save_chain_close(&c);
    return has;
}

static void every_model(void **state)
{
    (void)state;
    const struct model_ops *m;
    size_t with_deltas = 0, i;
    for (i = 0; (m = model_at(i)) != NULL; i++) {
        tug_ends(0, "train " DATA PUBLISHED "--out model --model %s %s", m->name,
                 layers_of(m));
        with_deltas += has_delta("served");
        assert_published("served");
        forget();
    }
    // At least half of the models must have published deltas: a slow machine may publish
    // too rarely for a delta in every run.
    assert_true(with_deltas > i / 2);
}

static void modes(void **state)
{
    static const char *const words[] = {
        "--model deepfm --hidden 8 --batch-norm --deterministic --data-in memory",
        "--model fm --mode ssp:2",
        "--model fm --optimizer ftrl --l1 0.1",
        // Without thresholds, all rows are published whatever their scores; rows below a
        // threshold would be left out.
        "--model deepfm --hidden 8 --table "
        "accessor=ctr;embedx-threshold=0;base-threshold=0;delta-threshold=0",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        tug_ends(0, "train " DATA PUBLISHED "--out model %s", words[i]);
        assert_published("served");
        forget();
    }
}

static void on_a_cluster(void **state)
{
    (void)state;
    cluster_start("run", "launch --servers 2 --workers 2 -- train " DATA
                         "--model deepfm --hidden 8 --out model --publish model/served "
                         "--publish-every 0.03");
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    assert_published("model/served");
    forget();
    // One server loop holds the sparse table, another one the dense parameters.
    cluster_start("run", "launch --servers 1 --workers 1 --loops 2 --sparse-loops 1 -- "
                         "train " DATA "--model lr --out model --publish model/served");
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    assert_published("model/served");
    forget();
    // Servers may write below one directory only, so --out and --publish must be in the
    // same one.
    cluster_start("run", "launch --servers 1 --workers 1 -- train " DATA PUBLISHED
                         "--model fm --out model");
    cluster_ends("run", 2, CLUSTER_PATIENCE);
    cluster_said("run", "is not below");
    forget();
}

static uint32_t newest(const char *dir, enum save_mode *ret_mode)
{
    char path[FILE_PATH_MAX];
    struct save_manifest m;
    if (save_find(dir, path, NULL) != 0)
        return 0;
    OK(save_read(path, &m, &ok_e));
    uint32_t number = m.number;
    *ret_mode = m.mode;
    save_manifest_free(&m);
    return number;
}

static void await_save(const char *dir, uint32_t number)
{
    enum save_mode mode;
    for (double until = cluster_now() + CLUSTER_PATIENCE; newest(dir, &mode) < number;)
        if (cluster_now() > until)
            cluster_fail("save %u is not published in %s", number, dir);
        else
            poll(NULL, 0, 5);
}

// The publisher is killed in the middle of a file, before a manifest, or between two
// saves.
static void killed(void **state)
{
    enum { KILLS = 4 };
    static const char words[] =
        "train --data data.ffm --format libffm --epochs 100000 "
        "--quiet --model fm --out served/run --resume=auto " PUBLISHED;
    enum save_mode mode;
    (void)state;
    for (uint32_t i = 0, n = 0; i < KILLS; i++) {
        cluster_start("run", "%s", words);
        await_save("served", n + 2 + i);
        poll(NULL, 0, (int)i * 7); // a different time for each kill
        cluster_signal("run", SIGKILL);
        assert_int_equal(cluster_wait("run", CLUSTER_PATIENCE), 128 + SIGKILL);
        n = newest("served", &mode);
        tug_ends(0, "eval --from served --data data.ffm");
    }
    // The next publisher begins with a base, whatever saves exist.
    tug_ends(0,
             "train " DATA "--model fm --publish served --publish-deltas 0 --out model");
    assert_true(newest("served", &mode) > 2 && mode == SAVE_BASE);
    assert_published("served");
    forget();
}

// A second run may not publish into the same directory: readers would be served the two
// models in turn.
static void two_at_once(void **state)
{
    enum save_mode mode;
    (void)state;
    cluster_start("run", "train " DATA PUBLISHED "--model fm --epochs 100000");
    await_save("served", 1);
    tug_ends(2, "train " DATA PUBLISHED "--model fm --out model");
    e2e_says(
        "--publish: one run at a time publishes in a directory: 'served' is in use by "
        "another process");
    cluster_signal("run", SIGKILL);
    assert_int_equal(cluster_wait("run", CLUSTER_PATIENCE), 128 + SIGKILL);
    uint32_t n = newest("served", &mode);
    tug_ends(0, "train " DATA PUBLISHED "--model fm --out model");
    assert_true(newest("served", &mode) > n);
    assert_published("served");
    forget();
}

// After the last publication failed, for example on a full disk, repeating the command of
// the finished run publishes its model.
static void finished_run_publishes(void **state)
{
    enum save_mode mode;
    (void)state;
    tug_ends(0, "train " DATA "--model fm --batch 512 --out model");
    tug_ends(0, "train " DATA PUBLISHED "--model fm --batch 512 --out model --resume");
    assert_int_equal(newest("model", &mode), 1);
    assert_published("served");
    forget();
}

static void refused(void **state)
{
    (void)state;
    tug_ends(0, "train " DATA PUBLISHED "--model lr --publish-deltas 9 --out model");
    tug_ends(2, "train " DATA "--model lr --resume --epochs 3 --out served");
    e2e_says("was published for serving");
    tug_ends(2, "train " DATA "--model lr --init-from served --out more");
    e2e_says("was published for serving");
    tug_ends(0, "table stat --from served");
    assert_non_null(strstr(e2e_out, "examples, published for serving"));
    assert_null(strstr(e2e_out, "--resume"));
    tug_ends(2, "train " DATA "--model lr --publish both --out both");
    e2e_says("--publish and --out are the same directory");
    tug_ends(2, "train " DATA "--model lr --publish model");
    e2e_says("--publish model holds saves of a run");
    tug_ends(2, "train " DATA "--model lr --publish-every 3");
    e2e_says("--publish-every needs --publish DIR");
    tug_ends(2, "train " DATA "--model lr --valid 0.1 --refit --publish served");
    e2e_says("a share of the data needs --mode sync");
    forget();
}

static int begin(void **state)
{
    int rc = cluster_begin(state);
    e2e_write_data(&(struct e2e_data){
        .path = "data.ffm", .fields = true, .rows = 3000, .padding = 40, .seed = 3});
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(every_model),  cluster_test(modes),
        cluster_test(on_a_cluster), cluster_test(killed),
        cluster_test(two_at_once),  cluster_test(finished_run_publishes),
        cluster_test(refused),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
