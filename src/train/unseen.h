// Features that a model does not know, by their columns: a column of which hardly any word
// is known (written another way than in training, or another column under its name) is lost
// in a share over all of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_UNSEEN_H
#define TUG_TRAIN_UNSEEN_H

#include "train/evaluate.h"

struct unseen_slot {
    uint64_t features, known;
};

// The state of one thread.
struct unseen {
    struct unseen_slot *slot;
    size_t n;
};

// Makes room for so many slots; counts stay. TUG_ENOMEM.
int unseen_reserve(struct unseen *u, size_t slots);
void unseen_add(struct unseen *to, const struct unseen *from); // which has no more slots
void unseen_free(struct unseen *u);                            // a zeroed one is fine

// Warns of columns of which the model knows less than 5 %, in data that was evaluated by `o`
// and that `what` names. Reads the data's beginning again for a few of their words, where it
// can be read again.
void unseen_warn(const struct unseen *u, const struct evaluation_options *o,
                 const char *what);

#endif
