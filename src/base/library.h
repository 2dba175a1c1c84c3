// A shared library that is loaded at its first use: programs that do not use it neither
// need it installed nor wait for it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LIBRARY_H
#define TUG_BASE_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct library {
    const char *file; // as the linker names it
    // For messages: "WHAT needs LIBRARY", the package that has it, and its name if it
    // lacks a function.
    const char *need, *package, *other;
    const struct library_function {
        const char *name;
        void *to; // the pointer to it that is filled
    } * functions;
    size_t n;
    int (*begin)(struct err *e); // called once they are all there; NULL: nothing to do
    // The result of loading.
    pthread_mutex_t lock; // PTHREAD_MUTEX_INITIALIZER
    bool tried;
    int rc;
    struct err e;
};

// Any thread. Tries once, and says the same from then on. TUG_EUSAGE when it is not on
// this machine, or is another version.
int library_load(struct library *l, struct err *e);
bool library_is_loaded(struct library *l); // any thread

#endif
