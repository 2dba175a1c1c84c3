// See merge.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/merge.h"

#include <inttypes.h>
#include <string.h>

#include "base/plural.h"
#include "data/format/number.h"
#include "os/log.h"

int merge_begin(struct merge *m, const char *text, struct dataset_options *o,
                struct err *e)
{
    uint64_t n = 0;
    if (text == NULL)
        return 0;
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    if (len == 0 || len >= MERGE_COLUMN_MAX || memchr(text, ',', len) != NULL ||
        !number_u64(colon + 1, strlen(colon + 1), &n) || n < 2 || n > MERGE_LINES_MAX)
        return err_set(
            e, TUG_EUSAGE,
            "--merge-ids: '%.100s' is not COLUMN:N, a column and how many lines "
            "make an example, 2 to %d",
            text, MERGE_LINES_MAX);
    memcpy(m->column, text, len);
    m->column[len] = '\0';
    o->max_chunks = 0;
    o->keep = m->column;
    o->keep_option = "--merge-ids";
    o->merge = (uint32_t)n;
    o->merged = &m->done;
    return 0;
}

static void tell_conflicts(const struct merge *m, const struct dataset_options *o)
{
    const struct dataset_merged *d = &m->done;
    struct buf name = BUF_INIT(SCHEMA_TEXT_MAX);
    if (d->slot != MERGED_LABEL)
        reader_slot_name(o->reader, d->slot, &name);
    const char *what = buf_str(&name);
    log_warn("--merge-ids: %" PRIu64 " group%s left out because two lines have the same "
             "slot, or different labels or weights: first %s:%" PRIu64 " and %s:%" PRIu64
             " (%s%s)",
             d->conflicts, d->conflicts == 1 ? " was" : "s were",
             source_file_name(o->source, d->file[0]), d->line[0],
             source_file_name(o->source, d->file[1]), d->line[1],
             d->slot == MERGED_LABEL ? "the label or weight" : "slot ",
             d->slot == MERGED_LABEL || what == NULL ? "" : what);
    buf_free(&name);
}

int merge_end(const struct merge *m, const struct dataset_options *o, struct err *e)
{
    const struct dataset_merged *d = &m->done;
    if (o->merge == 0)
        return 0;
    log_info("merged by '%s': %" PRIu64 " lines are %" PRIu64 " example%s", m->column,
             d->lines, d->examples, PLURAL_S(d->examples));
    if (d->groups > 0)
        log_warn("--merge-ids: %" PRIu64
                 " id%s left out because %s lines than %u: %" PRIu64 " line%s in all",
                 d->groups, d->groups == 1 ? " was" : "s were",
                 d->groups == 1 ? "it has more or fewer" : "they have more or fewer",
                 o->merge, d->group_lines, PLURAL_S(d->group_lines));
    if (d->conflicts > 0)
        tell_conflicts(m, o);
    return d->examples > 0 || d->lines == 0
               ? 0
               : err_set(
                     e, TUG_EDATA,
                     "--merge-ids: no id of column '%s' has %u lines that can be merged",
                     m->column, o->merge);
}
