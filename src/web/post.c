// Requests with a body, by libcurl's easy interface: see post.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/post.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "web/curl_internal.h"

enum { AUTHORIZATION_MAX = 4 << 10 };

struct post {
    const struct curl *c;
    CURL *easy;
    const struct post_tls *tls;
    char error[CURL_ERROR_SIZE];
};

int post_open(struct post **ret, const struct post_tls *t, struct err *e)
{
    const struct curl *c = NULL;
    TRY(curl_load(&c, e));
    struct post *p = mem_zalloc(sizeof(*p));
    if (p != NULL) {
        p->c = c;
        p->tls = t;
        p->easy = c->curl_easy_init();
    }
    if (p == NULL || p->easy == NULL) {
        post_close(p);
        return err_nomem(e, "a connection");
    }
    *ret = p;
    return 0;
}

void post_close(struct post *p)
{
    if (p == NULL)
        return;
    if (p->easy != NULL)
        p->c->curl_easy_cleanup(p->easy);
    mem_free(p);
}

static size_t take_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct buf *to = arg;
    return buf_add(to, bytes, size * n) == 0 ? size * n : 0;
}

static CURLcode set_tls(struct post *p)
{
    __typeof__(p->c->curl_easy_setopt) set = p->c->curl_easy_setopt;
    const struct post_tls *t = p->tls;
    CURLcode rc = CURLE_OK;
#define SET(option, value) rc = rc == CURLE_OK ? set(p->easy, option, value) : rc
    if (t->ca != NULL)
        SET(CURLOPT_CAINFO, t->ca);
    if (t->cert != NULL)
        SET(CURLOPT_SSLCERT, t->cert);
    if (t->key != NULL)
        SET(CURLOPT_SSLKEY, t->key);
    return rc;
}

static CURLcode set_request(struct post *p, const struct post_request *q,
                            struct curl_slist *headers, struct buf *ret)
{
    __typeof__(p->c->curl_easy_setopt) set = p->c->curl_easy_setopt;
    CURLcode rc = set_tls(p);
    SET(CURLOPT_URL, q->url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_USERAGENT, "tug/" TUG_VERSION);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROXY, ""); // a proxy for the web does not reach a cluster's machines
    SET(CURLOPT_TIMEOUT_MS, (long)(q->seconds * 1000));
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(q->seconds * 1000));
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDS, (const char *)q->body);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->n);
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, ret);
    SET(CURLOPT_ERRORBUFFER, p->error);
#undef SET
    return rc;
}

// Makes the list of headers. The entry "Expect:" removes the header that libcurl adds to
// a request with a long body, and that would cost another round trip.
static struct curl_slist *headers_of(struct post *p, const char *authorization)
{
    static const char *const always[] = {"Content-Type: application/json", "Expect:"};
    struct curl_slist *list = NULL;
    char line[AUTHORIZATION_MAX];
    for (size_t i = 0; i < sizeof(always) / sizeof(*always) + (authorization != NULL);
         i++) {
        const char *text = line;
        if (i < sizeof(always) / sizeof(*always))
            text = always[i];
        else
            snprintf(line, sizeof(line), "Authorization: %s", authorization);
        struct curl_slist *more = p->c->curl_slist_append(list, text);
        if (more == NULL) {
            p->c->curl_slist_free_all(list);
            return NULL;
        }
        list = more;
    }
    return list;
}

int post_send(struct post *p, const struct post_request *q, int *ret_status,
              struct buf *ret, struct err *e)
{
    long status = 0;
    buf_clear(ret);
    p->error[0] = '\0';
    struct curl_slist *headers = headers_of(p, q->authorization);
    if (headers == NULL)
        return err_nomem(e, "a request");
    p->c->curl_easy_reset(p->easy);
    CURLcode rc = set_request(p, q, headers, ret);
    if (rc == CURLE_OK)
        rc = p->c->curl_easy_perform(p->easy);
    if (rc == CURLE_OK)
        rc = p->c->curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    p->c->curl_slist_free_all(headers);
    *ret_status = (int)status;
    if (rc == CURLE_OK)
        return 0;
    if (rc == CURLE_OUT_OF_MEMORY)
        return err_nomem(e, "a request");
    if (rc == CURLE_WRITE_ERROR)
        return buf_error(ret, "the answer of a server", e);
    printable_make(p->error);
    return err_set(e, TUG_EIO, "%s",
                   p->error[0] != '\0' ? p->error : p->c->curl_easy_strerror(rc));
}
