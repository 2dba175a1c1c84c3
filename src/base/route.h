// Finds the address of this machine from which another one is reached.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_ROUTE_H
#define TUG_BASE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ROUTE_ADDRESS_MAX = 64 };

// `to`: a host name or address. Sends nothing to it, except for the lookup of its name.
int route_address(const char *to, char ret[ROUTE_ADDRESS_MAX], struct err *e);

// Returns the address of this machine that others most likely reach: that of the default
// route, else of the first interface that is not a bridge of containers or virtual
// machines. False: it has none but loopback's.
bool route_own(bool six, char ret[ROUTE_ADDRESS_MAX]);

// The host of "HOST:PORT", "[ADDRESS]:PORT", with or without "tcp://"; and the port.
// TUG_EUSAGE when there is no port.
int route_split(const char *address, char *ret_host, size_t cap, uint16_t *ret_port,
                struct err *e);

// A port of the address that is free now. Somebody else may take it before it is used:
// for programs that must know their port before they begin.
int route_free_port(const char *host, uint16_t *ret, struct err *e);

// The first address of a network interface, IPv4 before IPv6 (in brackets); link-local ones are
// of no use to others. TUG_EUSAGE: there is none.
int route_interface(const char *name, char *ret, size_t cap, struct err *e);

// Whether the host, a name or an address, is this machine.
bool route_is_own(const char *host);

#endif
