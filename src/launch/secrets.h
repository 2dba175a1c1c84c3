// Keys of a run over ssh: a CA that exists as long as the run, and keys that each role
// gets on its standard input.
//
// The input is "PEM <bytes>\n", followed by that number of bytes: CA, certificate and key, as
// tls_open_text takes them. Standard input stays open behind it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_SECRETS_H
#define TUG_LAUNCH_SECRETS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

struct secrets {
    bool used;
    // Key and certificate of the CA that was made for this run.
    struct buf ca_key, ca_cert;
    struct buf given; // the user's files, the same for all roles, if no CA was made
};

// Reads the user's three files; if all are NULL, makes a CA.
int secrets_open(struct secrets *s, const char *ca, const char *cert, const char *key,
                 struct err *e);
void secrets_close(struct secrets *s); // a zeroed struct is fine

// Appends to *ret the input for the process with this name. Its certificate contains its
// role (wire_role_read).
int secrets_node(const struct secrets *s, const char *name, const char *role,
                 struct buf *ret, struct err *e);

// Reads from descriptor `fd` the input that the launcher made with secrets_node.
int secrets_read(int fd, struct buf *ret_pem, struct err *e);

#endif
