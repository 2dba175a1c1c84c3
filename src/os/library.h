// A shared library that is loaded when it is first used. Programs that do not use it need
// not install it, and do not spend time on loading it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_LIBRARY_H
#define TUG_OS_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct library {
    const char *file; // file name, as the linker knows it
    // Texts for messages: "WHAT needs LIBRARY"; the package that contains the library;
    // and the other library or version that was probably found if a function is missing.
    const char *need, *package, *other;
    const struct library_function {
        const char *name;
        void *to; // receives the address of the function
    } * functions;
    size_t n;
    int (*begin)(struct err *e); // called once when all functions were found; NULL: none
    // The result of loading.
    pthread_mutex_t lock; // begins as PTHREAD_MUTEX_INITIALIZER
    bool tried;
    int rc;
    struct err e;
};

// Loads the library once; later calls return the same result. Any thread may call it.
// Returns TUG_EUSAGE if the library is not installed or has another version.
int library_load(struct library *l, struct err *e);
bool library_is_loaded(struct library *l); // any thread may call it

#endif
