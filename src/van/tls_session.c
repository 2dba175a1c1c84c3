// OpenSSL reads and writes through our own BIO, directly on the received bytes and the
// block to be sent, which saves a copy.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/tls_session.h"

#include <openssl/err.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "van/tls_internal.h"

enum {
    OUT_MIN = 4 << 10,
    // An upper bound of the bytes that a TLS record adds to its contents.
    RECORD_EXTRA = 64,
};

struct tls_session {
    SSL *ssl;
    struct frame_pool *pool;
    const char *in;
    size_t in_left;
    char *out; // bytes to be sent, in a block of the pool; NULL: there are none
    size_t out_from, out_to;
    // The server's ticket has arrived, so the server accepts this node's certificate.
    bool accepted;
};

// ---------------------------------------------------------------- the BIO

static int bio_read(BIO *bio, char *to, int n)
{
    struct tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (s->in_left == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t some = (size_t)n < s->in_left ? (size_t)n : s->in_left;
    memcpy(to, s->in, some);
    s->in += some;
    s->in_left -= some;
    return (int)some;
}

static bool tls_session_reserve(struct tls_session *s, size_t more)
{
    if (s->out != NULL && frame_pool_size(s->out) - s->out_to >= more)
        return true;
    size_t waiting = s->out_to - s->out_from;
    size_t need = waiting + more < OUT_MIN ? OUT_MIN : waiting + more;
    char *out = frame_pool_take(s->pool, need);
    if (out == NULL)
        return false;
    if (waiting > 0)
        memcpy(out, s->out + s->out_from, waiting);
    frame_pool_give(s->pool, s->out);
    s->out = out;
    s->out_from = 0;
    s->out_to = waiting;
    return true;
}

static int bio_write(BIO *bio, const char *from, int n)
{
    struct tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!tls_session_reserve(s, (size_t)n))
        return -1;
    memcpy(s->out + s->out_to, from, (size_t)n);
    s->out_to += (size_t)n;
    return n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tug");
    if (method == NULL)
        return;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
}

static BIO *bio_new(struct tls_session *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method != NULL ? BIO_new(method) : NULL;
    if (bio == NULL)
        return NULL;
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    return bio;
}

// ---------------------------------------------------------------- sessions

int tls_session_accepted(SSL *ssl, SSL_SESSION *ticket)
{
    (void)ticket;
    struct tls_session *s = SSL_get_app_data(ssl);
    s->accepted = true;
    return 0; // OpenSSL frees the ticket
}

int tls_session_open(struct tls_session **ret, struct tls *t, bool server,
                     struct frame_pool *pool, struct err *e)
{
    struct tls_session *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "a TLS session");
    s->pool = pool;
    s->ssl = SSL_new(t->context);
    BIO *bio = s->ssl != NULL ? bio_new(s) : NULL;
    if (bio == NULL) {
        tls_session_close(s);
        return err_nomem(e, "a TLS session");
    }
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_app_data(s->ssl, s);
    if (server)
        SSL_set_accept_state(s->ssl);
    else
        SSL_set_connect_state(s->ssl);
    *ret = s;
    return 0;
}

void tls_session_close(struct tls_session *s)
{
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    frame_pool_give(s->pool, s->out);
    mem_free(s);
}

void tls_session_feed(struct tls_session *s, const void *bytes, size_t n)
{
    s->in = bytes;
    s->in_left = n;
}

static bool is_alert_about_certificate(int reason)
{
    switch (reason) {
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return true;
    default:
        return false;
    }
}

// Sends an alert to a peer that does not speak TLS, because OpenSSL does not answer such
// a peer. From the alert, a node without certificates learns that it needs TLS.
static void say_tls(struct tls_session *s)
{
    static const char alert[] = {0x15, 3, 3, 0, 2, 2, SSL_AD_PROTOCOL_VERSION};
    if (SSL_is_server(s->ssl) && s->out == NULL &&
        tls_session_reserve(s, sizeof(alert))) {
        memcpy(s->out, alert, sizeof(alert));
        s->out_to = sizeof(alert);
    }
}

// Sets the error for OpenSSL's last error, in words for people.
static int broken(struct tls_session *s, struct err *e)
{
    int reason = ERR_GET_REASON(ERR_peek_error());
    long verdict = SSL_get_verify_result(s->ssl);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        ERR_clear_error();
        return err_set(e, TUG_EDATA,
                       "TLS: the peer's certificate is refused (%s): are both signed by "
                       "the CA of one cluster?",
                       X509_verify_cert_error_string(verdict));
    }
    if (is_alert_about_certificate(reason))
        return tls_error(e, TUG_EDATA,
                         "TLS: the peer refuses this node's certificate: are both signed "
                         "by the CA of one cluster?");
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        ERR_clear_error();
        return err_set(e, TUG_EDATA, "TLS: the peer has no certificate");
    }
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
        reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_UNEXPECTED_MESSAGE) {
        ERR_clear_error();
        say_tls(s);
        return err_set(e, TUG_EDATA,
                       "TLS: the peer does not speak TLS: is it a tug node, and was it "
                       "given certificates?");
    }
    return tls_error(e, TUG_EDATA, "TLS failed");
}

