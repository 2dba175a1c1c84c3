// Tests of invariants: every invariant of a `*_check` is broken once, by hand, in a
// process of its own, and its assert, and no other, must fail.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_BROKEN_H
#define TUG_KIT_BROKEN_H

#include <stddef.h>

struct broken {
    const char *invariant; // name of the function that asserts the invariant
    void (*break_it)(void);
};

// Checks for each entry that `check` passes before the state is broken, and that the
// named invariant fails afterwards. In builds without assertions it does nothing.
void expect_all_broken(const struct broken *b, size_t n, void (*check)(void));

#endif
