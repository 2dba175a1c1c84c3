// Lists of words: the command lines and environments of processes to start.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_ARGV_H
#define TUG_LAUNCH_ARGV_H

#include <stddef.h>

#include "base/buf.h"

struct argv {
    const char **at; // the words, then NULL; `at` is NULL if there are no words
    size_t n;
};

// All functions return 0 or TUG_ENOMEM.
int argv_add(struct argv *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
int argv_add_all(struct argv *w, const char *const *from, size_t n);
void argv_free(struct argv *w);

// These functions make environments: lists of words "NAME=VALUE". argv_environment copies
// this process's variables, except those for which `drop` returns true. argv_set replaces
// or adds a variable.
int argv_environment(struct argv *w, int (*drop)(const char *name_value));
int argv_set(struct argv *w, const char *fmt, ...) PRINTF_LIKE(2, 3);

// Appends a word to *b so that a POSIX shell reads it back unchanged.
int argv_quote(struct buf *b, const char *word);

#endif
