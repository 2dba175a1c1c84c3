// Ports for processes that are started later.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_PORTS_H
#define TUG_KIT_PORTS_H

#include <stddef.h>

enum { PORTS_MAX = 8 };

// n ports of loopback at which nobody listens, all different, and below those that the system
// gives to connections of others meanwhile.
void ports_free(unsigned *ret, size_t n);

#endif
