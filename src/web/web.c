// Reads remote files. A request gets the bytes from an offset on; if its answer ends too
// early, the next request begins there.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/web.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "os/clock.h"
#include "os/log.h"
#include "web/scheme_internal.h"

enum { LIST_READ_BYTES = 64 << 10 };

static const double wait_most = 8; // most seconds between two attempts

_Atomic bool web_any_host;
struct web_patience web_patience = {.tries = 7, .wait = 0.25};

uint64_t version_hash(const char *text)
{
    // Quotes are ignored, because some lists have ETags with quotes and some without.
    size_t n = strlen(text), quotes = n > 1 && text[0] == '"' && text[n - 1] == '"';
    uint64_t h = hash_bytes(text + quotes, n - 2 * quotes, 0);
    return n == 0 ? 0 : h != 0 ? h : 1;
}

// ---------------------------------------------------------------- trying again

static int wait_a_while(struct web *r, double seconds, struct err *e)
{
    for (double until = clock_seconds() + seconds; clock_seconds() < until;)
        if (interrupt_comes(&r->interrupt, 50))
            return err_set(e, TUG_EINTERRUPTED, "interrupted while data was read");
    return 0;
}

// Handles a temporary failure, whose error is *e. If the caller should try again, waits
// and returns 0; else returns the error.
static int try_again(struct web *r, int rc, struct err *e)
{
    r->open = false;
    if (r->tries == 0 && e != NULL)
        // The first error names the cause; later errors may be consequences of it.
        r->first = *e;
    if (++r->tries >= web_patience.tries)
        return err_set(e, rc, "cannot read '%s', tried %u times: %s", r->a.name, r->tries,
                       r->first.text);
    if (!r->mentioned && e != NULL)
        log_warn("'%s': %s; trying again", r->a.name, e->text);
    r->mentioned = true;
    if (r->given >= HTTP_ENOUGH_BYTES)
        // Does not wait: the server answers, and only the transfer has ended early.
        return 0;
    double wait = web_patience.wait * (double)(1u << (r->tries - 1));
    return wait_a_while(r, wait < wait_most ? wait : wait_most, e);
}

// Handles the result `rc` of a call. Returns 0 if it succeeded or the caller should try
// again; else returns the error.
static int retry(struct web *r, int rc, bool may_pass, struct err *e)
{
    if (rc == 0 || rc == TUG_EINTERRUPTED || rc == TUG_ENOMEM)
        return rc;
    if (may_pass)
        return try_again(r, rc, e);
    r->open = false;
    if (e != NULL)
        err_wrap(e, "cannot read '%s'", r->a.name);
    return rc;
}

// ---------------------------------------------------------------- refusals

// Finds the server's word for a refusal in its XML (S3) or JSON (WebHDFS), also if the
// address is plain http. The word has only letters, so it cannot hold a secret.
static void find_reason(const char *body, char ret[64])
{
    static const char *const before[] = {"<Code>", "\"exception\":\"",
                                         "\"exception\": \""};
    ret[0] = '\0';
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        const char *p = strstr(body, before[i]);
        p = p != NULL ? p + strlen(before[i]) : "";
        size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
        if (n > 0 && n < 60)
            snprintf(ret, 64, " %.*s", (int)n, p);
    }
}

static void read_reason(struct web *r, char ret[64])
{
    char body[2048];
    size_t have = 0, n = 0;
    while (have < sizeof body - 1 &&
           http_read(r->http, body + have, sizeof body - 1 - have, &n, NULL) == 0 &&
           n > 0)
        have += n;
    body[have] = '\0';
    find_reason(body, ret);
}

static bool status_may_pass(int status)
{
    return status == 408 || status == 429 || status >= 500;
}

// Sets the error for an answer without data.
static int web_refused(struct web *r, const struct http_answer *a, struct err *e)
{
    char reason[64];
    read_reason(r, reason);
    const char *name = r->a.name;
    if (a->status == 404)
        return err_set(e, TUG_EDATA, "no data at '%s': the server has none (404%s)", name,
                       reason);
    if (r->a.scheme->refused != NULL)
        TRY(r->a.scheme->refused(&r->a, a, reason, e));
    if (a->status == 401 || a->status == 403)
        return err_set(e, TUG_EIO, "the server refuses '%s' (%d%s)", name, a->status,
                       reason);
    return err_set(e, TUG_EIO, "cannot read '%s': the server answers with status %d%s",
                   name, a->status, reason);
}

