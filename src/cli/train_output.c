// See train_output.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/train_output.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plural.h"
#include "cli/result.h"
#include "os/file.h"
#include "os/json.h"
#include "os/log.h"
#include "report/report.h"
#include "run/about.h"
#include "run/train_refit.h"
#include "save/save.h"

int train_open_log(const struct train_options *t, const struct options *o,
                   const struct node *node, struct err *e)
{
    if (node == NULL || options_given(o, "log-level"))
        log_set_level((enum log_level)t->log_level);
    if (t->quiet && (!options_given(o, "log-level") || t->log_level > LOG_WARN))
        log_set_level(LOG_WARN);
    // A log file can have only one writer; on a cluster, tug launch --log-dir writes a
    // log for each role.
    if (t->log_dir == NULL || node != NULL)
        return 0;
    char path[FILE_PATH_MAX];
    TRY(file_make_dir(t->log_dir, e));
    TRY(file_join(path, t->log_dir, "train.log", e));
    TRY(save_check_output("--log-dir", path, e));
    return log_set_file(path, e);
}

static struct result result_of(const struct train_config *c, const struct train_result *t)
{
    struct result r = {
        .command = "train",
        .model = c->model.ops->name,
        .format = t->format,
        .examples = t->examples - t->held_out,
        .held_out = t->held_out,
        .epochs = t->epochs,
        .epochs_before = t->epochs_before,
        .tested = t->tested,
        .labels = t->labels,
        .validated = t->validated,
        .best_epoch = t->best_epoch,
        .read_seconds = t->read_seconds,
        .wait_seconds = t->wait_seconds,
        .train_seconds = t->train_seconds,
        .valid_seconds = t->valid_seconds,
        .save_seconds = t->save_seconds,
        .test_seconds = t->test_seconds,
        .total_seconds = t->total_seconds,
        .examples_per_second = t->train_seconds > 0
                                   ? (double)t->trained_examples / t->train_seconds
                                   : (double)NAN,
        .keys = t->keys,
        .bytes_per_key = t->bytes_per_key,
        .fixed_bytes = t->fixed_bytes,
        .streamed = t->streamed,
        .data_bytes = t->data_bytes,
        .threads = c->threads,
        .seed = c->model.seed,
        .out = t->saved,
        .skipped_lines = t->skipped_lines,
        .history = c->history,
    };
    memcpy(r.label, t->label, sizeof(r.label));
    memcpy(r.tests, t->tests, sizeof(r.tests));
    memcpy(r.valids, t->valids, sizeof(r.valids));
    return r;
}

static void add_seconds(char *to, size_t size, const char *what, double seconds,
                        bool always)
{
    size_t n = strlen(to);
    if (always || seconds >= 0.05)
        snprintf(to + n, size - n, ", %s %.1f s", what, seconds);
}

// Writes "read 0.2 s, train 1.2 s at ... examples/s, valid 0.1 s, ...".
static void format_seconds(const struct result *r, const char *rate, char *to,
                           size_t size)
{
    snprintf(to, size, "read %.1f s, train %.1f s%s", r->read_seconds, r->train_seconds,
             rate);
    add_seconds(to, size, "valid", r->valid_seconds, r->validated);
    add_seconds(to, size, "save", r->save_seconds, false);
    add_seconds(to, size, "test", r->test_seconds, r->tested);
    add_seconds(to, size, "other", result_other_seconds(r), false);
}

static void print_text(const struct result *r)
{
    char rate[80] = "", who[64], held[64] = "", seconds[256], data[64] = "",
         before[64] = "";
    if (r->workers > 0)
        snprintf(who, sizeof(who), "%u server%s, %u worker%s", r->servers,
                 PLURAL_S(r->servers), r->workers, PLURAL_S(r->workers));
    else
        snprintf(who, sizeof(who), "%d thread%s", r->threads, PLURAL_S(r->threads));
    if (isfinite(r->examples_per_second)) // otherwise the run had nothing left to train
        snprintf(rate, sizeof(rate), " at %.0f examples/s", r->examples_per_second);
    if (r->workers > 0 && rate[0] != '\0')
        snprintf(rate + strlen(rate), sizeof(rate) - strlen(rate),
                 ", %.0f %% waiting for servers",
                 100 * r->wait_seconds / r->train_seconds);
    if (r->held_out > 0)
        snprintf(held, sizeof(held), " (%llu more held out)",
                 (unsigned long long)r->held_out);
    if (r->epochs_before > 0)
        snprintf(before, sizeof(before), " (%u before the run was resumed)",
                 r->epochs_before);
    format_seconds(r, rate, seconds, sizeof(seconds));
    if (r->data_bytes > 0)
        snprintf(data, sizeof(data), "%.1f MB of data in memory%s, ",
                 (double)r->data_bytes / 1e6, r->streamed ? " at a time" : "");
    cli_printf("%u pass%s%s over %llu example%s%s in %.1f s (%s), %s"
               "%llu key%s of %.0f bytes and %.1f MB beside them, %s\n",
               r->epochs, PLURAL_ES(r->epochs), before, (unsigned long long)r->examples,
               PLURAL_S(r->examples), held, r->total_seconds, seconds, data,
               (unsigned long long)r->keys, PLURAL_S(r->keys), r->bytes_per_key,
               (double)r->fixed_bytes / 1e6, who);
    if (r->out[0] != 0)
        cli_printf("saved to %s\n", r->out);
}

