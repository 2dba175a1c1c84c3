// SPDX-License-Identifier: Apache-2.0
#include "van/tls.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/tcp_node.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/file.h"
#include "van/tcp.h"
#include "van/tls_internal.h"

enum { MS = 1000000 };
#define SECOND ((uint64_t)1000000000)

// Two clusters, each with a CA of its own. The node of "cluster" has two sets of keys.
struct cluster {
    struct buf ca_key, ca_cert, key, cert;
};

static struct cluster ours, theirs;
static char dir[] = "/tmp/tug-tls-XXXXXX";

static void make_cluster(struct cluster *c)
{
    struct err e;
    assert_int_equal(tls_make_ca(&c->ca_key, &c->ca_cert, 10, &e), 0);
    assert_int_equal(tls_make_node(c->ca_key.data, c->ca_cert.data,
                                   &(struct tls_node){.name = "node", .days = 10},
                                   &c->key, &c->cert, &e),
                     0);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    make_cluster(&ours);
    make_cluster(&theirs);
    return 0;
}

static void free_cluster(struct cluster *c)
{
    buf_free(&c->ca_key);
    buf_free(&c->ca_cert);
    buf_free(&c->key);
    buf_free(&c->cert);
}

static int tear_down(void **state)
{
    (void)state;
    free_cluster(&ours);
    free_cluster(&theirs);
    return file_remove_tree(dir, NULL);
}

static struct tls *keys_of(const struct cluster *c)
{
    struct buf text = BUF_INIT(1 << 20);
    struct tls *t;
    struct err e;
    assert_int_equal(
        buf_printf(&text, "%s%s%s", c->ca_cert.data, c->cert.data, c->key.data), 0);
    if (tls_open_text(&t, text.data, text.len, &e) != 0)
        fail_msg("%s", e.text);
    buf_free(&text);
    return t;
}

