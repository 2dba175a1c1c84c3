// Tests of what must hold: every invariant of a `*_check` is broken once, by hand, in a
// process of its own, and its assert, and no other, must say so.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_BROKEN_H
#define TUG_KIT_BROKEN_H

#include <stddef.h>

struct broken {
    const char *invariant; // the function that asserts it
    void (*break_it)(void);
};

// The state as it is holds; broken it does not. Without asserts there is nothing to see.
void expect_all_broken(const struct broken *b, size_t n, void (*check)(void));

#endif
