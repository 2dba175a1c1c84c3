// The limit of files and links of this process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_DESCRIPTORS_H
#define TUG_BASE_DESCRIPTORS_H

#include <stdint.h>

// For programs of our own, at their start: raises the soft limit (often 1024, for the
// sake of select) to the hard one. A library leaves its host's limit alone.
void descriptors_raise(void);

// Opens those of the descriptors 0 to 2 that are closed: else the next file or link gets
// their number, and messages go into it. Reading or writing there fails as it did before.
// The first call of a program, and of each door of the library that opens anything.
void descriptors_hold_standard(void);

// The soft limit as it is now.
uint64_t descriptors_limit(void);

// Returns roughly how many more can be opened.
uint64_t descriptors_left(void);

#endif
