// The table of `tug train`: its options with their defaults and the texts of --help.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "os/log.h"
#include "run/model.h"
#include "train/config.h"
#include "train/saved/saved.h"

#define OPTIONS_OF struct train_options

#define OPTIMIZER TRAIN_OPTIMIZERS_WITH("|") "[:NUMBER=X,...]"
#define MODEL_HELP(name, about) "; " #name ": " about

// Settings for data sets that are used to compare models (docs/models.md).
#define TRAIN_RECIPES "none criteo avazu"
static const char *const recipes[] = {
    NULL,
    "format=criteo model=deepfm dim=16 batch=1024 epochs=1",
    "format=csv label=click drop=id model=deepfm dim=16 batch=1024 epochs=1",
};

static const struct option options[] = {
    {"data", .own = true, .group = "Data", .required = true, LIST_AT(data, "PATH..."),
     "data to train on: files, directories, globs in quotes, or - for standard input; "
     ".gz, .zst and .lz4 files are decompressed"},
    {"format", CHOICE_AT(format, TRAIN_FORMATS, NULL),
     "format of all files:" READER_FORMATS(
         READER_FORMAT_ABOUT) " unless --resume or --init-from is given; then the saved "
                              "model determines the format and all other options that "
                              "describe the data"},
    {"pipe-command", STRING_AT(pipe_command, "COMMAND"),
     "command that converts each file of --data, --test and --valid: 'sh -c COMMAND' "
     "reads the decompressed file, and tug reads the command's output instead of the "
     "file; the command is not saved with the model"},
    {"web-any-host", .own = true, FLAG_AT(web_any_host),
     "for remote data (http, s3, webhdfs): allow a server to redirect to a loopback or "
     "link-local address, which is refused by default"},
    {"test", .own = true, LIST_AT(test, "PATH..."),
     "data to evaluate on when training is over; never influences training"},
    {"valid", STRING_AT(valid, "PATH|FRACTION|I/K"),
     "validation data, which decides when to stop and which pass is kept: a file, or a "
     "share of the training data, such as 0.1, or one part of it, such as 2/5, the "
     "second of five; this share or part is then not used for training"},
    {"cv", .own = true, U64_AT(cv, "K", "0", 0, 1000),
     "cross-validation: train K times, each time validate on another of K parts of the "
     "data, and print the mean of each pass; no model is kept"},
    {"group", STRING_AT(group, "COLUMN,..."),
     "also print the AUC by group (gauc) of --test and --valid; a group has all "
     "examples with the same values in these columns, such as a user. " GROUP_COLUMNS},
    {"merge-ids", STRING_AT(merge_ids, "COLUMN:N"),
     "join the N lines with the same text in this column into one example with the "
     "slots of all of them; an id with another number of lines, or with the same slot "
     "in two lines, is left out and counted. The option also applies to --test, --valid "
     "and eval, and needs the data in memory"},
    {"max-bad-lines", U64_AT(max_bad_lines, "N", "0", 0, 0),
     "number of unreadable lines that are skipped and counted before training gives "
     "up"},
    {"data-in", .own = true, CHOICE_AT(data_in, TRAIN_DATA_INS, "auto"),
     "memory: read the data once and shuffle all of it in every pass; stream: read it "
     "in every pass and shuffle within a window; auto: memory if the data fits"},
    {"window", .own = true, U64_AT(window_mb, "MB", "256", 1, 1 << 20),
     "with --data-in stream: megabytes of text that are kept and shuffled at a time"},
    {"normalize", .fallback = "true", FLAG_AT(normalize),
     "fm, ffm: scale each example to unit length for the terms of pairs, as libffm does"},
    {"fields", U64_AT(fields, "N", "0", 0, 65535),
     "libffm: number of fields; 0: the number of fields in the data"},
    {"label", .group = TRAIN_OF_CSV, STRING_AT(label, "COLUMN,..."),
     "column of the label (default: the first column). Models with layers can learn "
     "several labels together; a label may be empty in some lines, and validation uses "
     "the first one"},
    {"drop", STRING_AT(drop, "COLUMN,..."),
     "columns to leave out, such as ids that no new example shares; '' is the column "
     "whose name is empty"},
    {"numeric", STRING_AT(numeric, "COLUMN,..."),
     "numeric columns; the others are words. COLUMN:log uses log(1 + number); "
     "COLUMN:bins:N uses the number's bin, one of N (default 32) with about equally "
     "many numbers each"},
    {"lists", STRING_AT(lists, "COLUMN,..."),
     "columns whose cells hold several words; each word is a feature"},
    {"list-separator", STRING_AT(list_separator, "C"),
     "with --lists: separator of the words of a cell (default: |)"},
    {"missing", STRING_AT(missing, "WORD,..."),
     "words that count as an empty cell, such as NA,null"},
    {"cross-columns", STRING_AT(cross_columns, "COLUMN*COLUMN,..."),
     "two or three columns; each combination of their words is one more feature"},
    {"columns", STRING_AT(columns, "NAME,..."),
     "the columns' names, for files without a header"},
    {"weight-column", STRING_AT(weight_column, "COLUMN"),
     "the column with the weights of examples"},
    {"allow-missing", FLAG_AT(allow_missing),
     "accept files that lack columns of the first file or of the saved model"},
    {"separator", .fallback = ",", .choices = "tab", STRING_AT(separator, "C"),
     "separator of columns: one character, or tab"},
    {"quote", STRING_AT(quote, "double|none"),
     "double: double quotes may enclose a cell, as in csv; none: quotes are ordinary "
     "characters, as in many logs (default: double)"},
    {"decimal", STRING_AT(decimal, ",|."),
     "decimal mark of numbers; a comma for numbers such as 3,14 (default: .)"},
    {"slots", .group = "MultiSlot only", STRING_AT(slots, "TEXT|FILE"),
     "the slots of a line, one after another, such as \"label:label, user:ids, "
     "seen:ids@user, price:dense[3], c1..c26:ids, junk:skip\"; types: label, ids, "
     "ids@SLOT (ids that share their features with the slot SLOT), keys (ids that are "
     "used as keys unchanged), dense[N] (N numbers), weight, skip"},
    {"recipe", .own = true, .group = "Model", CHOICE_AT(recipe, TRAIN_RECIPES, "none"),
     "settings for a known data set; other options override them, and 'tug config "
     "--recipe criteo' prints them"},
    {"model", CHOICE_AT(model, TRAIN_MODELS, "fm"), MODELS(MODEL_HELP) + 2},
    {"dim", U64_AT(dim, "K", NULL, 1, 1024),
     "length of the latent vectors (default: 8 for fm, 4 for ffm, 16 with layers)"},
    {"dims", STRING_AT(dims, "COLUMN=N,..."),
     "mlp, wide_deep, dcn: lengths of the vectors of these columns, in place of --dim; "
     "each row has room for the longest vector. " FEATURE_COLUMNS},
    {"loss", CHOICE_AT(loss, LOSS_NAMES, "logistic"),
     "logistic for labels 0 and 1 (or -1 and 1), squared for any number"},
    {"init", F64_AT(init, "X", NULL, 0, 10),
     "latent weights start uniformly distributed in (-X, X) (default: 0.05 for fm, 0.3 "
     "for ffm, 0.01 with layers)"},
    {"hidden", .group = TRAIN_OF_LAYERS, STRING_AT(hidden, "N,..."),
     "numbers of units of the fully connected layers, from the first layer to the last "
     "(default: 400,400,400)"},
    {"tower", STRING_AT(tower, "N,..."),
     "with several labels: numbers of units of each label's own layers, on top of the "
     "shared layers of --hidden (default: none, only one output for each label)"},
    {"task-weights", STRING_AT(task_weights, "X,..."),
     "with several labels: a factor for the loss of each label (default: 1)"},
    {"cross", U64_AT(cross, "N", NULL, 1, 8), "dcn: number of cross layers (default: 3)"},
    {"dropout", F64_AT(dropout, "P", NULL, 0, 0.99),
     "share of the layers' units that is left out at random for each training example "
     "(default: 0)"},
    {"pooling", CHOICE_AT(pooling_mean, "sum mean", "sum"),
     "whether the vectors of a field's features are added or averaged"},
    {"data-norm", FLAG_AT(data_norm),
     "normalise each number by its mean and spread in the training data (csv: "
     "--numeric; multislot: dense slots)"},
    {"batch-norm", FLAG_AT(batch_norm),
     "normalise each unit over the examples that are computed together (Ioffe & Szegedy "
     "2015)"},
    {"dense-optimizer", .choices = TRAIN_OPTIMIZERS,
     STRING_AT(dense_optimizer, OPTIMIZER),
     "update rule of the layers, which is applied once a batch to the mean gradient; "
     "its parameters as with --optimizer (default: adam)"},
    {"dense-lr", F64_AT(dense_lr, "X", NULL, 0, 1000),
     "learning rate of the layers (default: that of --dense-optimizer, 0.001 for adam)"},
    {"epochs", .group = "Training", U64_AT(epochs, "N", "10", 1, 1000000),
     "number of passes over the data"},
    {"optimizer", .fallback = "adagrad-row", .choices = TRAIN_OPTIMIZERS,
     STRING_AT(optimizer, OPTIMIZER),
     "update rule of the weights; adagrad adapts a rate for each weight, adagrad-row "
     "one for each latent vector; ftrl with --l1 makes sparse models. The rule's "
     "parameters n0, beta, beta1 and beta2 may follow its name: adagrad:n0=0,beta=1e-6"},
    {"lr", F64_AT(lr, "X", NULL, 0, 1000),
     "learning rate (default: that of the optimizer, 0.1 for adagrad)"},
    {"latent-lr", F64_AT(latent_lr, "X", NULL, 0, 1000),
     "learning rate of latent vectors (default: --lr in ffm, 3 times --lr in fm, twice "
     "--lr with layers)"},
    {"l1", F64_AT(l1, "X", NULL, 0, INFINITY),
     "L1 penalty (default: that of the optimizer)"},
    {"l2", F64_AT(l2, "X", NULL, 0, INFINITY),
     "L2 penalty at each update (default: 0 for linear weights; for latent vectors "
     "0.0002, or 0.001 in ffm)"},
    {"prior", F64_AT(prior, "X", NULL, 0, 1e6),
     "L2 penalty once a pass, spread over the updates of a weight; it regularises rare "
     "features (default: 2; for latent vectors 1, except in ffm)"},
    {"schedule", CHOICE_AT(schedule, SCHEDULE_NAMES, "constant"),
     "factor of the learning rate after p passes: poly (1 + A p)^-B, exp A^(p / B), "
     "discexp A^floor(p / B), linear max(1 - A p, B)"},
    {"schedule-a", F64_AT(schedule_a, "A", "1", 0, INFINITY), "A of --schedule"},
    {"schedule-b", F64_AT(schedule_b, "B", "0.5", 0, INFINITY), "B of --schedule"},
    {"patience", .own = true, U64_AT(patience, "N", "2", 0, 1000000),
     "with --valid: stop after this many passes without a lower loss; 0: never stop "
     "early"},
    {"refit", .own = true, FLAG_AT(refit),
     "with --valid: once validation has found the best number of passes, train anew for "
     "that number of passes on all examples, including those of --valid"},
    {"batch", U64_AT(batch, "N", "256", 1, 1 << 20),
     "number of examples in a batch. With --deterministic the gradients of a batch are "
     "added up for each key and applied once; otherwise it is the number of examples "
     "that a thread takes at a time. On a cluster the default is 1024, or 512 for models "
     "with layers, except in sync mode"},
    {"threads", .own = true, U64_AT(threads, "N", "0", 0, 1024),
     "number of threads; 0: one per core"},
    // JSON's integers are signed, so the maximum is below 2^63.
    {"seed", U64_AT(seed, "N", "1", 0, 1e18),
     "seed of the initial weights and the shuffles"},
    {"deterministic", FLAG_AT(deterministic),
     "the same model, bit for bit, for the same seed, whatever the number of threads and "
     "the CPU (with layers: on one type of CPU); also give --data-in memory or stream, "
     "because auto depends on the machine's memory"},
    {"mode", .fallback = "async",
     STRING_AT(mode, "sync|ssp:S|async|half-async|geo:K|elastic:K[:RATE]"),
     "synchronisation of workers; ssp:S: no worker runs more than S batches ahead of "
     "the slowest; half-async: the threads of a worker compute each batch together; "
     "geo:K: workers train copies of the rows for K batches, then average them; "
     "elastic:K: every K batches the workers' copies and the servers' rows move RATE / "
     "workers (RATE: 0.9) of the way towards each other. In one process: async, or "
     "sync, which is the same as --deterministic"},
    {"reduce", CHOICE_AT(reduce_mean, TRAIN_REDUCES, "sum"),
     "with --deterministic: whether the gradients of a batch are added, or averaged "
     "over its examples"},
    {"average", U64_AT(average, "N", "0", 0, 1ull << 40),
     "use the mean of the parameters over about the last N batches for validation, "
     "tests and saves; training continues with the parameters themselves; 0: no mean"},
    {"table", STRING_AT(table, "SETTINGS|FILE"),
     "settings of a table whose rows are added and removed by rules, such as "
     "\"accessor=ctr; entry=count:3\"; 'tug table settings' lists them. Without this "
     "option every feature gets a row, which is never removed"},
    {"rules", .group = TRAIN_OF_CLUSTERS, CHOICE_AT(rules, TRAIN_RULES, NULL),
     "which process applies the update rule: worker: after each example; server: to the "
     "gradients of a batch; auto: the server in sync mode and for momentum, rmsprop, "
     "adam and ftrl, otherwise the worker"},
    {"shuffle", CHOICE_AT(shuffle, TRAIN_SHUFFLES, NULL),
     "pieces: each worker shuffles within the pieces of files that it gets; global: all "
     "examples are redistributed through the servers before the first pass, so that "
     "each piece is a random sample of the data; use it for sorted data"},
    {"shuffle-by", STRING_AT(shuffle_by, "COLUMN,..."),
     "with --shuffle global: one worker gets all examples with the same values in these "
     "columns, such as a user, in one piece. " GROUP_COLUMNS},
    {"values", CHOICE_AT(values, TRAIN_VALUES, NULL),
     "format of floats on the wire; bf16 halves the bytes of gradients and weights and "
     "rounds their mantissas to 8 bits"},
    {"in-flight", U64_AT(in_flight, "N", NULL, 1, TRAIN_MAX_IN_FLIGHT),
     "async, ssp: number of batches that a worker thread pulls, computes and pushes at "
     "the same time; 1: the next batch is pulled when the push of this one is "
     "acknowledged. The default is 1 for models with layers and 3 for others"},
    {"dense-staleness", U64_AT(dense_staleness, "S", NULL, 0, UINT32_MAX),
     "async, models with layers: a pull of the layers misses at most the last S batches "
     "of each worker, as in ssp:S; 0: layers are synchronous. Rows of features stay "
     "asynchronous"},
    {"pack-keys", .own = true, FLAG_AT(pack_keys),
     "compress the keys of requests; this helps with small ids, not with hashed words"},
    {"cache-keys", .own = true, FLAG_AT(cache_keys),
     "send a list of keys once, and then only its signature; this helps because the "
     "push of a batch has the same keys as its pull"},
    {"backup-pieces", .own = true, .group = TRAIN_OF_CLUSTERS, FLAG_AT(backup_pieces),
     "not sync: at the end of a pass, workers that have nothing left to do also train "
     "on pieces that slower workers have not finished. Each example still counts once: "
     "the first push of a batch is applied. Counts of batches, which --schedule uses, "
     "include the batches of both workers"},
    {"score-by", CHOICE_AT(score_by, TRAIN_SCORE_BY, "driver"),
     "process that scores --valid and --test, with bit-identical metrics: driver: the "
     "process beside the scheduler; workers: each worker scores a part, so the workers "
     "need the files, and the driver does not"},
    {"out", .own = true, .group = "Saving", STRING_AT(out, "DIR"),
     "directory of the model; each save is a separate directory below it"},
    {"save-every", .own = true, STRING_AT(save_every, "N|Nbatches"),
     "save every N passes, or every N batches; without this option the model is saved "
     "only at the end"},
    {"keep", .own = true, U64_AT(keep, "N", "3", 1, 1000000),
     "number of saves that are kept; older ones are removed"},
    {"keep-names", .own = true, U64_AT(keep_names, "N", "0", 0, 1e9),
     "save the words of hashed keys, at most the first N in the data, with the number "
     "of examples of each, for 'tug table' and 'tug predict --explain'; this reads the "
     "data once more; 0: none"},
    {"publish", STRING_AT(publish, "DIR"),
     "publish the model in DIR during training, for programs that serve it (tug.Scorer "
     "in Python, tug/score.h in C): a base has all rows, and each delta after it has "
     "the changed rows; the last delta follows when training is over. On a cluster DIR "
     "must be below --out"},
    {"publish-every", .own = true, F64_AT(publish_every, "SECONDS", "60", 0.01, 1e6),
     "with --publish: time between two saves"},
    {"publish-deltas", .own = true, U64_AT(publish_deltas, "N", "100", 0, 4000),
     "with --publish: number of deltas between two bases"},
    {"resume", .own = true, .bare = "yes", CHOICE_AT(resume, TRAIN_RESUMES, "no"),
     "continue the run in --out from its last save, on the same data. Options that are "
     "not given have the values of the save, also --epochs, --patience, --save-every, "
     "--keep and --max-bad-lines; auto: continue if there is a save, otherwise begin "
     "(which needs --format)"},
    {"init-from", .own = true, STRING_AT(init_from, "DIR"),
     "begin a new run with the tables of a saved model; --model, sizes, optimizers and "
     "--table, if not given, are those of this model"},
    {"init-tables", .own = true, STRING_AT(init_tables, "A,B"),
     "with --init-from: only these tables"},
    {"json", .own = true, .group = "Messages", FLAG_AT(json),
     "the last line of standard output is one JSON object"},
    {"log-every", .own = true, U64_AT(log_every, "N", "0", 0, 0),
     "print a progress line every N batches; the line also has loss and AUC of these N "
     "batches alone (window); 0: print progress lines at growing intervals of time"},
    {"dot-every", .own = true, U64_AT(dot_every, "N", "0", 0, 0),
     "print a dot every N batches between the progress lines; 0: no dots"},
    {"fetch", .own = true, STRING_AT(fetch, "NAME,..."),
     "print these values every --fetch-every batches: loss and auc of the pass; 'the "
     "bias'; 'layers', or a single layer such as 'layer 1 of 2' (norm, mean, min and "
     "max); rows of features, by COLUMN=WORD or key"},
    {"dump", .own = true, STRING_AT(dump, "FILE"),
     "every --fetch-every batches, write lines of JSON with norm, mean, min and max of "
     "the layers, and without a cluster also with label and score of each example of "
     "the next batch"},
    {"dump-fields", .own = true, STRING_AT(dump_fields, "COLUMN,..."),
     "with --dump: also write the texts of these columns for each "
     "example. " GROUP_COLUMNS},
    {"fetch-every", .own = true, U64_AT(fetch_every, "N", "100", 1, 1e15),
     "with --fetch and --dump: number of batches between two outputs"},
    {"history", .own = true, STRING_AT(history, "FILE"),
     "write a line of JSON at the end of each pass: pass, examples, loss and auc (each "
     "example scored before it was trained on), valid, seconds, best. A resumed run "
     "continues the record of its save; with --refit the file has the passes of the "
     "second run"},
    {"tfevents", .own = true, STRING_AT(tfevents, "DIR"),
     "write a file of events for TensorBoard in DIR during training; the step of an "
     "event is a number of examples. Every second (later more rarely; with --log-every "
     "every N batches) the file gets loss and AUC of the examples since the last event, "
     "examples a second and the learning rate; at the end of each pass it gets loss and "
     "AUC of training and validation. A resumed run adds a file"},
    {"report", .own = true, STRING_AT(report, "FILE.html"),
     "write a page about the run: metrics, curves of training, ROC, calibration, "
     "importance of columns, options and data. The metrics are those of --test, or "
     "without it of --valid. --json adds these curves to the result. On a cluster "
     "the driver writes it. See docs/reports.md"},
    {"log-dir", .own = true, STRING_AT(log_dir, "DIR"),
     "also write messages to DIR/train.log; at SIGHUP tug opens the file again, for "
     "logrotate"},
    {"http", .own = true, STRING_AT(http, "HOST:PORT|unix:PATH"),
     "serve a page about this process, and /metrics for Prometheus: at an address of "
     "loopback, for all accounts of this machine; at a Unix socket, for this account; "
     "or at any other address, with TLS and a token. On a cluster give --http to the "
     "command of each process, or to tug launch"},
    {"http-cert", .own = true, STRING_AT(http_cert, "FILE"),
     "serve --http over TLS, with this certificate (PEM)"},
    {"http-key", .own = true, STRING_AT(http_key, "FILE"), "key of that certificate"},
    {"http-token-file", .own = true, STRING_AT(http_token_file, "FILE"),
     "answer only those HTTP requests that carry the token in this file: as a 'Bearer' "
     "token (Prometheus), or as the password of any user (browsers)"},
    {"log-level", .own = true, CHOICE_AT(log_level, TRAIN_LOG_LEVELS, "info"),
     "print messages of this level and of more urgent ones"},
    {"log-format", .own = true, CHOICE_AT(log_format, LOG_FORMATS, "text"),
     LOG_FORMAT_HELP},
    {"quiet", .own = true, FLAG_AT(quiet),
     "print only results and warnings, no progress"},
};

