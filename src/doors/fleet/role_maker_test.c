// Tests role makers from environments and options, and the errors about invalid ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/fleet/fleet_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

static struct tug_role_maker *made;
static struct tug_place place;

static int read_one(const char *const *environment)
{
    tug_role_maker_close(made);
    made = NULL;
    int rc = tug_role_maker_cloud(&made, environment);
    if (rc == 0)
        tug_role_maker_place(made, &place);
    return rc;
}

#define READ(...) read_one((const char *const[]){__VA_ARGS__, NULL})
#define REFUSED(why, ...)                                                                \
    do {                                                                                 \
        assert_int_equal(TUG_EUSAGE, READ(__VA_ARGS__));                                 \
        if (strstr(tug_last_error(), why) == NULL)                                       \
            fail_msg("'%s' is not in: %s", why, tug_last_error());                       \
    } while (0)

#define LIST "PADDLE_PSERVERS_IP_PORT_LIST=10.0.0.1:6174,10.0.0.2:6175"
#define TRAINER "TRAINING_ROLE=TRAINER", LIST, "PADDLE_TRAINERS_NUM=3"
#define PSERVER "TRAINING_ROLE=PSERVER", LIST, "PADDLE_TRAINERS_NUM=3", "POD_IP=10.0.0.2"
#define DMLC(role)                                                                       \
    "DMLC_ROLE=" role, "DMLC_NUM_WORKER=3", "DMLC_NUM_SERVER=2",                         \
        "DMLC_PS_ROOT_URI=10.0.0.1", "DMLC_PS_ROOT_PORT=9091"

static void is(int role, uint32_t index)
{
    assert_int_equal(role, place.role);
    assert_int_equal(index, place.index);
    assert_int_equal(3, place.workers);
    assert_int_equal(2, place.servers);
    assert_false(place.alone);
}

static void environment(void **state)
{
    (void)state;
    assert_int_equal(0, READ(TRAINER, "PADDLE_TRAINER_ID=2",
                             "PADDLE_TRAINER_ENDPOINTS=a:1, b:2;c:3,"));
    is(TUG_FLEET_WORKER, 2);
    assert_int_equal(3, place.worker_endpoints);
    assert_string_equal("b:2", tug_role_maker_endpoint(made, TUG_FLEET_WORKER, 1));
    assert_string_equal("10.0.0.2:6175",
                        tug_role_maker_endpoint(made, TUG_FLEET_SERVER, 1));
    assert_null(tug_role_maker_endpoint(made, TUG_FLEET_SERVER, 2));
    assert_null(tug_role_maker_endpoint(made, TUG_FLEET_SCHEDULER, 0));
    assert_int_equal(0, READ(PSERVER, "PADDLE_PORT=6175"));
    is(TUG_FLEET_SERVER, 1);
    assert_int_equal(0, READ(DMLC("worker"), "DMLC_WORKER_ID=1"));
    is(TUG_FLEET_WORKER, 1);
    assert_int_equal(0, place.server_endpoints);
    assert_int_equal(0, READ(DMLC("scheduler"), LIST));
    is(TUG_FLEET_SCHEDULER, 0);
    // tug launch sets the variables of ps-lite and of Paddle.
    assert_int_equal(0, READ(DMLC("server"), "DMLC_SERVER_ID=0", PSERVER,
                             "PADDLE_PORT=6174", "TUG_SCHEDULER=tcp://h:7"));
    is(TUG_FLEET_SERVER, 0);
    assert_int_equal(2, place.server_endpoints);
    assert_string_equal("tcp://h:7", made->role.scheduler);
    assert_false(made->role.hosts_scheduler);
}

