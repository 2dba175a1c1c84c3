// --refit as an option, and in the two runs on a cluster; see train_refit.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_refit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "train/refit.h"

int train_check_refit(const struct train_config *c, struct err *e)
{
    if (c->valid.n == 0 && c->valid_part.share == 0)
        return err_set(e, TUG_EUSAGE,
                       "--refit needs --valid, which finds the number of "
                       "passes");
    if (c->publish != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--refit and --publish cannot be used together: the model of the "
                       "first run is not kept; give --epochs instead of --refit");
    if (c->resume != TRAIN_NEW)
        return err_set(e, TUG_EUSAGE,
                       "--refit cannot be resumed: its first run, with validation, saves "
                       "nothing. To resume the second run, if --out holds it, give all "
                       "files as --data, its --epochs, and neither --valid nor --refit");
    return 0;
}

int train_set_stage(struct train_setup *s, struct err *e)
{
    struct train_config *c = &s->config;
    const char *stage = getenv(TRAIN_STAGE_VARIABLE), *is = "";
    if (stage != NULL && strchr(stage, ':') != NULL)
        is = strchr(stage, ':') + 1;
    if (stage != NULL && strncmp(stage, "search:", 7) == 0) {
        s->stage = REFIT_SEARCH;
        s->found_file = is;
        *c = refit_search(c);
        return 0;
    }
    if (stage == NULL || strncmp(stage, "all:", 4) != 0)
        return err_set(e, TUG_EUSAGE,
                       "--refit on a cluster needs tug launch, which starts the cluster "
                       "twice: without it, train with --valid first, and then without "
                       "--valid on all files for the best number of --epochs");
    TRY(refit_take_found(is, &s->found, e));
    s->paths = mem_array(refit_paths(c) + 1, sizeof(*s->paths));
    if (s->paths == NULL)
        return err_nomem(e, "the names of files");
    s->stage = REFIT_ALL;
    *c = refit_all(c, s->found.best_epoch, s->paths);
    if (c->test.n == 0)
        s->cluster.workers_score = false; // there is nothing to score
    return 0;
}

void train_setup_close(struct train_setup *s)
{
    mem_free(s->paths);
    s->paths = NULL;
    history_free(&s->history);
    report_data_free(&s->report_data);
    options_close(s->taken_options);
    s->taken_options = NULL;
}

int train_tell_found(const struct train_setup *s, const struct train_result *t,
                     struct err *e)
{
    struct buf b = BUF_INIT(4096);
    struct file_writer *f;
    int rc = refit_put_found(t, &b) == 0
                 ? file_create_in(&f, FILE_OWN, s->found_file, e)
                 : err_nomem(e, "the result of the first run of --refit");
    if (rc == 0) {
        rc = file_write(f, b.data, b.len, e);
        if (rc == 0)
            rc = file_commit(f, e);
        else
            file_abort(f);
    }
    buf_free(&b);
    return rc;
}
