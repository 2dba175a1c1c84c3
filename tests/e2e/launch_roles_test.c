// Roles are started one by one, by options and by the environment variables of ps-lite
// and Paddle, in any order.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"
#include "kit/ports.h"

#include <sys/wait.h>

#define TRAIN "train --data day.svm --test day.svm --format libsvm --model lr --epochs 2 "

static const char *const names[] = {"DMLC_ROLE",
                                    "DMLC_NUM_WORKER",
                                    "DMLC_NUM_SERVER",
                                    "DMLC_PS_ROOT_URI",
                                    "DMLC_PS_ROOT_PORT",
                                    "TRAINING_ROLE",
                                    "PADDLE_PORT",
                                    "POD_IP",
                                    "PADDLE_PSERVERS_IP_PORT_LIST",
                                    "PADDLE_TRAINER_ID",
                                    "PADDLE_TRAINERS_NUM"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    return 0;
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    struct e2e_data d = {.path = "day.svm", .rows = 5000, .seed = 1};
    e2e_write_data(&d);
    return clear(state);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void ends_well(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("a role ended with status %x", (unsigned)status);
}

static void check_result(double workers, double servers)
{
    assert_true(e2e_number("workers") == workers);
    assert_true(e2e_number("servers") == servers);
    assert_true(e2e_number("examples") == 5000);
    assert_true(e2e_number("auc") > 0.6);
}

static void by_flags(void **state)
{
    (void)state;
    unsigned port;
    ports_free(&port, 1);
    pid_t w = tug_start("worker --scheduler 127.0.0.1:%u --cluster a -- " TRAIN, port);
    pid_t s = tug_start("server --scheduler 127.0.0.1:%u --cluster a --loops 2", port);
    // The scheduler starts last: the server and the workers wait for it.
    tug_ends(0,
             "scheduler --port %u --cluster a --servers 1 --workers 1 -- " TRAIN "--json",
             port);
    check_result(1, 1);
    ends_well(w);
    ends_well(s);
}

static void by_ps_lites_variables(void **state)
{
    (void)state;
    unsigned port;
    pid_t others[3];
    ports_free(&port, 1);
    set("DMLC_NUM_WORKER", "2");
    set("DMLC_NUM_SERVER", "1");
    set("DMLC_PS_ROOT_URI", "127.0.0.1");
    set("DMLC_PS_ROOT_PORT", files_path("%u", port));
    set("DMLC_ROLE", "worker");
    others[0] = tug_start(TRAIN "--json");
    others[1] = tug_start(TRAIN "--json");
    set("DMLC_ROLE", "server");
    others[2] = tug_start(TRAIN "--json");
    set("DMLC_ROLE", "scheduler");
    tug_ends(0, TRAIN "--json");
    check_result(2, 1);
    for (int i = 0; i < 3; i++)
        ends_well(others[i]);
    // `tug worker` reads these variables, too, except DMLC_ROLE.
    unsetenv("DMLC_ROLE");
    others[0] = tug_start("worker -- " TRAIN);
    others[1] = tug_start("worker -- " TRAIN);
    others[2] = tug_start("server");
    tug_ends(0, "scheduler -- " TRAIN "--json");
    check_result(2, 1);
    for (int i = 0; i < 3; i++)
        ends_well(others[i]);
}

static void by_paddles_variables(void **state)
{
    (void)state;
    unsigned ports[2];
    pid_t others[3];
    ports_free(ports, 2);
    set("PADDLE_PSERVERS_IP_PORT_LIST",
        files_path("127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[1]));
    set("PADDLE_TRAINERS_NUM", "2");
    set("POD_IP", "127.0.0.1");
    set("TRAINING_ROLE", "TRAINER");
    set("PADDLE_TRAINER_ID", "0");
    others[0] = tug_start(TRAIN);
    set("PADDLE_TRAINER_ID", "1");
    others[1] = tug_start(TRAIN);
    unsetenv("PADDLE_TRAINER_ID");
    set("TRAINING_ROLE", "PSERVER");
    set("PADDLE_PORT", files_path("%u", ports[1]));
    others[2] = tug_start(TRAIN);
    // The server with this port hosts the scheduler.
    set("PADDLE_PORT", files_path("%u", ports[0]));
    tug_ends(0, TRAIN "--json");
    check_result(2, 2);
    for (int i = 0; i < 3; i++)
        ends_well(others[i]);
}

static void all_that_is_missing_is_named(void **state)
{
    (void)state;
    set("TRAINING_ROLE", "PSERVER");
    tug_ends(2, TRAIN);
    e2e_says("PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM, POD_IP, PADDLE_PORT");
    set("DMLC_ROLE", "worker");
    tug_ends(2, TRAIN);
    e2e_says("DMLC_NUM_WORKER, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT");
    clear(NULL);
    tug_ends(2, "server");
    e2e_says("--scheduler HOST:PORT");
    tug_ends(2, "worker --scheduler 127.0.0.1:1");
    e2e_says("there is nothing to train: add --");
    tug_ends(2, "worker --scheduler 127.0.0.1:1 -- predict");
    e2e_says("only 'train' with its options can follow --, not 'predict'");
    tug_ends(2, "server --scheduler here -- " TRAIN);
    e2e_says("HOST:PORT");
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    unsigned port;
    ports_free(&port, 1);
    tug_ends(4, "server --scheduler 127.0.0.1:%u --connect-timeout 2", port);
    e2e_says("connection refused");
    tug_ends(4, "scheduler --servers 1 --workers 2 --gather-timeout 0.3");
    e2e_says("missing server 0, worker 0, worker 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(by_flags, clear),
        cmocka_unit_test_setup(by_ps_lites_variables, clear),
        cmocka_unit_test_setup(by_paddles_variables, clear),
        cmocka_unit_test_setup(all_that_is_missing_is_named, clear),
        cmocka_unit_test_setup(nobody_waits_for_ever, clear),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
