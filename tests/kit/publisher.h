// Publishes a model while other processes serve it: an fm model in which all values of
// all rows are the number of the save, so that a mixture of two saves is noticed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PUBLISHER_H
#define TUG_KIT_PUBLISHER_H

#include "save/save.h"
#include "train/saved/saved_run.h"

enum { PUBLISHER_DIM = 4 };

struct publisher {
    const char *dir;
    struct store *sparse, *dense;
    char *about;
    uint64_t rows; // the model has the keys 0 to rows - 1
};

// Continues from the newest save in `dir`, or begins anew if `dir` has no save that can
// be read.
void publisher_open(struct publisher *p, const char *dir, uint64_t rows);
void publisher_close(struct publisher *p);

// Returns the score of an example with three features of value 1, if all rows are
// `number`.
double publisher_score(uint32_t number);

// Sets all rows, or (if `rows` is smaller) those of the first keys, to `number`.
void publisher_set(struct publisher *p, uint32_t number, uint64_t rows);

// Makes the next save, after setting all rows to its number. If `damage`, one byte of its
// rows is changed. Returns the number.
uint32_t publisher_save(struct publisher *p, enum save_mode mode, uint32_t keep,
                        bool damage);
// Makes the next save without changing the rows. Returns its number.
uint32_t publisher_save_as_is(struct publisher *p, enum save_mode mode, uint32_t keep,
                              bool damage);

#endif
