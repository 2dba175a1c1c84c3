// S3, and stores with the same protocol: signed requests, and lists in pages. Credentials
// come from the environment and the files that AWS's own tools read. Both are read again
// for each request, so that renewed keys are used.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "os/clock.h"
#include "web/aws_profile_internal.h"
#include "web/scheme_internal.h"
#include "web/sigv4_internal.h"

enum { PAGE_KEYS = 1000, PAGES_MAX = 10 * LISTED_FILES_MAX / PAGE_KEYS };

// The credentials and settings of a request. Each comes from the environment, or else
// from the profile.
struct account {
    const char *key_id, *secret, *token, *region, *endpoint;
    struct aws_profile profile;
};

static int either(const char *name, const char *other, const char **ret, struct err *e)
{
    TRY(environment_text(name, ret, e));
    return *ret != NULL ? 0 : environment_text(other, ret, e);
}

static int check_endpoint(const char *text, struct err *e)
{
    bool http = strncmp(text, "http://", 7) == 0,
         https = strncmp(text, "https://", 8) == 0;
    const char *host = text + (https ? 8 : 7);
    size_t n = http || https ? strcspn(host, "/?#@") : 0;
    if (n > 0 && n < 512 && (host[n] == '\0' || strcmp(host + n, "/") == 0))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "AWS_ENDPOINT_URL, or endpoint_url of the profile, is not "
                   "http://HOST[:PORT] or https://HOST[:PORT]");
}

// Takes the keys of the profile if the environment has no keys.
static int take_keys(struct account *a, struct err *e)
{
    const struct aws_profile *p = &a->profile;
    bool role = strcmp(p->other, "role_arn") == 0;
    const char *named = getenv("AWS_PROFILE");
    if (!p->found && named != NULL && named[0] != '\0')
        return err_set(e, TUG_EUSAGE,
                       "AWS_PROFILE is '%s', and AWS's files of credentials and settings "
                       "have no such profile",
                       p->name);
    if ((p->key_id[0] == '\0') != (p->secret[0] == '\0'))
        return err_set(e, TUG_EUSAGE,
                       "the profile '%s' has only one of aws_access_key_id and "
                       "aws_secret_access_key",
                       p->name);
    if (p->other[0] != '\0' && (role || p->key_id[0] == '\0'))
        return err_set(e, TUG_EUSAGE,
                       "the profile '%s' in %s gets its keys by %s, which tug does not "
                       "support: set the environment variables that 'aws configure "
                       "export-credentials --profile %s --format env' prints",
                       p->name, p->file, p->other, p->name);
    if (p->key_id[0] == '\0')
        return 0;
    a->key_id = p->key_id;
    a->secret = p->secret;
    a->token = p->token[0] != '\0' ? p->token : NULL;
    return 0;
}

static int read_account(struct account *ret, struct err *e)
{
    TRY(environment_text("AWS_ACCESS_KEY_ID", &ret->key_id, e));
    TRY(environment_text("AWS_SECRET_ACCESS_KEY", &ret->secret, e));
    TRY(environment_text("AWS_SESSION_TOKEN", &ret->token, e));
    TRY(either("AWS_REGION", "AWS_DEFAULT_REGION", &ret->region, e));
    TRY(either("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", &ret->endpoint, e));
    TRY(aws_profile_read(&ret->profile, e));
    const struct aws_profile *p = &ret->profile;
    if (ret->region == NULL)
        ret->region = p->region[0] != '\0' ? p->region : "us-east-1";
    if (ret->endpoint == NULL && p->endpoint[0] != '\0')
        ret->endpoint = p->endpoint;
    if ((ret->key_id == NULL) != (ret->secret == NULL))
        return err_set(e, TUG_EUSAGE,
                       "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set "
                       "in the environment: S3 needs both, or for public data neither");
    if (ret->key_id == NULL)
        TRY(take_keys(ret, e));
    return ret->endpoint == NULL ? 0 : check_endpoint(ret->endpoint, e);
}

// ---------------------------------------------------------------- a request

// The target of a request: the URL up to the path, the header "host", and whether the
// bucket is in the path.
struct target {
    char origin[WEB_ADDRESS_MAX + 64];
    const char *host; // the host in the URL
    bool bucket_in_path;
};

