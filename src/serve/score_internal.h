// A thread's memory, shared by score.c and score_text.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SCORE_INTERNAL_H
#define TUG_SERVE_SCORE_INTERNAL_H

#include "data/format/reader.h"
#include "serve/score.h"
#include "train/evaluate/unseen.h"
#include "train/rows/view.h"

struct scratch {
    struct view view;
    struct model_work work;
    bool slots_zero;
    // Of text:
    struct reader *reader;
    const struct reader_layout *layout; // of the header
    struct buf header, line; // the last one; a line with what parsers look at behind it
    struct examples examples;
    uint64_t *offsets;
    uint32_t *fields;
    size_t cap_offsets, cap_fields;
    struct unseen unseen;    // of all texts and columns so far
    const uint16_t *counted; // the slots of what is scored; NULL: it is rows of keys
    uint64_t calls;
    struct numbering numbering; // of all keys so far
};

// The program's input: text or, if that is not NULL, columns in memory.
struct score_given {
    const char *text;
    size_t bytes;
    const struct rows *rows;
};

// Features by their columns, around the scoring of x->examples; the first of the piece at
// hand is feature `first` of them.
int score_count_begin(struct scratch *x, struct err *e);
void score_count(struct scratch *x, const struct served_copy *c, uint64_t first);
void score_count_end(struct served *s, const struct served_copy *c, struct scratch *x,
                     const struct score_given *given);

// A place with its scratch, to be left by served_leave.
int score_enter(struct served *s, struct served_reader **ret, struct err *e);
int score_by(struct served *s, struct served_reader *r, const struct score_rows *rows,
             bool raw, float *ret, uint32_t *ret_number, struct err *e);
void score_close_text(struct scratch *x);

#endif
