// Synthetic click data from a planted model, so that the best reachable AUC is known.
//
// An example has 13 numeric and 26 categorical slots (as Criteo's logs). Slots are
// independent; the values of a slot have power-law frequencies over vocabularies from 10
// to millions; some are missing. The click is drawn with probability sigmoid(f), f a
// factorization machine of dimension 8 over the present values. Its weights are centred
// within each slot, so that no linear model can express any part of the interactions, and
// are large for frequent values and small for rare ones, so that more data shows more of
// them.
//
// Example i is a function of (seed, i) alone: any range can be made again, on any
// machine, with the same bits (base/maths.h; no libm in what decides a bit).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SYNTH_H
#define TUG_DATA_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SYNTH_NUMERIC = 13,
    SYNTH_SLOTS = 39, // the numeric ones first
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
#define SYNTH_FORMATS "criteo libsvm libffm csv multislot" // in this order

enum synth_part { SYNTH_TRAIN = 1, SYNTH_TEST = 2 }; // two endless sequences of examples

struct synth_example {
    // 0 is the most frequent of a categorical slot; or SYNTH_MISSING.
    uint32_t value[SYNTH_SLOTS];
    // Integers that Criteo readers put into bucket value[].
    uint32_t number[SYNTH_NUMERIC];
    double linear; // the part of score that a linear model could learn
    double score;  // log-odds of a click
    bool label;
};

struct synth;

int synth_open(struct synth **ret, uint64_t seed, struct err *e);
void synth_close(struct synth *s); // NULL is fine

void synth_draw(const struct synth *s, enum synth_part part, uint64_t i,
                struct synth_example *ret_x);

// Writes the example as one line (SYNTH_LINE_MAX bytes of room) and returns its end.
//   criteo  label, 13 integers, 26 words of six hexadecimal digits; tabs; nothing where
//   missing csv     the same with commas, the numeric slots as numbers of their buckets;
//   a header libsvm  label index:1 ...        every (slot, value) has an index of its
//   own, from 1, without gaps libffm  label slot:index:1 ...
//   multislot  "1 label", then of each slot "1 value", its number in the slot, or "0"
char *synth_print(const struct synth *s, enum synth_format format,
                  const struct synth_example *x, char *to);
const char *synth_header(enum synth_format format); // "" but for csv
extern const char synth_slots[]; // of multislot: the slots, for --slots

// Areas under the ROC curve and mean losses of scores against drawn labels, in constant
// memory.
struct synth_score;
int synth_score_open(struct synth_score **ret, struct err *e);
void synth_score_close(struct synth_score *s); // NULL is fine
void synth_score_add(struct synth_score *s, double score, bool label);
// Ties half; scores closer than 2^-14 may count as ties. NaN when a class is absent.
double synth_score_auc(const struct synth_score *s);
// The mean AUC over new draws of the labels.
double synth_score_expected_auc(const struct synth_score *s);
double synth_score_logloss(
    const struct synth_score *s); // of sigmoid(score); NaN when empty

struct synth_options {
    uint64_t rows, test_rows;
    uint64_t seed;
    enum synth_format format;
    const char *out;      // ".gz", ".zst", ".lz4" at the end: compressed
    const char *test_out; // NULL: none
};

struct synth_summary {
    uint64_t positives; // of the training rows
    uint64_t bytes;     // of the training file
    double seconds;     // for the training file
    double auc,
        logloss; // of the true model on the test rows, or the training rows without them
    double expected_auc;
    double linear_auc; // of its linear part alone, about the best of any linear model
};

// Writes the files; each appears complete or not at all.
int synth_write(const struct synth_options *o, struct synth_summary *ret, struct err *e);

#endif