const struct option_table cli_train_options = {
    .command = "train",
    .summary = "train a model on a log of examples",
    .usage = "--data PATH... --format F [--test PATH...] [--model M] [options]",
    .about =
        "Trains a model on examples and prints its metrics on the test data: AUC (0.5 "
        "is guessing, 1 is perfect order), logloss (lower is better), copc (predicted "
        "clicks divided by clicks in the data; 1 is ideal) and other metrics, which "
        "'tug eval --help' explains.\n"
        "Features need no vocabulary: a word is hashed together with its column, and "
        "indices of libsvm and libffm data are used as keys. Ctrl-C saves the model and "
        "stops; --resume continues.\n"
        "tug train also accepts the flags of `paddle train` of Paddle's first version, "
        "which docs/from-paddle-v0.md lists.",
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
    .preset = "recipe",
    .presets = recipes,
};

// The rate that --mode elastic has by default (beta in the paper by Zhang, Choromanska and
// LeCun, 2015).
static const double elastic_rate = 0.9;

// Reads an integer at *text, and moves *text past it. Returns false if there is no
// integer, or it is too large.
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

// Reads ":0.5" at *text, or nothing, and moves *text past it. Returns false if the number
// is not above 0 and at most 1.
static bool take_rate(const char **text, double *ret)
{
    char *end;
    if (**text != ':')
        return true;
    *ret = strtod(*text + 1, &end);
    bool any = end != *text + 1;
    *text = end;
    return any && *ret > 0 && *ret <= 1;
}

