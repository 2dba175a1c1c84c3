// TLS 1.3 over bytes that others carry: what came is fed in, what is to go out gathers in
// the session until it is taken. No I/O happens here.
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
    TLS_MORE = 1,           // goes on when more bytes have come
    TLS_CLOSED = 2,         // the peer has said that it is done
    TLS_RECORD_MAX = 16384, // bytes of the stream in a record
};

// `t` must outlive it. The pool gives memory for what goes out.
int tls_session_open(struct tls_session **ret, struct tls *t, bool server,
                     struct frame_pool *pool, struct err *e);
void tls_session_close(struct tls_session *s); // NULL is fine

// The bytes stay where they are until the session has read them all: until shake or read
// has returned TLS_MORE.
void tls_session_feed(struct tls_session *s, const void *bytes, size_t n);

// 0: the peer has shown a certificate of the CA and has accepted ours. TLS_MORE;
// TUG_EDATA saying what is wrong.
int tls_session_shake(struct tls_session *s, struct err *e);

// After the handshake: the role that the peer's certificate names (WIRE_OPERATOR if it
// names none), its fingerprint (SHA-256), and a number that both ends have in common and
// no other session has. TUG_EDATA: its role is not tug's.
int tls_session_peer(struct tls_session *s, enum wire_role *ret_role,
                     uint8_t ret_certificate[32], uint8_t ret_channel[32], struct err *e);

// Bytes of the stream into `to`: 0 with *ret_n > 0; TLS_MORE; TLS_CLOSED; TUG_EDATA.
int tls_session_read(struct tls_session *s, void *to, size_t n, size_t *ret_n,
                     struct err *e);

// Encrypts. Several records when n is more than TLS_RECORD_MAX. TUG_ENOMEM.
int tls_session_write(struct tls_session *s, const void *bytes, size_t n, struct err *e);

// Says that nothing more will be sent.
void tls_session_end(struct tls_session *s);

// What is to go out; that its first n bytes have; or all of it in the pool's block, which
// is the caller's then (NULL: there is nothing).
const char *tls_session_out(const struct tls_session *s, size_t *ret_n);
void tls_session_sent(struct tls_session *s, size_t n);
char *tls_session_take(struct tls_session *s);

#endif
