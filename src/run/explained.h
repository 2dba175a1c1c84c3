// A prediction taken apart, as lines for people or as one line of JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_EXPLAINED_H
#define TUG_RUN_EXPLAINED_H

#include "base/buf.h"
#include "train/explain.h"

// Appends to *b.
int explained_put(struct buf *b, const struct explained *x, bool json);

#endif