static const char *write_text(const char *name, const char *text)
{
    static char paths[8][FILE_PATH_MAX];
    static int n;
    char *path = paths[n++ % 8];
    assert_int_equal(file_join(path, dir, name, NULL), 0);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void expect_refused(const char *ca, const char *cert, const char *key, int code,
                           const char *file, const char *why)
{
    struct tls *t;
    struct err e;
    int rc = tls_open(&t, ca, cert, key, &e);
    if (rc != code || strstr(e.text, file) == NULL || strstr(e.text, why) == NULL)
        fail_msg("%d: %s", rc, rc != 0 ? e.text : "accepted");
}

static void test_files(void **state)
{
    (void)state;
    size_t before = mem_live();
    const char *ca = write_text("ca.pem", ours.ca_cert.data);
    const char *cert = write_text("cert.pem", ours.cert.data);
    const char *key = write_text("key.pem", ours.key.data);
    const char *other_ca = write_text("other-ca.pem", theirs.ca_cert.data);
    const char *other_key = write_text("other-key.pem", theirs.key.data);
    const char *empty = write_text("empty.pem", "");
    struct tls *t;
    assert_int_equal(tls_open(&t, ca, cert, key, NULL), 0);
    tls_close(t);
    expect_refused("/nowhere/ca.pem", cert, key, TUG_EDATA, "/nowhere/ca.pem", "");
    expect_refused(ca, empty, key, TUG_EDATA, "empty.pem", "does not hold a certificate");
    expect_refused(ca, cert, empty, TUG_EDATA, "empty.pem",
                   "does not hold a private key");
    expect_refused(ca, cert, cert, TUG_EDATA, "cert.pem", "does not hold a private key");
    expect_refused(ca, cert, other_key, TUG_EDATA, "other-key.pem", "is not the key");
    expect_refused(other_ca, cert, key, TUG_EDATA, "cert.pem", "is not signed");
    expect_refused(cert, cert, key, TUG_EDATA, "cert.pem", "is not the certificate of a");
    assert_int_equal(mem_live(), before);
}

static void test_text(void **state)
{
    (void)state;
    struct err e;
    struct tls *t;
    tls_close(keys_of(&ours));
    assert_int_equal(tls_open_text(&t, "", 0, &e), TUG_EDATA);
    assert_int_equal(tls_open_text(&t, ours.ca_cert.data, ours.ca_cert.len, &e),
                     TUG_EDATA);
    assert_non_null(strstr(e.text, "lacks"));
}

static void test_make_refuses(void **state)
{
    (void)state;
    struct buf key, cert;
    struct err e;
    assert_int_equal(tls_make_ca(&key, &cert, 0, &e), TUG_EUSAGE);
    assert_int_equal(tls_make_node(ours.ca_key.data, theirs.ca_cert.data,
                                   &(struct tls_node){.name = "x", .days = 1}, &key,
                                   &cert, &e),
                     TUG_EDATA);
    assert_int_equal(tls_make_node("nonsense", ours.ca_cert.data,
                                   &(struct tls_node){.name = "x", .days = 1}, &key,
                                   &cert, &e),
                     TUG_EDATA);
    assert_int_equal(tls_make_node(ours.ca_key.data, ours.ca_cert.data,
                                   &(struct tls_node){.name = "", .days = 1}, &key, &cert,
                                   &e),
                     TUG_EUSAGE);
}

static int make_for(const char *const *hosts, size_t n, struct buf *cert)
{
    struct buf key;
    struct err e;
    const struct tls_node node = {.name = "web", .days = 1, .hosts = hosts, .n_hosts = n};
    int rc = tls_make_node(ours.ca_key.data, ours.ca_cert.data, &node, &key, cert, &e);
    if (rc == 0)
        buf_free(&key);
    return rc;
}

static void test_certificates_name_hosts(void **state)
{
    (void)state;
    static const char *const good[] = {"node7.example", "10.0.0.7", "::1",
                                       "*.example.org"};
    static const char *const bad[] = {"a,DNS:b", "", "a b", "a:b", "a\nb", "1.2.3.4/8"};
    struct buf cert;
    assert_int_equal(make_for(good, 4, &cert), 0);
    BIO *in = BIO_new_mem_buf(cert.data, (int)cert.len);
    X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);
    assert_int_equal(X509_check_host(x, "node7.example", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "a.example.org", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(x, "web", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(x, "10.0.0.7", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "::1", 0), 1);
    assert_int_equal(X509_check_ip_asc(x, "10.0.0.8", 0), 0);
    X509_free(x);
    BIO_free(in);
    buf_free(&cert);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(make_for(&bad[i], 1, &cert), TUG_EUSAGE);
}

// ---------------------------------------------------------------- vans with TLS

static void open_tls(struct tcp_node *n, struct tls *t)
{
    *n = (struct tcp_node){0};
    tcp_node_open(n, &(struct tcp_options){.tls = t}, "tcp://127.0.0.1:0");
}

static void test_messages(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct tls *t = keys_of(&ours);
    struct tcp_node server, client;
    open_tls(&server, t);
    open_tls(&client, t);
    van_connect(client.van, server.address, 60 * SECOND);
    tcp_node_until(&client, &server, &client.opened, 1);
    tcp_node_until(&client, &server, &server.opened, 1);
    enum { MAX = 20 << 20 };
    char *data = mem_alloc(MAX);
    for (int i = 0; i < MAX; i++)
        data[i] = (char)(i * 11 + (i >> 9));
    tcp_node_hello(&client, 1);
    int n = 1;
    for (uint64_t size = 1; size < MAX; size = size * 3 + 1, n++) {
        struct msg_roster m = {.nodes = {data, 100}, .owners = {data, size}};
        assert_int_equal(van_send(client.van, client.link, MSG_ROSTER, 2, &m, NULL), 0);
        tcp_node_until(&client, &server, &server.messages, n + 1);
        assert_int_equal(server.sum, tcp_node_sum(data, size));
    }
    van_close_link(client.van, client.link);
    tcp_node_until(&client, &server, &server.closed, 1);
    assert_int_equal(server.why.code, 0);
    van_free(client.van);
    van_free(server.van);
    tls_close(t);
    mem_free(data);
    assert_int_equal(mem_live(), before);
}

// Expects that a link fails with this reason. On a busy machine the time may end in the
// middle of a handshake, which gives another reason; then the link is tried again with
// more time.
static void expect_no_link(struct tls *server_keys, struct tls *client_keys,
                           const char *why)
{
    bool said = false;
    for (uint64_t time = SECOND / 4; !said; time *= 4) {
        struct tcp_node server, client;
        open_tls(&server, server_keys);
        open_tls(&client, client_keys);
        van_connect(client.van, server.address, time);
        tcp_node_until(&client, &server, &client.closed, 1);
        said = strstr(client.why.text, why) != NULL &&
               strstr(client.why.text, server.address) != NULL;
        if (!said && time > 10 * SECOND)
            fail_msg("%s", client.why.text);
        assert_int_equal(client.opened, 0);
        if (server_keys != NULL)
            assert_int_equal(server.opened + server.closed, 0);
        van_free(client.van);
        van_free(server.van);
    }
}

static void give_certificate(struct tls *t, const struct cluster *c)
{
    BIO *in = BIO_new_mem_buf(c->cert.data, -1), *k = BIO_new_mem_buf(c->key.data, -1);
    X509 *x = PEM_read_bio_X509(in, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(k, NULL, NULL, NULL);
    assert_int_equal(SSL_CTX_use_cert_and_key(t->context, x, key, NULL, 1), 1);
    X509_free(x);
    EVP_PKEY_free(key);
    BIO_free(in);
    BIO_free(k);
}

static void test_strangers(void **state)
{
    (void)state;
    struct tls *a = keys_of(&ours), *b = keys_of(&theirs);
    expect_no_link(b, a, "the peer's certificate is refused");
    expect_no_link(NULL, a, "was it given certificates?");
    // A client that trusts the server's CA, but has a certificate of
    // another CA, is refused.
    struct tls *odd = keys_of(&theirs);
    give_certificate(odd, &ours);
    expect_no_link(b, odd, "the peer refuses this node's certificate");
    tls_close(odd);
    tls_close(a);
    tls_close(b);
}

static void test_plain_client(void **state)
{
    (void)state;
    struct tls *t = keys_of(&ours);
    struct tcp_node server, client;
    open_tls(&server, t);
    open_tls(&client, NULL);
    van_connect(client.van, server.address, 60 * SECOND);
    tcp_node_until(&client, &server, &client.opened, 1);
    tcp_node_hello(&client, 1);
    tcp_node_until(&client, &server, &client.closed, 1);
    if (strstr(client.why.text, "speaks TLS") == NULL)
        fail_msg("%s", client.why.text);
    assert_int_equal(server.opened, 0);
    van_free(client.van);
    van_free(server.van);
    tls_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_make_refuses),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_plain_client),
        cmocka_unit_test(test_certificates_name_hosts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
