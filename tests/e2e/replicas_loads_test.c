// Servers whose partitions have replicas load tables with a feature lifecycle when a training
// is resumed: primaries and backups read the save. So the run goes on, with the same bits,
// when a server is killed.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

static const char *export(const char *dir, const char *table)
{
    const char *to = files_path("%s.%s", dir, table);
    tug_ends(0, "table export --from %s --table %s --state --out %s", dir, table, to);
    return to;
}

static void a_resumed_run(void **state)
{
    static const char *const tables[] = {"sparse", "dense"};
    (void)state;
    tug_ends(
        0,
        "train --data data.svm --format libsvm --batch 64 --data-in memory "
        "--table accessor=sparse;entry=count:2 --deterministic --epochs 3 --out truth");
    files_copy_dir("truth", "killed");
    tug_ends(0, "train --data data.svm --resume --epochs 30 --out truth --deterministic");
    cluster_start("run",
                  "launch --servers 3 --workers 2 --replicas 2 -- train --data data.svm "
                  "--resume --epochs 30 --mode sync --out killed");
    cluster_await("run", "pass 5/");
    pid_t pid = cluster_kill_node("run", "server 1");
    cluster_await("run", files_path(":%d) is gone", (int)pid));
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    for (size_t i = 0; i < 2; i++)
        assert_true(files_same(export("truth", tables[i]), export("killed", tables[i])));
    cluster_none_left();
}

static int begin(void **state)
{
    int rc = cluster_begin(state);
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = 1500, .seed = 1});
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cluster_test(a_resumed_run)};
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
