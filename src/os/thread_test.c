// Asks the kernel how it schedules a thread of the background.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "kit/test.h"

struct seen {
    int nice, policy;
    uint64_t slice;
    char name[16];
};

static void *look(void *arg)
{
    struct seen *x = arg;
    uint64_t a[7] = {0}; // struct sched_attr; its runtime is the fourth word
    thread_background("behind");
    x->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    x->policy = sched_getscheduler(0);
    if (syscall(SYS_sched_getattr, 0, a, sizeof(a), 0) == 0)
        x->slice = a[3];
    pthread_getname_np(pthread_self(), x->name, sizeof(x->name));
    return NULL;
}

// Returns whether the kernel lets a thread choose its slice.
static bool has_slices(void)
{
    struct utsname u;
    int major = 0, minor = 0;
    return uname(&u) == 0 && sscanf(u.release, "%d.%d", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 12));
}

static void test_background_lets_others_go_first(void **state)
{
    (void)state;
    struct seen x = {0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, look, &x), 0);
    pthread_join(thread, NULL);
    assert_int_equal(x.nice, 10);
    assert_int_equal(x.policy, SCHED_BATCH);
    assert_string_equal(x.name, "behind");
    if (has_slices())
        assert_int_equal(x.slice, 100000);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER); // this thread is as before
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_background_lets_others_go_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
