// What the files of served models share: served.c, and served_save.c, which reads saves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SERVED_INTERNAL_H
#define TUG_SERVE_SERVED_INTERNAL_H

#include "serve/served.h"

// A save and those that it builds on, behind the one whose manifest has the checksum
// `known` (save_chain_open_behind). Keeps the model's description from the first save; a
// save of another model is refused. TUG_EDATA.
int served_open_chain(struct served *s, const char *save, uint64_t known,
                      struct save_chain *ret, struct err *e);

// Whether deltas can come behind it: its table of features notes what changes.
bool served_expects_deltas(const struct save_manifest *m);

#endif
