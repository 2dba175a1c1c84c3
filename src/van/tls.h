// Keys and certificates of a cluster: made by `tug cert`, used by the tcp van.
//
// A cluster has a CA of its own; each node has a key and a certificate signed by it, good
// for both ends of a link. Being signed by the cluster's CA is what lets a node in, the
// role in it says as what; names in certificates are for people.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TLS_H
#define TUG_VAN_TLS_H

#include "base/buf.h"
#include "base/err.h"

struct tls;

// From files in PEM form. TUG_EDATA or TUG_EIO naming the file and what is wrong with it:
// not there, not readable, expired, not signed by the CA, a key that does not fit.
int tls_open(struct tls **ret, const char *ca_file, const char *cert_file,
             const char *key_file, struct err *e);
// The same from memory: one text with CA, certificate and key, as launch hands over.
int tls_open_text(struct tls **ret, const char *pem, size_t n, struct err *e);
void tls_close(struct tls *t); // NULL is fine; no van uses it any more

// Makes a CA (PEM texts), and a node's key and certificate signed by it. ECDSA P-256.
int tls_make_ca(struct buf *ret_key, struct buf *ret_cert, uint32_t days, struct err *e);
// `role` (wire_role_read): what its holder may do; NULL: everything.
int tls_make_node(const char *ca_key, const char *ca_cert, const char *name,
                  const char *role, uint32_t days, struct buf *ret_key,
                  struct buf *ret_cert, struct err *e);

#endif
