// The facts of a run's processes, as another thread prints them.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/launch_facts.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "kit/test.h"

static void prints(struct launch_facts *f, const char *want)
{
    struct buf b = BUF_INIT(1 << 20);
    struct json_out o = JSON_OUT(&b);
    json_out_open(&o, NULL, '{');
    launch_facts_put(f, &o);
    json_out_close(&o, '}');
    assert_int_equal(o.rc, 0);
    assert_string_equal(buf_str(&b), want);
    buf_free(&b);
}

static void nobody_asks(void **state)
{
    (void)state;
    launch_facts_began(NULL, 0, 1, NULL);
    launch_facts_ended(NULL, 0, 1, 0);
    launch_facts_put(NULL, NULL);
    launch_facts_close(NULL);
}

static void tells_each_process(void **state)
{
    (void)state;
    struct launch_facts *f = NULL;
    assert_int_equal(launch_facts_open(&f, 1, 2, NULL), 0);
    launch_facts_began(f, 0, 10, NULL);
    launch_facts_began(f, 1, 11, "h");
    launch_facts_began(f, 2, 12, NULL);
    launch_facts_began(f, 99, 12, NULL); // ignored: there is no process 99
    launch_facts_ended(f, 1, 4, 0);
    launch_facts_ended(f, 2, 0, 9);
    prints(f, "{\"processes\":[{\"name\":\"scheduler\",\"role\":\"scheduler\",\"state\":"
              "\"running\",\"up\":true,\"pid\":10,\"host\":null,\"restarts\":0},{"
              "\"name\":\"server 0\",\"role\":\"server\",\"rank\":0,\"state\":\"ended\","
              "\"up\":false,\"pid\":11,\"host\":\"h\",\"code\":4,\"restarts\":0},{"
              "\"name\":\"worker 0\",\"role\":\"worker\",\"rank\":0,\"state\":\"ended\","
              "\"up\":false,\"pid\":12,\"host\":null,\"code\":137,\"signal\":9,"
              "\"restarts\":0},{\"name\":\"worker 1\",\"role\":\"worker\",\"rank\":1,"
              "\"state\":\"waiting\",\"up\":false,\"restarts\":0}]}");
    launch_facts_close(f);
}

static void counts_restarts(void **state)
{
    (void)state;
    struct launch_facts *f = NULL;
    assert_int_equal(launch_facts_open(&f, 0, 0, NULL), 0);
    launch_facts_began(f, 0, 10, NULL);
    launch_facts_ended(f, 0, 0, 9);
    launch_facts_began(f, 0, 20, NULL);
    prints(f, "{\"processes\":[{\"name\":\"scheduler\",\"role\":\"scheduler\",\"state\":"
              "\"running\",\"up\":true,\"pid\":20,\"host\":null,\"restarts\":1}]}");
    launch_facts_close(f);
}

// A process that SIGSTOP has stopped does not count as running.
static void knows_stopped_processes(void **state)
{
    (void)state;
    struct launch_facts *f = NULL;
    char want[256];
    int status;
    assert_int_equal(launch_facts_open(&f, 0, 0, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)raise(SIGSTOP);
        (void)pause();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    launch_facts_began(f, 0, child, NULL);
    snprintf(want, sizeof(want),
             "{\"processes\":[{\"name\":\"scheduler\",\"role\":\"scheduler\",\"state\":"
             "\"stopped\",\"up\":false,\"pid\":%d,\"host\":null,\"restarts\":0}]}",
             (int)child);
    prints(f, want);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    launch_facts_close(f);
}

static void *run(void *facts)
{
    for (int i = 0; i < 1000; i++) {
        launch_facts_began(facts, 0, i, "a");
        launch_facts_ended(facts, 0, i, 0);
    }
    return NULL;
}

// One thread changes the facts while another one reads them. The thread sanitizer would
// find a race.
static void is_read_while_it_changes(void **state)
{
    (void)state;
    struct launch_facts *f = NULL;
    struct buf b = BUF_INIT(1 << 20);
    pthread_t thread;
    assert_int_equal(launch_facts_open(&f, 0, 0, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, run, f), 0);
    for (int i = 0; i < 100; i++) {
        struct json_out o = JSON_OUT(&b);
        buf_clear(&b);
        launch_facts_put(f, &o);
        assert_int_equal(o.rc, 0);
    }
    pthread_join(thread, NULL);
    buf_free(&b);
    launch_facts_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_asks),
        cmocka_unit_test(tells_each_process),
        cmocka_unit_test(counts_restarts),
        cmocka_unit_test(knows_stopped_processes),
        cmocka_unit_test(is_read_while_it_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
