// The page and metrics of the launcher itself, with --http.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LAUNCH_HTTP_H
#define TUG_CLI_LAUNCH_HTTP_H

#include "launch/launch.h"
#include "monitor/monitor.h"
#include "os/file.h"

struct launch_http {
    struct usage *usage;
    struct launch_facts *facts;
    struct role_http *http;
    char address[FILE_PATH_MAX];
};

// Opens the launcher's monitor if the run has --http (*run holds the options of --http).
// The monitor listens at a free port of the same host, or at PATH.launch. Sets the
// members of *o that belong to it. Does nothing if processes run on other hosts, because
// the address may be that of another host. The caller closes *h, also after an error.
int launch_http_open(struct launch_http *h, const struct monitor_options *run,
                     struct launch_options *o, struct err *e);
void launch_http_close(struct launch_http *h);

#endif
