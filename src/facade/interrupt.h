// Interrupts waits of the public calls: by the program's function (tug_interrupt_by),
// which waiting threads call now and then.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_INTERRUPT_H
#define TUG_FACADE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define INTERRUPT_ASK_NS (SECOND_NS / 10) // as often

// Whether there is a function to ask.
bool interrupt_is_set(void);
// Asks it, without a lock held. Its answer is valid for this thread until
// interrupt_begin.
bool interrupt_ask(void);
// A wait of this thread begins.
void interrupt_begin(void);
// Whether this thread's last wait ended because it was interrupted.
bool interrupt_came(void);

#endif
