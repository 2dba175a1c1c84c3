// The table of `tug train`: what can be asked for, with the defaults, in the words of
// --help.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/train_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "train/schedule.h"

#define AT(field) .offset = offsetof(struct train_options, field)

#define MODEL_HELP(name, about) "; " #name ": " about

static const struct option options[] = {
    {.name = "data",
     .kind = OPTION_LIST,
     AT(data),
     .metavar = "PATH...",
     .group = "Data",
     .required = true,
     .help = "what to train on: files, directories, globs in quotes, or - for standard "
             "input; .gz, .zst and .lz4 files are decompressed"},
    {.name = "format",
     .kind = OPTION_CHOICE,
     AT(format),
     .choices = TRAIN_FORMATS,
     .help = "format of all files: criteo (label, 13 integers, 26 words, tabs), libsvm "
             "(label index:value), libffm (label field:index:value), csv (with a "
             "header); with --resume and --init-from it is taken from the saved model, "
             "like all options that say how data is read"},
    {.name = "test",
     .kind = OPTION_LIST,
     AT(test),
     .metavar = "PATH...",
     .help = "what to evaluate on when training is over; never influences "
             "training"},
    {.name = "valid",
     .kind = OPTION_STRING,
     AT(valid),
     .metavar = "PATH|FRACTION",
     .help = "what decides when to stop and which pass is kept: a file, or a "
             "share of the training data, as 0.1, that is then not trained on"},
    {.name = "max-bad-lines",
     .kind = OPTION_U64,
     AT(max_bad_lines),
     .fallback = "0",
     .metavar = "N",
     .help = "how many lines that cannot be read are skipped and counted before training "
             "gives up"},
    {.name = "data-in",
     .kind = OPTION_CHOICE,
     AT(data_in),
     .choices = TRAIN_DATA_INS,
     .fallback = "auto",
     .help = "memory: read once, shuffled as a whole every pass; stream: read "
             "every pass, shuffled within a window; auto: memory when the data "
             "fits"},
    {.name = "window",
     .kind = OPTION_U64,
     AT(window_mb),
     .fallback = "256",
     .min = 1,
     .max = 1 << 20,
     .metavar = "MB",
     .help = "megabytes of text held and shuffled at a time when streaming"},
    {.name = "normalize",
     .kind = OPTION_FLAG,
     AT(normalize),
     .fallback = "true",
     .help = "fm, ffm: for the terms of pairs every example is scaled to unit length, as "
             "in libffm"},
    {.name = "fields",
     .kind = OPTION_U64,
     AT(fields),
     .fallback = "0",
     .min = 0,
     .max = 65535,
     .metavar = "N",
     .help = "libffm: number of fields; 0: counted in the data"},
    {.name = "label",
     .kind = OPTION_STRING,
     AT(label),
     .metavar = "COLUMN",
     .group = "CSV only",
     .help = "column of the label; by default the first column"},
    {.name = "drop",
     .kind = OPTION_STRING,
     AT(drop),
     .metavar = "COLUMN,...",
     .help = "columns to leave out, such as ids that no new example shares; '' is the "
             "column whose name is empty"},
    {.name = "numeric",
     .kind = OPTION_STRING,
     AT(numeric),
     .metavar = "COLUMN,...",
     .help = "columns taken as numbers; the others are words"},
    {.name = "weight-column",
     .kind = OPTION_STRING,
     AT(weight_column),
     .metavar = "COLUMN",
     .help = "column of the examples' weights"},
    {.name = "allow-missing",
     .kind = OPTION_FLAG,
     AT(allow_missing),
     .help =
         "accept files that lack columns which the first file, or the saved model, has"},
    {.name = "separator",
     .kind = OPTION_STRING,
     AT(separator),
     .fallback = ",",
     .metavar = "C",
     .help = "what separates columns: one character, or tab"},
    {.name = "model",
     .kind = OPTION_CHOICE,
     AT(model),
     .choices = TRAIN_MODELS,
     .fallback = "fm",
     .group = "Model",
     .help = MODELS(MODEL_HELP) + 2},
    {.name = "dim",
     .kind = OPTION_U64,
     AT(dim),
     .min = 1,
     .max = 1024,
     .metavar = "K",
     .help = "length of the latent vectors (default: 8 for fm, 4 for ffm)"},
    {.name = "loss",
     .kind = OPTION_CHOICE,
     AT(loss),
     .choices = TRAIN_LOSSES,
     .fallback = "logistic",
     .help = "logistic for labels 0 and 1 (or -1 and 1), squared for any number"},
    {.name = "init",
     .kind = OPTION_F64,
     AT(init),
     .min = 0,
     .max = 10,
     .metavar = "X",
     .help = "latent weights begin uniformly distributed in (-X, X) (default: 0.05 for "
             "fm, 0.3 for ffm)"},
    {.name = "epochs",
     .kind = OPTION_U64,
     AT(epochs),
     .fallback = "10",
     .min = 1,
     .max = 1000000,
     .metavar = "N",
     .group = "Training",
     .help = "passes over the data"},
    {.name = "optimizer",
     .kind = OPTION_CHOICE,
     AT(optimizer),
     .choices = TRAIN_OPTIMIZERS,
     .fallback = "adagrad-row",
     .help =
         "update rule of the weights; adagrad: a rate per weight, adagrad-row: one per "
         "latent vector; ftrl with --l1 makes sparse models"},
    {.name = "lr",
     .kind = OPTION_F64,
     AT(lr),
     .min = 0,
     .max = 1000,
     .metavar = "X",
     .help = "learning rate (default: the optimizer's, 0.1 for adagrad)"},
    {.name = "latent-lr",
     .kind = OPTION_F64,
     AT(latent_lr),
     .min = 0,
     .max = 1000,
     .metavar = "X",
     .help =
         "learning rate of latent vectors (default: for fm 3 times --lr, for ffm --lr)"},
    {.name = "l1",
     .kind = OPTION_F64,
     AT(l1),
     .min = 0,
     .max = INFINITY,
     .metavar = "X",
     .help = "L1 penalty, as the optimizer defines it (default: the optimizer's)"},
    {.name = "l2",
     .kind = OPTION_F64,
     AT(l2),
     .min = 0,
     .max = INFINITY,
     .metavar = "X",
     .help = "L2 penalty at each update (default: 0 for w; 0.0002 for v of fm, 0.001 of "
             "ffm)"},
    {.name = "prior",
     .kind = OPTION_F64,
     AT(prior),
     .min = 0,
     .max = 1e6,
     .metavar = "X",
     .help =
         "L2 penalty once a pass, spread over the updates of a weight: holds back rare "
         "features (default: 2; 1 for v of fm)"},
    {.name = "schedule",
     .kind = OPTION_CHOICE,
     AT(schedule),
     .choices = TRAIN_SCHEDULES,
     .fallback = "constant",
     .help = "factor on the rate after p passes: poly (1 + A p)^-B, exp A^(p / "
             "B), discexp A^floor(p / B), linear max(1 - A p, B)"},
    {.name = "schedule-a",
     .kind = OPTION_F64,
     AT(schedule_a),
     .fallback = "1",
     .min = 0,
     .max = INFINITY,
     .metavar = "A",
     .help = "of the schedule"},
    {.name = "schedule-b",
     .kind = OPTION_F64,
     AT(schedule_b),
     .fallback = "0.5",
     .min = 0,
     .max = INFINITY,
     .metavar = "B",
     .help = "of the schedule"},
    {.name = "patience",
     .kind = OPTION_U64,
     AT(patience),
     .fallback = "2",
     .min = 0,
     .max = 1000000,
     .metavar = "N",
     .help = "with --valid: passes without a better loss before stopping; 0: "
             "never stop early"},
    {.name = "batch",
     .kind = OPTION_U64,
     AT(batch),
     .fallback = "256",
     .min = 1,
     .max = 1 << 20,
     .metavar = "N",
     .help = "examples per batch: with --deterministic their gradients are added per key "
             "and applied once; otherwise a thread takes this many at a time; the "
             "default on a cluster is 1024, except in sync mode"},
    {.name = "threads",
     .kind = OPTION_U64,
     AT(threads),
     .fallback = "0",
     .min = 0,
     .max = 1024,
     .metavar = "N",
     .help = "0: one per core"},
    {.name = "seed",
     .kind = OPTION_U64,
     AT(seed),
     .fallback = "1",
     .max = 1e18, // JSON's integers are signed
     .metavar = "N",
     .help = "seed of the initial weights and the shuffles"},
    {.name = "deterministic",
     .kind = OPTION_FLAG,
     AT(deterministic),
     .help = "the same model, bit for bit, for the same seed, whatever the number of "
             "threads and the CPU; also give --data-in memory or stream, because auto "
             "depends on the machine's memory"},
    {.name = "mode",
     .kind = OPTION_STRING,
     AT(mode),
     .fallback = "async",
     .metavar = "sync|ssp:S|async|half-async|geo:K",
     .help = "how far workers may run ahead of each other; on one machine: async, or "
             "sync, which is the same as --deterministic"},
    {.name = "reduce",
     .kind = OPTION_CHOICE,
     AT(reduce),
     .choices = TRAIN_REDUCES,
     .fallback = "sum",
     .help = "with --deterministic: gradients of a batch are added, or averaged over "
             "its examples"},
    {.name = "table",
     .kind = OPTION_STRING,
     AT(table),
     .metavar = "SETTINGS|FILE",
     .help = "settings of a table whose features come and go, as \"accessor=ctr; "
             "entry=count:3\"; 'tug table settings' lists them. Without it every feature "
             "gets a row, which stays"},
    {.name = "rules",
     .kind = OPTION_CHOICE,
     AT(rules),
     .choices = TRAIN_RULES,
     .group = "On a cluster",
     .help = "which process applies the update rule: the worker after each example, or "
             "the server to the gradients of a batch; auto: the server in sync mode and "
             "for momentum, rmsprop, adam and ftrl, otherwise the worker"},
    {.name = "values",
     .kind = OPTION_CHOICE,
     AT(values),
     .choices = TRAIN_VALUES,
     .help = "floats on the wire; bf16 halves the bytes of gradients and weights and "
             "rounds them to 8 bits"},
    {.name = "pack-keys",
     .kind = OPTION_FLAG,
     AT(pack_keys),
     .help = "compress the keys of requests: pays for small ids, not for hashed ones"},
    {.name = "cache-keys",
     .kind = OPTION_FLAG,
     AT(cache_keys),
     .help = "send a list of keys once, and then its signature: the push of a batch has "
             "the same keys as its pull"},
    {.name = "out",
     .kind = OPTION_STRING,
     AT(out),
     .metavar = "DIR",
     .group = "Saving",
     .help = "directory of the model; each save is a directory of its own below "
             "it"},
    {.name = "save-every",
     .kind = OPTION_STRING,
     AT(save_every),
     .metavar = "N|Nbatches",
     .help = "also save every N passes, or every N batches; without it the model is "
             "saved at the end only"},
    {.name = "keep",
     .kind = OPTION_U64,
     AT(keep),
     .fallback = "3",
     .min = 1,
     .max = 1000000,
     .metavar = "N",
     .help = "number of saves that are kept; older ones are removed"},
    {.name = "resume",
     .kind = OPTION_CHOICE,
     AT(resume),
     .choices = TRAIN_RESUMES,
     .fallback = "no",
     .bare = "yes",
     .help = "continue the run in --out from its last save, on the same data; auto: "
             "continue it if there is a save, otherwise begin it"},
    {.name = "init-from",
     .kind = OPTION_STRING,
     AT(init_from),
     .metavar = "DIR",
     .help = "begin a new run with the tables of a saved model"},
    {.name = "init-tables",
     .kind = OPTION_STRING,
     AT(init_tables),
     .metavar = "A,B",
     .help = "with --init-from: only these tables"},
    {.name = "json",
     .kind = OPTION_FLAG,
     AT(json),
     .group = "Messages",
     .help = "the last line of standard output is one JSON object"},
    {.name = "log-every",
     .kind = OPTION_U64,
     AT(log_every),
     .fallback = "0",
     .metavar = "N",
     .help = "print a progress line every N batches; 0: at growing intervals of time"},
    {.name = "log-dir",
     .kind = OPTION_STRING,
     AT(log_dir),
     .metavar = "DIR",
     .help = "also write messages to DIR/train.log"},
    {.name = "log-level",
     .kind = OPTION_CHOICE,
     AT(log_level),
     .choices = TRAIN_LOG_LEVELS,
     .fallback = "info",
     .help = "which messages are printed: this level and more urgent ones"},
    {.name = "quiet",
     .kind = OPTION_FLAG,
     AT(quiet),
     .help = "print results and warnings only, no progress"},
};

