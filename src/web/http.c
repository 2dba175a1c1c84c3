// HTTP by libcurl's multi interface, one transfer at a time. The reading thread drives
// the transfer, so no other thread is needed, and a busy reader makes the server wait.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/http_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "os/clock.h"
#include "web/curl_internal.h"
#include "web/http_header_internal.h"
#include "web/web.h"

enum { LOOK_MS = 100, READ_BYTES = 64 << 10, REDIRECTS = 5 };

// Time limits in seconds for a connection, and for the next byte of an answer.
// TUG_WEB_SECONDS overrides silent_seconds.
static const long connect_seconds = 10;
static const double silent_seconds = 30;

enum { IP_MAX = 64 };

struct http {
    const struct curl *c;
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    struct interrupt interrupt;
    struct http_answer answer;
    // Name of a header that the caller wants, as in struct http_request.
    const char *wanted;
    bool running; // the transfer is in `multi` and has not ended
    bool no_memory, may_pass;
    CURLcode result;
    char error[CURL_ERROR_SIZE];
    double patience; // seconds without a byte after which a server is given up
    double silent;   // seconds spent waiting since the last byte arrived
    double waited;   // seconds spent waiting for the `came` bytes of the body so far
    size_t came;
    bool slow; // the transfer was too slow at the last check
    // The address of the first server of the request; "": no connection yet.
    char first_ip[IP_MAX];
    // The address of the server to which a redirection was refused.
    char wrong_ip[IP_MAX];
    char *body; // body[at .. len) has arrived and was not read yet
    size_t at, len, cap;
};

// ---------------------------------------------------------------- received bytes

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct http *h = arg;
    h->silent = h->waited = 0;
    http_take_header(&h->answer, h->wanted, line, size * n);
    return size * n;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct http *h = arg;
    size_t more = size * n;
    h->silent = 0;
    h->came += more;
    if (h->len + more > h->cap) {
        size_t cap = h->len + more < 2 * h->cap ? 2 * h->cap : h->len + more;
        char *grown = mem_realloc(h->body, cap);
        if (grown == NULL) {
            h->no_memory = true;
            return 0;
        }
        h->body = grown;
        h->cap = cap;
    }
    memcpy(h->body + h->len, bytes, more);
    h->len += more;
    return more;
}

// ---------------------------------------------------------------- redirections

// Returns whether an address belongs to this machine, or to a service that only this
// machine can reach: a cloud's instances get their keys from 169.254.169.254.
static bool is_near(const char *ip)
{
    static const char *const near[] = {"127.", "169.254.",    "0.",
                                       "fe8",  "fe9",         "fea",
                                       "feb",  "::ffff:127.", "::ffff:169.254."};
    for (size_t i = 0; i < sizeof(near) / sizeof(*near); i++)
        if (strncasecmp(ip, near[i], strlen(near[i])) == 0)
            return true;
    return strcmp(ip, "::1") == 0 || strcmp(ip, "::") == 0;
}

// Returns whether an address is 127.0.0.1 or ::1. A name of this machine may
// resolve to either of them.
static bool is_usual_loopback(const char *ip)
{
    return strcmp(ip, "127.0.0.1") == 0 || strcmp(ip, "::1") == 0;
}

static bool may_point_anywhere(void)
{
    const char *any = getenv("TUG_WEB_ANY_HOST");
    return atomic_load(&web_any_host) || (any != NULL && strcmp(any, "1") == 0);
}

// Refuses a redirection by which a server elsewhere would make this machine ask its own
// services.
static int before_request(void *arg, char *ip, char *own_ip, int port, int own_port)
{
    struct http *h = arg;
    (void)own_ip, (void)port, (void)own_port;
    if (h->first_ip[0] == '\0') {
        snprintf(h->first_ip, IP_MAX, "%s", ip);
        return CURL_PREREQFUNC_OK;
    }
    if (!is_near(ip) || strcmp(ip, h->first_ip) == 0 || may_point_anywhere() ||
        (is_usual_loopback(ip) && is_usual_loopback(h->first_ip)))
        return CURL_PREREQFUNC_OK;
    snprintf(h->wrong_ip, IP_MAX, "%s", ip);
    return CURL_PREREQFUNC_ABORT;
}

// ---------------------------------------------------------------- the transfer

static void end_transfer(struct http *h)
{
    if (h->running)
        h->c->curl_multi_remove_handle(h->multi, h->easy);
    h->running = false;
    h->at = h->len = 0;
}

