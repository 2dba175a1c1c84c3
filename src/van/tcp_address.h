// Addresses of the tcp van as text and as sockaddr.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_ADDRESS_H
#define TUG_VAN_TCP_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "van/van.h"

struct tcp_address {
    bool is_unix;
    char host[VAN_ADDRESS_MAX]; // the host without [ ]; of a Unix socket: the path
    uint16_t port;
};

// Parses "tcp://HOST:PORT", "tcp://[::1]:PORT" or "unix:///PATH". Returns TUG_EUSAGE,
// with the mistake in *e, if the text is not an address.
int tcp_address_read(struct tcp_address *ret, const char *text, struct err *e);
// Checks each address of a list with commas.
int tcp_address_check(const char *list, struct err *e);

// Returns whether the host is a numeric address. If it is, sets *ret to the address and
// port.
bool tcp_address_number(const struct tcp_address *a, struct sockaddr_storage *ret);

void tcp_address_write(char ret[VAN_ADDRESS_MAX], const char *host, uint16_t port);
void tcp_address_of(char ret[VAN_ADDRESS_MAX], const struct sockaddr_storage *s);

bool tcp_address_is_loopback(const struct sockaddr_storage *s);
bool tcp_address_is_any(const struct sockaddr_storage *s); // 0.0.0.0 or ::
bool tcp_address_same_host(const struct sockaddr_storage *a,
                           const struct sockaddr_storage *b);
uint16_t tcp_address_port(const struct sockaddr_storage *s);
void tcp_address_set_port(struct sockaddr_storage *s, uint16_t port);

#endif
