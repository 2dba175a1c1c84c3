// The address at which a monitor listens, and the host names that requests may use for
// it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_ADDRESS_INTERNAL_H
#define TUG_MONITOR_ADDRESS_INTERNAL_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct monitor_address {
    char host[NI_MAXHOST]; // the host as the user typed it; "" for a Unix socket
    uint16_t port;
    char path[108]; // path of a Unix socket; "" for TCP
    // These values of st_dev and st_ino identify the socket that address_listen made at
    // `path`.
    uint64_t device, file;
    bool loopback;             // also true for a Unix socket
    char url[NI_MAXHOST + 32]; // the monitor's URL, set by address_listen
};

// Reads "HOST:PORT" or "unix:PATH".
int address_read(struct monitor_address *ret, const char *text, struct err *e);

// Sets the error for an address that other machines can reach. The message names the options
// that are missing.
int address_refuse(const struct monitor_address *a, const char *missing, struct err *e);

// Opens the listening socket. A Unix socket gets mode 0600, and replaces a socket that a
// dead process has left. Sets a->port if it was 0, and a->url.
int address_listen(struct monitor_address *a, bool tls, int *ret_fd, struct err *e);
// Removes the Unix socket at a->path. Does nothing if another process has put a file
// there.
void address_leave(const struct monitor_address *a);

// Returns whether the process at the other end of a Unix socket runs as this user or as
// root. Returns true for other sockets.
bool address_peer_is_own(int fd);

// Gets the name or address in `host`, the value of the header Host, without the port. Returns
// false if `host` is malformed.
bool address_host(char ret[NI_MAXHOST], const char *host);
// Returns whether a request may use this name for this process: "localhost", a literal
// address of loopback, the address at which the request arrived, or the host that the
// user typed. This refuses DNS rebinding: if another site makes its name resolve to this
// machine, the requests of its page have the site's name.
bool address_may_be_called(const struct monitor_address *a, int fd, const char *name);

#endif
