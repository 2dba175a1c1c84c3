// Tables as text, for people, scripts and other systems, and the import of Paddle's text.
//
// An export begins with two lines that describe it. Then it has one row per line, sorted
// by key. Floats have as many digits as are needed to read the same values back:
//
//   # tug table users accessor=ctr dim=2 state=yes day=12 step=3400
//   # key embed embed.state slot unseen_days delta_score show click embedx:2 embedx.state
//   18 0.25 1.5 -1 0 3 7 1 0.125 -0.5 2.75
//   44 0.5 0.5 -1 2 0 1 0
//
// embedx is left out if the row has not earned it. Without state, a line has shows and
// clicks, then the weights, and for features of a model the number of their updates. A
// counter's values are its counts. The import reads both forms: values that are missing
// become those of a new row. A text that lacks the first two lines is read as text
// without state (KEY WEIGHTS...).
//
// The import also reads Paddle's text: the lines of the part files of its sparse tables,
//
//   ctr, sparse  key slot unseen_days delta_score show click embed state...
//                [embedx... state...]
//   ctr_double   key unseen_days delta_score show click embed state [slot] [state embedx...]
//
// for tables whose rules have a counterpart in Paddle (sgd, adagrad-shared, adagrad-std,
// adagrad-v2, adam, adam-shared). For tables without a lifecycle it reads the lines of
// Paddle's tables of 2020 (id, count, unseen days, is_entry, values): it reads the first
// `dim` values, leaves out rows that had not entered, and begins the rules' states anew.
// Paddle writes 6 digits. If a feature was unseen for more days than any setting of the
// table mentions, its unseen days become the largest such setting plus one.
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
// Begins the next file. `name` is for errors.
int text_import_file(struct text_import *x, const char *name, struct err *e);
int text_import_add(struct text_import *x, const char *bytes, size_t n, struct err *e);
// Reads the rest of the last file, and frees x, also on failure. *ret_rows is the number
// of lines with rows.
int text_import_end(struct text_import *x, uint64_t *ret_rows, struct err *e);
void text_import_abort(struct text_import *x); // frees x; NULL is fine

#endif
