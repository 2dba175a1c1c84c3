// The interface of a kind of store (http.c knows none of them): requests for bytes of a
// file, and lists of files. Only src/web includes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WEB_SCHEME_INTERNAL_H
#define TUG_WEB_SCHEME_INTERNAL_H

#include "web/http_internal.h"
#include "web/web.h"

struct scheme;

// An address such as s3://HOST/PATH, cut into its parts.
struct address {
    const struct scheme *scheme;
    char whole[WEB_ADDRESS_MAX]; // the address as the user gave it
    char name[WEB_ADDRESS_MAX];  // the address in messages
    char host[WEB_ADDRESS_MAX];  // the host with its port, or the bucket
    char path[WEB_ADDRESS_MAX];  // the path after the host, without its first '/'
};

struct listing;

struct scheme {
    const char *name; // the scheme's name in addresses, such as "s3"
    const char *over; // the protocol: "http" or "https"
    bool patterns;    // true: *, ? and [ are wildcards; false: they are part of the path
    // Makes the request for bytes [from, to) of the file.
    int (*request)(const struct address *a, uint64_t from, uint64_t to,
                   struct http_request *q, struct err *e);
    // Calls listing_add for every file that may match the address of `l`. NULL: every
    // address is a single file.
    int (*list)(struct listing *l, struct err *e);
    // true: the answer to a request for a range has status 200 and only the bytes of the
    // range.
    bool whole;
    const char *host_is; // the word for the host in messages: "host" or "bucket"
    // Sets the error for a refused request if the answer tells more about the refusal
    // than its HTTP status does. `reason` is a blank and the server's word for the
    // refusal, or "". Returns the error's code, or 0 if the answer tells nothing more.
    // `refused` may be NULL.
    int (*refused)(const struct address *a, const struct http_answer *answer,
                   const char *reason, struct err *e);
};

extern const struct scheme scheme_http, scheme_https, scheme_s3, scheme_webhdfs,
    scheme_swebhdfs;

// Cuts the text of an address into its parts. TUG_EUSAGE if the address is wrong; the
// message says why.
int address_parse(struct address *ret, const char *text, struct err *e);

// Appends text as part of a URL: every byte except letters, digits and -_.~ becomes %XX;
// if `slashes` is true, '/' also stays.
int url_encode(struct buf *b, const char *text, size_t n, bool slashes);

// Adds a header to a request, as "Name: value" and a NUL.
int request_header(struct http_request *q, const char *name, const char *value);
int request_range(struct http_request *q, uint64_t from, uint64_t to);

// Gets an environment variable; *ret is NULL if the variable is missing or empty.
// TUG_EUSAGE if its value has blanks or control characters, which a header must not have;
// the message does not show the value.
int environment_text(const char *name, const char **ret, struct err *e);

// Makes the address of another file on the server of `a`.
int address_with_path(struct address *ret, const struct address *a, const char *path,
                      struct err *e);

// ---------------------------------------------------------------- sessions

// Requests to one server, one after the other.
struct web {
    struct address a;
    struct interrupt interrupt;
    struct http *http;
    bool known; // `bytes` and `version` of the file are known
    uint64_t bytes, version;
    uint64_t at; // offset in the file of the next byte that the caller gets

    // The answer that is being read. `next` is the offset in the file of the answer's
    // next byte, `to` the offset at which the answer ends; bytes before offset `from` are
    // skipped: a server without ranges sends the file from its beginning.
    bool open;
    uint64_t next, from, to;
    uint64_t given; // bytes of the answer that were given to the caller

    unsigned tries;   // attempts since an answer last brought HTTP_ENOUGH_BYTES
    struct err first; // the error of the first of these attempts
    bool mentioned;
};

int web_session(struct web **ret, const struct address *a, const struct interrupt *i,
                struct err *e);

// Sends a request and reads the whole answer, with the same retries as web_read.
// *ret_status is 2xx or 404.
int web_get(struct web *r,
            int (*request)(const void *arg, struct http_request *q, struct err *e),
            const void *arg, struct buf *body, int *ret_status, struct err *e);

// ---------------------------------------------------------------- lists

enum { LISTED_FILES_MAX = 1000000, LIST_TEXT_MAX = 64 << 20 };

struct listing {
    const struct address *a;
    bool pattern;                  // the path has wildcards
    char literal[WEB_ADDRESS_MAX]; // the part of the path before the first wildcard
    char folder[WEB_ADDRESS_MAX];  // `literal` up to its last '/'
    struct web *session;           // for requests of lists
    struct web *probe;             // for requests of the first bytes of files
    size_t files, directories;     // numbers found so far
    size_t held;                   // bytes that the lists in memory take
    int (*found)(void *arg, const struct web_file *f, struct err *e);
    void *arg;
};

// Adds a file to the list if its path (as in struct address) matches the listed address
// and is not hidden.
int listing_add(struct listing *l, const char *path, uint64_t bytes, uint64_t version,
                struct err *e);

// Returns whether a file or directory is hidden: its name begins with '.' or '_'.
bool listing_is_hidden(const char *name);

uint64_t version_hash(const char *text); // returns a hash, 0 only for ""

// ---------------------------------------------------------------- parsers of lists

// Reads a page of an S3 list (XML). TUG_EDATA if the text is not such a page.
struct s3_entry {
    const char *key, *etag;
    uint64_t bytes;
};
struct s3_page {
    bool truncated;
    char next[4096]; // the token for the request of the next page
};
int s3_parse_list(const char *text, size_t n, struct s3_page *ret,
                  int (*entry)(void *arg, const struct s3_entry *s, struct err *e),
                  void *arg, struct err *e);

// An entry of a WebHDFS directory (JSON).
struct webhdfs_entry {
    const char *name; // "": the requested path itself, which is a file
    bool directory;
    uint64_t bytes, modified;
};
int webhdfs_parse_list(const char *text, size_t n,
                       int (*entry)(void *arg, const struct webhdfs_entry *w,
                                    struct err *e),
                       void *arg, struct err *e);

#endif
