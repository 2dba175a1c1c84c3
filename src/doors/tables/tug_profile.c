// tug_profile_start and tug_profile_stop: ask the processes of the client's cluster over
// links of their own, as tug profile does. The client's requests continue meanwhile.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/tables/tug_client.h"
#include "runtime/profiler.h"
#include "server/profile/profile.h"
#include "tug/table.h"

enum { REACH_SECONDS = 10 };

static struct profiler profiler_of(struct tug_client *c)
{
    return (struct profiler){.node = &c->node, .seconds = REACH_SECONDS};
}

int tug_profile_start(struct tug_client *c)
{
    struct profiler p = profiler_of(c);
    TRY(calls_may_wait(c));
    return profiler_start(&p, PROFILE_BYTES, NULL, last_error());
}

int tug_profile_stop(struct tug_client *c, const char *file)
{
    struct profiler p = profiler_of(c);
    struct trace trace;
    TRY(calls_may_wait(c));
    if (file == NULL)
        return err_set(last_error(), TUG_EUSAGE, "a profile needs a file");
    int rc = profiler_stop(&p, file, &trace, last_error());
    trace_free(&trace);
    return rc;
}
