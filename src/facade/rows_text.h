// Rows that a program has in memory, as a file of text that the readers of data read: in
// memory, too. So there is one way from examples to a model, and rows give what the same lines
// of text give.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_ROWS_TEXT_H
#define TUG_FACADE_ROWS_TEXT_H

#include "base/err.h"
#include "base/file.h"
#include "tug/train.h"

struct rows_text {
    int fd; // -1: there is none
    char path[FILE_PATH_MAX];
};
#define ROWS_TEXT_NONE ((struct rows_text){.fd = -1})

// The format of their text.
const char *rows_text_format(const struct tug_rows *r);

// The file's path is `name` in the directory `home`. TUG_EUSAGE naming the row, and `what` they
// are, where an array cannot be. `labels`: each has to have one.
int rows_text_open(struct rows_text *ret, const struct tug_rows *r, bool labels,
                   const char *home, const char *name, struct err *e);
void rows_text_close(struct rows_text *r);

#endif
