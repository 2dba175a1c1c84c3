// Tests tug_profile_start and tug_profile_stop on a cluster inside this process.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "tug/table.h"

enum { LOOPS = 2, KEYS = 100, PUSHES = 20 };

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static struct tug_client *open_client(void)
{
    struct tug_client *c;
    struct tug_client_options o = {.local_loops = LOOPS, .wait_seconds = 60};
    check(tug_client_open(&c, &o));
    check(tug_table_create(c, 3, "name = clicks; accessor = plain; dim = 2; rule = sum"));
    return c;
}

static void push(struct tug_client *c)
{
    uint64_t keys[KEYS], ts;
    float values[KEYS * 2] = {0};
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = i;
    check(tug_push(c, 3, keys, KEYS, values, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
}

static const char *text(const json_t *o, const char *name)
{
    const char *found = json_string_value(json_object_get(o, name));
    return found != NULL ? found : "";
}

// Returns how many pushes to a table the profile in `file` has.
static size_t pushes_in(const char *file, const char *table)
{
    json_error_t why;
    json_t *all = json_load_file(file, 0, &why), *event;
    size_t n = 0, i;
    if (all == NULL)
        fail_msg("%s:%d: %s", file, why.line, why.text);
    json_array_foreach(json_object_get(all, "traceEvents"), i, event)
        n += strncmp(text(event, "name"), "push", 4) == 0 &&
             strcmp(text(json_object_get(event, "args"), "table"), table) == 0;
    json_decref(all);
    return n;
}

// The profile has exactly the pushes between tug_profile_start and tug_profile_stop.
static void start_and_stop(void **state)
{
    (void)state;
    char file[] = "/tmp/tug-profile-XXXXXX";
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    struct tug_client *c = open_client();
    push(c);
    check(tug_profile_start(c));
    for (int i = 0; i < PUSHES; i++)
        push(c);
    check(tug_profile_stop(c, file));
    assert_int_equal(pushes_in(file, "clicks"), PUSHES * LOOPS);
    check(tug_client_close(c));
    unlink(file);
}

static void refused(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    assert_int_equal(tug_profile_stop(c, "/tmp/tug-no-profile.json"), TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(), "no profile has been started"));
    assert_int_equal(access("/tmp/tug-no-profile.json", F_OK), -1);
    check(tug_profile_start(c));
    assert_int_equal(tug_profile_stop(c, NULL), TUG_EUSAGE);
    assert_int_equal(tug_profile_stop(c, "/tmp/no/such/dir/p.json"), TUG_EIO);
    assert_non_null(strstr(tug_last_error(), "/tmp/no/such/dir"));
    push(c);
    check(tug_client_close(c));
}

struct inside {
    struct tug_client *client;
    int started, stopped;
};

static void in_callback(void *ctx, uint64_t ts, int rc)
{
    struct inside *x = ctx;
    (void)ts, (void)rc;
    x->started = tug_profile_start(x->client);
    x->stopped = tug_profile_stop(x->client, "/tmp/tug-no-profile.json");
}

static void not_in_callbacks(void **state)
{
    (void)state;
    struct inside x = {.client = open_client()};
    uint64_t key = 7;
    float value[2] = {1, 2};
    check(tug_push(x.client, 3, &key, 1, value, in_callback, &x, NULL));
    check(tug_client_close(x.client));
    assert_int_equal(x.started, TUG_EUSAGE);
    assert_int_equal(x.stopped, TUG_EUSAGE);
}

static int leaves_nothing(void **state)
{
    (void)state;
    return mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(start_and_stop, leaves_nothing),
        cmocka_unit_test_teardown(refused, leaves_nothing),
        cmocka_unit_test_teardown(not_in_callbacks, leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
