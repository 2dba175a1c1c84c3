// The limit on open files and links of this process.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_DESCRIPTORS_H
#define TUG_OS_DESCRIPTORS_H

#include <stdint.h>

// Raises the soft limit of descriptors (often 1024, for select) to the hard limit. Tug's
// programs call this at their start. The library does not change the limit of a program
// that uses it.
void descriptors_raise(void);

// Opens those of the descriptors 0 to 2 that are closed. Otherwise the next file or link
// could get one of these numbers, and messages would be written into that file or link.
// Reading from and writing to these descriptors still fails. Programs call it first, and
// so does every public function that opens something.
void descriptors_hold_standard(void);

// Returns the current soft limit.
uint64_t descriptors_limit(void);

// Returns about how many more descriptors can be opened.
uint64_t descriptors_left(void);

#endif