// Sends a request once. *ret_ok says whether the answer is 2xx, or 404 if `absent` is
// true. If *ret_ok is false, returns 0 if the caller should ask again, else the error.
static int ask(struct web *r, const struct http_request *q, struct http_answer *a,
               bool absent, bool *ret_ok, struct err *e)
{
    *ret_ok = false;
    int rc = http_begin(r->http, q, a, e);
    if (rc != 0)
        return retry(r, rc, http_may_pass(r->http), e);
    *ret_ok = (a->status >= 200 && a->status < 300) || (absent && a->status == 404) ||
              a->status == 416;
    if (*ret_ok)
        return 0;
    if (!status_may_pass(a->status))
        return web_refused(r, a, e);
    char reason[64];
    read_reason(r, reason);
    rc = err_set(e, TUG_EIO, "the server answers with status %d%s", a->status, reason);
    return try_again(r, rc, e);
}

// Sends a request once and reads its answer. *ret_again says whether the caller must
// repeat the request.
static int get_once(struct web *r, const struct http_request *q, struct buf *body,
                    int *ret_status, bool *ret_again, struct err *e)
{
    struct http_answer a = {0};
    bool ok = false;
    buf_clear(body);
    TRY(ask(r, q, &a, true, &ok, e));
    *ret_again = !ok;
    *ret_status = a.status;
    for (size_t n = 1; ok && n > 0;) {
        if (buf_reserve(body, LIST_READ_BYTES) != 0)
            return buf_error(body, "a list of files", e);
        int rc = http_read(r->http, body->data + body->len, LIST_READ_BYTES, &n, e);
        *ret_again = rc != 0;
        if (rc != 0)
            return retry(r, rc, http_may_pass(r->http), e);
        body->len += n;
    }
    return 0;
}

int web_get(struct web *r,
            int (*request)(const void *arg, struct http_request *q, struct err *e),
            const void *arg, struct buf *body, int *ret_status, struct err *e)
{
    bool again = true;
    r->tries = 0;
    r->given = 0;
    while (again) { // a new request each time, because a signature contains the time
        struct http_request q = HTTP_REQUEST_INIT;
        int rc = request(arg, &q, e);
        if (rc == 0)
            rc = get_once(r, &q, body, ret_status, &again, e);
        http_request_free(&q);
        TRY(rc);
    }
    return 0;
}

// ---------------------------------------------------------------- bytes

static int changed(const struct web *r, struct err *e)
{
    return err_set(e, TUG_EDATA, "'%s' changed since the run began", r->a.name);
}

// Checks that the size and version of the file in an answer equal those in earlier
// answers.
static int check_answer(struct web *r, const struct http_answer *a, struct err *e)
{
    uint64_t version = version_hash(a->version), total = a->total;
    bool ranged = a->status == 206 && a->has_range;
    r->next = ranged ? a->from : 0;
    // The answer of such a scheme gives the size of the range, not that of the file.
    if (r->a.scheme->whole) {
        r->next = r->from;
        return a->has_length && a->length > r->to - r->from ? changed(r, e) : 0;
    }
    if (a->status == 416)
        return r->known || !a->has_range || a->total > 0
                   ? changed(r, e)
                   : err_set(e, TUG_EDATA, "'%s' is empty", r->a.name);
    if (!ranged && (a->status != 200 || !a->has_length))
        return err_set(
            e, TUG_EDATA,
            "'%s': the server does not send the length of the file, so it cannot be read",
            r->a.name);
    if (!ranged)
        total = a->length;
    bool other = version != r->version && version != 0 && r->version != 0;
    if (r->known && (total != r->bytes || other))
        return changed(r, e);
    if (total == 0)
        return err_set(e, TUG_EDATA, "'%s' is empty", r->a.name);
    if (!r->known)
        r->version = version;
    r->bytes = total;
    r->known = true;
    return ranged && a->from != r->from
               ? err_set(e, TUG_EDATA,
                         "'%s': the server sends bytes that were not requested",
                         r->a.name)
               : 0;
}

