// See ports.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/ports.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "kit/test.h"
#include "os/clock.h"

void ports_free(unsigned *ret, size_t n)
{
    enum { FIRST = 10000, LAST = 32000 };
    // All sockets stay bound until the end, so that the ports differ.
    int bound[PORTS_MAX];
    uint64_t seed = clock_ns() ^ (uint64_t)getpid() << 32, draws = 0;
    assert_in_range(n, 0, PORTS_MAX);
    for (size_t i = 0; i < n; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        bound[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        do {
            assert_in_range(draws, 0, 1000);
            ret[i] = FIRST + (unsigned)random_below(seed, 0, draws++, LAST - FIRST);
            a.sin_port = htons((uint16_t)ret[i]);
        } while (bind(bound[i], (struct sockaddr *)&a, sizeof(a)) != 0);
    }
    for (size_t i = 0; i < n; i++)
        close(bound[i]);
}
