// TLS 1.3 without I/O: the caller feeds received bytes into a session, and takes the
// bytes to be sent out of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TLS_SESSION_H
#define TUG_VAN_TLS_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "van/frame_pool.h"
#include "van/tls.h"
#include "wire/wire.h"

struct tls_session;

enum {
    TLS_MORE = 1,           // needs more received bytes
    TLS_CLOSED = 2,         // the peer has ended the stream
    TLS_RECORD_MAX = 16384, // bytes of the stream in a record
};

// Opens a session. `t` must outlive it. The pool gives memory for the bytes to be sent.
int tls_session_open(struct tls_session **ret, struct tls *t, bool server,
                     struct frame_pool *pool, struct err *e);
void tls_session_close(struct tls_session *s); // NULL is fine

// Feeds received bytes. They must stay in place until the session has read them all, that
// is until shake or read returns TLS_MORE.
void tls_session_feed(struct tls_session *s, const void *bytes, size_t n);

// Returns 0 when the peer has shown a certificate of the CA and has accepted ours;
// TLS_MORE if more bytes must be received first; or TUG_EDATA, with the reason in *e.
int tls_session_shake(struct tls_session *s, struct err *e);

// After the handshake, gets the role in the peer's certificate (WIRE_OPERATOR if the
// certificate names no role), the certificate's fingerprint (SHA-256), and a number that
// is the same at both ends and different in each session. Returns TUG_EDATA if the role
// is not one of tug's.
int tls_session_peer(struct tls_session *s, enum wire_role *ret_role,
                     uint8_t ret_certificate[32], uint8_t ret_channel[32], struct err *e);

// Reads bytes of the stream into `to`. Returns 0 with *ret_n > 0; TLS_MORE; TLS_CLOSED;
// TUG_EDATA.
int tls_session_read(struct tls_session *s, void *to, size_t n, size_t *ret_n,
                     struct err *e);

// Encrypts n bytes, as several records if n is more than TLS_RECORD_MAX. Returns 0 or
// TUG_ENOMEM.
int tls_session_write(struct tls_session *s, const void *bytes, size_t n, struct err *e);

// Ends the stream: no bytes are sent afterwards.
void tls_session_end(struct tls_session *s);

// tls_session_out returns the bytes to be sent. tls_session_sent records that the first n
// of these bytes were sent. tls_session_take gives the caller all of them in the pool's
// block, which the caller then owns (NULL: there are none).
const char *tls_session_out(const struct tls_session *s, size_t *ret_n);
void tls_session_sent(struct tls_session *s, size_t n);
char *tls_session_take(struct tls_session *s);

#endif
