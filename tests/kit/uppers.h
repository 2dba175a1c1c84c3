// Whether a function left the upper halves of the vector registers dirty.
//
// A function that used vectors of 32 or 64 bytes has to clear their upper parts
// (vzeroupper) before it returns: on Intel every SSE instruction behind it would wait for
// the halves that nobody wants, and whole programs run at half their speed. gcc forgets
// it where a function that is not inlined is given vectors by value.
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
