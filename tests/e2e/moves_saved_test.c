// Saves, publications and cold tiers of a run whose servers join and leave.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/joins.h"
#include "save/save.h"

static const char *const changed[] = {"third", "fourth", "w0", "w1", NULL};

// Continues a copy of the run "cut" with n servers. The result must have the bits of a
// run in which nothing moves.
static void resume_with(unsigned n)
{
    files_remove("again");
    cluster_system("cp -r cut again");
    tug_ends(0, "launch --servers %u --workers 1 -- %s", n,
             joins_words("again", "--mode sync --resume"));
    cluster_same_parts("truth", "again");
}

// A save that was made between moves has exactly the rows of its moment: a
// run that continues from it, in one process or with any number of servers,
// ends with the same bits.
static void save_between_moves(void **state)
{
    (void)state;
    joins_start(joins_words("cut", "--mode sync"), "");
    joins_server("third", "");
    cluster_await("run", "because server 2 has joined");
    cluster_signal("run", SIGINT); // saves while partitions move
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_said("run", "saved to cut/save-");
    joins_wait((const char *const[]){"first", "second", "third", "w0", "w1", NULL});
    for (unsigned n = 1; n <= 3; n++)
        resume_with(n);
    tug_ends(0, "%s", joins_words("cut", "--deterministic --resume"));
    cluster_same_parts("truth", "cut");
}

// Servers join and leave during a run that saves after each pass, so partitions move
// during saves. A run that continues from any of these saves ends with the bits of a run
// in which nothing moves.
static void servers_change_during_saves(void **state)
{
    enum { KEPT = 100, TRIED = 2 };
    (void)state;
    joins_start(
        joins_words("saves", files_path("--mode sync --save-every 1 --keep %d", KEPT)),
        "");
    joins_change_all(false, "");
    joins_end(changed);
    cluster_same_parts("truth", "saves");
    for (unsigned i = 0; i < TRIED; i++) {
        unsigned last = 3 + i * 30; // saves around the moves and long after them
        files_remove("again");
        cluster_system("mkdir again");
        assert_int_equal(cluster_system("cp -r saves/save-%06u again/", last), 0);
        tug_ends(0, "%s", joins_words("again", "--deterministic --resume"));
        cluster_same_parts("truth", "again");
    }
}

static void predict(const char *from, char **ret)
{
    tug_ends(0, "predict --from %s --data test.svm", from);
    *ret = e2e_out;
    e2e_out = NULL;
}

// Checks that both models predict the same, digit for digit.
static void same_predictions(const char *a, const char *b)
{
    char *of_a, *of_b;
    predict(a, &of_a);
    predict(b, &of_b);
    assert_string_equal(of_a, of_b);
    mem_free(of_a);
    mem_free(of_b);
}

// Rows are removed during the whole run, which publishes deltas. The last base and its
// deltas together have exactly the rows of the model: a row that was removed leaves the
// publication even if its partition has moved.
static void publication_has_removals(void **state)
{
    static const char words[] =
        "--publish gone/served --publish-every 0.02 --publish-deltas 4000 --table "
        "accessor=ctr;embedx-threshold=0;base-threshold=0;delta-threshold=0;"
        "delete-threshold=0.8;decay=0.7";
    (void)state;
    joins_start(joins_words("gone", words), "--save-root .");
    joins_change_all(true, "--save-root .");
    joins_end(changed);
    struct save_chain c;
    OK(save_chain_open(&c, "gone/served", &ok_e));
    assert_true(c.n > 1);
    save_chain_close(&c);
    same_predictions("gone", "gone/served");
}

// Partitions also move if most rows of their tables are on disk.
static void cold_rows_move(void **state)
{
    static const char disks[] = "--save-root . --cold-root .";
    static const char table[] =
        "--table accessor=ctr;embedx-threshold=0;hot-rows=1500;cold=cold";
    (void)state;
    joins_start(joins_words("cold_sync", files_path("--epochs 12 --mode sync %s", table)),
                disks);
    joins_change_all(false, disks);
    joins_end(changed);
    tug_ends(0, "%s",
             joins_words("cold_truth", "--epochs 12 --deterministic --table "
                                       "accessor=ctr;embedx-threshold=0"));
    same_predictions("cold_truth", "cold_sync");
}

static int begin(void **state)
{
    int rc = joins_begin(state);
    tug_ends(0, "%s", joins_words("truth", "--deterministic"));
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(save_between_moves),
        cluster_test(servers_change_during_saves),
        cluster_test(publication_has_removals),
        cluster_test(cold_rows_move),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
