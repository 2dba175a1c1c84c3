// Loads keys and certificates into one OpenSSL context, for links that this node opens or
// accepts. Mistakes in the files are reported here, with the name of the file, and not
// later by the first peer.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "van/tls_internal.h"

enum { PEM_MAX = 1 << 20 };

// The keys of a node, with the files or texts that they came from, for messages.
struct material {
    X509 *ca, *cert;
    EVP_PKEY *key;
    const char *ca_from, *cert_from, *key_from;
};

static void material_free(struct material *m)
{
    X509_free(m->ca);
    X509_free(m->cert);
    EVP_PKEY_free(m->key);
}

int tls_error(struct err *e, int code, const char *fmt, ...)
{
    char what[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return err_set(e, code, "%s%s%s", what, why != NULL ? ": " : "",
                   why != NULL ? why : "");
}

// ---------------------------------------------------------------- reading

static int no_password(char *buf, int size, int writing, void *ctx)
{
    (void)buf, (void)size, (void)writing, (void)ctx;
    return -1; // never asks for a password on the terminal
}

static X509 *read_cert(BIO *in)
{
    return PEM_read_bio_X509(in, NULL, no_password, NULL);
}

static int read_file_cert(X509 **ret, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(PEM_MAX);
    int rc = file_read(path, &text, e);
    if (rc == 0) {
        BIO *in = BIO_new_mem_buf(text.data != NULL ? text.data : "", (int)text.len);
        *ret = in != NULL ? read_cert(in) : NULL;
        BIO_free(in);
        if (*ret == NULL)
            rc = tls_error(e, TUG_EDATA, "%s does not hold a certificate in PEM form",
                           path);
    }
    buf_free(&text);
    return rc;
}

static int read_file_key(EVP_PKEY **ret, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(PEM_MAX);
    int rc = file_read_secret(path, &text, e);
    if (rc == 0) {
        BIO *in = BIO_new_mem_buf(text.data != NULL ? text.data : "", (int)text.len);
        *ret = in != NULL ? PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
        BIO_free(in);
        if (*ret == NULL)
            rc = tls_error(
                e, TUG_EDATA,
                "%s does not hold a private key in PEM form without a password", path);
    }
    buf_wipe(&text);
    return rc;
}

// Reads the certificates in a text: the certificate whose key is in the text is the
// node's, the other one is the CA's.
static int tls_read_text(struct material *m, const char *pem, size_t n, struct err *e)
{
    if (n > PEM_MAX)
        return err_set(e, TUG_EDATA, "the text with certificates is too long");
    BIO *in = BIO_new_mem_buf(pem, (int)n);
    m->key = in != NULL ? PEM_read_bio_PrivateKey(in, NULL, no_password, NULL) : NULL;
    BIO_free(in);
    in = BIO_new_mem_buf(pem, (int)n);
    X509 *one = in != NULL ? read_cert(in) : NULL;
    X509 *other = one != NULL ? read_cert(in) : NULL;
    BIO_free(in);
    bool first = m->key != NULL && one != NULL && X509_check_private_key(one, m->key);
    m->cert = first ? one : other;
    m->ca = first ? other : one;
    if (m->key == NULL || m->cert == NULL || m->ca == NULL)
        return tls_error(e, TUG_EDATA,
                         "the text with certificates lacks the CA's certificate, the "
                         "node's, or its key");
    ERR_clear_error();
    return 0;
}

// ---------------------------------------------------------------- checking

static int check_time(const X509 *cert, const char *from, struct err *e)
{
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        return err_set(e, TUG_EDATA,
                       "%s: the certificate is not valid yet: is this machine's clock "
                       "right?",
                       from);
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return err_set(e, TUG_EDATA,
                       "%s: the certificate has expired: make a new one with tug cert",
                       from);
    return 0;
}

static int tls_check(const struct material *m, struct err *e)
{
    TRY(check_time(m->ca, m->ca_from, e));
    TRY(check_time(m->cert, m->cert_from, e));
    if (X509_check_ca(m->ca) == 0)
        return err_set(e, TUG_EDATA, "%s is not the certificate of a CA", m->ca_from);
    if (X509_check_private_key(m->cert, m->key) != 1) {
        ERR_clear_error();
        return err_set(e, TUG_EDATA, "%s is not the key of the certificate %s",
                       m->key_from, m->cert_from);
    }
    if (X509_verify(m->cert, X509_get0_pubkey(m->ca)) != 1) {
        ERR_clear_error();
        return err_set(e, TUG_EDATA, "%s is not signed by the CA %s", m->cert_from,
                       m->ca_from);
    }
    return 0;
}

// ---------------------------------------------------------------- the context

// Sets up a context; returns false if OpenSSL fails. Sessions are never resumed. One
// ticket is sent as a sign that the client's certificate was accepted; TLS has no other
// message for this.
static bool set_up(SSL_CTX *c, const struct material *m)
{
    static const unsigned char id[] = "tug";
    // The first cipher that both ends have is used; AES-128 is faster than AES-256.
    static const char ciphers[] =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(c, tls_session_accepted);
    return SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(c, ciphers) == 1 &&
           SSL_CTX_set_num_tickets(c, 1) == 1 &&
           SSL_CTX_set_session_id_context(c, id, sizeof(id) - 1) == 1 &&
           X509_STORE_add_cert(SSL_CTX_get_cert_store(c), m->ca) == 1 &&
           SSL_CTX_use_certificate(c, m->cert) == 1 &&
           SSL_CTX_use_PrivateKey(c, m->key) == 1;
}

static int open_context(struct tls **ret, const struct material *m, struct err *e)
{
    TRY(tls_check(m, e));
    struct tls *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return err_nomem(e, "the keys");
    t->context = SSL_CTX_new(TLS_method());
    if (t->context == NULL || !set_up(t->context, m)) {
        tls_close(t);
        return tls_error(e, TUG_EDATA, "%s cannot be used", m->cert_from);
    }
    *ret = t;
    return 0;
}

int tls_open(struct tls **ret, const char *ca_file, const char *cert_file,
             const char *key_file, struct err *e)
{
    struct material m = {
        .ca_from = ca_file, .cert_from = cert_file, .key_from = key_file};
    int rc = read_file_cert(&m.ca, ca_file, e);
    if (rc == 0)
        rc = read_file_cert(&m.cert, cert_file, e);
    if (rc == 0)
        rc = read_file_key(&m.key, key_file, e);
    if (rc == 0)
        rc = open_context(ret, &m, e);
    material_free(&m);
    return rc;
}

int tls_open_text(struct tls **ret, const char *pem, size_t n, struct err *e)
{
    struct material m = {.ca_from = "the given CA",
                         .cert_from = "the given certificate",
                         .key_from = "the given key"};
    int rc = tls_read_text(&m, pem, n, e);
    if (rc == 0)
        rc = open_context(ret, &m, e);
    material_free(&m);
    return rc;
}

void tls_close(struct tls *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->context);
    mem_free(t);
}