// Returns whether a later attempt may succeed. No attempt can succeed if the request
// itself is wrong.
static bool may_pass(CURLcode code)
{
    switch ((int)code) {
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_NOT_BUILT_IN:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_WRITE_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
        return false;
    default:
        return true;
    }
}

static int http_failed(struct http *h, struct err *e)
{
    if (h->no_memory || h->result == CURLE_OUT_OF_MEMORY)
        return err_nomem(e, "the answer of a server");
    h->may_pass = may_pass(h->result);
    if (h->result == CURLE_TOO_MANY_REDIRECTS)
        return err_set(e, TUG_EIO, "the server redirects too often (more than %d times)",
                       REDIRECTS);
    if (h->wrong_ip[0] != '\0')
        return err_set(
            e, TUG_EIO,
            "the server at %s redirects to %s, an address of this machine or of "
            "its network link; allow it by --web-any-host or TUG_WEB_ANY_HOST=1",
            h->first_ip, h->wrong_ip);
    if (h->error[0] == '\0')
        return err_set(e, TUG_EIO, "%s", h->c->curl_easy_strerror(h->result));
    printable_make(h->error);
    return err_set(e, TUG_EIO, "%s", h->error);
}

static void see_end(struct http *h)
{
    int left;
    for (CURLMsg *m; (m = h->c->curl_multi_info_read(h->multi, &left)) != NULL;)
        if (m->msg == CURLMSG_DONE) {
            h->result = m->data.result;
            h->c->curl_multi_remove_handle(h->multi, h->easy);
            h->running = false;
            return;
        }
}

// Checks whether the server sends too slowly, so that a server that sends a byte now and
// then cannot hold the reader for ever. Only the time spent waiting for the server
// counts, because a busy reader makes the server wait. At the first failure of this check
// the request is repeated; at the second it fails.
static int check_rate(struct http *h, struct err *e)
{
    double waited = h->waited;
    size_t came = h->came;
    if (waited <= h->patience)
        return 0;
    h->waited = 0;
    h->came = 0;
    if (came >= HTTP_ENOUGH_BYTES) {
        h->slow = false;
        return 0;
    }
    h->may_pass = !h->slow;
    h->slow = true;
    return err_set(e, TUG_EIO,
                   "the server sent only %zu bytes in %.3g s (TUG_WEB_SECONDS sets the "
                   "time limit for %d bytes)",
                   came, waited, HTTP_ENOUGH_BYTES);
}

// Waits for a short time until bytes arrive, and checks time limits and interrupts.
static int http_look(struct http *h, struct err *e)
{
    struct curl_waitfd wake = {.fd = h->interrupt.wake_fd, .events = CURL_WAIT_POLLIN};
    unsigned n = h->interrupt.wake_fd >= 0;
    double start = clock_seconds();
    h->c->curl_multi_poll(h->multi, &wake, n, LOOK_MS, NULL);
    double waited = clock_seconds() - start;
    h->silent += waited;
    h->waited += waited;
    if (interrupt_comes(&h->interrupt, 0))
        return err_set(e, TUG_EINTERRUPTED, "interrupted while data was read");
    if (h->silent <= h->patience)
        return check_rate(h, e);
    h->may_pass = true;
    return err_set(e, TUG_EIO, "nothing came from the server for %.3g s", h->silent);
}

// Runs the transfer until a part of the body, or its end, has arrived.
static int wait_body(struct http *h, struct err *e)
{
    int running;
    while (h->running && h->at == h->len) {
        h->at = h->len = 0;
        CURLMcode rc = h->c->curl_multi_perform(h->multi, &running);
        if (rc != CURLM_OK)
            return err_set(e, TUG_EIO, "libcurl failed (%d)", (int)rc);
        see_end(h);
        if (h->running && h->len == 0)
            TRY(http_look(h, e));
    }
    return h->at < h->len || h->result == CURLE_OK ? 0 : http_failed(h, e);
}

// ---------------------------------------------------------------- a request

static int add_headers(struct http *h, const struct http_request *q, struct err *e)
{
    h->c->curl_slist_free_all(h->headers);
    h->headers = NULL;
    for (size_t at = 0; at < q->headers.len;) {
        const char *line = q->headers.data + at;
        struct curl_slist *list = h->c->curl_slist_append(h->headers, line);
        if (list == NULL)
            return err_nomem(e, "a request");
        h->headers = list;
        at += strlen(line) + 1;
    }
    return 0;
}

// Returns the user's file of certificates, from the variable that OpenSSL's tools use;
// NULL if it is not set.
static const char *own_certificates(void)
{
    const char *file = getenv("SSL_CERT_FILE");
    return file != NULL && file[0] != '\0' ? file : NULL;
}