static int result(struct tls_session *s, int rc, struct err *e)
{
    switch (SSL_get_error(s->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return TLS_MORE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_CLOSED;
    default:
        return broken(s, e);
    }
}

// Waits until the server has accepted the client's certificate. A client's handshake is
// done when it has sent its certificate; the next record (a ticket or other data, or an
// alert) shows whether the server accepts it.
static int wait_for_acceptance(struct tls_session *s, struct err *e)
{
    char byte;
    int rc = SSL_peek(s->ssl, &byte, 1);
    if (rc > 0 || s->accepted)
        return 0;
    rc = result(s, rc, e);
    if (rc == TLS_CLOSED)
        return err_set(e, TUG_EDATA, "TLS: the peer closed the link at once");
    return rc;
}

int tls_session_shake(struct tls_session *s, struct err *e)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    if (rc != 1)
        return result(s, rc, e);
    return SSL_is_server(s->ssl) ? 0 : wait_for_acceptance(s, e);
}

// Reads the role from the certificate's organizational unit, where it
// follows the word "tug".
static int role_of(X509 *cert, enum wire_role *ret, struct err *e)
{
    char text[64] = "";
    X509_NAME *subject = X509_get_subject_name(cert);
    int n = X509_NAME_get_text_by_NID(subject, NID_organizationalUnitName, text,
                                      sizeof(text));
    size_t prefix = strlen(TLS_ROLE_PREFIX);
    *ret = WIRE_OPERATOR;
    if (n < 0 || strncmp(text, TLS_ROLE_PREFIX, prefix) != 0)
        return 0; // the certificate has no role
    *ret = wire_role_read(text + prefix);
    if (*ret != WIRE_NOBODY)
        return 0;
    return err_set(e, TUG_EDATA,
                   "TLS: the peer's certificate names a role that does not exist");
}

int tls_session_peer(struct tls_session *s, enum wire_role *ret_role,
                     uint8_t ret_certificate[32], uint8_t ret_channel[32], struct err *e)
{
    static const char label[] = "EXPORTER-tug-link";
    unsigned n = 0;
    X509 *cert = SSL_get1_peer_certificate(s->ssl);
    ERR_clear_error();
    int rc = cert != NULL ? role_of(cert, ret_role, e) : TUG_EDATA;
    bool done = cert != NULL && X509_digest(cert, EVP_sha256(), ret_certificate, &n) == 1;
    X509_free(cert);
    if (!done || SSL_export_keying_material(s->ssl, ret_channel, 32, label,
                                            sizeof(label) - 1, NULL, 0, 0) != 1)
        return tls_error(e, TUG_EDATA, "TLS: the peer's certificate cannot be read");
    return rc;
}

int tls_session_read(struct tls_session *s, void *to, size_t n, size_t *ret_n,
                     struct err *e)
{
    ERR_clear_error();
    int rc = SSL_read_ex(s->ssl, to, n, ret_n);
    return rc == 1 ? 0 : result(s, rc, e);
}

int tls_session_write(struct tls_session *s, const void *bytes, size_t n, struct err *e)
{
    size_t done, records = n / TLS_RECORD_MAX + 1;
    if (!tls_session_reserve(s, n + records * RECORD_EXTRA))
        return err_nomem(e, "encrypted data");
    ERR_clear_error();
    if (SSL_write_ex(s->ssl, bytes, n, &done) != 1)
        return tls_error(e, TUG_EIO, "TLS failed");
    return 0;
}

void tls_session_end(struct tls_session *s)
{
    ERR_clear_error();
    SSL_shutdown(s->ssl);
    ERR_clear_error();
}

const char *tls_session_out(const struct tls_session *s, size_t *ret_n)
{
    *ret_n = s->out_to - s->out_from;
    return s->out != NULL ? s->out + s->out_from : NULL;
}

void tls_session_sent(struct tls_session *s, size_t n)
{
    s->out_from += n;
    if (s->out_from == s->out_to)
        frame_pool_give(s->pool, tls_session_take(s));
}

char *tls_session_take(struct tls_session *s)
{
    char *out = s->out;
    s->out = NULL;
    s->out_from = s->out_to = 0;
    return out;
}
