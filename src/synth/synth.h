// Synthetic click data from a planted model, so that the best reachable AUC is known.
//
// An example has 13 numeric and 26 categorical slots, like Criteo's logs. Slots are
// independent. The values of a slot have power-law frequencies over vocabularies of 10 to
// millions of values; some values are missing. The click is drawn with probability
// sigmoid(f), where f is a factorization machine of dimension 8 over the values that are
// present. Its weights are centred within each slot, so that a linear model cannot
// express any part of the interactions; they are large for frequent values and small for
// rare ones, so that more data reveals more of them.
//
// Example i depends only on (seed, i): any range can be made again on any machine with
// the same bits (base/maths.h; libm is not used where it could change a bit).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SYNTH_SYNTH_H
#define TUG_SYNTH_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SYNTH_NUMERIC = 13,
    SYNTH_SLOTS = 39, // the first SYNTH_NUMERIC slots are numeric
    SYNTH_LINE_MAX = 1024,
};

#define SYNTH_MISSING UINT32_MAX

enum synth_format {
    SYNTH_CRITEO,
    SYNTH_LIBSVM,
    SYNTH_LIBFFM,
    SYNTH_CSV,
    SYNTH_MULTISLOT
};
#define SYNTH_FORMATS "criteo libsvm libffm csv multislot" // in the order of the enum

// The two endless sequences of examples, for training and for testing.
enum synth_part { SYNTH_TRAIN = 1, SYNTH_TEST = 2 };

struct synth_example {
    // The value of each slot, SYNTH_MISSING if it is missing. In a categorical slot, 0 is
    // the most frequent value.
    uint32_t value[SYNTH_SLOTS];
    // The integers of the numeric slots; readers of format criteo put number[i] into the
    // bucket value[i].
    uint32_t number[SYNTH_NUMERIC];
    double linear; // the part of `score` that comes from linear weights
    double score;  // log-odds of a click
    bool label;
};

struct synth;

int synth_open(struct synth **ret, uint64_t seed, struct err *e);
void synth_close(struct synth *s); // `s` may be NULL

void synth_draw(const struct synth *s, enum synth_part part, uint64_t i,
                struct synth_example *ret_x);

// Writes the example as one line (SYNTH_LINE_MAX bytes of room) and returns its end.
//   criteo     label, 13 integers, 26 words of six hexadecimal digits, separated by tabs; a
//              missing value is empty
//   csv        the same, separated by commas, with a header; a numeric slot has the number
//              of its bucket
//   libsvm     label index:1 ...; each (slot, value) has an index of its own, from 1
//              without gaps
//   libffm     label slot:index:1 ...
//   multislot  "1 label", then for each slot "1 value" with the number of the value, or
//              "0" if the value is missing
char *synth_print(const struct synth *s, enum synth_format format,
                  const struct synth_example *x, char *to);
const char *synth_header(
    enum synth_format format);   // returns the header of a csv file; "" for other formats
extern const char synth_slots[]; // the slots of format multislot, as a value of --slots

// Computes the area under the ROC curve (AUC) and the mean logloss of scores with their
// labels, in constant memory.
struct synth_score;
int synth_score_open(struct synth_score **ret, struct err *e);
void synth_score_close(struct synth_score *s); // `s` may be NULL
void synth_score_add(struct synth_score *s, double score, bool label);
// Returns the AUC; NaN without both classes. Ties count half, and scores closer than
// 2^-14 may count as ties.
double synth_score_auc(const struct synth_score *s);
// Returns the AUC that new draws of the labels would have on average.
double synth_score_expected_auc(const struct synth_score *s);
double synth_score_logloss(
    const struct synth_score
        *s); // returns the mean logloss of sigmoid(score); NaN without examples

struct synth_options {
    uint64_t rows, test_rows;
    uint64_t seed;
    enum synth_format format;
    const char *out;      // path of the training file, which is compressed if the path
                          // ends in ".gz", ".zst" or ".lz4"
    const char *test_out; // path of the test file; NULL: none is written
};

struct synth_summary {
    uint64_t positives; // number of positives among the training rows
    uint64_t bytes;     // size of the training file
    double seconds;     // time for the training file
    double auc,
        // Logloss of the planted model on the test rows; without a test file,
        // on the training rows.
        logloss;
    double expected_auc;
    double linear_auc; // AUC of the linear part alone: about the best AUC that a linear
                       // model can reach
};

// Writes the files. After a failure, a file is complete or absent.
int synth_write(const struct synth_options *o, struct synth_summary *ret, struct err *e);

#endif
