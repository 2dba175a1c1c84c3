// Keys and certificates of a cluster. `tug cert` makes them, and the tcp van uses them.
//
// A cluster has its own CA; each node has a key and a certificate signed by it, valid at
// both ends of a link. A node with a certificate of the cluster's CA is accepted, with
// the role that the certificate names. Other names in certificates are only read by
// people and browsers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TLS_H
#define TUG_VAN_TLS_H

#include "base/buf.h"
#include "base/err.h"

struct tls;

// Loads keys from PEM files. Returns TUG_EDATA or TUG_EIO with an error that names the
// file and the mistake: the file is missing or not readable, the certificate has expired
// or is not signed by the CA, or the key does not belong to the certificate.
int tls_open(struct tls **ret, const char *ca_file, const char *cert_file,
             const char *key_file, struct err *e);
// Loads keys from one text, which has the CA's certificate, the node's certificate and
// its key. tug launch passes such a text to its processes.
int tls_open_text(struct tls **ret, const char *pem, size_t n, struct err *e);
void tls_close(struct tls *t); // no van may use t any more; NULL is fine

// Makes a CA: its key and its certificate, as PEM texts (ECDSA P-256).
int tls_make_ca(struct buf *ret_key, struct buf *ret_cert, uint32_t days, struct err *e);
// The contents of a node's certificate.
struct tls_node {
    const char *name;
    const char *role; // limits what the holder may do (wire_role_read); NULL: no limit
    uint32_t days;    // number of days for which the certificate is valid
    // Host names and addresses by which browsers reach the node. Links do not check them.
    const char *const *hosts;
    size_t n_hosts;
};
// Makes a node's key, and its certificate, which the CA signs; both are PEM texts.
int tls_make_node(const char *ca_key, const char *ca_cert, const struct tls_node *node,
                  struct buf *ret_key, struct buf *ret_cert, struct err *e);

#endif
