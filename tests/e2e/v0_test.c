// The command lines of Paddle's first version: servers and trainers are real processes,
// and warnings name the flags that mean something else here.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#define SERVER "--ports_num=2 --ports_num_for_sparse=2 --comment=mark_of_the_job"
#define TRAINER                                                                          \
    "--config=./trainer.yaml --trainer_count=1 --use_gpu=0 --num_passes=2 "              \
    "--save_dir=./%s --log_period=20 --dot_period=5 --saving_period=1 --local=0 "        \
    "--trainer_id=%d"

static void write_config(void)
{
    files_write("trainer.yaml", "data: data.svm\nformat: libsvm\nmodel: fm\nbatch: 50\n"
                                "test: data.svm\n");
}

static void trainer(int id, unsigned port, const char *pservers, const char *out,
                    const char *more)
{
    cluster_start(files_path("trainer%d", id),
                  "train --pservers=%s --port=%u %s " TRAINER, pservers, port, more, out,
                  id);
}

static void all_end_well(void)
{
    cluster_ends("trainer1", 0, CLUSTER_PATIENCE);
    cluster_ends("trainer0", 0, CLUSTER_PATIENCE);
}

static size_t dots(void)
{
    size_t n = 0;
    for (const char *line = e2e_err; line != NULL && *line != '\0';) {
        size_t some = strspn(line, "."), all = strcspn(line, "\n");
        n += some == all ? some : 0;
        line = line[all] == '\n' ? line + all + 1 : NULL;
    }
    return n;
}

// The flags are those of Paddle's documents, except the file that describes the network.
static void paddle_command_lines(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    write_config();
    cluster_start("server",
                  "pserver --num_gradient_servers=2 --nics=lo --port=%u " SERVER, port);
    trainer(0, port, "127.0.0.1", "two", "");
    trainer(1, port, "127.0.0.1", "two", "");
    all_end_well();
    assert_true(strstr(e2e_out, "2 passes over 2000 examples") != NULL);
    assert_true(strstr(e2e_out, "1 server, 2 workers") != NULL);
    assert_true(strstr(e2e_err, "pass 2/2 done") != NULL);
    assert_true(dots() >= 2 * 2000 / 50 / 5 - 2);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_said("server", "server 0");
    assert_string_equal(e2e_newest("two"), "two/save-000002");
    tug_ends(0, "eval --from two --data data.svm --json");
    assert_true(e2e_number("auc") > 0.7);
}

static void keys(const char *role)
{
    tug_ends(0, "cert node --dir keys --name %s --role %s", role, role);
}

#define KEYS(role)                                                                       \
    "--ca keys/ca.pem --cert=keys/" role ".pem --key keys/" role ".key --cluster=theirs"

// Links with certificates, which are given by the same options as in tug's other
// commands. The first server needs a scheduler's certificate. Trainer 0 needs an
// operator's certificate, because it drives the run.
static void certificates(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    write_config();
    tug_ends(0, "cert ca --dir keys");
    keys("scheduler");
    keys("operator");
    keys("worker");
    cluster_start("server",
                  "pserver --num_gradient_servers=2 --port=%u " KEYS("scheduler"), port);
    trainer(0, port, "127.0.0.1", "tls", KEYS("operator") " --host=127.0.0.1");
    trainer(1, port, "127.0.0.1", "tls", KEYS("worker") " --connect-timeout 60");
    all_end_well();
    assert_string_equal(e2e_newest("tls"), "tls/save-000002");
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    // Without certificates, a process that listens beyond loopback needs --insecure,
    // which `tug train` with Paddle's flags also accepts.
    tug_ends(4,
             "train --config=trainer.yaml --local=0 --insecure --connect-timeout=0.1 "
             "--port=%u",
             port);
}