const struct option_table cli_train_options = {
    .command = "train",
    .summary = "train a model on a log of examples",
    .usage = "--data PATH... --format F [--test PATH...] [--model M] [options]",
    .about = "Reads examples, trains, and prints how good the model is on the test data: "
             "AUC (0.5 is guessing, 1 is perfect order), logloss (lower is better) and "
             "copc (clicks that the model predicts over clicks that there were; 1 is "
             "right).\nFeatures need no vocabulary: words are hashed with their column, "
             "and indices of libsvm and libffm data are used as keys. Ctrl-C saves the "
             "model and stops; --resume continues.",
    .examples =
        "tug train --data day.tsv --test next.tsv --format criteo\n"
        "tug train --data 'logs/*.gz' --format libsvm --model lr --valid 0.1 --out "
        "model\n"
        "tug train --data avazu.csv --format csv --label click --drop id --json\n"
        "tug train --config run.yaml --set lr=0.05     # run.yaml: lines of 'name: "
        "value'\n"
        "zcat log.gz | tug train --data - --format libffm --model ffm --fields 39",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
    .family = cli_tables,
};

// A whole number at *text, which moves behind it.
static bool take_number(const char **text, uint64_t *ret)
{
    uint64_t n = 0;
    const char *s = *text;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (n > (UINT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(*s - '0');
    }
    bool any = s != *text;
    *text = s;
    *ret = n;
    return any;
}

static int parse_mode(const char *text, struct train_settings *ret, struct err *e)
{
    static const struct {
        const char *name;
        enum train_mode mode;
        bool number;
    } modes[] = {
        {"sync", TRAIN_SYNC, false},   {"ssp:", TRAIN_SSP, true},
        {"async", TRAIN_ASYNC, false}, {"half-async", TRAIN_HALF_ASYNC, false},
        {"geo:", TRAIN_GEO, true},
    };
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        size_t len = strlen(modes[i].name);
        const char *rest = text + len;
        ret->mode = modes[i].mode;
        ret->mode_n = 0;
        if (strncmp(text, modes[i].name, len) == 0 &&
            (!modes[i].number || take_number(&rest, &ret->mode_n)) && !*rest)
            return 0;
    }
    return err_set(
        e, TUG_EUSAGE,
        "--mode: '%.200s' is not one of: sync, ssp:S, async, half-async, geo:K", text);
}

