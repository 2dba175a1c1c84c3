// AWS Signature Version 4, by which S3 and compatible stores authenticate requests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_SIGV4_INTERNAL_H
#define TUG_WEB_SIGV4_INTERNAL_H

#include <stddef.h>

#include "base/buf.h"

// The SHA-256 of an empty text, which is the body of a GET.
#define SIGV4_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sigv4_header {
    const char *name; // the header's name in small letters
    const char *value;
};

struct sigv4 {
    const char *key_id, *secret, *region, *service;
    const char *date;                  // the time, as 20130524T000000Z
    const char *path;                  // the encoded path of the URL
    const char *query;                 // the encoded query, sorted by names; "" for none
    const struct sigv4_header *header; // sorted by names
    size_t headers;
};

// Appends to *ret the value of the header "authorization" for a GET without a body.
int sigv4_sign(const struct sigv4 *s, struct buf *ret, struct err *e);

#endif
