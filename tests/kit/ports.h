// Ports for processes that are started later.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PORTS_H
#define TUG_KIT_PORTS_H

#include <stddef.h>

enum { PORTS_MAX = 8 };

// Finds n different loopback ports without a listener, below those that the system gives
// to outgoing connections.
void ports_free(unsigned *ret, size_t n);

#endif