// Prints that the run had ended before this command, with its save and advice. If the run
// has passes left, it was stopped early.
static void print_nothing(const struct result *r, const struct train_result *t,
                          const struct train_config *c)
{
    char more[160] = "more --epochs";
    if (r->epochs > c->epochs || (t->within_pass && r->epochs == c->epochs)) {
        cli_printf("there is nothing to do: the run has done %u pass%s%s, more than "
                   "--epochs %u; its save %s is unchanged\n(give more --epochs to train "
                   "longer on this data)\n",
                   r->epochs, PLURAL_ES(r->epochs),
                   t->within_pass ? " and a part of the next one" : "", c->epochs,
                   r->out);
        return;
    }
    if (r->epochs < c->epochs)
        snprintf(more, sizeof(more),
                 "a larger --patience, or --patience 0, because validation has not "
                 "improved for %u pass%s,",
                 c->patience, PLURAL_ES(c->patience));
    cli_printf(
        "there is nothing to do: the run is over, %u pass%s over %llu examples, saved "
        "in %s\n(give %s to train longer on this data, or --init-from and "
        "another --out to train on new data)\n",
        r->epochs, r->epochs == 1 ? "" : "es", (unsigned long long)r->examples, r->out,
        more);
}

// Adds the fact that training has finished to an error about the report.
static int train_report_failed(const struct train_result *t, struct err *e)
{
    return err_wrap(e, "--report: training has finished%s%s, but the page is missing",
                    t->saved[0] != '\0' ? ", the model is in " : "", t->saved);
}

void train_report_interrupted(struct train_setup *s, const struct train_result *t,
                              uint32_t servers, uint32_t workers, struct err *why)
{
    struct result r = result_of(&s->config, t);
    struct err e = {0};
    if (s->config.report_file == NULL || r.examples == 0)
        return;
    r.servers = servers;
    r.workers = workers;
    report_data_warn(&s->report_data, why->text);
    json_begin();
    json_t *all = result_to_json(&r);
    about_add_train(all, &r, s);
    json_object_set_new(all, "interrupted", json_true());
    if (report_write_run(all, s->config.report_file, &e) != 0)
        err_add(why, "; the page of --report is missing: %s", e.text);
    json_decref(all);
}

// Returns whether the page of --report stays: a resumed run that had nothing left to do
// would write an earlier page again without its curves and predictions.
static bool train_report_stays(const struct train_setup *s, const struct train_result *t)
{
    struct stat at;
    const char *path = s->config.report_file;
    bool stays = path != NULL && t->nothing_to_do && !t->tested && stat(path, &at) == 0 &&
                 at.st_size > 0;
    if (stays)
        log_info("--report: '%s' is unchanged, because there was nothing to do", path);
    return stays;
}

int train_print(const struct train_setup *s, const struct train_result *t,
                uint32_t servers, uint32_t workers, struct err *e)
{
    struct result r = result_of(&s->config, t);
    if (s->stage == REFIT_SEARCH)
        return train_tell_found(s, t, e);
    if (s->stage == REFIT_ALL) {
        r.validated = true;
        r.valid = s->found.valid;
        r.best_epoch = s->found.best_epoch;
    }
    r.servers = servers;
    r.workers = workers;
    json_begin();
    json_t *all = s->json || s->config.report_file != NULL ? result_to_json(&r) : NULL;
    int rc = 0;
    if (s->config.report_file != NULL && !train_report_stays(s, t)) {
        about_add_train(all, &r, s);
        rc = report_write_run(all, s->config.report_file, e);
        if (rc != 0)
            rc = train_report_failed(t, e);
    }
    if (r.tested)
        (void)result_print_metrics(&r);
    if (s->json) {
        int said = json_print(all, 0, rc == 0 ? e : NULL);
        return rc != 0 ? rc : said;
    }
    json_decref(all);
    if (rc != 0)
        return rc;
    if (s->refit)
        cli_printf(
            "validation was best after pass %u, with a logloss of %.5f: the model was "
            "trained again on all examples\n",
            r.best_epoch, r.valid.logloss);
    if (t->nothing_to_do)
        print_nothing(&r, t, &s->config);
    else
        print_text(&r);
    return 0;
}

int train_print_cv(const struct train_setup *s, const struct cv *c, struct err *e)
{
    if (s->json) {
        json_begin();
        json_t *found = cv_to_json(c);
        return json_print(json_pack("{s:s, s:s, s:o}", "command", "train", "model",
                                    s->config.model.ops->name, "cv", found),
                          0, e);
    }
    cli_printf("%5s  %8s  %9s  %8s  %9s\n", "pass", "loss", "deviation", "auc",
               "deviation");
    for (size_t i = 0; i < c->n; i++) {
        const struct cv_pass *p = &c->pass[i];
        cli_printf("%5zu", i + 1);
        cli_cell(8, p->loss.mean);
        cli_cell(9, p->loss.deviation);
        cli_cell(8, p->auc.mean);
        cli_cell(9, p->auc.deviation);
        cli_printf("\n");
    }
    cli_printf("means over %u parts; the loss is smallest with --epochs %zu\n", c->folds,
               c->best + 1);
    return 0;
}
