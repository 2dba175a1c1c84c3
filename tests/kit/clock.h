// Time that a test lets pass without waiting for it: deadlines can be so long that no busy
// machine reaches them, and still come.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CLOCK_H
#define TUG_KIT_CLOCK_H

#include <stdint.h>

// Moves the monotonic clock of this process forward by so much from now on, in libraries
// too.
void kit_clock_skip(uint64_t ns);

#endif
