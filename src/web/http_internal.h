// HTTP requests, one after the other; the caller reads each answer as it arrives. http.c
// repeats no failed request (web.c does that). All waits are limited: ten seconds for a
// connection, thirty for the next byte, and thirty for each 4 KiB.
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
        4 << 10 // an attempt that brought this many bytes counts as a success
};

struct http_request {
    struct buf url;
    struct buf headers; // each header as "Name: value" and a NUL
    bool follow; // follows redirections of the server; else returns them as answers
    bool netrc;  // the user's ~/.netrc may have a password for the server
    // The name of a header whose value http_answer.wanted gets; the name is
    // not copied. NULL: none.
    const char *wanted;
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

// Opens a connection that requests use. TUG_EUSAGE if libcurl is missing.
int http_open(struct http **ret, const struct interrupt *i, struct err *e);
void http_close(struct http *h); // NULL is fine

// Sends a request and waits for the header of the answer. If the last answer was not read
// to its end, the rest of it is dropped.
int http_begin(struct http *h, const struct http_request *q, struct http_answer *ret,
               struct err *e);
// Reads the next part of the body. *ret_n is 0 at the end of the body. An error if the
// body does not have the announced length.
int http_read(struct http *h, char *out, size_t cap, size_t *ret_n, struct err *e);

// Returns whether a new attempt may succeed after the last failure.
bool http_may_pass(const struct http *h);

#endif
