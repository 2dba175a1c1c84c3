// See refit.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/refit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "os/log.h"

struct train_config refit_search(const struct train_config *c)
{
    struct train_config search = *c;
    search.out = NULL;
    search.save_passes = 0;
    search.save_batches = search.keep_names = 0;
    search.test = (struct path_list){0};
    // Only the second run writes these files.
    search.dump = search.history_file = search.tfevents = NULL;
    search.report_data = NULL;
    return search;
}

size_t refit_paths(const struct train_config *c)
{
    return c->data.n + c->valid.n;
}

// Lists the training files, followed by the files of --valid, if it names files.
struct train_config refit_all(const struct train_config *c, uint32_t passes,
                              const char **paths)
{
    struct train_config all = *c;
    for (size_t i = 0; i < c->data.n; i++)
        paths[i] = c->data.items[i];
    for (size_t i = 0; i < c->valid.n; i++)
        paths[c->data.n + i] = c->valid.items[i];
    all.data.items = paths;
    all.data.n = refit_paths(c);
    all.valid = (struct path_list){0};
    all.valid_part = (struct held_out){0};
    all.epochs = passes;
    return all;
}

int refit_put_found(const struct train_result *t, struct buf *ret)
{
    struct metrics m = t->valid;
    TRY(buf_printf(ret, "%u", t->best_epoch));
    for (size_t i = 0; i < METRICS_FIELDS; i++)
        TRY(buf_printf(ret, ",%a", *metrics_value(&m, i)));
    return 0;
}

int refit_take_found(const char *text, struct train_result *ret, struct err *e)
{
    char *at;
    unsigned long passes = strtoul(text, &at, 10);
    bool good = passes > 0 && passes <= UINT32_MAX;
    ret->valid = (struct metrics){0};
    for (size_t i = 0; i < METRICS_FIELDS && good; i++) {
        const char *number = at + 1;
        good = *at == ',';
        if (good)
            *metrics_value(&ret->valid, i) = strtod(number, &at);
        good &= at > number;
    }
    if (!good || *at != '\0')
        return err_set(e, TUG_EDATA,
                       "'%.200s' is not a result of the first run of --refit", text);
    ret->best_epoch = (uint32_t)passes;
    ret->validated = true;
    return 0;
}

static int find_passes(const struct train_config *c, struct train_result *ret,
                       struct err *e)
{
    struct train_config search = refit_search(c);
    log_info("--refit: trains with validation first, to find the number of passes");
    int rc = train_run(&search, ret, e);
    if (rc != TUG_EINTERRUPTED)
        return rc;
    return err_set(e, rc,
                   "interrupted while --refit looked for the number of passes; nothing "
                   "was saved, because the model is trained only after that: run the "
                   "same command to begin again");
}

static int train_on_all(const struct train_config *c, uint32_t passes,
                        struct train_result *ret, struct err *e)
{
    const char **paths = mem_array(refit_paths(c) + 1, sizeof(*paths));
    if (paths == NULL)
        return err_nomem(e, "the names of files");
    struct train_config all = refit_all(c, passes, paths);
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
    struct metrics valid[LABELS_MAX];
    memcpy(valid, ret->valids, sizeof(valid));
    double seconds = ret->total_seconds;
    int rc = train_on_all(c, passes, ret, e);
    ret->validated = true;
    memcpy(ret->valids, valid, sizeof(valid));
    ret->best_epoch = passes;
    ret->total_seconds += seconds;
    return rc;
}
