// The certificate and the token of a monitor, which decide whether a client may see the
// facts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_TRUST_INTERNAL_H
#define TUG_MONITOR_TRUST_INTERNAL_H

#include <stdbool.h>

#include <openssl/sha.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "monitor/address_internal.h"
#include "monitor/monitor.h"

struct trust {
    struct buf cert, key; // PEM texts; empty: no TLS
    X509 *x;              // the certificate; NULL: no TLS
    bool needs_token;
    unsigned char token[SHA256_DIGEST_LENGTH]; // the token's hash
};

// Decides what the address needs, and reads the files. Returns TUG_EUSAGE if an option is
// missing.
int trust_open(struct trust *t, const struct monitor_address *a,
               const struct monitor_options *o, struct err *e);
void trust_close(struct trust *t); // a zeroed struct is fine

// Returns whether the header Authorization shows the token: "Bearer TOKEN", or "Basic"
// with the token as the password of any user, as browsers send it.
bool trust_shows_token(const struct trust *t, const char *authorization);
// Returns whether the certificate is for this host's name or address.
bool trust_is_named(const struct trust *t, const char *host);

#endif
