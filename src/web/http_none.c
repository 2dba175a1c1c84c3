// Replaces http.c if libcurl's headers were missing when tug was built: opening a remote
// file returns an error that says so.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/http_internal.h"
#include "web/post.h"

static int none(struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "remote data, and etcd, need libcurl, without which tug was built: "
                   "install libcurl4-openssl-dev and build again");
}

int http_open(struct http **ret, const struct interrupt *i, struct err *e)
{
    (void)i;
    *ret = NULL;
    return none(e);
}

void http_close(struct http *h)
{
    (void)h;
}

int http_begin(struct http *h, const struct http_request *q, struct http_answer *ret,
               struct err *e)
{
    (void)h, (void)q, (void)ret;
    return none(e);
}

int http_read(struct http *h, char *out, size_t cap, size_t *ret_n, struct err *e)
{
    (void)h, (void)out, (void)cap, (void)ret_n;
    return none(e);
}

bool http_may_pass(const struct http *h)
{
    (void)h;
    return false;
}

int post_open(struct post **ret, const struct post_tls *t, struct err *e)
{
    (void)t;
    *ret = NULL;
    return none(e);
}

void post_close(struct post *p)
{
    (void)p;
}

int post_send(struct post *p, const struct post_request *q, int *ret_status,
              struct buf *ret, struct err *e)
{
    (void)p, (void)q, (void)ret;
    *ret_status = 0;
    return none(e);
}
