// Interrupts waits of the public calls: by the program's function (tug_interrupt_by),
// which waiting threads call now and then.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_INTERRUPT_H
#define TUG_RUNTIME_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "os/clock.h"

// The time, in nanoseconds, between two calls of the program's function in a wait.
#define INTERRUPT_ASK_NS (SECOND_NS / 10)

// Returns whether the program has set an interrupt function.
bool interrupt_is_set(void);
// Calls the program's function and returns whether the wait is to end. The caller must
// hold no lock. Until the thread calls interrupt_begin, interrupt_came returns the same
// answer in this thread.
bool interrupt_ask(void);
// Forgets the answer of this thread's last wait; called where a wait begins.
void interrupt_begin(void);
// Returns whether the program has interrupted this thread's last wait.
bool interrupt_came(void);

#endif
