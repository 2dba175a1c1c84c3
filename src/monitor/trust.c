// The certificate and the token of a monitor; see trust_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/trust_internal.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <strings.h>

#include "os/file.h"
#include "os/log.h"

enum { PEM_MAX = 1 << 20, TOKEN_MIN = 16, TOKEN_MAX = 1024, BASIC_MAX = 4 << 10 };

// ---------------------------------------------------------------- the certificate

static int no_password(char *buf, int size, int writing, void *ctx)
{
    (void)buf, (void)size, (void)writing, (void)ctx;
    return -1; // never asks for a password on the terminal
}

static BIO *text_of(const struct buf *b)
{
    return BIO_new_mem_buf(b->data != NULL ? b->data : "", (int)b->len);
}

static int check_pair(struct trust *t, const struct monitor_options *o, struct err *e)
{
    BIO *c = text_of(&t->cert), *k = text_of(&t->key);
    t->x = c != NULL ? PEM_read_bio_X509(c, NULL, no_password, NULL) : NULL;
    EVP_PKEY *key = k != NULL ? PEM_read_bio_PrivateKey(k, NULL, no_password, NULL)
                              : NULL;
    int rc = 0;
    if (t->x == NULL)
        rc = err_set(e, TUG_EDATA, "--http: %s does not hold a certificate in PEM form",
                     o->cert);
    else if (key == NULL)
        rc = err_set(e, TUG_EDATA,
                     "--http: %s does not hold a private key in PEM form without a "
                     "password",
                     o->key);
    else if (X509_check_private_key(t->x, key) != 1)
        rc = err_set(e, TUG_EDATA, "--http: %s is not the key of the certificate %s",
                     o->key, o->cert);
    else if (X509_cmp_current_time(X509_get0_notAfter(t->x)) < 0)
        rc = err_set(e, TUG_EDATA, "--http: the certificate %s has expired", o->cert);
    EVP_PKEY_free(key);
    BIO_free(c);
    BIO_free(k);
    ERR_clear_error();
    return rc;
}

// The type of file_read_secret, which warns if others can read the secret, and of
// file_read, which does not.
typedef int read_function(const char *path, struct buf *b, struct err *e);

static int read_pair(struct trust *t, const struct monitor_options *o,
                     read_function *read_secret, struct err *e)
{
    t->cert = t->key = BUF_INIT(PEM_MAX);
    int rc = file_read(o->cert, &t->cert, e);
    if (rc == 0)
        rc = read_secret(o->key, &t->key, e);
    if (rc != 0)
        return err_wrap(e, "--http");
    if (buf_str(&t->cert) == NULL || buf_str(&t->key) == NULL)
        return err_nomem(e, "the keys of --http");
    return check_pair(t, o, e);
}

// ---------------------------------------------------------------- the token

static void hash_token(const void *token, size_t n,
                       unsigned char ret[SHA256_DIGEST_LENGTH])
{
    SHA256(token, n, ret);
}

static int read_token(struct trust *t, const char *path, read_function *read_secret,
                      struct err *e)
{
    struct buf b = BUF_INIT(TOKEN_MAX + 2);
    int rc = read_secret(path, &b, e);
    size_t n = b.len, good = 0;
    while (n > 0 && (b.data[n - 1] == '\n' || b.data[n - 1] == '\r'))
        n--;
    while (good < n && b.data[good] > ' ' && b.data[good] <= '~')
        good++;
    if (rc != 0)
        rc = err_wrap(e, "--http-token-file");
    else if (good < n || n < TOKEN_MIN || n > TOKEN_MAX)
        rc = err_set(e, TUG_EUSAGE,
                     "--http-token-file: %s must hold one line of %d to %d letters, "
                     "digits and signs without blanks, as 'openssl rand -hex 32' writes "
                     "it",
                     path, TOKEN_MIN, TOKEN_MAX);
    else
        hash_token(b.data, n, t->token);
    t->needs_token = rc == 0;
    buf_wipe(&b);
    return rc;
}

// ---------------------------------------------------------------- what is needed

