// Keys of a run over ssh: a CA for the time of the run, and the keys that each role gets
// on its standard input.
//
// The text is "PEM <bytes>\n" and then as many bytes: CA, certificate and key, as
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
    struct buf ca_key, ca_cert; // of this run
    struct buf given;           // or files of the user's: the same for all roles
};

// Files: all three, or all NULL: a CA is made.
int secrets_open(struct secrets *s, const char *ca, const char *cert, const char *key,
                 struct err *e);
void secrets_close(struct secrets *s); // a zeroed one is fine

// Appends to *ret the input of the process of this name; its certificate names its role
// (wire_role_read).
int secrets_node(const struct secrets *s, const char *name, const char *role,
                 struct buf *ret, struct err *e);

// The other end: reads it from descriptor `fd`.
int secrets_read(int fd, struct buf *ret_pem, struct err *e);

#endif
