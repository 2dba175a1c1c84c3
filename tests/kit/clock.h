// Lets time pass without waiting: a test can have deadlines so long that no busy machine
// reaches them, and still make them pass.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_CLOCK_H
#define TUG_KIT_CLOCK_H

#include <stdint.h>

// Moves the monotonic clock of this process, also for libraries, forward by `ns`
// nanoseconds.
void kit_clock_skip(uint64_t ns);

#endif
