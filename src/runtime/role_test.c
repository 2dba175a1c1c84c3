// Tests roles in the environments of ps-lite's tracker and of Paddle's launcher.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/role.h"

#include <string.h>

#include "kit/test.h"

// Reads a variable from a list of "NAME=VALUE" words that ends with NULL.
static const char *get(void *ctx, const char *name)
{
    size_t n = strlen(name);
    for (const char *const *v = ctx; *v != NULL; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            return *v + n + 1;
    return NULL;
}

static struct role role;
static struct err e;

static int read_known(enum wire_role known, const char *const *environment)
{
    e = (struct err){0};
    return role_read(&role, known, get, (void *)(uintptr_t)environment, &e);
}

#define READ(...) read_known(WIRE_NOBODY, (const char *const[]){__VA_ARGS__, NULL})

static void says(const char *text)
{
    if (strstr(e.text, text) == NULL)
        fail_msg("'%s' is not in: %s", text, e.text);
}

static void nothing(void **state)
{
    (void)state;
    assert_int_equal(READ("HOME=/", "PADDLE_PORT=1", "DMLC_NUM_WORKER=3"), 0);
    assert_int_equal(role.scheme, ROLE_NONE);
    assert_int_equal(READ("DMLC_ROLE="), 0);
    assert_int_equal(role.scheme, ROLE_NONE);
}

#define DMLC(role)                                                                       \
    "DMLC_ROLE=" role, "DMLC_NUM_WORKER=3", "DMLC_NUM_SERVER=2",                         \
        "DMLC_PS_ROOT_URI=10.0.0.1", "DMLC_PS_ROOT_PORT=9091"

static void dmlc(void **state)
{
    (void)state;
    assert_int_equal(READ(DMLC("server"), "DMLC_NODE_HOST=10.0.0.2", "PORT=7000"), 0);
    assert_int_equal(role.scheme, ROLE_DMLC);
    assert_int_equal(role.role, WIRE_SERVER);
    assert_int_equal(role.workers, 3);
    assert_int_equal(role.servers, 2);
    assert_string_equal(role.scheduler, "10.0.0.1:9091");
    assert_string_equal(role.host, "10.0.0.2");
    assert_int_equal(role.port, 7000);
    assert_false(role.has_rank);
    assert_int_equal(READ(DMLC("worker"), "DMLC_INTERFACE=eth0"), 0);
    assert_int_equal(role.role, WIRE_WORKER);
    assert_string_equal(role.interface, "eth0");
    assert_int_equal(READ(DMLC("scheduler"), "PORT=7000"), 0);
    assert_int_equal(role.role, WIRE_SCHEDULER);
    assert_int_equal(role.port, 0); // the scheduler's own port is in DMLC_PS_ROOT_PORT
    assert_int_equal(READ(DMLC("worker"), "DMLC_WORKER_ID=2", "DMLC_SERVER_ID=1"), 0);
    assert_true(role.has_rank && role.rank == 2);
    assert_int_equal(READ(DMLC("server"), "DMLC_WORKER_ID=2", "DMLC_SERVER_ID=1"), 0);
    assert_true(role.has_rank && role.rank == 1);
    assert_int_equal(READ(DMLC("scheduler"), "DMLC_WORKER_ID=2", "DMLC_SERVER_ID=1"), 0);
    assert_false(role.has_rank);
    assert_int_equal(READ("DMLC_ROLE=worker", "DMLC_NUM_WORKER=1", "DMLC_NUM_SERVER=1",
                          "DMLC_PS_ROOT_URI=::1", "DMLC_PS_ROOT_PORT=9091"),
                     0);
    assert_string_equal(role.scheduler, "[::1]:9091");
}

static void all_that_is_missing(void **state)
{
    (void)state;
    assert_int_equal(READ("DMLC_ROLE=server", "DMLC_NUM_SERVER=x"), TUG_EUSAGE);
    says("these environment variables are missing: DMLC_NUM_WORKER, DMLC_PS_ROOT_URI, "
         "DMLC_PS_ROOT_PORT");
    says("these environment variables are wrong: DMLC_NUM_SERVER='x' (a number "
         "from 1 to 4096)");
    assert_int_equal(READ(DMLC("boss")), TUG_EUSAGE);
    says("DMLC_ROLE='boss' (scheduler, server or worker)");
    assert_int_equal(READ("TRAINING_ROLE=BOSS"), TUG_EUSAGE);
    says("TRAINING_ROLE='BOSS' (PSERVER or TRAINER)");
    assert_int_equal(READ("TRAINING_ROLE=PSERVER"), TUG_EUSAGE);
    says("these environment variables are missing: PADDLE_PSERVERS_IP_PORT_LIST, "
         "PADDLE_TRAINERS_NUM, POD_IP, PADDLE_PORT");
    assert_int_equal(READ("TRAINING_ROLE=TRAINER"), TUG_EUSAGE);
    says("PADDLE_TRAINER_ID");
    assert_null(strstr(e.text, "POD_IP"));
}

static void numbers_out_of_bounds(void **state)
{
    (void)state;
    assert_int_equal(READ("DMLC_ROLE=worker", "DMLC_NUM_WORKER=99999",
                          "DMLC_NUM_SERVER=0", "DMLC_PS_ROOT_URI=a",
                          "DMLC_PS_ROOT_PORT=70000", "DMLC_WORKER_ID=first"),
                     TUG_EUSAGE);
    says("DMLC_WORKER_ID='first' (a number from 0 to 4095)");
    says("DMLC_NUM_WORKER='99999'");
    says("DMLC_NUM_SERVER='0'");
    says("DMLC_PS_ROOT_PORT='70000'");
}

#define LIST "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:6174,10.0.0.2:6174"

static void paddle(void **state)
{
    (void)state;
    assert_int_equal(READ("TRAINING_ROLE=PSERVER", LIST, "PADDLE_TRAINERS_NUM=4",
                          "POD_IP=10.0.0.1", "PADDLE_PORT=6174"),
                     0);
    assert_int_equal(role.scheme, ROLE_PADDLE);
    assert_int_equal(role.role, WIRE_SERVER);
    assert_true(role.hosts_scheduler);
    assert_string_equal(role.scheduler, "10.0.0.1:6174");
    assert_int_equal(role.servers, 2);
    assert_int_equal(role.workers, 4);
    assert_int_equal(role.port, 0); // the port in the list is the scheduler's
    assert_int_equal(READ("TRAINING_ROLE=PSERVER", LIST, "PADDLE_TRAINERS_NUM=4",
                          "POD_IP=10.0.0.2", "PADDLE_PORT=6174"),
                     0);
    assert_false(role.hosts_scheduler);
    assert_int_equal(role.rank, 1);
    assert_int_equal(role.port, 6174);
    assert_int_equal(READ("TRAINING_ROLE=TRAINER", LIST, "PADDLE_TRAINERS_NUM=4",
                          "PADDLE_TRAINER_ID=3"),
                     0);
    assert_int_equal(role.role, WIRE_WORKER);
    assert_int_equal(role.rank, 3);
    assert_string_equal(role.scheduler, "10.0.0.1:6174");
}

static void paddle_mistakes(void **state)
{
    (void)state;
    assert_int_equal(READ("TRAINING_ROLE=PSERVER", LIST, "PADDLE_TRAINERS_NUM=4",
                          "POD_IP=10.0.0.3", "PADDLE_PORT=6174"),
                     TUG_EUSAGE);
    says("POD_IP:PADDLE_PORT='10.0.0.3:6174' (not in PADDLE_PSERVERS_IP_PORT_LIST)");
    assert_int_equal(READ("TRAINING_ROLE=TRAINER",
                          "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:6174,oops",
                          "PADDLE_TRAINERS_NUM=4", "PADDLE_TRAINER_ID=3"),
                     TUG_EUSAGE);
    says("PADDLE_PSERVERS_IP_PORT_LIST='oops'");
    assert_int_equal(READ("TRAINING_ROLE=HETER_TRAINER", LIST, "PADDLE_TRAINERS_NUM=4"),
                     TUG_EUSAGE);
    says("TRAINING_ROLE='HETER_TRAINER'");
}

static void the_command_may_tell_the_role(void **state)
{
    (void)state;
    static const char *const none[] = {"DMLC_ROLE=worker", NULL};
    // Without an address, the process is in no cluster.
    assert_int_equal(read_known(WIRE_SERVER, none), 0);
    assert_int_equal(role.scheme, ROLE_NONE);
    static const char *const address[] = {"DMLC_PS_ROOT_URI=a", "DMLC_NUM_WORKER=1",
                                          "DMLC_NUM_SERVER=1", "DMLC_PS_ROOT_PORT=9",
                                          NULL};
    assert_int_equal(read_known(WIRE_SERVER, address), 0);
    assert_int_equal(role.role, WIRE_SERVER);
    assert_string_equal(role.scheduler, "a:9");
    assert_int_equal(READ(DMLC("worker"), "TRAINING_ROLE=PSERVER"), 0);
    assert_int_equal(role.scheme, ROLE_DMLC); // DMLC_ROLE wins over TRAINING_ROLE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing),
        cmocka_unit_test(dmlc),
        cmocka_unit_test(all_that_is_missing),
        cmocka_unit_test(numbers_out_of_bounds),
        cmocka_unit_test(paddle),
        cmocka_unit_test(paddle_mistakes),
        cmocka_unit_test(the_command_may_tell_the_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
