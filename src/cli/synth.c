// tug synth: writes click data for which the best possible AUC is known.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "data/input/encode.h"
#include "os/file.h"
#include "os/json.h"
#include "save/save.h"
#include "synth/synth.h"

struct synth_values {
    uint64_t rows, test_rows, seed;
    int format;
    const char *out, *test_out;
    bool json;
};

#define OPTIONS_OF struct synth_values

static const struct option options[] = {
    {"rows", .group = "What to make", .required = true,
     U64_AT(rows, "N", NULL, 1, INFINITY), "training examples, such as 1000000 or 1e6"},
    {"out", .required = true, STRING_AT(out, "PATH"),
     "file for the training examples; compressed when it ends in .gz, .zst or .lz4"},
    {"format", CHOICE_AT(format, SYNTH_FORMATS, "criteo"),
     "format of the files; in every format the examples are the same: 13 numeric and 26 "
     "categorical slots"},
    {"seed", U64_AT(seed, "N", "1", 0, 0),
     "seed of the planted model and the examples; the same seed gives the same bytes, "
     "and the first N rows are the same for any --rows"},
    {"test-rows", .group = "Test data from the same model",
     U64_AT(test_rows, "N", NULL, 0, INFINITY),
     "number of test examples, drawn apart from the training examples"},
    {"test-out", STRING_AT(test_out, "PATH"), "file for the test examples"},
    {"json", .group = "Output", FLAG_AT(json),
     "the last line of standard output is one JSON object"},
};

const struct option_table cli_synth_options = {
    .command = "synth",
    .summary = "make click data from a planted model",
    .usage = "--rows N --out PATH [--test-rows N --test-out PATH] [options]",
    .about =
        "Draws examples like those of a click log: power-law values in vocabularies "
        "from 10 to 2 million, missing values, a quarter of clicks. A factorization "
        "machine of dimension 8 decides the probability of a click, so the AUC and "
        "logloss of that true model are known and printed: no model can do better. A "
        "linear model has a much lower AUC.",
    .examples =
        "tug synth --rows 1e6 --out train.tsv --test-rows 2e5 --test-out test.tsv\n"
        "tug synth --rows 1e6 --format libffm --out train.ffm.zst --seed 7\n"
        "tug synth --rows 1e6 --format multislot --out train.txt   # prints its --slots",
    CLI_OPTIONS(options),
};

static int synth_check(const struct synth_values *v, struct err *e)
{
    if ((v->test_rows > 0) != (v->test_out != NULL))
        return err_set(e, TUG_EUSAGE,
                       "--test-rows and --test-out must be given together");
    if (!*v->out || (v->test_out && !*v->test_out))
        return err_set(e, TUG_EUSAGE, "--out and --test-out need the path of a file");
    TRY(encoder_check_name("--out", v->out, false, e));
    TRY(save_check_output("--out", v->out, e));
    if (v->test_out != NULL) {
        TRY(encoder_check_name("--test-out", v->test_out, false, e));
        TRY(save_check_output("--test-out", v->test_out, e));
    }
    if (v->test_out && strcmp(v->out, "-") != 0 && file_is_same(v->out, v->test_out))
        return err_set(
            e, TUG_EUSAGE,
            "--out and --test-out are the same file, '%s': give two different ones",
            v->out);
    return 0;
}

static void print_text(const struct synth_values *v, const struct synth_summary *s)
{
    double rows = (double)v->rows;
    cli_printf("%s: %llu row%s, %.1f MB, %.1f %% clicks, %.0f rows/s\n", v->out,
               (unsigned long long)v->rows, PLURAL_S(v->rows), (double)s->bytes / 1e6,
               100 * (double)s->positives / rows, rows / s->seconds);
    if (v->test_out)
        cli_printf("%s: %llu row%s\n", v->test_out, (unsigned long long)v->test_rows,
                   PLURAL_S(v->test_rows));
    const char *which = v->test_out ? "test" : "training";
    if (isnan(s->auc))
        cli_printf("all labels of the %s rows are the same: there is no AUC\n", which);
    else
        cli_printf("the true model's AUC on the %s rows is %.4f, logloss %.4f: no model "
                   "can do better\n",
                   which, s->auc, s->logloss);
    if (v->format == SYNTH_MULTISLOT)
        cli_printf("to read it, give --format multislot --slots '%s'\n", synth_slots);
    if (!isnan(s->linear_auc))
        cli_printf("the best linear model's AUC is about %.4f\n", s->linear_auc);
}

static int print_json(const struct synth_values *v, const struct synth_summary *s,
                      struct err *e)
{
    char format[OPTION_NAME_MAX];
    json_t *j = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:f, s:f, s:I, s:s, s:s?, "
        "s:s*}",
        "command", "synth", "format", options_word(SYNTH_FORMATS, v->format, format),
        "rows", (json_int_t)v->rows, "test_rows", (json_int_t)v->test_rows, "seed",
        (json_int_t)v->seed, "positives", (json_int_t)s->positives, "auc",
        json_real_or_null(s->auc), "logloss", json_real_or_null(s->logloss),
        "expected_auc", json_real_or_null(s->expected_auc), "linear_auc",
        json_real_or_null(s->linear_auc), "seconds", s->seconds, "rows_per_second",
        (double)v->rows / s->seconds, "bytes", (json_int_t)s->bytes, "out", v->out,
        "test_out", v->test_out, "slots",
        v->format == SYNTH_MULTISLOT ? synth_slots : NULL);
    if (!j)
        return err_set(e, TUG_ENOMEM,
                       "cannot build the JSON (out of memory, or a path that is not "
                       "UTF-8)");
    json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(10));
    putchar('\n');
    json_decref(j);
    return 0;
}

static int synth_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct synth_values *v = values;
    TRY(synth_check(v, e));
    const struct synth_options wanted = {
        .rows = v->rows,
        .test_rows = v->test_rows,
        .seed = v->seed,
        .format = (enum synth_format)v->format,
        .out = v->out,
        .test_out = v->test_out,
    };
    struct synth_summary s;
    TRY(synth_write(&wanted, &s, e));
    if (!v->json)
        print_text(v, &s);
    return v->json ? print_json(v, &s, e) : 0;
}

const struct cli_command cli_synth = {&cli_synth_options, sizeof(struct synth_values),
                                      .run = synth_command};