// Several hosts on one machine, each given by its address; in sync mode the model equals
// that of one process.
static void two_hosts(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    const char *both = "127.0.0.1,127.0.0.2";
    write_config();
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("server%d", i),
                      "pserver --num_gradient_servers 2 --host 127.0.0.%d --pservers=%s "
                      "--port=%u " SERVER,
                      i + 1, both, port);
    trainer(0, port, both, "hosts", "--mode sync --num_gradient_servers=2");
    trainer(1, port, both, "hosts", "--mode sync --num_gradient_servers=2");
    all_end_well();
    assert_true(strstr(e2e_out, "2 servers, 2 workers") != NULL);
    cluster_ends("server0", 0, CLUSTER_PATIENCE);
    cluster_ends("server1", 0, CLUSTER_PATIENCE);
    tug_ends(0,
             "train --config=trainer.yaml --num_passes=2 --save_dir=alone --mode sync");
    cluster_same_parts("alone", "hosts");
}

// Checks that all processes end with this error, whichever of them was given the number
// that differs.
static void all_say(const char *text)
{
    static const char *const names[] = {"trainer0", "trainer1", "server"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        cluster_ends(names[i], 2, CLUSTER_PATIENCE);
        cluster_said(names[i], text);
    }
}

static void sizes_differ(void **state)
{
    (void)state;
    static const struct {
        const char *server, *pservers, *more, *says;
    } wrong[] = {
        {"", "127.0.0.1,127.0.0.2", "", "--pservers names 2 servers, but the run has 1"},
        {"", "127.0.0.1", "--num_gradient_servers=2",
         "--num_gradient_servers is 2, but the first server was told 1"},
        {"--num_gradient_servers=3", "127.0.0.1", "--num_gradient_servers=2",
         "--num_gradient_servers is 2, but the first server was told 3"},
    };
    write_config();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        unsigned port = cluster_free_port();
        cluster_start("server", "pserver --port=%u %s", port, wrong[i].server);
        trainer(0, port, wrong[i].pservers, "none", wrong[i].more);
        trainer(1, port, wrong[i].pservers, "none", wrong[i].more);
        all_say(wrong[i].says);
    }
}

// The first trainer finds an output that exists before it joins, and all others end with
// its error.
static void output_is_there(void **state)
{
    (void)state;
    unsigned port = cluster_free_port();
    write_config();
    tug_ends(0, "train --config=trainer.yaml --num_passes=1 --save_dir=there");
    cluster_start("server", "pserver --num_gradient_servers=2 --port=%u", port);
    trainer(0, port, "127.0.0.1", "there", "--num_gradient_servers=2");
    trainer(1, port, "127.0.0.1", "there", "--num_gradient_servers=2");
    all_say("there already holds a saved model");
}

static void says(const char *words, const char *text)
{
    tug_ends(2, "%s", words);
    e2e_says(text);
}

static void sentences(void **state)
{
    (void)state;
    static const char *const of_train[][2] = {
        {"--num_passes=x", "--num_passes is --epochs here"},
        {"--num_passes", "--num_passes needs a value"},
        {"--use_gpu", "--use_gpu=1 is not supported: models train on CPUs"},
        {"--use_gpu --test_period=5 --num_passes",
         "(2) --test_period=5 is not supported: --valid is scored"},
        {"--num_passes=1 --epochs=2",
         "--num_passes means the same as --epochs: give only one of them"},
        {"--trainer_id=-1", "--trainer_id: '-1' is not a whole number"},
        {"--local=0 --trainer_id=2 --num_gradient_servers=2", "trainers count from 0"},
        {"--pservers=a", "give --local=0 to join servers"},
        {"--local=0 --pservers=,", "--pservers names no host"},
        {"--job=test", "'tug eval' tests a saved model"},
        {"--config=trainer_config.py", "give --model and --hidden instead"},
        {"--config_args=a=1", "--set NAME=VALUE"},
        {"--start_pass=3", "--resume continues a run"},
        {"--test_period=100", "--valid is scored after each pass"},
        {"--rdma_tcp=rdma", "links are TCP"},
        {"--local=0 --nics=a,b", "name one"},
        {"--num_passes=1 --ca keys/ca.pem", "--ca: a trainer alone has no links"},
        {"-num_passes=x", "--num_passes is --epochs here"},
        {"-use_gpu -test_pass=3 --nosuch=1 --num_passes=x",
         "4 problems: (1) --use_gpu=1"},
        {"-use_gpu --nosuch=1", "(2) there is no option '--nosuch'"},
        {"--parallel_nn", "threads share the examples"},
        {"--distribute_test", "--score-by workers"},
        {"--predict_file=a", "'tug predict"},
        {"--show_layer_stat", "--fetch NAME"},
    };
    static const char *const of_pserver[][2] = {
        {"--nics=nosuch0", "--nics: there is no network interface 'nosuch0'"},
        {"--nics=a,b", "name one"},
        {"--pservers=127.0.0.1,127.0.0.2", "give --host to choose the one"},
        {"--pservers=192.0.2.1", "does not name an address of this machine"},
        {"--num_gradient_server=2", "did you mean '--num_gradient_servers'?"},
        {"--pservers=203.0.113.7 --host=127.0.0.1", "does not name 127.0.0.1: give"},
        {"--pservers=127.0.0.1,127.0.0.2 --nics=lo",
         "--nics cannot tell apart: give --host"},
        {"--rdma_tcp=rdma --use_gpu --nosuch -nics=a,b",
         "3 problems: (1) --rdma_tcp=rdma"},
        {"-nics=a,b --pserver_num_threads=4 --log_period_server=500", "name one"},
        {"-port=x", "--port: 'x' is not a whole number"},
    };
    for (size_t i = 0; i < sizeof(of_train) / sizeof(*of_train); i++)
        says(files_path("train --data data.svm --format libsvm %s", of_train[i][0]),
             of_train[i][1]);
    for (size_t i = 0; i < sizeof(of_pserver) / sizeof(*of_pserver); i++)
        says(files_path("pserver %s", of_pserver[i][0]), of_pserver[i][1]);
    tug_ends(4, "train --data data.svm --format libsvm --local=0 --port=1 "
                "--connect-timeout=0.1");
    e2e_says("'tug pserver' on the first host of --pservers, with the same --port");
}

