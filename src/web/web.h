// Remote files: http(s)://, s3:// and (s)webhdfs://. They are listed with their sizes,
// and read in order or from any byte on, by requests for ranges of bytes.
//
// Temporary failures (connections that fail or break, answers 408, 429 and 5xx) are
// retried a limited number of times, with growing waits. Reading continues at the byte
// where it stopped. A file whose size or version has changed since it was opened is an
// error.
//
// Addresses with a password are refused, and no message shows the query of an address, a
// key or a token.
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
    uint64_t version; // hash of the ETag, or of the time of the last change; 0: not known
    char head[WEB_HEAD_MAX]; // the file's first bytes
    size_t head_len;
};

// Returns whether a text is an address of any scheme and not a path.
bool web_is(const char *path);

// Calls `found` for each file that the address stands for, in any order: the file itself,
// or (s3, webhdfs) all files in a directory or all files that match a pattern. Files and
// directories whose names begin with '.' or '_' are left out. TUG_EUSAGE if the kind of
// address is unknown; TUG_EDATA if there is no such file.
int web_list(const char *address, const struct interrupt *i,
             int (*found)(void *arg, const struct web_file *f, struct err *e), void *arg,
             struct err *e);

// Opens a file that web_list found, without sending a request. f->name must live as long
// as *ret.
int web_open(struct web **ret, const struct web_file *f, const struct interrupt *i,
             struct err *e);
void web_close(struct web *r); // NULL is fine

// Reads up to `cap` of the next bytes. *ret_n is 0 at the end of the file.
int web_read(struct web *r, char *out, size_t cap, size_t *ret_n, struct err *e);
// Makes the next web_read begin at offset `at`.
int web_seek(struct web *r, uint64_t at, struct err *e);
// Reads up to n bytes from offset `at` on, by a request for these bytes alone.
int web_read_at(struct web *r, char *out, size_t n, uint64_t at, size_t *ret_n,
                struct err *e);

// The largest number of attempts of a request that brings no data, and the seconds before
// the second attempt, which double each time. Tests set shorter waits.
struct web_patience {
    unsigned tries;
    double wait;
};
extern struct web_patience web_patience;

// Whether a server elsewhere may redirect requests to an address of this machine or of
// its local network link. The code that starts a process sets it once;
// TUG_WEB_ANY_HOST=1 has the same effect.
extern _Atomic bool web_any_host;

// The largest number of directories below a webhdfs address. It is limited because each
// directory takes a request of its own. Tests set a smaller number.
extern size_t web_directories_max;

#endif
