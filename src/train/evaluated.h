// The results of an evaluation from which metrics are computed. Parts that others have
// evaluated are added, in any order, and the metrics have the bits of one evaluation of
// all: sums are exact, and scores are kept to be sorted (8 bytes an example; with groups
// 24).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATED_H
#define TUG_TRAIN_EVALUATED_H

#include "base/buf.h"
#include "base/exact.h"
#include "train/groups.h"

struct evaluated_sums {
    struct exact weight, loss, predicted, observed, squares, off, off_squares;
    uint64_t examples, without_weight, features, known;
};

struct evaluated {
    struct evaluated_sums sums;
    struct scored *scored; // without weight: examples that do not count
    size_t n, cap;
    struct groups users; // beside `scored`, or empty
    uint64_t places;     // examples in the data, those that do not count among them
    uint64_t bad_lines;
};

void evaluated_free(struct evaluated *x); // a zeroed one is fine

// Room for n examples more.
int evaluated_reserve(struct evaluated *x, size_t n, struct err *e);

void evaluated_add_sums(struct evaluated_sums *to, const struct evaluated_sums *from);

// TUG_EDATA where the parts are not of as many examples as those who sent them said they had
// scored of the data of `option`.
int evaluated_check(const struct evaluated *x, uint64_t examples, const char *option,
                    struct err *e);

// Metrics of all that counts; sorts and shortens what was kept. `ranked`: also what depends on
// the order of the scores.
int evaluated_metrics(struct evaluated *x, enum loss loss, bool ranked,
                      struct metrics *ret, struct err *e);

// As bytes, in native order: all nodes of a cluster have the same (wire.c). Fails as buf_add
// does, with TUG_EDATA when they are more than *b may hold.
int evaluated_write(const struct evaluated *x, struct buf *b);
// Takes the first part off *bytes and adds it, also to x->users if that has columns. 1, 0 at
// the end, TUG_EDATA or TUG_ENOMEM.
int evaluated_next(struct evaluated *x, const char **bytes, size_t *n);

#endif
