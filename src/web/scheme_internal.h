// The interface of a kind of store (http.c knows none of them): requests for bytes of a
// file, and lists of files. Only src/web includes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_SCHEME_INTERNAL_H
#define TUG_WEB_SCHEME_INTERNAL_H

#include "web/http_internal.h"
#include "web/web.h"

struct scheme;

// s3://HOST/PATH: a copy of the text, cut.
struct address {
    const struct scheme *scheme;
    char whole[WEB_ADDRESS_MAX]; // as it was given
    char name[WEB_ADDRESS_MAX];  // for people
    char host[WEB_ADDRESS_MAX];  // with the port; a bucket
    char path[WEB_ADDRESS_MAX];  // behind the host, without the '/' that begins it
};

struct listing;

struct scheme {
    const char *name; // "s3"
    const char *over; // what it goes by: "http" or "https"
    bool patterns;    // *, ? and [ are wildcards, not part of the path
    // The request for bytes [from, to) of the file.
    int (*request)(const struct address *a, uint64_t from, uint64_t to,
                   struct http_request *q, struct err *e);
    // Tells listing_add of every file that `l` may want. NULL: an address is a file.
    int (*list)(struct listing *l, struct err *e);
    bool whole;          // the answer to a range is 200, and its length that of the range
    const char *host_is; // in messages: "host", "bucket"
    // A refusal that more can be said about than its status: `reason` is the server's
    // word for it, with a blank before it, or "". Its code; 0 at the end. NULL: never.
    int (*refused)(const struct address *a, const struct http_answer *answer,
                   const char *reason, struct err *e);
};

extern const struct scheme scheme_http, scheme_https, scheme_s3, scheme_webhdfs,
    scheme_swebhdfs;

// TUG_EUSAGE, with why.
int address_parse(struct address *ret, const char *text, struct err *e);

// Appends text as part of a URL: all but letters, digits and -_.~ becomes %XX; '/' stays
// where `slashes`.
int url_encode(struct buf *b, const char *text, size_t n, bool slashes);

// "Name: value" and its NUL.
int request_header(struct http_request *q, const char *name, const char *value);
int request_range(struct http_request *q, uint64_t from, uint64_t to);

// A setting of the environment; NULL: not set, or empty. TUG_EUSAGE, without showing the
// value, if it has blanks or control characters, which no header line may have.
int environment_text(const char *name, const char **ret, struct err *e);

// Another file of the same server.
int address_with_path(struct address *ret, const struct address *a, const char *path,
                      struct err *e);

// ---------------------------------------------------------------- sessions

// Requests to one server, one after the other.
struct web {
    struct address a;
    struct interrupt interrupt;
    struct http *http;
    bool known; // `bytes` and `version` are those that it has
    uint64_t bytes, version;
    uint64_t at; // of the next byte in order

    // The answer that is being read: its next byte is `next`, those before `from` are of
    // no use, it ends with byte `to` - 1.
    bool open;
    uint64_t next, from, to;
    uint64_t given; // of it, so far

    unsigned tries;   // since the last time that enough came
    struct err first; // why the first of them failed
    bool mentioned;
};

int web_session(struct web **ret, const struct address *a, const struct interrupt *i,
                struct err *e);

// Reads a whole answer, with the retries of reading. *ret_status: 2xx or 404.
int web_get(struct web *r,
            int (*request)(const void *arg, struct http_request *q, struct err *e),
            const void *arg, struct buf *body, int *ret_status, struct err *e);

// ---------------------------------------------------------------- lists

enum { LISTED_FILES_MAX = 1000000, LIST_TEXT_MAX = 64 << 20 };

struct listing {
    const struct address *a;
    bool pattern;                  // the path has wildcards
    char literal[WEB_ADDRESS_MAX]; // what all paths begin with that are wanted
    char folder[WEB_ADDRESS_MAX];  // the same, up to its last '/'
    struct web *session;           // by which lists are asked for
    struct web *probe;             // by which files are looked at
    size_t files, directories;     // so far
    size_t held;                   // bytes of the lists that are looked at
    int (*found)(void *arg, const struct web_file *f, struct err *e);
    void *arg;
};

// A file with this path (as of struct address), if it is wanted.
int listing_add(struct listing *l, const char *path, uint64_t bytes, uint64_t version,
                struct err *e);

// Whether a directory may hold what is wanted.
bool listing_is_hidden(const char *name);

uint64_t version_hash(const char *text); // 0 only of ""

// ---------------------------------------------------------------- what servers send

// A page of an S3 list (XML). TUG_EDATA when it is none.
struct s3_entry {
    const char *key, *etag;
    uint64_t bytes;
};
struct s3_page {
    bool truncated;
    char next[4096]; // where to go on
};
int s3_parse_list(const char *text, size_t n, struct s3_page *ret,
                  int (*entry)(void *arg, const struct s3_entry *s, struct err *e),
                  void *arg, struct err *e);

// The entries of a WebHDFS directory (JSON).
struct webhdfs_entry {
    const char *name; // "": what was asked for, which is a file
    bool directory;
    uint64_t bytes, modified;
};
int webhdfs_parse_list(const char *text, size_t n,
                       int (*entry)(void *arg, const struct webhdfs_entry *w,
                                    struct err *e),
                       void *arg, struct err *e);

#endif
