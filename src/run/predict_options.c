// The table of `tug predict`, with the texts of --help.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/predict_options.h"

#include "os/log.h"

#define OPTIONS_OF struct predict_values

static const struct option options[] = {
    MODEL_OPTIONS("What to predict", "files, directories, globs in quotes, or - for "
                                     "standard input; the labels may be absent"),
    {"max-bad-lines", U64_AT(model.max_bad_lines, "N", "0", 0, 0),
     "number of unreadable lines that are skipped before the command gives up; each is "
     "printed as 'nan', so that the n-th prediction belongs to the n-th line that is "
     "not empty"},
    {"out", .group = "Output", STRING_AT(out, "FILE"),
     "file for the predictions; it appears when it is complete, and is compressed if "
     "its name ends in .gz, .zst or .lz4. The default, and -, is standard output"},
    {"keep", STRING_AT(keep, "COLUMN,..."),
     "write these columns before each prediction, with the data's separator. Columns of "
     "csv are named by their names, of criteo I1 to I13 and C1 to C26, of libffm the "
     "fields' numbers, of multislot the slots' names"},
    {"header", .fallback = "true", FLAG_AT(header),
     "with --keep, if the data is csv with a header: write a header with the columns "
     "and 'prediction' (with several labels 'prediction_LABEL'); --no-header leaves it "
     "out"},
    {"raw", FLAG_AT(raw), "print scores (log-odds) instead of probabilities"},
    {"stream", FLAG_AT(stream),
     "write each prediction as soon as its line has been read, for a program that waits "
     "for it"},
    {"json", FLAG_AT(json),
     "each line is a JSON object: \"prediction\", and the columns of --keep"},
    {"quiet", FLAG_AT(quiet), "print only predictions and warnings, no notices"},
    {"log-format", CHOICE_AT(log_format, LOG_FORMATS, "text"), LOG_FORMAT_HELP},
    {"explain", FLAG_AT(explain),
     "explain each prediction: print the bias, and for each feature its linear term, "
     "the sum of its pairs, and the change of the layers' output without it (these "
     "differences do not add up). Features are sorted by the change of the score "
     "without them. --json prints one object a line"},
    {"top", U64_AT(top, "N", "10", 0, 1000000),
     "with --explain: number of pairs to print, those that change the score most"},
};

const struct option_table cli_predict_options = {
    .command = "predict",
    .summary = "print a saved model's predictions for data",
    .usage = "--from DIR --data PATH... [--out FILE] [options]",
    .about = "Prints one probability for each line, in the order of the input (for a "
             "model trained with --loss squared, the predicted number). With several "
             "labels a line has one prediction for each label, in the order of --label, "
             "separated by the data's separator; with --json \"prediction\" is an "
             "object with a member for each label.",
    .examples = "tug predict --from model --data new.tsv --out p.txt\n"
                "tug predict --from model --data new.csv --keep id > scored.csv\n"
                "zcat new.tsv.gz | tug predict --from model --data - | head\n"
                "head -1 new.tsv | tug predict --from model --data - --explain",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};
