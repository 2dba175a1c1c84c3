// Priorities of threads; see thread.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/thread.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    NICE = 10,
    SLICE_NS = 100000, // the least that Linux accepts
};

// The first version of the kernel's struct sched_attr. glibc 2.36 does not declare it,
// and the kernel's header cannot be included together with the headers of a newer glibc.
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

// Since Linux 6.6 a woken thread waits until the running one has used up its slice, 1.4
// ms on two cores, whatever its nice value. Since Linux 6.12 a thread can ask for a
// shorter slice; earlier versions ignore the request. A thread with the policy
// SCHED_BATCH preempts no other thread when it wakes.
void thread_background(const char *name)
{
    const struct attributes a = {
        .size = sizeof(a), .policy = SCHED_BATCH, .nice = NICE, .runtime = SLICE_NS};
    (void)pthread_setname_np(pthread_self(), name);
    if (syscall(SYS_sched_setattr, 0, &a, 0) != 0) // a sandbox may forbid it
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}