// A number is a fraction, all else a path ("./0.1" is one, too).
static int parse_valid(const char *text, struct train_settings *ret, struct err *e)
{
    ret->valid = NULL;
    ret->valid_fraction = 0;
    if (!text)
        return 0;
    char *end;
    double x = strtod(text, &end);
    if (!*text || *end) {
        ret->valid = text;
        return *text ? 0
                     : err_set(e, TUG_EUSAGE, "--valid: a path or a fraction is missing");
    }
    if (!(x > 0 && x < 1))
        return err_set(e, TUG_EUSAGE,
                       "--valid: %.200s is not a share of the data; give a fraction "
                       "between 0 and 1, "
                       "or a path",
                       text);
    ret->valid_fraction = x;
    return 0;
}

static int parse_save_every(const char *text, struct train_settings *ret, struct err *e)
{
    ret->save_passes = ret->save_batches = 0;
    if (!text)
        return 0;
    uint64_t n;
    const char *rest = text;
    if (!take_number(&rest, &n) || n == 0 || (*rest && strcmp(rest, "batches") != 0))
        return err_set(
            e, TUG_EUSAGE,
            "--save-every: '%.200s' is neither a number of passes (as 2) nor of "
            "batches (as 10000batches)",
            text);
    *(*rest ? &ret->save_batches : &ret->save_passes) = n;
    return 0;
}

