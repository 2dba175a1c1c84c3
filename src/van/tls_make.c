// Making a cluster's CA and its nodes' certificates.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "van/tls_internal.h"

enum {
    PEM_MAX = 1 << 20,
    BEFORE_S = 3600,
    DAY_S = 86400,
    NAME_MAX_BYTES = 64,
    HOST_MAX_BYTES = 253
};

static int tls_make_failed(struct err *e)
{
    return tls_error(e, TUG_EINTERNAL, "cannot make a certificate");
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = ext != NULL && X509_add_ext(x, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_serial(X509 *x)
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] &= 0x7f; // clears the sign, because a serial number must be positive
    BIGNUM *n = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool ok = n != NULL && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
    BN_free(n);
    return ok;
}

// Writes the hosts as OpenSSL's text of subject alternative names. No host name contains
// a character that has a meaning in this text.
static int write_hosts(const struct tls_node *who, struct buf *to, struct err *e)
{
    struct in6_addr address;
    for (size_t i = 0; i < who->n_hosts; i++) {
        const char *host = who->hosts[i];
        bool four = inet_pton(AF_INET, host, &address) == 1;
        bool number = four || inet_pton(AF_INET6, host, &address) == 1;
        size_t n = strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789.-*_");
        if (!number && (n == 0 || host[n] != '\0' || n > HOST_MAX_BYTES))
            return err_set(e, TUG_EUSAGE,
                           "--host: '%.100s' is neither a host's name nor an address",
                           host);
        if (buf_printf(to, "%s%s:%s", i > 0 ? "," : "", number ? "IP" : "DNS", host) != 0)
            return err_nomem(e, "a certificate");
    }
    return 0;
}

static bool add_role(X509_NAME *subject, const char *role)
{
    char text[64];
    if (role == NULL)
        return true;
    snprintf(text, sizeof(text), TLS_ROLE_PREFIX "%s", role);
    return X509_NAME_add_entry_by_txt(subject, "OU", MBSTRING_UTF8,
                                      (const unsigned char *)text, -1, -1, 0) == 1;
}

// Fills a certificate, except its extensions and signature. Returns false if OpenSSL
// fails.
static bool tls_make_fill(X509 *x, EVP_PKEY *key, const struct tls_node *who,
                          X509 *issuer)
{
    X509_NAME *subject = X509_get_subject_name(x);
    return X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
           X509_gmtime_adj(X509_getm_notBefore(x), -BEFORE_S) != NULL &&
           X509_time_adj_ex(X509_getm_notAfter(x), (int)who->days, 0, NULL) != NULL &&
           X509_set_pubkey(x, key) == 1 &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                      (const unsigned char *)who->name, -1, -1, 0) == 1 &&
           add_role(subject, who->role) &&
           X509_set_issuer_name(x, X509_get_subject_name(issuer)) == 1;
}

// Adds the extensions; `hosts` is a text of write_hosts, or "".
static bool extend(X509 *x, X509 *issuer, bool ca, const char *hosts)
{
    return add_extension(x, issuer, NID_basic_constraints,
                         ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
           add_extension(x, issuer, NID_key_usage,
                         ca ? "critical,keyCertSign,cRLSign"
                            : "critical,digitalSignature") &&
           (ca || add_extension(x, issuer, NID_ext_key_usage, "serverAuth,clientAuth")) &&
           (*hosts == '\0' || add_extension(x, issuer, NID_subject_alt_name, hosts)) &&
           add_extension(x, issuer, NID_subject_key_identifier, "hash") &&
           add_extension(x, issuer, NID_authority_key_identifier, "keyid:always");
}

static int tls_make_take(BIO *out, struct buf *ret, struct err *e)
{
    char *data;
    long n = BIO_get_mem_data(out, &data);
    return buf_add(ret, data, (size_t)n) == 0 ? 0 : err_nomem(e, "a certificate");
}

static int write_pem(EVP_PKEY *key, X509 *cert, struct buf *ret_key, struct buf *ret_cert,
                     struct err *e)
{
    BIO *k = BIO_new(BIO_s_secmem()), *c = BIO_new(BIO_s_mem());
    int rc = 0;
    *ret_key = *ret_cert = BUF_INIT(PEM_MAX);
    if (k == NULL || c == NULL || PEM_write_bio_X509(c, cert) != 1 ||
        PEM_write_bio_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) != 1)
        rc = tls_make_failed(e);
    if (rc == 0)
        rc = tls_make_take(k, ret_key, e);
    if (rc == 0)
        rc = tls_make_take(c, ret_cert, e);
    if (rc == 0 && (buf_str(ret_key) == NULL || buf_str(ret_cert) == NULL))
        rc = err_nomem(e, "a certificate");
    BIO_free(k);
    BIO_free(c);
    if (rc != 0) {
        buf_free(ret_key);
        buf_free(ret_cert);
    }
    return rc;
}