static void find_target(const struct account *who, const char *bucket, struct target *t)
{
    // A certificate of AWS is valid for host names with a single label before the region.
    // So a bucket with a '.' in its name is put into the path.
    t->bucket_in_path = who->endpoint != NULL || strchr(bucket, '.') != NULL;
    if (who->endpoint != NULL)
        snprintf(t->origin, sizeof t->origin, "%s", who->endpoint);
    else
        snprintf(t->origin, sizeof t->origin, "https://%s%ss3.%s.amazonaws.com",
                 t->bucket_in_path ? "" : bucket, t->bucket_in_path ? "" : ".",
                 who->region);
    size_t n = strlen(t->origin);
    while (n > 0 && t->origin[n - 1] == '/')
        t->origin[--n] = '\0';
    t->host = strstr(t->origin, "://") + 3;
}

static int add_path(const struct target *t, const struct address *a, const char *key,
                    struct buf *b)
{
    TRY(buf_add(b, "/", 1));
    if (t->bucket_in_path) {
        TRY(url_encode(b, a->host, strlen(a->host), false));
        if (key[0] != '\0')
            TRY(buf_add(b, "/", 1));
    }
    return url_encode(b, key, strlen(key), true);
}

static void date_now(char ret[32])
{
    time_t now = (time_t)(clock_unix_ns() / SECOND_NS);
    struct tm t;
    gmtime_r(&now, &t);
    strftime(ret, 32, "%Y%m%dT%H%M%SZ", &t);
}

// Writes the header "host" as clients do, without the scheme's default port.
static void host_header(const struct target *t, char *ret, size_t n)
{
    bool tls = strncmp(t->origin, "https:", 6) == 0;
    const char *colon = strrchr(t->host, ':');
    bool usual = colon != NULL && strcmp(colon, tls ? ":443" : ":80") == 0;
    snprintf(ret, n, "%.*s", (int)(usual ? colon - t->host : (long)strlen(t->host)),
             t->host);
}

// Adds the headers of a signed request. If the request has a header "range", signs this
// header, too.
static int sign(const struct account *who, const struct target *t, const char *path,
                const char *query, struct http_request *q, struct err *e)
{
    char date[32], host[sizeof t->origin];
    struct sigv4_header header[5];
    size_t n = 0;
    const char *range = q->headers.len > 0 ? strchr(q->headers.data, ' ') + 1 : NULL;
    date_now(date);
    host_header(t, host, sizeof host);
    header[n++] = (struct sigv4_header){"host", host};
    if (range != NULL)
        header[n++] = (struct sigv4_header){"range", range};
    header[n++] = (struct sigv4_header){"x-amz-content-sha256", SIGV4_EMPTY};
    header[n++] = (struct sigv4_header){"x-amz-date", date};
    if (who->token != NULL)
        header[n++] = (struct sigv4_header){"x-amz-security-token", who->token};
    const struct sigv4 s = {.key_id = who->key_id,
                            .secret = who->secret,
                            .region = who->region,
                            .service = "s3",
                            .date = date,
                            .path = path,
                            .query = query,
                            .header = header,
                            .headers = n};
    struct buf value = BUF_INIT(HTTP_URL_MAX);
    int rc = sigv4_sign(&s, &value, e);
    if (rc == 0)
        rc = buf_str(&value) != NULL ? request_header(q, "authorization", buf_str(&value))
                                     : err_nomem(e, "a request");
    buf_free(&value);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (strcmp(header[i].name, "range") != 0) // "range" is among the headers already
            rc = request_header(q, header[i].name, header[i].value);
    return rc;
}

static int make_request(const struct address *a, const char *key, const char *query,
                        struct http_request *q, struct err *e)
{
    struct account who;
    struct target t;
    struct buf path = BUF_INIT(HTTP_URL_MAX);
    TRY(read_account(&who, e));
    // If the request is sent to a wrong region, this header of the answer names the right
    // region.
    q->wanted = "x-amz-bucket-region";
    find_target(&who, a->host, &t);
    int rc = add_path(&t, a, key, &path);
    if (rc == 0)
        rc = buf_printf(&q->url, "%s%s%s%s", t.origin, buf_str(&path),
                        query[0] != '\0' ? "?" : "", query);
    if (rc != 0)
        err_set(e, rc, "a request to S3: %s", err_text(rc));
    if (rc == 0 && who.key_id != NULL)
        rc = sign(&who, &t, buf_str(&path), query, q, e);
    buf_free(&path);
    return rc;
}

static int s3_request(const struct address *a, uint64_t from, uint64_t to,
                      struct http_request *q, struct err *e)
{
    if (request_range(q, from, to) != 0)
        return err_nomem(e, "a request");
    return make_request(a, a->path, "", q, e);
}

// ---------------------------------------------------------------- lists

struct page {
    const struct address *a;
    const char *prefix, *next;
    unsigned keys;
};

