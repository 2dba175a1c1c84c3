// The memory of a scoring thread, which score.c and score_text.c share.
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
    // The following members are for text and columns:
    struct reader *reader;
    const struct reader_layout *layout; // the layout of the header
    // The last header, and a copy of one line, with room behind it for the bytes that
    // parsers read past its end.
    struct buf header, line;
    struct examples examples;
    uint64_t *offsets;
    uint32_t *fields;
    size_t cap_offsets, cap_fields;
    // Unknown values in all texts and columns so far, for the warning.
    struct unseen unseen;
    // The slots of the text's features; NULL: the input is rows of keys.
    const uint16_t *counted;
    uint64_t calls;
    struct numbering numbering; // numbering of all keys so far
};

// Input from the program: columns in memory, or, if `rows` is NULL, text.
struct score_given {
    const char *text;
    size_t bytes;
    const struct rows *rows;
};

// These functions count known and unknown values by column. score_count_begin is called
// before x->examples are scored, score_count for each piece (its first feature is number
// `first`), and score_count_end afterwards.
int score_count_begin(struct scratch *x, struct err *e);
void score_count(struct scratch *x, const struct served_copy *c, uint64_t first);
void score_count_end(struct served *s, const struct served_copy *c, struct scratch *x,
                     const struct score_given *given);

// Gets a reader's place and its scratch memory; served_leave gives the place back.
int score_enter(struct served *s, struct served_reader **ret, struct err *e);
int score_by(struct served *s, struct served_reader *r, const struct score_rows *rows,
             bool raw, float *ret, uint32_t *ret_number, struct err *e);
void score_close_text(struct scratch *x);

#endif
