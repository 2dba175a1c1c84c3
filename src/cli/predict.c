// tug predict: one prediction a line, in the order of the input.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "train/guard.h"

struct predict_values {
    struct model_values model;
    const char *out;
};

#define AT(field) .offset = offsetof(struct predict_values, field)

static const struct option options[] = {
    MODEL_OPTIONS(
        "What to predict",
        "files, directories, globs, or - for standard input; labels may be absent"),
    {.name = "out",
     .kind = OPTION_STRING,
     AT(out),
     .metavar = "FILE",
     .group = "Output",
     .help = "there when complete; by default standard output"},
};

const struct option_table cli_predict_options = {
    .command = "predict",
    .summary = "print a saved model's predictions for data",
    .usage = "--from DIR --data PATH... [--out FILE] [options]",
    .about =
        "One probability a line, in the order of the input (with --loss squared, the "
        "predicted number).",
    .examples = "tug predict --from model --data new.tsv --out p.txt\n"
                "zcat new.tsv.gz | tug predict --from model --data - | head",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .family = cli_tables,
};

static int print_predictions(void *ctx, const float *predictions, size_t n, struct err *e)
{
    struct file_writer *file = ctx;
    char text[32];
    for (size_t i = 0; i < n; i++) {
        int len = snprintf(text, sizeof(text), "%.7g\n", (double)predictions[i]);
        if (file != NULL)
            TRY(file_write(file, text, (size_t)len, e));
        else if (fwrite(text, 1, (size_t)len, stdout) != (size_t)len)
            return err_sys(e, TUG_EIO, "cannot write to standard output");
    }
    return 0;
}

static int predict_opened(struct opened_model *m, const struct predict_values *v,
                          struct err *e)
{
    TRY(model_open(m, &v->model, false, e));
    struct file_writer *file = NULL;
    if (v->out != NULL)
        TRY(file_create(&file, v->out, e));
    struct evaluation_options o = model_evaluation(m, &v->model);
    o.each = print_predictions;
    o.ctx = file;
    struct metrics metrics;
    int rc = evaluate(&o, &metrics, e);
    if (rc == 0)
        guard_scores(&metrics, "this data", false);
    if (rc == 0 && file != NULL)
        return file_commit(file, e);
    file_abort(file);
    return rc;
}

static int run(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    struct opened_model *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a model");
    int rc = predict_opened(m, values, e);
    model_close(m);
    mem_free(m);
    return rc;
}

const struct cli_command cli_predict = {
    .options = &cli_predict_options,
    .values_size = sizeof(struct predict_values),
    .run = run,
};
