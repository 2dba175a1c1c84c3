// Lists of words: command lines and environments of processes that are started.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_ARGV_H
#define TUG_LAUNCH_ARGV_H

#include <stddef.h>

#include "base/buf.h"

struct argv {
    const char **at; // NULL behind the last one; NULL itself when there is none
    size_t n;
};

// All return 0 or TUG_ENOMEM.
int argv_add(struct argv *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
int argv_add_all(struct argv *w, const char *const *from, size_t n);
void argv_free(struct argv *w);

// Environments: "NAME=VALUE" words. Copies this process's variables except those that
// `drop` selects; argv_set replaces or adds one.
int argv_environment(struct argv *w, int (*drop)(const char *name_value));
int argv_set(struct argv *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

// A word so that a POSIX shell reads it back as it is, added to *b.
int argv_quote(struct buf *b, const char *word);

#endif
