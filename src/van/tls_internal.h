// What keys, certificates and sessions share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TLS_INTERNAL_H
#define TUG_VAN_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

#include "van/tls.h"

#define TLS_ROLE_PREFIX "tug " // of the role in a certificate's organizational unit

struct tls {
    SSL_CTX *context;
};

// Fills *e with what OpenSSL says happened, behind the text, and empties its queue of
// errors.
int tls_error(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

// A session says to its owner that the server has accepted our certificate.
int tls_session_accepted(SSL *ssl, SSL_SESSION *ticket);

#endif
