// A plain HTTP client for tests: one request on a connection of its own, or bytes that no
// browser would send.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_BROWSE_H
#define TUG_KIT_BROWSE_H

#include <stddef.h>

struct browse {
    int status; // 0: the server closed the connection without an answer
    char *head; // status line and headers
    char *body; // ended by a NUL
    size_t n_body;
};

// Connects to a URL as monitor_url returns it. The socket has a deadline of a minute.
int browse_connect(const char *url);
void browse_send(int fd, const char *text);
// Reads until the server closes the connection, and closes it.
struct browse browse_read(int fd);
// Asks for a path; `headers` are further headers besides Host and Connection, each a line
// that ends in \r\n.
struct browse browse_ask(const char *url, const char *method, const char *path,
                         const char *headers);
struct browse browse_get(const char *url, const char *path);
void browse_free(struct browse *b);

// Asks for a path, and checks status and a text of the body.
void browse_says(const char *url, const char *path, int status, const char *text);

#endif
