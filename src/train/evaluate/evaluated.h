// The results of an evaluation, from which metrics are computed. Parts that several
// processes have evaluated are added, in any order, and give the bits of one evaluation
// of all the data: sums are exact, and the scores are kept for sorting (8 bytes an
// example, 24 with groups).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_EVALUATED_H
#define TUG_TRAIN_EVALUATE_EVALUATED_H

#include "base/buf.h"
#include "base/exact.h"
#include "data/source/numbering.h"
#include "train/evaluate/groups.h"

struct evaluated_sums {
    struct exact weight, loss, predicted, observed, squares, off, off_squares;
    uint64_t examples, without_weight, features, known;
};

struct evaluated {
    struct evaluated_sums sums;
    struct scored *scored; // scores; those without a weight do not count
    size_t n, cap;
    struct groups users; // the groups of the examples that count; empty without groups
    uint64_t places;     // examples in the data, including those that do not count
    uint64_t bad_lines;
    // In a worker of a cluster: the least and greatest keys in its part of the data.
    // Empty in other processes.
    struct numbering keys;
};

void evaluated_free(struct evaluated *x); // a zeroed struct is fine

// Makes room for n more examples.
int evaluated_reserve(struct evaluated *x, size_t n, struct err *e);

void evaluated_add_sums(struct evaluated_sums *to, const struct evaluated_sums *from);

// Returns TUG_EDATA if *x, the sum of all parts, does not have `examples` examples, the
// number that the workers reported for the data of `option`.
int evaluated_check(const struct evaluated *x, uint64_t examples, const char *option,
                    struct err *e);

// Computes the metrics of all examples that count. Sorts and shortens the kept scores.
// `ranked`: also computes the metrics that depend on the order of the scores.
int evaluated_metrics(struct evaluated *x, enum loss loss, bool ranked,
                      struct metrics *ret, struct err *e);

// Appends the results as bytes in native order; all nodes of a cluster have the same byte
// order (wire.c). Fails as buf_add does; TUG_EDATA if the results are larger than *b
// may become.
int evaluated_write(const struct evaluated *x, struct buf *b);
// Removes the first part from *bytes and adds it to *x. Adds the part's groups to
// x->users if that has columns. Returns 1, 0 at the end of the bytes, TUG_EDATA or
// TUG_ENOMEM.
int evaluated_next(struct evaluated *x, const char **bytes, size_t *n);

#endif
