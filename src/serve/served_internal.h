// Functions that served.c and served_save.c share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SERVED_INTERNAL_H
#define TUG_SERVE_SERVED_INTERNAL_H

#include "serve/served.h"

// Opens a save and the saves that it builds on, except those up to the save whose
// manifest has the checksum `known` (save_chain_open_behind). Keeps the first save's
// description of the model, and refuses a save of another model with TUG_EDATA.
int served_open_chain(struct served *s, const char *save, uint64_t known,
                      struct save_chain *ret, struct err *e);

// Returns whether deltas can follow a save, because its table of features records
// changes.
bool served_expects_deltas(const struct save_manifest *m);

#endif
