// Requests with a body (POST), one after the other on a connection that stays open. A
// request has one limit of time for all of it, and is not repeated.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_POST_H
#define TUG_WEB_POST_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct post;

// Paths of PEM files. `ca` NULL: the certificates of the system; `cert` and `key` NULL:
// no certificate of the client.
struct post_tls {
    const char *ca, *cert, *key;
};

struct post_request {
    const char *url;
    // Value of the header "authorization"; NULL: no such header.
    const char *authorization;
    const void *body; // JSON
    size_t n;
    double seconds; // limit of time for the request and its answer
};

// Opens a client, which belongs to one thread at a time. *t is not copied, so it must
// exist as long as the client. TUG_EUSAGE if libcurl is missing.
int post_open(struct post **ret, const struct post_tls *t, struct err *e);
void post_close(struct post *p); // NULL is fine

// Sends a request and gets its whole answer, which replaces the content of *ret. Returns
// TUG_EIO if no answer came in time; whether the request was executed is not known then.
int post_send(struct post *p, const struct post_request *q, int *ret_status,
              struct buf *ret, struct err *e);

#endif
