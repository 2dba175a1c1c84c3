// The page of a scheduler that waits for another one to die (--state etcd://...): it says
// that this process is a standby, and of which scheduler.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODES_STANDBY_H
#define TUG_CLI_NODES_STANDBY_H

#include <pthread.h>

#include "cli/nodes/role_http.h"

struct standby {
    const struct monitor_options *at;
    struct usage *usage;
    struct role_http *http; // NULL: the scheduler has not waited so far, or has no page
    pthread_mutex_t lock;   // guards `waits_for`
    char waits_for[512];
};

void standby_open(struct standby *s, const struct monitor_options *at, struct usage *u);
// Logs `line`, which says why this scheduler waits, and opens a page that shows the line.
// A page that cannot be opened is only a warning: the scheduler that takes over reports
// the error.
void standby_say(void *standby, const char *line);
// Frees the address for the page of the scheduler that takes over.
void standby_close(struct standby *s);

#endif
