// Counts by column the features that a model does not know. A column with hardly any
// known word (written in another way than in training, or another column under the same
// name) would not show in the share over all columns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_UNSEEN_H
#define TUG_TRAIN_EVALUATE_UNSEEN_H

#include "train/evaluate/evaluate.h"

struct unseen_slot {
    uint64_t features, known;
};

// The numbers of features and of known features by slot. Each thread has its own.
struct unseen {
    struct unseen_slot *slot;
    size_t n;
};

// Makes room for `slots` slots; existing counts stay. May return TUG_ENOMEM.
int unseen_reserve(struct unseen *u, size_t slots);
// Adds the counts of `from` to `to`. `from` must not have more slots than `to`.
void unseen_add(struct unseen *to, const struct unseen *from);
void unseen_free(struct unseen *u); // a zeroed struct is fine

// Warns of columns of which the model knows less than 5 % of the features, in the data
// that `what` names and that was evaluated with `o`. Reads the beginning of the data
// again, if possible, to name a few of the words.
void unseen_warn(const struct unseen *u, const struct evaluation_options *o,
                 const char *what);

#endif