static void environment_that_is_wrong(void **state)
{
    (void)state;
    REFUSED("missing: TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM;",
            "HOME=/");
    REFUSED("missing: TRAINING_ROLE, PADDLE_TRAINERS_NUM;", LIST);
    REFUSED("missing: PADDLE_TRAINER_ID", TRAINER);
    REFUSED("missing: PADDLE_PORT", PSERVER);
    REFUSED("missing: DMLC_WORKER_ID", DMLC("worker"));
    REFUSED("DMLC_WORKER_ID='3' is not a number below 3, the number of workers",
            DMLC("worker"), "DMLC_WORKER_ID=3");
    REFUSED("DMLC_SERVER_ID='1x'", DMLC("server"), "DMLC_SERVER_ID=1x");
    REFUSED("PADDLE_TRAINER_ID is 3, and must be below PADDLE_TRAINERS_NUM, 3", TRAINER,
            "PADDLE_TRAINER_ID=3");
    REFUSED("PADDLE_TRAINER_ID='-1'", TRAINER, "PADDLE_TRAINER_ID=-1");
    REFUSED("federated", "TRAINING_ROLE=COORDINATOR");
    REFUSED("TRAINING_ROLE='WORKER'", "TRAINING_ROLE=WORKER", LIST,
            "PADDLE_TRAINERS_NUM=1");
    REFUSED("not in PADDLE_PSERVERS_IP_PORT_LIST", PSERVER, "PADDLE_PORT=6174");
    REFUSED("a:1 is listed twice", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0", "PADDLE_PSERVERS_IP_PORT_LIST=a:1,b:1,a:1");
    REFUSED("'a:0' is not HOST:PORT", "TRAINING_ROLE=TRAINER", "PADDLE_TRAINERS_NUM=1",
            "PADDLE_TRAINER_ID=0", "PADDLE_PSERVERS_IP_PORT_LIST=a:0");
    REFUSED("has 1 endpoints, but there are 3 workers", TRAINER, "PADDLE_TRAINER_ID=0",
            "PADDLE_TRAINER_ENDPOINTS=a:1");
    REFUSED("contradict each other", TRAINER, DMLC("server"), "PADDLE_TRAINER_ID=0");
    REFUSED("its servers have to run it, too: add --all-roles", DMLC("worker"),
            "DMLC_WORKER_ID=1", "TUG_LAUNCHED=workers");
}

static void environment_of_the_process(void **state)
{
    (void)state;
    static const char *const none[] = {"DMLC_ROLE", "TRAINING_ROLE"};
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, unsetenv(none[i]));
    assert_int_equal(TUG_EUSAGE, read_one(NULL));
    assert_int_equal(0, setenv("TRAINING_ROLE", "TRAINER", 1));
    assert_int_equal(0, setenv("PADDLE_PSERVERS_IP_PORT_LIST", "h:1", 1));
    assert_int_equal(0, setenv("PADDLE_TRAINERS_NUM", "1", 1));
    assert_int_equal(0, setenv("PADDLE_TRAINER_ID", "0", 1));
    assert_int_equal(0, read_one(NULL));
    assert_int_equal(1, place.servers);
}

static int user(const struct tug_role_maker_options *o)
{
    tug_role_maker_close(made);
    made = NULL;
    int rc = tug_role_maker_user(&made, o);
    if (rc == 0)
        tug_role_maker_place(made, &place);
    return rc;
}

static void user_defined(void **state)
{
    (void)state;
    static const char *const servers[] = {"h:1", "[::1]:2"}, *const wrong[] = {"h:1,i:1"};
    static const char *const workers[] = {"h:3", "h:4", "h:5"};
    struct tug_role_maker_options o = {.role = TUG_FLEET_SERVER,
                                       .current_id = 1,
                                       .worker_num = 3,
                                       .server_endpoints = servers,
                                       .n_server_endpoints = 2};
    assert_int_equal(0, user(&o));
    is(TUG_FLEET_SERVER, 1);
    assert_string_equal("h:1", made->role.scheduler);
    assert_int_equal(2, made->role.port);
    o.current_id = 0;
    assert_int_equal(0, user(&o));
    assert_true(made->role.hosts_scheduler);
    o.current_id = 2;
    assert_int_equal(TUG_EUSAGE, user(&o));
    o.role = TUG_FLEET_WORKER;
    o.worker_num = 0; // 0: there are as many workers as worker endpoints
    o.worker_endpoints = workers;
    o.n_worker_endpoints = 3;
    assert_int_equal(0, user(&o));
    is(TUG_FLEET_WORKER, 2);
    o.worker_num = 2;
    assert_int_equal(TUG_EUSAGE, user(&o));
    assert_int_equal(0, user(&(struct tug_role_maker_options){.role = TUG_FLEET_WORKER}));
    assert_true(place.alone && place.workers == 1 && place.servers == 1);
    assert_int_equal(TUG_EUSAGE, user(&(struct tug_role_maker_options){
                                     .role = TUG_FLEET_WORKER, .worker_num = 2}));
    assert_int_equal(TUG_EUSAGE,
                     user(&(struct tug_role_maker_options){.role = TUG_FLEET_SERVER}));
    assert_int_equal(TUG_EUSAGE, user(&(struct tug_role_maker_options){.role = 5}));
    o.server_endpoints = wrong;
    o.n_server_endpoints = 1;
    assert_int_equal(TUG_EUSAGE, user(&o));
}

// Tests that each failing allocation is reported and leaks nothing.
static void no_memory(void **state)
{
    (void)state;
    static const char *const all[] = {TRAINER, "PADDLE_TRAINER_ID=1",
                                      "PADDLE_TRAINER_ENDPOINTS=a:1,b:1,c:1", NULL};
    int rc = TUG_ENOMEM;
    for (long n = 0; rc != 0 && n < 100; n++) {
        mem_fault_after(n);
        struct tug_role_maker *m = NULL, *copy = NULL;
        rc = tug_role_maker_cloud(&m, all);
        if (rc == 0)
            rc = role_maker_copy(&copy, m, last_error());
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        tug_role_maker_close(m);
        tug_role_maker_close(copy);
    }
    assert_int_equal(0, rc);
}

static int clean(void **state)
{
    (void)state;
    tug_role_maker_close(made);
    made = NULL;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment),
        cmocka_unit_test(environment_that_is_wrong),
        cmocka_unit_test(environment_of_the_process),
        cmocka_unit_test(user_defined),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, clean);
}
