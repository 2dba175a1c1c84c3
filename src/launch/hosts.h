// A file of hosts, one `user@host slots=N` or `host:port` per line; # begins a comment.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_HOSTS_H
#define TUG_LAUNCH_HOSTS_H

#include <stdint.h>

#include "base/err.h"

enum { HOSTS_MAX = 4096, HOST_NAME_MAX_BYTES = 256, HOST_SLOTS_MAX = 4096 };

struct host {
    char name[HOST_NAME_MAX_BYTES]; // the host for ssh: "host" or "user@host"
    uint16_t port;                  // port for ssh; 0: the port of ssh's configuration
    uint32_t slots;
};

struct hosts {
    struct host *list;
    uint32_t n;
};

int hosts_read(struct hosts *ret, const char *path, struct err *e);
int hosts_parse(struct hosts *ret, const char *name, const char *text, struct err *e);
void hosts_free(struct hosts *h);

// Returns the host's name without "user@", for addresses.
const char *hosts_address(const struct host *h);

// Returns the host of the i-th process. Each round places one process on every host that
// still has a free slot; when all slots are taken, placing starts again.
uint32_t hosts_place(const struct hosts *h, uint32_t i);

#endif
