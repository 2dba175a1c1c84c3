// Shared by keys, certificates and sessions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TLS_INTERNAL_H
#define TUG_VAN_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "van/tls.h"

// The text before the role in a certificate's organizational unit.
#define TLS_ROLE_PREFIX "tug "

struct tls {
    SSL_CTX *context;
};

// Fills *e with the text and OpenSSL's reason, and empties OpenSSL's error queue.
int tls_error(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Called when a ticket arrives, by which the server shows that it has accepted
// this node's certificate.
int tls_session_accepted(SSL *ssl, SSL_SESSION *ticket);

#endif