static int parse_mode(const char *text, struct train_settings *ret, struct err *e)
{
    static const struct {
        const char *name;
        enum train_mode mode;
        bool number, rate;
    } modes[] = {
        {"sync", TRAIN_SYNC, false, false},
        {"ssp:", TRAIN_SSP, true, false},
        {"async", TRAIN_ASYNC, false, false},
        {"half-async", TRAIN_HALF_ASYNC, false, false},
        {"geo:", TRAIN_GEO, true, false},
        {"elastic:", TRAIN_ELASTIC, true, true},
    };
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        size_t len = strlen(modes[i].name);
        const char *rest = text + len;
        ret->mode = modes[i].mode;
        ret->mode_n = 0;
        ret->mode_rate = elastic_rate;
        if (strncmp(text, modes[i].name, len) == 0 &&
            (!modes[i].number || take_number(&rest, &ret->mode_n)) &&
            (!modes[i].rate || take_rate(&rest, &ret->mode_rate)) && !*rest)
            return 0;
    }
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++)
        if (modes[i].number && strlen(text) == strlen(modes[i].name) - 1 &&
            strncmp(text, modes[i].name, strlen(text)) == 0)
            return err_set(e, TUG_EUSAGE, "--mode: '%s' needs a number: '%s:4'", text,
                           text);
    return err_set(
        e, TUG_EUSAGE,
        "--mode: '%.200s' is not one of: sync, ssp:S, async, half-async, geo:K, "
        "elastic:K or elastic:K:RATE, with a RATE above 0 and at most 1",
        text);
}

