// See refit.h. Both are ordinary runs; the first saves nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/refit.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/plural.h"

static int find_passes(const struct train_config *c, struct train_result *ret,
                       struct err *e)
{
    struct train_config search = *c;
    search.out = NULL;
    search.save_passes = 0;
    search.save_batches = search.keep_names = 0;
    search.test = (struct path_list){0};
    log_info("--refit: first with validation, to find the number of passes");
    int rc = train_run(&search, ret, e);
    if (rc != TUG_EINTERRUPTED)
        return rc;
    return err_set(e, rc,
                   "interrupted while --refit looked for the number of passes; nothing "
                   "was saved, because the model is trained only after that: the same "
                   "command begins anew");
}

// The training files, and then those of the validation, if that has some of its own.
static const char **all_paths(const struct train_config *c)
{
    size_t n = c->data.n;
    const char **paths = mem_array(n + c->valid.n + 1, sizeof(*paths));
    if (paths == NULL)
        return NULL;
    memcpy(paths, c->data.items, n * sizeof(*paths));
    for (size_t i = 0; i < c->valid.n; i++)
        paths[n + i] = c->valid.items[i];
    return paths;
}

static int train_on_all(const struct train_config *c, uint32_t passes,
                        struct train_result *ret, struct err *e)
{
    struct train_config all = *c;
    const char **paths = all_paths(c);
    if (paths == NULL)
        return err_nomem(e, "the names of files");
    all.data.items = paths;
    all.data.n += c->valid.n;
    all.valid = (struct path_list){0};
    all.valid_fraction = 0;
    all.epochs = passes;
    log_info("--refit: validation was best after pass %u; training again, on all "
             "examples, for %u pass%s",
             passes, passes, PLURAL_ES(passes));
    int rc = train_run(&all, ret, e);
    mem_free(paths);
    return rc;
}

int refit_run(const struct train_config *c, struct train_result *ret, struct err *e)
{
    TRY(find_passes(c, ret, e));
    uint32_t passes = ret->best_epoch;
    struct metrics valid = ret->valid;
    double seconds = ret->total_seconds;
    int rc = train_on_all(c, passes, ret, e);
    ret->validated = true;
    ret->valid = valid;
    ret->best_epoch = passes;
    ret->total_seconds += seconds;
    return rc;
}
