// See launch_again.h. With --resume=auto, a run that was lost before its first save begins
// anew. The directory of --out has no older save that could be taken for one of this run:
// train refuses such a directory, unless it was told to resume.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/launch_again.h"

#include <poll.h>

#include "base/alloc.h"
#include "os/log.h"

// PAUSE_MS: the pause before the second attempt, in milliseconds. The pause doubles
// before each later attempt, up to PAUSE_MOST_MS.
enum { PAUSE_MS = 1000, PAUSE_MOST_MS = 30000 };

static int launch_resume(const struct launch_options *o, bool *ret_lost, struct err *e)
{
    struct launch_options with = *o;
    const char **words = mem_array(o->words.n + 1, sizeof(*words));
    if (words == NULL)
        return err_nomem(e, "the words of a run");
    for (size_t i = 0; i < o->words.n; i++)
        words[i] = o->words.items[i];
    words[o->words.n] = "--resume=auto"; // the last one counts, if the words have several
    with.words = (struct launch_list){words, o->words.n + 1};
    int rc = launch_run(&with, ret_lost, e);
    mem_free(words);
    return rc;
}

int launch_again(const struct launch_options *o, bool saves, struct err *e)
{
    bool lost = false;
    struct err why = {0};
    int pause = PAUSE_MS, rc = launch_run(o, &lost, &why);
    for (uint32_t i = 1; rc != 0 && lost && saves && i <= o->restarts; i++) {
        log_warn("%s", why.text);
        log_warn("the whole run is resumed from its last save in %d s (restart %u of at "
                 "most %u)",
                 pause / 1000, i, o->restarts);
        (void)poll(NULL, 0, pause);
        pause = 2 * pause < PAUSE_MOST_MS ? 2 * pause : PAUSE_MOST_MS;
        why = (struct err){0};
        rc = launch_resume(o, &lost, &why);
    }
    return rc != 0 ? err_copy(e, &why) : 0;
}
