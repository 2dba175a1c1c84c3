// Lists of words: command lines and environments of processes that are started.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_WORDS_H
#define TUG_LAUNCH_WORDS_H

#include <stddef.h>

#include "base/buf.h"

struct words {
    const char **at; // NULL behind the last one; NULL itself when there is none
    size_t n;
};

// All return 0 or TUG_ENOMEM.
int words_add(struct words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
int words_add_all(struct words *w, const char *const *from, size_t n);
void words_free(struct words *w);

// Environments: "NAME=VALUE" words. Those of this process but for the ones that `drop`
// knows; words_set replaces or adds one.
int words_environment(struct words *w, int (*drop)(const char *name_value));
int words_set(struct words *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

// A word so that a POSIX shell reads it back as it is, added to *b.
int words_quote(struct buf *b, const char *word);

#endif