// Parses "2/5". Returns false if the text is not a part of this form.
static bool parse_part(const char *text, struct held_out *ret)
{
    unsigned part, parts;
    int end = 0;
    if (strspn(text, "0123456789/") != strlen(text) ||
        sscanf(text, "%5u/%5u%n", &part, &parts, &end) != 2 || text[end] != '\0' ||
        part == 0 || part > parts || parts < 2)
        return false;
    *ret = held_out_part(part - 1, parts);
    return true;
}

// Parses --valid: a number is a fraction, two numbers with "/" are a part, and everything
// else is a path (also "./0.1").
static int parse_valid(const char *text, struct train_settings *ret, struct err *e)
{
    ret->valid = NULL;
    ret->valid_part = (struct held_out){0};
    if (text == NULL || parse_part(text, &ret->valid_part))
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
                       "between 0 and 1, a part such as 2/5, or a path",
                       text);
    ret->valid_part.share = x;
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
        return err_set(e, TUG_EUSAGE,
                       "--save-every: '%.200s' is neither a number of passes (such as 2) "
                       "nor of batches (such as 10000batches)",
                       text);
    *(*rest ? &ret->save_batches : &ret->save_passes) = n;
    return 0;
}

int train_parse_separator(const char *text, char *ret, struct err *e)
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

