// Publishes a model while others serve it: an fm whose rows all hold the number of their
// save, so that a mixture of two saves shows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PUBLISHER_H
#define TUG_KIT_PUBLISHER_H

#include "save/save.h"
#include "train/saved_run.h"

enum { PUBLISHER_DIM = 4 };

struct publisher {
    const char *dir;
    struct store *sparse, *dense;
    char *about;
    uint64_t rows; // keys 0 to rows - 1
};

// Goes on from the newest save in `dir`, or, if there is none that can be read, begins anew.
void publisher_open(struct publisher *p, const char *dir, uint64_t rows);
void publisher_close(struct publisher *p);

// The score of an example of three features of value 1 when all rows are `number`.
double publisher_score(uint32_t number);

// Sets all rows, or (below `rows`) those of the first keys, to `number`.
void publisher_set(struct publisher *p, uint32_t number, uint64_t rows);

// The next save, whose number all rows have then. `damage`: a byte of its rows is
// another than it says.
uint32_t publisher_save(struct publisher *p, enum save_mode mode, uint32_t keep,
                        bool damage);
// Saves what the stores hold.
uint32_t publisher_save_as_is(struct publisher *p, enum save_mode mode, uint32_t keep,
                              bool damage);

#endif
