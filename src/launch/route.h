// Which address of this machine another one is reached from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_ROUTE_H
#define TUG_LAUNCH_ROUTE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ROUTE_ADDRESS_MAX = 64 };

// `to`: a host name or address. Nothing is sent to it but what finding its name takes.
int route_address(const char *to, char ret[ROUTE_ADDRESS_MAX], struct err *e);

// The host of "HOST:PORT", "[ADDRESS]:PORT", with or without "tcp://"; and the port.
// TUG_EUSAGE when there is no port.
int route_split(const char *address, char *ret_host, size_t cap, uint16_t *ret_port,
                struct err *e);

// A port of the address that is free now. Somebody else may take it before it is used:
// for programs that must know their port before they begin.
int route_free_port(const char *host, uint16_t *ret, struct err *e);

#endif