// Parses --list-separator. It must be one character, because the reader searches words
// for it.
static int parse_list_separator(const char *text, char *ret, struct err *e)
{
    *ret = text != NULL ? text[0] : (char)0;
    return text == NULL || (strlen(text) == 1 && strchr("\"\r\n", *text) == NULL)
               ? 0
               : err_set(e, TUG_EUSAGE, "--list-separator: '%.200s' is not one character",
                         text);
}

static int check_format(const struct train_options *t, const struct options *o,
                        struct err *e)
{
    char format[OPTION_NAME_MAX];
    options_word(TRAIN_FORMATS, t->format, format);
    bool known = t->resume == TRAIN_RESUME || t->init_from != NULL ||
                 (t->resume == TRAIN_RESUME_AUTO && t->out != NULL && saved_any(t->out));
    if (!options_given(o, "format"))
        return known ? 0
                     : err_set(e, TUG_EUSAGE,
                               "--format is missing: the format of the data, one "
                               "of" READER_FORMATS(READER_FORMAT_WORD));
    const char *of_csv = options_given_of_group(o, TRAIN_OF_CSV);
    if (strcmp(format, "csv") != 0 && of_csv != NULL)
        return err_set(e, TUG_EUSAGE, "--%s works only with --format csv", of_csv);
    if (strcmp(format, "multislot") != 0 && t->slots != NULL)
        return err_set(e, TUG_EUSAGE, "--slots works only with --format multislot");
    return 0;
}