static CURLcode set_options(struct http *h, const struct http_request *q, const char *url)
{
    __typeof__(h->c->curl_easy_setopt) set = h->c->curl_easy_setopt;
    bool tls = strncasecmp(url, "https:", 6) == 0;
    CURLcode rc = set(h->easy, CURLOPT_URL, url);
#define SET(option, value) rc = rc == CURLE_OK ? set(h->easy, option, value) : rc
    SET(CURLOPT_HTTPHEADER, h->headers);
    SET(CURLOPT_USERAGENT, "tug/" TUG_VERSION);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    SET(CURLOPT_CONNECTTIMEOUT, connect_seconds);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_REDIR_PROTOCOLS_STR, tls ? "https" : "http,https");
    SET(CURLOPT_FOLLOWLOCATION, q->follow ? 1L : 0L);
    SET(CURLOPT_MAXREDIRS, (long)REDIRECTS);
    SET(CURLOPT_NETRC, q->netrc ? (long)CURL_NETRC_OPTIONAL : (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, h);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, h);
    SET(CURLOPT_PREREQFUNCTION, before_request);
    SET(CURLOPT_PREREQDATA, h);
    SET(CURLOPT_ERRORBUFFER, h->error);
    if (own_certificates() != NULL)
        SET(CURLOPT_CAINFO, own_certificates());
#undef SET
    return rc;
}

static int http_start(struct http *h, const struct http_request *q, struct err *e)
{
    struct buf url = BUF_INIT(HTTP_URL_MAX);
    TRY(add_headers(h, q, e));
    h->answer = (struct http_answer){0};
    h->wanted = q->wanted;
    h->result = CURLE_OK;
    h->silent = h->waited = 0;
    h->came = 0;
    h->error[0] = h->first_ip[0] = h->wrong_ip[0] = '\0';
    h->no_memory = h->may_pass = false;
    h->c->curl_easy_reset(h->easy);
    const char *text = buf_add(&url, q->url.data, q->url.len) == 0 ? buf_str(&url) : NULL;
    h->result = text != NULL ? set_options(h, q, text) : CURLE_OUT_OF_MEMORY;
    buf_free(&url);
    if (h->result != CURLE_OK)
        return http_failed(h, e);
    if (h->c->curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
        return err_nomem(e, "a request");
    h->running = true;
    return 0;
}

int http_begin(struct http *h, const struct http_request *q, struct http_answer *ret,
               struct err *e)
{
    end_transfer(h);
    int rc = http_start(h, q, e);
    if (rc == 0)
        rc = wait_body(h, e);
    if (rc != 0)
        end_transfer(h);
    *ret = h->answer;
    return rc;
}

int http_read(struct http *h, char *out, size_t cap, size_t *ret_n, struct err *e)
{
    *ret_n = 0;
    int rc = wait_body(h, e);
    if (rc != 0) {
        end_transfer(h);
        return rc;
    }
    size_t n = h->len - h->at < cap ? h->len - h->at : cap;
    if (n > 0)
        memcpy(out, h->body + h->at, n);
    h->at += n;
    *ret_n = n;
    return 0;
}

bool http_may_pass(const struct http *h)
{
    return h->may_pass;
}

// ---------------------------------------------------------------- opening

static double patience(void)
{
    const char *text = getenv("TUG_WEB_SECONDS");
    double seconds = text != NULL ? strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : silent_seconds;
}

static int http_make(struct http **ret, const struct curl *c, const struct interrupt *i)
{
    struct http *h = mem_zalloc(sizeof *h);
    if (h == NULL)
        return TUG_ENOMEM;
    h->c = c;
    h->interrupt = *i;
    h->patience = patience();
    *ret = h;
    h->multi = c->curl_multi_init();
    h->easy = c->curl_easy_init();
    return h->multi != NULL && h->easy != NULL ? 0 : TUG_ENOMEM;
}

int http_open(struct http **ret, const struct interrupt *i, struct err *e)
{
    const struct curl *c = NULL;
    struct http *h = NULL;
    TRY(curl_load(&c, e));
    if (http_make(&h, c, i) != 0) {
        http_close(h);
        return err_nomem(e, "a connection");
    }
    *ret = h;
    return 0;
}

void http_close(struct http *h)
{
    if (h == NULL)
        return;
    end_transfer(h);
    if (h->easy != NULL)
        h->c->curl_easy_cleanup(h->easy);
    if (h->multi != NULL)
        h->c->curl_multi_cleanup(h->multi);
    h->c->curl_slist_free_all(h->headers);
    mem_free(h->body);
    mem_free(h);
}
