// Collects the problems of an input, to report all of them at once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OPTIONS_PROBLEMS_H
#define TUG_OPTIONS_PROBLEMS_H

#include "base/buf.h"
#include "base/err.h"

struct problems {
    struct buf text; // the problems, one per line
    unsigned n;
    int code; // code of the first problem
};

#define PROBLEMS_INIT ((struct problems){.text = BUF_INIT(1 << 14)})

// Collects a usage or data error and returns 0. Returns any other rc, which should end
// the work.
int problems_note(struct problems *p, int rc, const struct err *e);

// Sets *e to the single problem, or to all problems with a number before each, and
// removes them. Returns the code of the first, or 0 if there are none.
int problems_tell(struct problems *p, struct err *e);
void problems_free(struct problems *p);

#endif
