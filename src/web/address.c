// Addresses, and the parts of URLs.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "web/scheme_internal.h"

static const struct scheme *const schemes[] = {&scheme_http, &scheme_https, &scheme_s3,
                                               &scheme_webhdfs, &scheme_swebhdfs};

// Returns the length of the scheme in an address "scheme://..."; 0 if the text has no
// scheme.
static size_t scheme_len(const char *text)
{
    size_t n = strspn(
        text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return strncmp(text + n, "://", 3) == 0 ? n : 0;
}

bool web_is(const char *path)
{
    return scheme_len(path) > 0;
}

static const struct scheme *find_scheme(const char *text, size_t len)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strlen(schemes[i]->name) == len && strncmp(schemes[i]->name, text, len) == 0)
            return schemes[i];
    return NULL;
}

// Sets the error for an address without a known scheme. The error does not contain the
// path, whose query may have a signature.
static int no_scheme(const char *text, size_t len, struct err *e)
{
    const char *advice = strncmp(text, "hdfs", len) == 0
                             ? ": webhdfs://HOST:PORT/PATH, or a pipe of hadoop fs -cat"
                             : "";
    return err_set(e, TUG_EUSAGE,
                   "data cannot be read from %.*s:// addresses, only from http, https, "
                   "s3, webhdfs and swebhdfs%s",
                   (int)(len < 20 ? len : 20), text, advice);
}

// Returns the length of the part of an address that messages may show: without the query,
// which may have a secret. In a pattern '?' is a wildcard, which is shown; but a part
// like "?name=value" is hidden.
static size_t shown_length(const struct scheme *s, const char *text)
{
    size_t n = strcspn(text, "?#");
    if (!s->patterns)
        return n;
    for (const char *p = strchr(text, '?'); p != NULL; p = strchr(p + 1, '?'))
        if (p[strcspn(p, "=/")] == '=')
            return (size_t)(p - text);
    return strlen(text);
}

int address_parse(struct address *ret, const char *text, struct err *e)
{
    size_t len = scheme_len(text);
    const struct scheme *s = find_scheme(text, len);
    if (s == NULL)
        return no_scheme(text, len, e);
    if (strlen(text) >= WEB_ADDRESS_MAX)
        return err_set(e, TUG_EUSAGE, "an address of data is longer than %d bytes",
                       WEB_ADDRESS_MAX - 1);
    const char *host = text + len + 3;
    size_t host_len = strcspn(host, "/?#");
    const char *path = host + host_len + (host[host_len] == '/');
    if (memchr(host, '@', host_len) != NULL)
        return err_set(e, TUG_EUSAGE,
                       "an address of data has a name or a password in it, which others "
                       "could see: remove it (for http, ~/.netrc can hold it)");
    ret->scheme = s;
    snprintf(ret->whole, sizeof ret->whole, "%s", text);
    snprintf(ret->host, sizeof ret->host, "%.*s", (int)host_len, host);
    snprintf(ret->path, sizeof ret->path, "%s", path);
    size_t shown = shown_length(s, text);
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)shown, text);
    printable_make(ret->name);
    if (host_len == 0)
        return err_set(e, TUG_EUSAGE, "'%s' has no %s after %s://", ret->name, s->host_is,
                       s->name);
    for (const char *p = ret->host; *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("\\%\"<>^`{|}", *p) != NULL)
            return err_set(e, TUG_EUSAGE, "'%s' has a '%c' in the name of the host",
                           ret->name, *p > ' ' && *p < 0x7f ? *p : '?');
    return 0;
}

int address_with_path(struct address *ret, const struct address *a, const char *path,
                      struct err *e)
{
    *ret = *a;
    int n = snprintf(ret->whole, sizeof ret->whole, "%s://%s/%s", a->scheme->name,
                     a->host, path);
    if (n >= WEB_ADDRESS_MAX)
        return err_set(e, TUG_EDATA, "an address below '%s' is longer than %d bytes",
                       a->name, WEB_ADDRESS_MAX - 1);
    snprintf(ret->path, sizeof ret->path, "%s", path);
    snprintf(ret->name, sizeof ret->name, "%s", ret->whole);
    printable_make(ret->name);
    return 0;
}

int url_encode(struct buf *b, const char *text, size_t n, bool slashes)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-_.~";
    for (size_t i = 0; i < n; i++) {
        bool as_it_is = (text[i] != '\0' && strchr(plain, text[i]) != NULL) ||
                        (slashes && text[i] == '/');
        TRY(as_it_is ? buf_add(b, text + i, 1)
                     : buf_printf(b, "%%%02X", (unsigned char)text[i]));
    }
    return 0;
}

int request_header(struct http_request *q, const char *name, const char *value)
{
    TRY(buf_printf(&q->headers, "%s: %s", name, value));
    return buf_add(&q->headers, "", 1);
}

int request_range(struct http_request *q, uint64_t from, uint64_t to)
{
    char text[64];
    snprintf(text, sizeof text, "bytes=%llu-%llu", (unsigned long long)from,
             (unsigned long long)to - 1);
    return request_header(q, "range", text);
}

int environment_text(const char *name, const char **ret, struct err *e)
{
    const char *value = getenv(name);
    *ret = value != NULL && value[0] != '\0' ? value : NULL;
    for (const char *p = *ret; p != NULL && *p != '\0'; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return err_set(e, TUG_EUSAGE,
                           "the environment variable %s has a blank or a character that "
                           "is not ASCII in it",
                           name);
    return 0;
}

// ---------------------------------------------------------------- http itself

static int http_request(const struct address *a, uint64_t from, uint64_t to,
                        struct http_request *q, struct err *e)
{
    q->follow = q->netrc = true;
    for (const char *p = a->whole; *p != '\0'; p++)
        if (*p <= ' ' || *p == 0x7f)
            return err_set(e, TUG_EUSAGE, "'%s' has a blank in it: write %%20", a->name);
    if (buf_add(&q->url, a->whole, strcspn(a->whole, "#")) != 0 ||
        request_range(q, from, to) != 0)
        return buf_error(&q->url, "the address of a request", e);
    return 0;
}

const struct scheme scheme_http = {
    .name = "http", .over = "http", .request = http_request, .host_is = "host"};
const struct scheme scheme_https = {
    .name = "https", .over = "https", .request = http_request, .host_is = "host"};