// Flags without effect are named in warnings, but not if their value describes what tug
// does anyway.
static void flags_of_one_process(void **state)
{
    (void)state;
    tug_ends(0, "train --data data.svm --format libsvm --nouse_gpu --local --job=train "
                "--rdma_tcp=tcp --save_only_one --save_dir kept --num_passes 2 "
                "--saving_period_by_batches=3 --batch 200 --comment=x --test_period=0");
    e2e_says("these flags have no effect: --comment");
    assert_string_equal(e2e_newest("kept"), "kept/save-000007");
    tug_ends(0, "train --data data.svm --format libsvm --quiet --dot-every 1");
    assert_string_equal(e2e_err, "");
}

// gflags also accept one dash. --save_only_one=0 keeps the models of all passes.
static void forms_and_saves(void **state)
{
    (void)state;
    write_config();
    tug_ends(0, "train -config=trainer.yaml -num_passes=5 -saving_period=1 -seed 2 "
                "-nouse_gpu --save_only_one=0 -save_dir=all --async_lagged_ratio_min=1.0 "
                "--logtostderr -log_clipping=1");
    e2e_says("these flags have no effect: --async_lagged_ratio_min, --logtostderr, "
             "--log_clipping");
    assert_string_equal(e2e_newest("all"), "all/save-000005");
    for (int i = 1; i <= 5; i++)
        assert_true(files_exists(files_path("all/save-%06d", i)));
    tug_ends(0, "train --config=trainer.yaml --num_passes=5 --saving_period=1 "
                "--save_only_one=1 --save_dir=one");
    assert_false(files_exists("one/save-000004"));
    tug_ends(0, "train --config=trainer.yaml --num_passes=2 --save_dir=once");
    e2e_says("saved once, at the end; Paddle saved each pass, as --saving_period=1 does");
    tug_ends(
        0, "train --config=trainer.yaml --num_passes=2 --save_dir=end --saving_period=0");
    assert_null(strstr(e2e_err, "saved once"));
}

static int begin(void **state)
{
    struct e2e_data d = {.path = "data.svm", .rows = 2000, .seed = 5};
    if (cluster_begin(state) != 0)
        return -1;
    e2e_write_data(&d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(paddle_command_lines),
        cluster_test(two_hosts),
        cluster_test(sizes_differ),
        cluster_test(output_is_there),
        cluster_test(sentences),
        cluster_test(flags_of_one_process),
        cluster_test(forms_and_saves),
        cluster_test(certificates),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
