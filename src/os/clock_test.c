// Tests deadlines while the wall clock is set back right after it was read.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/clock.h"

#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kit/test.h"
#include "os/thread.h"

// Replaces the C library's function. This process reads a wall clock that is 5 seconds
// ahead of the kernel's, by which the kernel ends waits.
int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    if (id == CLOCK_REALTIME)
        ret->tv_sec += 5;
    return rc;
}

// A wait with a deadline takes the time that the caller asked for, about 0.05 seconds.
static void waits_as_long(void **state)
{
    (void)state;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    thread_condition(&condition);
    double begin = clock_seconds();
    struct timespec until = clock_deadline(0.05);
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&condition, &mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&mutex);
    double took = clock_seconds() - begin;
    assert_true(took > 0.04 && took < 4);
    pthread_cond_destroy(&condition);
}

static void any_seconds(void **state)
{
    (void)state;
    const double huge = HUGE_VAL, nan = (double)NAN;
    assert_int_equal(1500000000, clock_ns_of(1.5));
    assert_true(clock_ns_of(0) == 0 && clock_ns_of(-1) == 0 && clock_ns_of(-huge) == 0);
    assert_int_equal(0, clock_ns_of(nan));
    assert_true(clock_ns_of(huge) == clock_ns_of(1e300));
    assert_true(clock_ns() + clock_ns_of(huge) > clock_ns() + clock_ns_of(3e9));
    struct timespec now = clock_deadline(0), until = clock_deadline(huge);
    assert_true(until.tv_sec - now.tv_sec >= 86400 && until.tv_sec - now.tv_sec < 90000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_as_long),
        cmocka_unit_test(any_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
