// See report_data.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/report_data.h"

#include <string.h>

#include "base/alloc.h"
#include "data/input/encode.h"
#include "data/source/paths.h"
#include "os/clock.h"
#include "os/log.h"
#include "report/report.h"
#include "save/save.h"

void report_data_free(struct report_data *p)
{
    mem_free(p->before);
    importance_free(&p->importance);
    buf_free(&p->warnings);
    *p = (struct report_data){0};
}

void report_data_begin(struct report_data *p)
{
    if (p == NULL)
        return;
    report_data_free(p);
    p->warnings = BUF_INIT(1 << 16);
    p->began_unix_ns = clock_unix_ns();
    log_collect_warnings(&p->warnings);
}

void report_data_end(struct report_data *p)
{
    if (p != NULL)
        log_collect_warnings(NULL);
}

void report_data_warn(struct report_data *p, const char *text)
{
    // If memory is short, or the page already has many warnings, this warning is left
    // out.
    if (buf_add(&p->warnings, text, strlen(text)) == 0)
        (void)buf_add(&p->warnings, "\n", 1);
}

void report_data_keep(struct report_data *p)
{
    if (p != NULL)
        p->valid = p->latest;
}

static uint32_t steps(uint32_t passes)
{
    uint32_t n = REPORT_DATA_POINTS / (passes > 0 ? passes : 1);
    return n > REPORT_DATA_STEPS ? REPORT_DATA_STEPS : n > 1 ? n : 1;
}

uint64_t report_data_every(const struct report_data *p, uint32_t passes, uint64_t batches)
{
    return p == NULL ? 0 : (batches + steps(passes) - 1) / steps(passes);
}

// Drops every second point, but not the last one of a pass.
static void thin(struct report_data *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->points; i++) {
        bool last = i + 1 == p->points || p->point[i + 1].pass != p->point[i].pass;
        if (last || i % 2 == 1)
            p->point[n++] = p->point[i];
    }
    // With hundreds of passes, each point is the last one of its pass and may not be
    // dropped.
    if (n == p->points)
        memmove(p->point, p->point + 1, --n * sizeof(*p->point));
    p->points = n;
}

void report_data_note(struct report_data *p, uint32_t pass,
                      const struct metrics_stream *seen, enum loss loss)
{
    if (p == NULL)
        return;
    struct metrics_stream *both = p->before != NULL ? p->before : metrics_streams(2);
    if (both == NULL)
        return;
    p->before = both;
    if (pass != p->before_pass || seen->examples < both[0].examples)
        metrics_stream_clear(&both[0]);
    metrics_stream_since(&both[1], seen, &both[0]);
    if (both[1].examples == 0)
        return;
    if (p->points == REPORT_DATA_POINTS)
        thin(p);
    struct metrics all = metrics_stream_result(seen, loss),
                   since = metrics_stream_result(&both[1], loss);
    p->point[p->points++] = (struct report_data_point){.pass = pass,
                                                       .examples = seen->examples,
                                                       .loss = all.logloss,
                                                       .auc = all.auc,
                                                       .window_loss = since.logloss,
                                                       .window_auc = since.auc};
    both[0] = *seen;
    p->before_pass = pass;
    p->positives = seen->observed;
}

void report_data_note_share(struct report_data *p, uint32_t pass, double share,
                            const struct metrics_stream *seen, enum loss loss)
{
    if (p == NULL || seen->examples == 0)
        return;
    if (pass == p->before_pass && share < p->share + 1.0 / REPORT_DATA_STEPS)
        return;
    report_data_note(p, pass, seen, loss);
    p->share = share;
}

int report_data_check_file(const char *path, const struct data_files *read, struct err *e)
{
    if (path == NULL)
        return 0;
    TRY(encoder_check_name("--report", path, true, e));
    TRY(save_check_output("--report", path, e));
    if (read != NULL && data_files_has(read, path))
        return err_set(e, TUG_EUSAGE,
                       "--report: this run reads '%s', and would overwrite it: give "
                       "another file",
                       path);
    return report_check_file("--report", path, e);
}
