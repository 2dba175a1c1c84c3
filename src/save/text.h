// Tables as text, for people, scripts and other systems, and the import of Paddle's text.
//
// An export begins with two lines that describe it, and has one row a line, sorted by
// key; floats have as many digits as are needed to read the same values back:
//
//   # tug table users accessor=ctr dim=2 state=yes day=12 step=3400
//   # key embed embed.state slot unseen_days delta_score show click embedx:2 embedx.state
//   18 0.25 1.5 -1 0 3 7 1 0.125 -0.5 2.75
//   44 0.5 0.5 -1 2 0 1 0
//
// embedx is left out if the row has not earned it. Without state a line has shows
// and clicks, then the weights, and for a model's features the count of their
// updates. For counters the values are the counts. Import reads both forms: missing
// values are those of a new row. Lines without the first ones (KEY WEIGHTS...) are
// taken as text without state.
//
// For Paddle: the lines of its sparse tables' part files,
//
//   ctr, sparse  key slot unseen_days delta_score show click embed state...
//                [embedx... state...]
//   ctr_double   key unseen_days delta_score show click embed state [slot] [state embedx...]
//
// for tables whose rules have a counterpart there (sgd, adagrad-shared, adagrad-std,
// adagrad-v2, adam, adam-shared), and for tables without a lifecycle the lines of its
// predecessor of 2020 (id, count, unseen days, is_entry, values): the first `dim` values
// are read, rows that had not entered are left out, and rules' states begin anew. Paddle
// writes 6 digits. Features that were unseen for longer than any setting of the table
// refers to count as unseen for one day more than that.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_TEXT_H
#define TUG_SAVE_TEXT_H

#include "store/store.h"

typedef int (*text_put_fn)(void *ctx, const char *bytes, size_t n, struct err *e);
int text_export(struct store *s, bool state, text_put_fn put, void *ctx, struct err *e);

// An import of one or more files of text, whose bytes are given in pieces of any size.
// Imported rows replace those of the store; if a key occurs twice, the last line counts.
// Errors name the file and the line.
struct text_import;
int text_import_open(struct text_import **ret, struct store *s, bool paddle,
                     struct err *e);
// Begins a file.
int text_import_file(struct text_import *x, const char *name, struct err *e);
int text_import_add(struct text_import *x, const char *bytes, size_t n, struct err *e);
// Reads the rest of the last file, and frees x, also on failure. *ret_rows is the number
// of lines with rows.
int text_import_end(struct text_import *x, uint64_t *ret_rows, struct err *e);
void text_import_abort(struct text_import *x); // frees x; NULL is fine

#endif