static int parse_separator(const char *text, char *ret, struct err *e)
{
    if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
        *ret = '\t';
    else if (strlen(text) == 1 && *text != '\n' && *text != '\r' && *text != '"')
        *ret = *text;
    else
        return err_set(e, TUG_EUSAGE,
                       "--separator: '%.200s' is not one character, or tab", text);
    return 0;
}

static int check_csv(const struct options *o, struct err *e)
{
    static const char *const names[] = {"label",         "drop",      "numeric",
                                        "weight-column", "separator", "allow-missing"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (options_given(o, names[i]))
            return err_set(e, TUG_EUSAGE, "--%s works only with --format csv", names[i]);
    return 0;
}

int train_options_check(const struct train_options *t, const struct options *o,
                        struct train_settings *ret, struct err *e)
{
    enum { FORMAT_CSV = 3 };                 // in TRAIN_FORMATS
    enum { RESUME_NO, RESUME, RESUME_AUTO }; // in TRAIN_RESUMES
    struct train_settings s = {0};
    TRY(parse_mode(t->mode, &s, e));
    TRY(parse_valid(t->valid, &s, e));
    TRY(parse_save_every(t->save_every, &s, e));
    TRY(parse_separator(t->separator, &s.separator, e));
    if (!options_given(o, "format") && t->resume != RESUME && t->init_from == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--format is missing: the format of the data, one of " TRAIN_FORMATS);
    if (options_given(o, "format") && t->format != FORMAT_CSV)
        TRY(check_csv(o, e));
    if (t->out != NULL && strcmp(t->out, "-") == 0)
        return err_set(
            e, TUG_EUSAGE,
            "--out -: a model is a directory and cannot be written to standard "
            "output; './-' is a directory of that name");
    if (t->schedule_b <= 0 &&
        (t->schedule == SCHEDULE_EXP || t->schedule == SCHEDULE_DISCEXP))
        return err_set(
            e, TUG_EUSAGE,
            "--schedule-b is the length of a step in passes: it must be above 0");
    if (!t->out && (t->resume != RESUME_NO || t->save_every))
        return err_set(e, TUG_EUSAGE, "--%s needs --out DIR, where the saves are",
                       t->resume != RESUME_NO ? "resume" : "save-every");
    if (t->init_tables && !t->init_from)
        return err_set(e, TUG_EUSAGE,
                       "--init-tables needs --init-from DIR, where the tables are");
    if (t->resume == RESUME && t->init_from)
        return err_set(
            e, TUG_EUSAGE,
            "--resume continues a run, --init-from begins one; give only one of them (or "
            "--resume=auto, which begins where there is none to go on with)");
    *ret = s;
    return 0;
}
