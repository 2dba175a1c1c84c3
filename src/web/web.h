// Files that lie elsewhere: http(s)://, s3:// and (s)webhdfs://. Listed, asked how large
// they are, and read, in order or at any byte, by requests of ranges.
//
// Temporary failures are retried, a bounded number of times, with growing waits:
// connections that fail or break, answers 408, 429 and 5xx. Reading goes on where it was.
// A file whose size or version is not that of the beginning is an error: it changed.
//
// No address here has a password in it, and no message has the query of an address, a key
// or a token.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_WEB_H
#define TUG_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "os/interrupt.h"

struct web;

enum { WEB_HEAD_MAX = 64, WEB_ADDRESS_MAX = 8 << 10 };

struct web_file {
    const char *name;    // the address in messages, without its query
    const char *address; // the address that opens the file
    uint64_t bytes;
    uint64_t version;        // hash of the ETag, or of the time of writing; 0: not known
    char head[WEB_HEAD_MAX]; // the file's first bytes
    size_t head_len;
};

// Whether it is an address of any scheme, not a path.
bool web_is(const char *path);

// Calls `found` for what the address stands for: a file, or (s3, webhdfs) all files of a
// directory or that a pattern matches, not those with a name on the way that begins with
// '.' or '_'. In any order. TUG_EUSAGE if the kind of address is unknown; TUG_EDATA if
// there is no such file.
int web_list(const char *address, const struct interrupt *i,
             int (*found)(void *arg, const struct web_file *f, struct err *e), void *arg,
             struct err *e);

// One of those files. Nothing is asked yet. The name is borrowed.
int web_open(struct web **ret, const struct web_file *f, const struct interrupt *i,
             struct err *e);
void web_close(struct web *r); // NULL is fine

// Up to `cap` of the bytes that come next; *ret_n = 0 at the end.
int web_read(struct web *r, char *out, size_t cap, size_t *ret_n, struct err *e);
// The next read begins there.
int web_seek(struct web *r, uint64_t at, struct err *e);
// Up to n bytes from byte `at` on, asked for by themselves.
int web_read_at(struct web *r, char *out, size_t n, uint64_t at, size_t *ret_n,
                struct err *e);

// The most attempts of a request without any data, and the seconds before the second one,
// which double. Tests wait less.
struct web_patience {
    unsigned tries;
    double wait;
};
extern struct web_patience web_patience;

// Set once, by who starts a process: a server may redirect to an address of this machine or of
// its network link (else TUG_WEB_ANY_HOST=1 says so).
extern _Atomic bool web_any_host;

// How many directories a webhdfs address may have below it: each is asked for by itself.
// Tests have fewer.
extern size_t web_directories_max;

#endif