// Adds the query of a request for a page, with the names in ascending order, which
// signatures require.
static int add_query(const struct page *p, struct buf *b)
{
    if (p->next[0] != '\0') {
        TRY(buf_printf(b, "continuation-token="));
        TRY(url_encode(b, p->next, strlen(p->next), false));
        TRY(buf_add(b, "&", 1));
    }
    TRY(buf_printf(b, "list-type=2&max-keys=%u&prefix=", p->keys));
    return url_encode(b, p->prefix, strlen(p->prefix), false);
}

static int page_request(const void *arg, struct http_request *q, struct err *e)
{
    const struct page *p = arg;
    struct buf query = BUF_INIT(HTTP_URL_MAX);
    int rc = add_query(p, &query);
    const char *text = rc == 0 ? buf_str(&query) : NULL;
    rc = text != NULL ? make_request(p->a, "", text, q, e)
                      : buf_error(&query, "the address of a request", e);
    buf_free(&query);
    return rc;
}

struct taking {
    struct listing *l;
    const char *only; // the only key that is wanted; NULL: all keys
    bool found;
};

static int take_entry(void *arg, const struct s3_entry *s, struct err *e)
{
    struct taking *t = arg;
    size_t n = strlen(s->key);
    if (n == 0 || s->key[n - 1] == '/') // a key that ends in '/' stands for a directory
        return 0;
    if (t->only != NULL && strcmp(t->only, s->key) != 0)
        return 0;
    t->found = true;
    return listing_add(t->l, s->key, s->bytes, version_hash(s->etag), e);
}

static int list_prefix(struct listing *l, const char *prefix, struct taking *t,
                       struct err *e)
{
    struct s3_page page = {.truncated = true};
    for (unsigned pages = 0; page.truncated; pages++) {
        if (pages == PAGES_MAX)
            return err_set(e, TUG_EDATA, "'%s' names more than %d files", l->a->name,
                           LISTED_FILES_MAX);
        const struct page p = {l->a, prefix, page.next, t->only != NULL ? 1 : PAGE_KEYS};
        struct buf body = BUF_INIT(LIST_TEXT_MAX);
        int status = 0;
        int rc = web_get(l->session, page_request, &p, &body, &status, e);
        if (rc == 0 && status != 200)
            rc = err_set(e, TUG_EDATA, "no data at '%s': there is no such bucket",
                         l->a->name);
        if (rc == 0)
            rc = s3_parse_list(body.data, body.len, &page, take_entry, t, e);
        buf_free(&body);
        TRY(rc);
        if (t->only != NULL)
            return 0;
    }
    return 0;
}

static int s3_list(struct listing *l, struct err *e)
{
    const char *path = l->a->path;
    size_t n = strlen(path);
    struct taking t = {.l = l};
    if (!l->pattern && n > 0 && path[n - 1] != '/') {
        t.only = path;
        TRY(list_prefix(l, path, &t, e));
        t.only = NULL;
    }
    return t.found ? 0 : list_prefix(l, l->literal, &t, e);
}

static int s3_refused(const struct address *a, const struct http_answer *answer,
                      const char *reason, struct err *e)
{
    struct account who;
    struct err ignored;
    if (answer->status == 401 || answer->status == 403)
        return read_account(&who, &ignored) == 0 && who.key_id == NULL
                   ? err_set(
                         e, TUG_EIO,
                         "the server refuses '%s' (%d%s), which was requested without a "
                         "signature, because no keys were found: set AWS_ACCESS_KEY_ID "
                         "and AWS_SECRET_ACCESS_KEY, or give them to the profile "
                         "'%s' in AWS's file of credentials",
                         a->name, answer->status, reason, who.profile.name)
                   : err_set(
                         e, TUG_EIO,
                         "the server refuses '%s' (%d%s): are AWS_ACCESS_KEY_ID, "
                         "AWS_SECRET_ACCESS_KEY and AWS_REGION right, or those of the "
                         "profile, and may this account read it?",
                         a->name, answer->status, reason);
    if (answer->wanted[0] != '\0' && answer->status >= 300 && answer->status < 500)
        return err_set(e, TUG_EIO,
                       "the bucket of '%s' lies in the region %s: set AWS_REGION to it",
                       a->name, answer->wanted);
    return 0;
}

const struct scheme scheme_s3 = {.name = "s3",
                                 .over = "https",
                                 .patterns = true,
                                 .request = s3_request,
                                 .list = s3_list,
                                 .host_is = "bucket",
                                 .refused = s3_refused};
