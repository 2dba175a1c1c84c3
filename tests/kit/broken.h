// Tests of invariants. Each test breaks one invariant of a `*_check`, in a process of its
// own. The assert of this invariant must fail, and no other.
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