// Requests bytes [from, to) and opens the answer. If the result is 0 and r->open is
// false, the caller should try again.
static int web_begin(struct web *r, uint64_t from, uint64_t to, struct err *e)
{
    struct http_request q = HTTP_REQUEST_INIT;
    struct http_answer a;
    bool ok = false;
    int rc = r->a.scheme->request(&r->a, from, to, &q, e);
    r->from = from;
    r->to = to;
    r->given = 0;
    if (rc == 0)
        rc = ask(r, &q, &a, false, &ok, e);
    http_request_free(&q);
    if (rc == 0 && ok)
        rc = check_answer(r, &a, e);
    r->open = rc == 0 && ok;
    return rc;
}

// Skips the bytes before r->from, which a server without ranges sends.
static int skip(struct web *r, size_t *ret_n, struct err *e)
{
    char waste[4096];
    *ret_n = 1;
    while (*ret_n > 0 && r->next < r->from) {
        uint64_t left = r->from - r->next;
        TRY(http_read(r->http, waste, left < sizeof waste ? (size_t)left : sizeof waste,
                      ret_n, e));
        r->next += *ret_n;
    }
    return 0;
}

// Reads the next bytes of the open answer. Returns 0 with *ret_n = 0 if the answer failed
// or ended early, and the caller should ask again.
static int read_some(struct web *r, char *out, size_t cap, size_t *ret_n, struct err *e)
{
    uint64_t left = r->to - r->from;
    *ret_n = 0;
    int rc = skip(r, ret_n, e);
    if (rc == 0 && *ret_n > 0)
        rc = http_read(r->http, out, left < cap ? (size_t)left : cap, ret_n, e);
    if (rc != 0) {
        *ret_n = 0;
        return retry(r, rc, http_may_pass(r->http), e);
    }
    r->next += *ret_n;
    r->from = r->next;
    r->given += *ret_n;
    if (r->given >= HTTP_ENOUGH_BYTES || r->from == r->to)
        r->tries = 0;
    if (*ret_n > 0)
        return 0;
    rc = err_set(e, TUG_EIO, "the server sends fewer bytes than it announced");
    return try_again(r, rc, e);
}

// Reads bytes at offset `at`. Uses the open answer if its next byte is the byte at `at`;
// else requests bytes [at, to).
static int read_from(struct web *r, char *out, size_t cap, uint64_t at, uint64_t to,
                     size_t *ret_n, struct err *e)
{
    *ret_n = 0;
    while (*ret_n == 0) {
        if (!r->open || r->from != at || r->from == r->to)
            TRY(web_begin(r, at, to, e));
        if (r->open)
            TRY(read_some(r, out, cap, ret_n, e));
    }
    return 0;
}

int web_read(struct web *r, char *out, size_t cap, size_t *ret_n, struct err *e)
{
    *ret_n = 0;
    if (r->at >= r->bytes)
        return 0;
    TRY(read_from(r, out, cap, r->at, r->bytes, ret_n, e));
    r->at += *ret_n;
    return 0;
}

int web_seek(struct web *r, uint64_t at, struct err *e)
{
    r->at = at;
    return at <= r->bytes ? 0 : changed(r, e);
}

int web_read_at(struct web *r, char *out, size_t n, uint64_t at, size_t *ret_n,
                struct err *e)
{
    *ret_n = 0;
    if (at >= r->bytes)
        return 0;
    uint64_t left = r->bytes - at;
    uint64_t to = left < n ? r->bytes : at + n;
    r->open = r->open && r->from == at &&
              r->to == to; // keeps the open answer if it is for the same range
    return read_from(r, out, n, at, to, ret_n, e);
}

// ---------------------------------------------------------------- opening

int web_session(struct web **ret, const struct address *a, const struct interrupt *i,
                struct err *e)
{
    struct web *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return err_nomem(e, "a remote file");
    r->a = *a;
    r->interrupt = *i;
    int rc = http_open(&r->http, &r->interrupt, e);
    if (rc == 0)
        *ret = r;
    else
        web_close(r);
    return rc;
}

void web_close(struct web *r)
{
    if (r == NULL)
        return;
    http_close(r->http);
    mem_free(r);
}

int web_open(struct web **ret, const struct web_file *f, const struct interrupt *i,
             struct err *e)
{
    struct address *a = mem_alloc(sizeof *a);
    if (a == NULL)
        return err_nomem(e, "an address");
    int rc = address_parse(a, f->address, e);
    if (rc == 0)
        rc = web_session(ret, a, i, e);
    mem_free(a);
    TRY(rc);
    (*ret)->known = true;
    (*ret)->bytes = f->bytes;
    (*ret)->version = f->version;
    return 0;
}
