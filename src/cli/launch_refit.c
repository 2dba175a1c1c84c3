// See launch_refit.h. The scheduler of the first run, which is on this machine, writes
// the number of passes to a file; an environment variable passes it to the second run.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/launch_refit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/log.h"
#include "os/runtime_dir.h"
#include "run/train_refit.h"
#include "train/refit.h"

// Runs one of the two runs, with an environment variable that gives its stage.
static int launch_refit_run(const struct launch_options *o, const char *stage,
                            const char *what, struct err *e)
{
    struct launch_options with = *o;
    struct buf b = BUF_INIT(1 << 16);
    const char **env = mem_array(o->env.n + 1, sizeof(*env));
    int rc = env != NULL ? buf_printf(&b, "%s=%s:%s", TRAIN_STAGE_VARIABLE, stage, what)
                         : TUG_ENOMEM;
    const char *set = rc == 0 ? buf_str(&b) : NULL;
    if (set == NULL)
        rc = err_nomem(e, "the environment of a run");
    if (rc == 0) {
        for (size_t i = 0; i < o->env.n; i++)
            env[i] = o->env.items[i];
        env[o->env.n] = set;
        with.env = (struct launch_list){env, o->env.n + 1};
        rc = launch_run(&with, NULL, e);
    }
    buf_free(&b);
    mem_free(env);
    return rc;
}

static int search(const struct launch_options *o, const char *file, struct buf *ret,
                  struct err *e)
{
    log_info("--refit: trains with validation first, to find the number of passes");
    int rc = launch_refit_run(o, "search", file, e);
    if (rc == TUG_EINTERRUPTED)
        return err_set(e, rc,
                       "interrupted while --refit looked for the number of passes; "
                       "nothing was saved: run the same command to begin again");
    TRY(rc);
    TRY(file_read(file, ret, e));
    return buf_str(ret) != NULL ? 0
                                : err_nomem(e, "the result of the first run of --refit");
}

static int train(const struct launch_options *o, const char *found, struct err *e)
{
    struct train_result *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, "the result of the first run of --refit");
    int rc = refit_take_found(found, r, e);
    if (rc == 0) {
        log_info("--refit: validation was best after pass %u; training again, on all "
                 "examples, for as many passes",
                 r->best_epoch);
        rc = launch_refit_run(o, "all", found, e);
    }
    mem_free(r);
    return rc;
}

int launch_refit(const struct launch_options *o, struct err *e)
{
    char dir[FILE_PATH_MAX], name[64], file[FILE_PATH_MAX];
    struct buf found = BUF_INIT(1 << 12);
    TRY(runtime_dir_make(dir, e));
    snprintf(name, sizeof(name), "%ld.refit", (long)getpid());
    TRY(file_join(file, dir, name, e));
    int rc = search(o, file, &found, e);
    (void)disk_remove(file);
    if (rc == 0)
        rc = train(o, buf_str(&found), e);
    buf_free(&found);
    return rc;
}
