// The facts about the processes of a run: docs/cluster.md describes the fields ("The facts
// of a node"). The launcher's thread writes them, and any
// thread may print them.
//
// All functions do nothing if the facts are NULL, which means that they are not served.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_LAUNCH_FACTS_H
#define TUG_LAUNCH_LAUNCH_FACTS_H

#include <stdint.h>

#include "base/err.h"
#include "base/json_out.h"

struct launch_facts;

// Opens the facts about a run with one scheduler, `servers` servers and `workers` workers.
int launch_facts_open(struct launch_facts **ret, uint32_t servers, uint32_t workers,
                      struct err *e);
void launch_facts_close(struct launch_facts *f);

// Record that process `member` (0 is the scheduler; servers and workers follow) has
// begun, or has ended with an exit code or by a signal. Until a process begins, its state is
// "waiting". `host` is the host on which it runs; NULL: this machine.
void launch_facts_began(struct launch_facts *f, uint32_t member, int pid,
                        const char *host);
void launch_facts_ended(struct launch_facts *f, uint32_t member, int code, int signal);

// Writes the JSON member "processes", a list of all processes.
void launch_facts_put(struct launch_facts *f, struct json_out *to);

#endif
