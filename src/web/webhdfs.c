// WebHDFS, the REST interface of Hadoop's file system. Requests go to the name node,
// which redirects to the data nodes that have the bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "os/json.h"
#include "web/scheme_internal.h"

enum { FOLDER_DEPTH_MAX = 64 };

size_t web_directories_max = 100000;

// Appends the user to a query: the user that Hadoop's variable HADOOP_USER_NAME names, or
// else the account on this machine.
static int add_user(struct buf *b, struct err *e)
{
    const char *user;
    TRY(environment_text("HADOOP_USER_NAME", &user, e));
    if (user == NULL)
        TRY(environment_text("USER", &user, e));
    if (user == NULL)
        return 0;
    if (buf_printf(b, "&user.name=") != 0 ||
        url_encode(b, user, strlen(user), false) != 0)
        return buf_error(b, "the address of a request", e);
    return 0;
}

static int make_request(const struct address *a, const char *path, const char *operation,
                        struct http_request *q, struct err *e)
{
    q->follow = true;
    if (buf_printf(&q->url, "%s://%s/webhdfs/v1/", a->scheme->over, a->host) != 0 ||
        url_encode(&q->url, path, strlen(path), true) != 0 ||
        buf_printf(&q->url, "?op=%s", operation) != 0)
        return buf_error(&q->url, "the address of a request", e);
    return add_user(&q->url, e);
}

static int webhdfs_request(const struct address *a, uint64_t from, uint64_t to,
                           struct http_request *q, struct err *e)
{
    char operation[96];
    snprintf(operation, sizeof operation, "OPEN&offset=%llu&length=%llu",
             (unsigned long long)from, (unsigned long long)(to - from));
    return make_request(a, a->path, operation, q, e);
}

// ---------------------------------------------------------------- lists

static int webhdfs_bad(struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "the server's answer is not WebHDFS's list of a directory");
}

static bool read_entry(const json_t *o, struct webhdfs_entry *ret)
{
    const json_t *bytes = json_object_get(o, "length");
    const json_t *modified = json_object_get(o, "modificationTime");
    const char *type = json_string_value(json_object_get(o, "type"));
    ret->name = json_string_value(json_object_get(o, "pathSuffix"));
    if (ret->name == NULL || type == NULL || !json_is_integer(bytes) ||
        !json_is_integer(modified) || json_integer_value(bytes) < 0 ||
        strchr(ret->name, '/') != NULL || strcmp(ret->name, ".") == 0 ||
        strcmp(ret->name, "..") == 0)
        return false;
    ret->directory = strcmp(type, "DIRECTORY") == 0;
    ret->bytes = (uint64_t)json_integer_value(bytes);
    ret->modified = (uint64_t)json_integer_value(modified);
    return true;
}

// Returns whether a text has too many values to be a list. A JSON value takes some
// hundred bytes of memory. In a list, each value has at least eight bytes of text; a text
// with shorter values would take many times its size in memory.
static bool has_too_many_values(const char *text, size_t n)
{
    size_t values = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else
            values += !quoted && (text[i] == ',' || text[i] == '{' || text[i] == '[');
    }
    return values > n / 8 + 64;
}

int webhdfs_parse_list(const char *text, size_t n,
                       int (*entry)(void *arg, const struct webhdfs_entry *w,
                                    struct err *e),
                       void *arg, struct err *e)
{
    json_begin();
    bool sane = n > 0 && !has_too_many_values(text, n);
    json_t *root = sane ? json_loadb(text, n, 0, NULL) : NULL;
    const json_t *all = json_object_get(json_object_get(root, "FileStatuses"),
                                        "FileStatus");
    int rc = json_is_array(all) ? 0 : webhdfs_bad(e);
    if (json_memory_failed())
        rc = err_nomem(e, "a list of files");
    for (size_t i = 0; rc == 0 && i < json_array_size(all); i++) {
        struct webhdfs_entry w;
        rc = read_entry(json_array_get(all, i), &w) ? entry(arg, &w, e) : webhdfs_bad(e);
    }
    json_decref(root);
    return rc;
}

