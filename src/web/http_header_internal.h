// Parses the header lines of an HTTP answer, which may come from any server. It is
// separate from http.c so that tests can pass any lines without a server.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_HTTP_HEADER_INTERNAL_H
#define TUG_WEB_HTTP_HEADER_INTERNAL_H

#include "web/http_internal.h"

// Takes one line of n bytes, without a final NUL: "Name: value\r\n", or "HTTP/1.1 200
// OK", which begins a new answer. `wanted` is the name of a header whose value is stored
// in the answer (http_request.wanted).
void http_take_header(struct http_answer *a, const char *wanted, const char *line,
                      size_t n);

#endif