// Checks options that would have no effect without another option. Without --data, the
// caller is a program, which may give validation data without --valid.
static int check_needs(const struct train_options *t, const struct options *o,
                       struct err *e)
{
    bool no_data = t->data.n == 0, valid = t->valid != NULL || no_data;
    const struct {
        const char *option, *what;
        bool there;
    } needs[] = {
        {"save-every", "out DIR, where the saves are", t->out != NULL},
        {"publish-every", "publish DIR, where the saves are", t->publish != NULL},
        {"publish-deltas", "publish DIR, where the saves are", t->publish != NULL},
        {"init-tables", "init-from DIR, where the tables are", t->init_from != NULL},
        {"patience", "valid, by which a run stops early", valid || t->patience == 0},
        {"schedule-a", "schedule, of which it is a parameter",
         options_given(o, "schedule")},
        {"schedule-b", "schedule, of which it is a parameter",
         options_given(o, "schedule")},
        {"group", "test or --valid: it says how they are evaluated",
         t->test.n > 0 || valid},
    };
    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
        if (options_said(o, needs[i].option) && !needs[i].there)
            return err_set(e, TUG_EUSAGE, "--%s needs --%s", needs[i].option,
                           needs[i].what);
    return 0;
}

static int check_saves(const struct train_options *t, struct err *e)
{
    if (t->out != NULL && strcmp(t->out, "-") == 0)
        return err_set(
            e, TUG_EUSAGE,
            "--out -: a model is a directory and cannot be written to standard "
            "output; './-' is a directory of that name");
    if (t->out == NULL && t->resume != TRAIN_NEW)
        return err_set(e, TUG_EUSAGE, "--resume needs --out DIR, where the saves are");
    if (t->resume == TRAIN_RESUME && t->init_from)
        return err_set(
            e, TUG_EUSAGE,
            "--resume continues a run, --init-from begins one; give only one of them (or "
            "--resume=auto, which begins a new run where there is none)");
    return 0;
}

int train_options_check(const struct train_options *t, const struct options *o,
                        struct train_settings *ret, struct err *e)
{
    struct train_settings s = {0};
    TRY(parse_mode(t->mode, &s, e));
    TRY(parse_valid(t->valid, &s, e));
    TRY(parse_save_every(t->save_every, &s, e));
    TRY(train_parse_separator(t->separator, &s.separator, e));
    TRY(parse_list_separator(t->list_separator, &s.list_separator, e));
    TRY(check_format(t, o, e));
    TRY(check_saves(t, e));
    TRY(check_needs(t, o, e));
    if (t->schedule_b <= 0 &&
        (t->schedule == SCHEDULE_EXP || t->schedule == SCHEDULE_DISCEXP))
        return err_set(e, TUG_EUSAGE,
                       "--schedule-b, the length of a step in passes, must be above 0");
    *ret = s;
    return 0;
}