// A directory whose list is being read.
struct folder {
    struct listing *l;
    const char *path; // "" or a path that ends with '/'
    unsigned depth;
};

static int list_request(const void *arg, struct http_request *q, struct err *e)
{
    const struct folder *p = arg;
    char path[WEB_ADDRESS_MAX]; // the path without a '/' at its end
    size_t n = strlen(p->path);
    memcpy(path, p->path, n + 1);
    path[n - (n > 0)] = '\0';
    return make_request(p->l->a, path, "LISTSTATUS", q, e);
}

static int list_place(const struct folder *p, struct err *e);

static int webhdfs_join(char ret[WEB_ADDRESS_MAX], const char *path, const char *name,
                        const char *end, struct err *e)
{
    int n = snprintf(ret, WEB_ADDRESS_MAX, "%s%s%s", path, name, end);
    return n < WEB_ADDRESS_MAX
               ? 0
               : err_set(e, TUG_EDATA, "a path of the server is longer than %d bytes",
                         WEB_ADDRESS_MAX - 1);
}

static int take_entry(void *arg, const struct webhdfs_entry *w, struct err *e)
{
    const struct folder *p = arg;
    char path[WEB_ADDRESS_MAX], version[32];
    if (w->name[0] == '\0' && w->directory)
        return webhdfs_bad(e);
    if (listing_is_hidden(w->name))
        return 0;
    TRY(webhdfs_join(path, p->path, w->name, w->directory ? "/" : "", e));
    if (w->directory) {
        const struct folder below = {p->l, path, p->depth + 1};
        return list_place(&below, e);
    }
    size_t n = strlen(path);
    // If the requested path is a file, its entry has no name.
    if (w->name[0] == '\0' && n > 0 && path[n - 1] == '/')
        path[n - 1] = '\0';
    snprintf(version, sizeof version, "%llu", (unsigned long long)w->modified);
    return listing_add(p->l, path, w->bytes, version_hash(version), e);
}

static int list_place(const struct folder *p, struct err *e)
{
    struct listing *l = p->l;
    struct buf body = BUF_INIT(LIST_TEXT_MAX - l->held);
    int status = 0;
    if (p->depth == FOLDER_DEPTH_MAX)
        return err_set(e, TUG_EDATA,
                       "'%s' has directories nested %d deep, which is too deep",
                       l->a->name, FOLDER_DEPTH_MAX);
    if (l->directories++ == web_directories_max)
        return err_set(e, TUG_EDATA,
                       "'%s' has more than %zu directories below it, and each needs a "
                       "request of its own: give some of them, with several --data",
                       l->a->name, web_directories_max);
    int rc = web_get(l->session, list_request, p, &body, &status, e);
    l->held += body.len;
    if (rc == 0 && status == 200)
        rc = webhdfs_parse_list(body.data, body.len, take_entry, (void *)(uintptr_t)p, e);
    l->held -= body.len;
    buf_free(&body);
    return rc;
}

static int webhdfs_list(struct listing *l, struct err *e)
{
    char path[WEB_ADDRESS_MAX];
    size_t n = strlen(l->folder);
    bool slash = n > 0 && l->folder[n - 1] != '/';
    TRY(webhdfs_join(path, l->folder, slash ? "/" : "", "", e));
    const struct folder p = {l, path, 0};
    return list_place(&p, e);
}

const struct scheme scheme_webhdfs = {.name = "webhdfs",
                                      .over = "http",
                                      .patterns = true,
                                      .request = webhdfs_request,
                                      .list = webhdfs_list,
                                      .host_is = "host",
                                      .whole = true};
const struct scheme scheme_swebhdfs = {.name = "swebhdfs",
                                       .over = "https",
                                       .patterns = true,
                                       .request = webhdfs_request,
                                       .list = webhdfs_list,
                                       .host_is = "host",
                                       .whole = true};
