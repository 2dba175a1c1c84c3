// Collects the problems of an input, to report all at once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_PROBLEMS_H
#define TUG_BASE_PROBLEMS_H

#include "base/buf.h"
#include "base/err.h"

struct problems {
    struct buf text; // sentences, each with a line end behind it
    unsigned n;
    int code; // of the first one
};

#define PROBLEMS_INIT ((struct problems){.text = BUF_INIT(1 << 14)})

// Keeps a usage or data error for the end, so that all are reported at once; returns 0
// then. Anything else ends the work: rc is returned.
int problems_note(struct problems *p, int rc, const struct err *e);

// Sets *e to one problem unchanged, or to several in one sentence with a number before
// each; returns 0 if there is none. Forgets them.
int problems_tell(struct problems *p, struct err *e);
void problems_free(struct problems *p);

#endif