// Makes a key and a certificate. If signer is NULL, the certificate signs itself, as a CA
// does.
static int tls_make_cert(EVP_PKEY *signer, X509 *issuer, const struct tls_node *who,
                         struct buf *ret_key, struct buf *ret_cert, struct err *e)
{
    struct buf hosts = BUF_INIT(PEM_MAX);
    if (who->days == 0 || who->days > 36500)
        return err_set(e, TUG_EUSAGE,
                       "a certificate can be valid for 1 to 36500 days, not %u",
                       who->days);
    int rc = write_hosts(who, &hosts, e);
    if (rc == 0 && buf_str(&hosts) == NULL)
        rc = err_nomem(e, "a certificate");
    if (rc != 0) {
        buf_free(&hosts);
        return rc;
    }
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    bool ca = signer == NULL;
    bool ok = key != NULL && x != NULL && tls_make_fill(x, key, who, ca ? x : issuer) &&
              extend(x, ca ? x : issuer, ca, buf_str(&hosts)) &&
              X509_sign(x, ca ? key : signer, EVP_sha256()) > 0;
    rc = ok ? write_pem(key, x, ret_key, ret_cert, e) : tls_make_failed(e);
    X509_free(x);
    EVP_PKEY_free(key);
    buf_free(&hosts);
    return rc;
}

int tls_make_ca(struct buf *ret_key, struct buf *ret_cert, uint32_t days, struct err *e)
{
    const struct tls_node who = {.name = "tug cluster", .days = days};
    return tls_make_cert(NULL, NULL, &who, ret_key, ret_cert, e);
}

int tls_make_node(const char *ca_key, const char *ca_cert, const struct tls_node *node,
                  struct buf *ret_key, struct buf *ret_cert, struct err *e)
{
    if (node->name[0] == '\0' || strlen(node->name) > NAME_MAX_BYTES)
        return err_set(e, TUG_EUSAGE, "a node's name must have 1 to %d bytes",
                       NAME_MAX_BYTES);
    BIO *k = BIO_new_mem_buf(ca_key, -1), *c = BIO_new_mem_buf(ca_cert, -1);
    EVP_PKEY *signer = k != NULL ? PEM_read_bio_PrivateKey(k, NULL, NULL, (void *)"")
                                 : NULL;
    X509 *issuer = c != NULL ? PEM_read_bio_X509(c, NULL, NULL, (void *)"") : NULL;
    int rc;
    if (signer == NULL || issuer == NULL)
        rc = tls_error(e, TUG_EDATA, "the CA's %s cannot be read as PEM",
                       signer == NULL ? "key" : "certificate");
    else if (X509_check_private_key(issuer, signer) != 1)
        rc = tls_error(e, TUG_EDATA,
                       "the CA's key and certificate do not belong together");
    else
        rc = tls_make_cert(signer, issuer, node, ret_key, ret_cert, e);
    X509_free(issuer);
    EVP_PKEY_free(signer);
    BIO_free(k);
    BIO_free(c);
    return rc;
}
