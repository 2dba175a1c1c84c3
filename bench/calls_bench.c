// Measures whether the cost of a push grows with the number of open requests. The server
// is a thread with one loop. N pushes of one float are sent, then all are waited for.
//
//   build/bench/bench_calls [MOST]    N = 1, 16, 256, ... up to MOST (1,000,000)
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "tug/tug.h"

static int fail(void)
{
    fprintf(stderr, "bench_calls: %s\n", tug_last_error());
    return 1;
}

// Sends `open` pushes and then waits for all of them, several times. Sets *ret to the
// microseconds per push.
static int measure(struct tug_client *c, uint64_t *requests, size_t open, double *ret)
{
    static const float one = 1;
    static const uint64_t keys[] = {1, 2, 3, 4, 5, 6, 7, 8};
    size_t rounds = open < 4096 ? 16384 / open : 1;
    uint64_t begin = clock_ns();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < open; i++) {
            if (tug_push(c, 1, &keys[i % 8], 1, &one, NULL, NULL, &requests[i]) != 0)
                return fail();
        }
        for (size_t i = 0; i < open; i++)
            if (tug_wait(c, requests[i], 0) != 0)
                return fail();
    }
    *ret = (double)(clock_ns() - begin) * 1e-3 / (double)(rounds * open);
    return 0;
}

int main(int argc, char **argv)
{
    size_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    struct tug_client *c = NULL;
    uint64_t *requests = mem_array(most + 1, sizeof(*requests));
    if (requests == NULL ||
        tug_client_open(&c, &(struct tug_client_options){.local_loops = 1}) != 0 ||
        tug_table_create(c, 1, "name = calls; dim = 1; rule = sum") != 0)
        return fail();
    for (size_t open = 1; open <= most; open *= 16) {
        double us;
        if (measure(c, requests, open, &us) != 0)
            return 1;
        printf("%8zu open: %8.2f us a push\n", open, us);
    }
    tug_client_close(c);
    mem_free(requests);
    return 0;
}
