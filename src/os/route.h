// Finds the address of this machine from which another one is reached.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_ROUTE_H
#define TUG_OS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ROUTE_ADDRESS_MAX = 64 };

// Gets the address of this machine that is used to reach `to`, a host name or address.
// Sends nothing, except to look up the name.
int route_address(const char *to, char ret[ROUTE_ADDRESS_MAX], struct err *e);

// Gets the address of this machine that other machines most likely reach: the address of
// the default route, or else of the first interface that is not a bridge of containers or
// virtual machines. Returns false if this machine has only loopback.
bool route_own(bool six, char ret[ROUTE_ADDRESS_MAX]);

// Splits "HOST:PORT" or "[ADDRESS]:PORT", with or without "tcp://", into host and port.
// Returns TUG_EUSAGE if there is no port.
int route_split(const char *address, char *ret_host, size_t cap, uint16_t *ret_port,
                struct err *e);

// Finds a free port of the address, for programs that must know their port before they
// listen there. *ret_held is a bound socket that keeps the port from every process that
// asks for any port or for this one without SO_REUSEADDR, and from outgoing connections;
// a process that sets SO_REUSEADDR, as tug's do, can listen there. The caller closes the
// socket when the port is no longer needed.
int route_hold_port(const char *host, uint16_t *ret, int *ret_held, struct err *e);

// Gets the first usable address of a network interface, IPv4 before IPv6 (in brackets);
// link-local addresses do not count. Returns TUG_EUSAGE if there is none.
int route_interface(const char *name, char *ret, size_t cap, struct err *e);

// Returns whether the host, a name or an address, is this machine.
bool route_is_own(const char *host);

#endif
