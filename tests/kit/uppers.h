// Checks whether a function left the upper halves of the vector registers in use.
//
// A function that used vectors of 32 or 64 bytes has to clear the upper halves of the
// registers (vzeroupper) before it returns: otherwise, on Intel CPUs, every later SSE
// instruction would wait for these halves, and whole programs would run at half their
// speed. gcc omits vzeroupper if a function that is not inlined gets vectors by value.
//
// XGETBV with ecx = 1 tells which parts of the registers are in use. Not every CPU counts
// exactly, and valgrind has no such instruction: uppers_can_tell tries it first.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_UPPERS_H
#define TUG_KIT_UPPERS_H

#include <stdbool.h>

void uppers_clear(void);
bool uppers_dirty(void);
bool uppers_can_tell(void);

#endif