static int check_options(const struct monitor_address *a, const struct monitor_options *o,
                         struct err *e)
{
    if ((o->cert != NULL) != (o->key != NULL))
        return err_set(e, TUG_EUSAGE, "--http-%s is missing: --http-%s needs it",
                       o->cert == NULL ? "cert" : "key",
                       o->cert == NULL ? "key" : "cert");
    if (a->path[0] != '\0' && o->cert != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--http-cert does not work with --http unix:PATH, which needs no "
                       "TLS: only processes of this user can connect");
    if (!a->loopback && (o->cert == NULL || o->token_file == NULL))
        return address_refuse(a,
                              o->cert != NULL         ? "--http-token-file"
                              : o->token_file != NULL ? "--http-cert and --http-key"
                                                      : "--http-cert, --http-key and "
                                                        "--http-token-file",
                              e);
    return 0;
}

static int open_with(struct trust *t, const struct monitor_address *a,
                     const struct monitor_options *o, read_function *read_secret,
                     struct err *e)
{
    *t = (struct trust){0};
    TRY(check_options(a, o, e));
    if (o->cert != NULL)
        TRY(read_pair(t, o, read_secret, e));
    return o->token_file != NULL ? read_token(t, o->token_file, read_secret, e) : 0;
}

int trust_open(struct trust *t, const struct monitor_address *a,
               const struct monitor_options *o, struct err *e)
{
    return open_with(t, a, o, file_read_secret, e);
}

void trust_close(struct trust *t)
{
    buf_wipe(&t->key);
    buf_free(&t->cert);
    X509_free(t->x);
    OPENSSL_cleanse(t->token, sizeof(t->token));
    *t = (struct trust){0};
}

// ---------------------------------------------------------------- requests

// Hashes make both texts equally long, so the time of the comparison tells nothing about
// the token, not even its length.
static bool is_token(const struct trust *t, const void *shown, size_t n)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    hash_token(shown, n, hash);
    return CRYPTO_memcmp(hash, t->token, sizeof(hash)) == 0;
}

static bool has_password(const struct trust *t, const char *basic)
{
    unsigned char all[BASIC_MAX];
    size_t n = strlen(basic);
    if (n == 0 || n % 4 != 0 || n / 4 * 3 > sizeof(all))
        return false;
    int decoded = EVP_DecodeBlock(all, (const unsigned char *)basic, (int)n);
    if (decoded < 0)
        return false;
    // The padding was decoded to zeros.
    size_t len = (size_t)decoded - (basic[n - 1] == '=') - (basic[n - 2] == '=');
    const unsigned char *colon = memchr(all, ':', len);
    bool good = colon != NULL && is_token(t, colon + 1, len - (size_t)(colon + 1 - all));
    OPENSSL_cleanse(all, sizeof(all));
    return good;
}

bool trust_shows_token(const struct trust *t, const char *authorization)
{
    static const char bearer[] = "Bearer ", basic[] = "Basic ";
    if (!t->needs_token)
        return true;
    if (strncasecmp(authorization, bearer, sizeof(bearer) - 1) == 0) {
        const char *shown = authorization + sizeof(bearer) - 1;
        return is_token(t, shown, strlen(shown));
    }
    return strncasecmp(authorization, basic, sizeof(basic) - 1) == 0 &&
           has_password(t, authorization + sizeof(basic) - 1);
}

bool trust_is_named(const struct trust *t, const char *host)
{
    return t->x != NULL &&
           (X509_check_host(t->x, host, strlen(host), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                            NULL) == 1 ||
            X509_check_ip_asc(t->x, host, 0) == 1);
}

// ---------------------------------------------------------------- before a command begins

int monitor_check(struct monitor_options *o, struct err *e)
{
    struct monitor_address a;
    struct trust t;
    if (o->address == NULL &&
        (o->cert != NULL || o->key != NULL || o->token_file != NULL))
        log_warn("--http-%s has no effect without --http HOST:PORT",
                 o->cert != NULL  ? "cert"
                 : o->key != NULL ? "key"
                                  : "token-file");
    if (o->address == NULL)
        return 0;
    TRY(address_read(&a, o->address, e));
    if (!a.loopback && o->cert == NULL && o->key == NULL) {
        o->cert = o->cluster_cert;
        o->key = o->cluster_key;
    }
    int rc = open_with(&t, &a, o, file_read, e); // file_read: trust_open warns later
    trust_close(&t);
    return rc;
}
