// One HTTP request after the other, each answer read as it comes. Nothing is tried twice
// here (web.c does that), and no wait is without an end: for a connection ten seconds,
// for a byte thirty, and as many for each 4 KiB.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_HTTP_INTERNAL_H
#define TUG_WEB_HTTP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/interrupt.h"

struct http;

enum {
    HTTP_URL_MAX = 16 << 10,
    HTTP_TEXT_MAX = 128,
    HTTP_ENOUGH_BYTES =
        4 << 10 // an attempt that brought so many bytes counts as a success
};

struct http_request {
    struct buf url;
    struct buf headers; // each header as "Name: value" and a NUL
    bool follow; // follows redirections of the server; else returns them as answers
    bool netrc;  // the user's ~/.netrc may have a password for the server
    const char *wanted; // the name of a header of the answer; NULL: none. Not copied
};
#define HTTP_REQUEST_INIT                                                                \
    ((struct http_request){.url = BUF_INIT(HTTP_URL_MAX),                                \
                           .headers = BUF_INIT(HTTP_URL_MAX)})
static inline void http_request_free(struct http_request *q)
{
    buf_free(&q->url);
    buf_free(&q->headers);
}

struct http_answer {
    int status;
    bool has_length, has_range;
    uint64_t length;             // the announced length of the body
    uint64_t from, total;        // for a range: its first byte, and the size of the file
    char version[HTTP_TEXT_MAX]; // the ETag, or else Last-Modified; "" without both
    char wanted[HTTP_TEXT_MAX];  // the value of the header that the request names, or ""
};

// TUG_EUSAGE where libcurl is missing.
int http_open(struct http **ret, const struct interrupt *i, struct err *e);
void http_close(struct http *h); // NULL is fine

// Asks, and waits for the head of the answer. An earlier answer that was not read to its
// end is given up.
int http_begin(struct http *h, const struct http_request *q, struct http_answer *ret,
               struct err *e);
// Returns the next part of the body; *ret_n = 0 at its end, if its length is as
// announced.
int http_read(struct http *h, char *out, size_t cap, size_t *ret_n, struct err *e);

// Whether the last failure may be over when one tries again.
bool http_may_pass(const struct http *h);

#endif
