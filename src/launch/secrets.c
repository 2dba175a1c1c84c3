// Keys of a run over ssh; see secrets.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "van/tls.h"

enum { PEM_MAX = 256 << 10, CA_DAYS = 30 };

static int read_given(struct secrets *s, const char *const files[3], struct err *e)
{
    s->given = BUF_INIT(PEM_MAX);
    if (files[0] == NULL || files[1] == NULL || files[2] == NULL)
        return err_set(e, TUG_EUSAGE,
                       "TLS needs three files: --ca, --cert and --key; without them "
                       "launch makes keys for the run");
    for (int i = 0; i < 3; i++) {
        struct buf one = BUF_INIT(PEM_MAX);
        int rc = file_read(files[i], &one, e);
        if (rc == 0 && (buf_add(&s->given, one.data, one.len) != 0 ||
                        buf_add(&s->given, "\n", 1) != 0))
            rc = err_set(e, TUG_EDATA, "'%s' is too long for a key", files[i]);
        buf_wipe(&one);
        TRY(rc);
    }
    return 0;
}

int secrets_open(struct secrets *s, const char *ca, const char *cert, const char *key,
                 struct err *e)
{
    const char *const files[] = {ca, cert, key};
    *s = (struct secrets){.used = true};
    if (ca != NULL || cert != NULL || key != NULL)
        return read_given(s, files, e);
    s->ca_key = BUF_INIT(PEM_MAX);
    s->ca_cert = BUF_INIT(PEM_MAX);
    TRY(tls_make_ca(&s->ca_key, &s->ca_cert, CA_DAYS, e));
    bool texts = buf_str(&s->ca_key) != NULL && buf_str(&s->ca_cert) != NULL;
    return texts ? 0 : err_nomem(e, "the keys"); // buf_str ends each text with a NUL
}

void secrets_close(struct secrets *s)
{
    buf_wipe(&s->ca_key);
    buf_wipe(&s->ca_cert);
    buf_wipe(&s->given);
}

static int add_pem(struct buf *ret, const struct buf *parts[3], struct err *e)
{
    size_t n = 0;
    for (int i = 0; i < 3; i++)
        n += parts[i] != NULL ? parts[i]->len : 0;
    int rc = buf_printf(ret, "PEM %zu\n", n);
    for (int i = 0; i < 3 && rc == 0; i++)
        if (parts[i] != NULL)
            rc = buf_add(ret, parts[i]->data, parts[i]->len);
    return rc == 0 ? 0 : buf_error(ret, "the keys", e);
}

int secrets_node(const struct secrets *s, const char *name, const char *role,
                 struct buf *ret, struct err *e)
{
    if (s->given.len > 0)
        return add_pem(ret, (const struct buf *[3]){&s->given}, e);
    struct buf key = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX);
    const struct tls_node node = {.name = name, .role = role, .days = CA_DAYS};
    int rc = tls_make_node(s->ca_key.data, s->ca_cert.data, &node, &key, &cert, e);
    if (rc == 0)
        rc = add_pem(ret, (const struct buf *[3]){&s->ca_cert, &cert, &key}, e);
    buf_wipe(&key);
    buf_wipe(&cert);
    return rc;
}

static int read_some(int fd, char *to, size_t n, struct err *e)
{
    for (;;) {
        ssize_t got = read(fd, to, n);
        if (got > 0)
            return (int)got;
        if (got == 0)
            return err_set(e, TUG_EIO,
                           "standard input ended before the keys were complete");
        if (errno != EINTR)
            return err_sys(e, TUG_EIO, "cannot read the keys from standard input");
    }
}

int secrets_read(int fd, struct buf *ret_pem, struct err *e)
{
    char head[32];
    size_t n = 0;
    do {
        // Reads byte by byte, so that data after the keys stays in `fd`.
        int got = read_some(fd, head + n, 1, e);
        if (got < 0)
            return got;
        n++;
    } while (head[n - 1] != '\n' && n < sizeof(head) - 1);
    head[n] = 0;
    char *end = NULL;
    unsigned long bytes = strncmp(head, "PEM ", 4) == 0 ? strtoul(head + 4, &end, 10) : 0;
    if (bytes == 0 || bytes > PEM_MAX || *end != '\n')
        return err_set(e, TUG_EDATA,
                       "--pem-stdin: standard input does not begin with "
                       "keys as tug launch hands them over");
    *ret_pem = BUF_INIT(PEM_MAX);
    if (buf_reserve(ret_pem, bytes) != 0)
        return buf_error(ret_pem, "the keys", e);
    while (ret_pem->len < bytes) {
        int got = read_some(fd, ret_pem->data + ret_pem->len, bytes - ret_pem->len, e);
        if (got < 0)
            return got;
        ret_pem->len += (size_t)got;
    }
    return 0;
}
