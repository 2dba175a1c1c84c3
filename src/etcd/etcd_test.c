// Tests the journal in a real etcd. A proxy in this process loses some of its answers.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd/etcd_internal.h"
#include "kit/etcd.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/json.h"

enum { PATIENCE = 60, MANY = 150, LONG = 3 << 20 };

static struct kit_etcd server;
static const struct interrupt never = {.wake_fd = -1};

static struct etcd_options options_at(const char *prefix, unsigned port)
{
    static char state[256];
    snprintf(state, sizeof(state), "etcd://127.0.0.1:%u/%s", port, prefix);
    return (struct etcd_options){.state = state,
                                 .cluster = "tug",
                                 .about = "this test",
                                 .patience = PATIENCE,
                                 .interrupt = never};
}

static struct journal *open_with(const struct etcd_options *o)
{
    struct err e = {0};
    struct journal *j = NULL;
    if (etcd_open(&j, o, &e) != 0)
        fail_msg("%s", e.text);
    return j;
}

static struct journal *open_at(const char *prefix)
{
    kit_etcd_or_skip();
    if (server.pid == 0)
        kit_etcd_start(&server);
    struct etcd_options o = options_at(prefix, server.port);
    return open_with(&o);
}

// Returns the time until which the journal has its lease.
static uint64_t lease_end(struct journal *base)
{
    struct etcd_journal *j = (struct etcd_journal *)base;
    pthread_mutex_lock(&j->mutex);
    uint64_t end = j->valid_until;
    pthread_mutex_unlock(&j->mutex);
    return end;
}

static void add(struct journal *j, const void *bytes, size_t n)
{
    struct err e = {0};
    if (journal_commit(j, bytes, n, &e) != 0 || journal_wait(j, &e) != 0)
        fail_msg("%s", e.text);
}

static void replace(struct journal *j, const void *bytes, size_t n)
{
    struct err e = {0};
    if (journal_replace(j, bytes, n, &e) != 0 || journal_wait(j, &e) != 0)
        fail_msg("%s", e.text);
}

static int note(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct buf *b = ctx;
    (void)e;
    return buf_add(b, bytes, n) == 0 ? buf_add(b, "|", 1) : TUG_ENOMEM;
}

static void assert_groups(struct journal *j, const char *expected)
{
    struct err e = {0};
    struct buf b = BUF_INIT(16 << 20);
    if (journal_replay(j, note, &b, &e) != 0)
        fail_msg("%s", e.text);
    assert_string_equal(buf_str(&b), expected);
    buf_free(&b);
}

// ---------------------------------------------------------------- texts

static void test_base64(void **state)
{
    char bytes[64];
    (void)state;
    for (size_t n = 0; n < sizeof(bytes); n++) {
        struct buf text = BUF_INIT(256), back = BUF_INIT(256);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(i * 77 + n);
        assert_int_equal(base64_add(&text, bytes, n), 0);
        assert_int_equal(base64_read(&back, text.data, text.len), 0);
        assert_int_equal(back.len, n);
        assert_memory_equal(back.data, bytes, n);
        buf_free(&text);
        buf_free(&back);
    }
    static const char *const bad[] = {"a",    "abc",      "ab=c", "====",     "ab*d",
                                      "YQ=A", "YQ==YQ==", "    ", "    YWJj", "YWJj----"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct buf back = BUF_INIT(256);
        assert_int_equal(base64_read(&back, bad[i], strlen(bad[i])), TUG_EDATA);
        buf_free(&back);
    }
}

static void check_place(const char *state, bool insecure, const char *endpoint,
                        const char *prefix)
{
    struct err e = {0};
    struct etcd_place p;
    const struct etcd_options o = {
        .state = state, .cluster = "one", .insecure = insecure};
    int rc = etcd_place_read(&p, &o, &e);
    if (endpoint == NULL) {
        assert_int_equal(rc, TUG_EUSAGE);
        assert_non_null(strstr(e.text, prefix));
        return;
    }
    if (rc != 0)
        fail_msg("%s", e.text);
    assert_string_equal(p.endpoints[p.n - 1], endpoint);
    assert_string_equal(p.prefix, prefix);
}

static void test_places(void **state)
{
    (void)state;
    check_place("etcd://127.0.0.1:1", false, "http://127.0.0.1:1", "tug/one/");
    check_place("etcd://localhost", false, "http://localhost:2379", "tug/one/");
    check_place("etcd://[::1]:7/a", false, "http://[::1]:7", "a/");
    check_place("etcd://127.0.0.1:1,127.0.0.2/a/b/", false, "http://127.0.0.2:2379",
                "a/b/");
    check_place("etcds://far:1//x", false, "https://far:1", "x/");
    check_place("etcd://far:1", true, "http://far:1", "tug/one/");
    check_place("etcd://far:1", false, NULL, "not a loopback address");
    check_place("etcd://127.example.org:1", false, NULL, "not a loopback address");
    check_place("etcd://u:p@far:1", true, NULL, "set ETCDCTL_USER");
    check_place("etcd://", false, NULL, "a host is missing");
    check_place("etcd://127.0.0.1,", false, NULL, "a host is missing");
    check_place("etcd://127.0.0.1:1?x", false, NULL, "other characters");
    setenv("ETCDCTL_CERT", "a", 1);
    check_place("etcd://far:1", false, NULL, "belong together");
    setenv("ETCDCTL_KEY", "b", 1);
    check_place("etcd://far:1", false, "https://far:1", "tug/one/");
    unsetenv("ETCDCTL_CERT");
    unsetenv("ETCDCTL_KEY");
    setenv("ETCDCTL_USER", "me", 1);
    check_place("etcd://127.0.0.1:1", false, NULL, "has no password");
    unsetenv("ETCDCTL_USER");
}

// ---------------------------------------------------------------- groups

static void test_groups_come_back_in_order(void **state)
{
    (void)state;
    struct journal *j = open_at("order");
    assert_groups(j, "");
    replace(j, "", 0);
    add(j, "one", 3);
    add(j, "two", 3);
    journal_close(j);
    j = open_at("order");
    assert_groups(j, "one|two|");
    assert_int_equal(journal_bytes(j), 6);
    replace(j, "three", 5);
    add(j, "four", 4);
    assert_int_equal(journal_bytes(j), 9);
    journal_close(j);
    j = open_at("order");
    assert_groups(j, "three|four|");
    journal_close(j);
}

static void test_long_and_many_groups(void **state)
{
    (void)state;
    struct buf expected = BUF_INIT(64 << 20);
    struct journal *j = open_at("long");
    char *bytes = mem_alloc(LONG);
    for (size_t i = 0; i < LONG; i++)
        bytes[i] = (char)('a' + i % 25);
    replace(j, bytes, LONG);
    for (int i = 0; i < MANY; i++)
        add(j, "x", 1);
    add(j, bytes, 2 * ETCD_PART_MAX); // two whole parts
    assert_int_equal(buf_add(&expected, bytes, LONG), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(buf_add(&expected, "|x", 2), 0);
    assert_int_equal(buf_add(&expected, "|", 1), 0);
    assert_int_equal(buf_add(&expected, bytes, (size_t)2 * ETCD_PART_MAX), 0);
    assert_int_equal(buf_add(&expected, "|", 1), 0);
    journal_close(j);
    j = open_at("long");
    assert_groups(j, buf_str(&expected));
    journal_close(j);
    buf_free(&expected);
    mem_free(bytes);
}

// ---------------------------------------------------------------- other clients of etcd

static void ask(const char *path, const struct buf *body)
{
    struct err e = {0};
    struct etcd_client c;
    struct etcd_place place;
    const struct etcd_options o = options_at("", server.port);
    json_t *answer = NULL;
    assert_int_equal(etcd_place_read(&place, &o, &e), 0);
    assert_int_equal(etcd_client_open(&c, &place, &never, NULL, &e), 0);
    // A request that came too late to be answered is repeated. If it has added a user, etcd
    // refuses the second one.
    if (etcd_ask(&c, path, body, PATIENCE, &answer, &e) != ETCD_OK &&
        strstr(e.text, "already exists") == NULL)
        fail_msg("%s", e.text);
    json_decref(answer);
    etcd_client_close(&c);
}

static void put(const char *key, const char *value)
{
    struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_add(&b, "{", 1), 0);
    assert_int_equal(etcd_add_text(&b, "key", key), 0);
    assert_int_equal(buf_add(&b, ",", 1), 0);
    assert_int_equal(etcd_add_text(&b, "value", value), 0);
    assert_int_equal(buf_add(&b, "}", 1), 0);
    ask("/v3/kv/put", &b);
    buf_free(&b);
}

static void end_lease(const struct journal *j)
{
    struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_printf(&b, "{\"ID\":\"%" PRIu64 "\"}",
                                ((const struct etcd_journal *)j)->lease),
                     0);
    ask("/v3/lease/revoke", &b);
    buf_free(&b);
}

static void test_unfinished_group_does_not_count(void **state)
{
    struct err e = {0};
    struct buf b = BUF_INIT(4096);
    char key[256];
    (void)state;
    struct journal *j = open_at("half");
    replace(j, "whole", 5);
    snprintf(key, sizeof(key), "half/log/%s/0000000000000001/0000",
             ((struct etcd_journal *)j)->log);
    put(key, "+first part");
    journal_close(j);
    j = open_at("half");
    assert_groups(j, "whole|");
    // If a part is missing but a later part is there, the log is damaged.
    snprintf(key, sizeof(key), "half/log/%s/0000000000000001/0002",
             ((struct etcd_journal *)j)->log);
    put(key, ".last part");
    assert_int_equal(journal_replay(j, note, &b, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "a part of a group is missing"));
    buf_free(&b);
    journal_close(j);
}

// Opens the journal of `from` for another scheduler, as if the lease of `from` had ended.
// `from` cannot take the lease again.
static struct journal *take_over(struct journal *from, const char *prefix)
{
    struct etcd_journal *j = (struct etcd_journal *)from;
    pthread_mutex_lock(&j->mutex);
    end_lease(from);
    struct journal *other = open_at(prefix);
    pthread_mutex_unlock(&j->mutex);
    return other;
}

// A scheduler whose lease has ended writes nothing, whether or not another scheduler leads.
static void test_lost_lease(void **state)
{
    struct err e = {0};
    (void)state;
    struct journal *old = open_at("lost");
    replace(old, "old", 3);
    struct journal *new = take_over(old, "lost");
    assert_groups(new, "old|");
    replace(new, "new", 3);
    if (journal_commit(old, "late", 4, &e) == 0)
        assert_int_equal(journal_wait(old, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "has lost its lease"));
    assert_int_equal(journal_ready(old, &e), TUG_EIO);
    assert_false(journal_speaks(old));
    assert_int_equal(journal_ready(new, &e), 1);
    journal_close(old); // must not end the lease of the new scheduler
    add(new, "er", 2);
    journal_close(new);
    new = open_at("lost");
    assert_groups(new, "new|er|");
    journal_close(new);
}

// A scheduler whose lease has ended takes it again if no other scheduler has led since
// then.
static void test_lease_is_taken_again(void **state)
{
    struct err e = {0};
    (void)state;
    struct journal *j = open_at("again");
    replace(j, "one", 3);
    for (int i = 0; i < 3; i++) {
        end_lease(j);
        add(j, "more", 4);
    }
    end_lease(j);
    replace(j, "all", 3);
    end_lease(j);
    kit_etcd_signal(&server, SIGSTOP); // stops etcd for longer than the lease
    assert_soon(journal_silent_ns(j) > ((struct etcd_journal *)j)->ttl_ns);
    assert_false(journal_speaks(j));
    kit_etcd_signal(&server, SIGCONT);
    add(j, "two", 3);
    journal_close(j);
    j = open_at("again");
    assert_groups(j, "all|two|");
    // The lease is not taken again after another scheduler has led, even if that one died.
    struct journal *other = take_over(j, "again");
    replace(other, "other", 5);
    journal_close(other);
    if (journal_commit(j, "late", 4, &e) == 0)
        assert_int_equal(journal_wait(j, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "has lost its lease"));
    journal_close(j);
    j = open_at("again");
    assert_groups(j, "other|");
    journal_close(j);
}

// If another scheduler removes the log while this one reads it, the error is that the lease
// is lost, not that the log is damaged.
static void test_lease_is_lost_while_reading(void **state)
{
    struct err e = {0};
    struct buf b = BUF_INIT(4096);
    (void)state;
    struct journal *j = open_at("reading");
    replace(j, "one", 3);
    journal_close(j);
    j = open_at("reading");
    struct journal *other = take_over(j, "reading");
    replace(other, "two", 3);
    assert_int_equal(journal_replay(j, note, &b, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "has lost its lease"));
    journal_close(j);
    journal_close(other);
    buf_free(&b);
}

struct standby {
    struct etcd_options o;
    struct journal *journal;
    atomic_bool waits;
    pthread_t thread;
};

static void on_say(void *ctx, const char *line)
{
    struct standby *s = ctx;
    (void)line;
    atomic_store(&s->waits, true);
}

static void *stand_by(void *arg)
{
    struct standby *s = arg;
    struct err e = {0};
    if (etcd_open(&s->journal, &s->o, &e) != 0)
        print_message("%s\n", e.text);
    return NULL;
}

static void begin_standby(struct standby *s, const char *prefix)
{
    s->o = options_at(prefix, server.port);
    s->o.say = on_say;
    s->o.ctx = s;
    assert_int_equal(pthread_create(&s->thread, NULL, stand_by, s), 0);
    // A standby says that it waits when it has read the key `head`.
    assert_soon(atomic_load(&s->waits));
}

// A standby ends when the cluster for which it waits ends; that an earlier cluster with the
// same prefix has ended does not count.
static void test_standby_of_an_unborn_cluster(void **state)
{
    (void)state;
    struct standby unborn = {0}, ended = {0};
    struct journal *j = open_at("unborn");
    replace(j, "", 0); // the end of the earlier cluster
    journal_close(j);
    j = open_at("unborn");
    begin_standby(&unborn, "unborn");
    journal_close(j); // the leader dies before it has written anything
    pthread_join(unborn.thread, NULL);
    assert_non_null(unborn.journal);
    replace(unborn.journal, "born", 4);
    begin_standby(&ended, "unborn");
    replace(unborn.journal, "", 0);
    journal_close(unborn.journal);
    pthread_join(ended.thread, NULL);
    assert_null(ended.journal);
}

// ---------------------------------------------------------------- accounts

static void auth(const char *path, const char *json)
{
    struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_add(&b, json, strlen(json)), 0);
    ask(path, &b);
    buf_free(&b);
}

// A change of users invalidates all tokens that etcd has signed before. Etcd then refuses
// requests with the code of a wrong request.
static void test_users_change(void **state)
{
    char token[1024], command[1024];
    (void)state;
    kit_etcd_or_skip();
    kit_etcd_kill(&server);
    server = (struct kit_etcd){.token = token};
    files_remove(files_in("etcd"));
    snprintf(command, sizeof(command),
             "cd %s && openssl genrsa -out jwt.key 2048 2>jwt.log && "
             "openssl rsa -in jwt.key -pubout -out jwt.pub 2>>jwt.log",
             files_dir);
    if (system(command) != 0)
        skip_because("openssl is not there: openssl");
    snprintf(token, sizeof(token),
             "--auth-token=jwt,pub-key=%s/jwt.pub,priv-key=%s/jwt.key,sign-method=RS256",
             files_dir, files_dir);
    kit_etcd_start(&server);
    auth("/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"word\"}");
    auth("/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
    auth("/v3/auth/enable", "{}");
    setenv("ETCDCTL_USER", "root:word", 1);
    struct journal *j = open_at("users");
    replace(j, "one", 3);
    auth("/v3/auth/user/add", "{\"name\":\"other\",\"password\":\"word\"}");
    add(j, "two", 3);
    auth("/v3/auth/user/delete", "{\"name\":\"other\"}");
    uint64_t before = lease_end(j);
    assert_soon(lease_end(j) > before + ((struct etcd_journal *)j)->ttl_ns);
    add(j, "three", 5);
    assert_groups(j, "one|two|three|");
    journal_close(j);
    auth("/v3/auth/disable", "{}");
    unsetenv("ETCDCTL_USER");
    kit_etcd_kill(&server);
    server = (struct kit_etcd){0};
    files_remove(files_in("etcd"));
}

static void test_etcd_is_killed_and_comes_back(void **state)
{
    struct err e = {0};
    (void)state;
    struct journal *j = open_at("back");
    replace(j, "one", 3);
    kit_etcd_kill(&server);
    assert_int_equal(journal_commit(j, "two", 3, &e), 0);
    assert_int_equal(journal_ready(j, &e), 0);
    assert_soon(!journal_speaks(j)); // the lease may have ended
    assert_int_equal(journal_ready(j, &e), 0);
    assert_soon(journal_silent_ns(j) > 0);
    kit_etcd_start(&server);
    if (journal_wait(j, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(journal_silent_ns(j) == 0);
    journal_close(j);
    j = open_at("back");
    assert_groups(j, "one|two|");
    journal_close(j);
}

static void test_etcd_stays_away(void **state)
{
    struct err e = {0};
    (void)state;
    kit_etcd_or_skip();
    if (server.pid == 0)
        kit_etcd_start(&server);
    struct etcd_options o = options_at("away", server.port);
    struct journal *j = open_with(&o), *none = NULL;
    replace(j, "one", 3);
    ((struct etcd_journal *)j)->o.patience = o.patience = 1;
    kit_etcd_kill(&server);
    if (journal_commit(j, "two", 3, &e) == 0)
        assert_int_equal(journal_wait(j, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "does not answer"));
    journal_close(j);
    assert_int_equal(etcd_open(&none, &o, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "does not answer"));
    assert_null(none);
    kit_etcd_start(&server);
}

// ---------------------------------------------------------------- answers that are lost

// A proxy for etcd. Etcd executes every transaction, but the proxy drops every second answer
// to a transaction, and closes the connection.
struct proxy {
    int listener;
    unsigned port;
    atomic_bool stop;
    unsigned transactions, lost;
    pthread_t thread;
};

static int dial_server(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)server.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool pass_on(int from, int to, char *head, size_t cap)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof(bytes));
    if (n <= 0)
        return false;
    if (head != NULL && (size_t)n < cap)
        snprintf(head, cap, "%.*s", (int)n, bytes);
    else if (head != NULL)
        snprintf(head, cap, "%.*s", (int)cap - 1, bytes);
    return send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

// Serves a connection until one side closes it or the proxy is to drop an answer.
static void serve_link(struct proxy *p, int client)
{
    int etcd = dial_server();
    bool lose = false, goes_on = etcd >= 0;
    struct pollfd fds[2] = {{client, POLLIN, 0}, {etcd, POLLIN, 0}};
    while (goes_on && !atomic_load(&p->stop) && poll(fds, 2, 100) >= 0) {
        char head[64] = "";
        if (fds[1].revents != 0 && lose)
            break; // drops etcd's answer
        if (fds[1].revents != 0)
            goes_on = pass_on(etcd, client, NULL, 0);
        if (goes_on && fds[0].revents != 0)
            goes_on = pass_on(client, etcd, head, sizeof(head));
        if (strncmp(head, "POST /v3/kv/txn", 15) == 0) {
            lose = p->transactions++ % 2 == 0;
            p->lost += lose;
        }
    }
    close(client);
    if (etcd >= 0)
        close(etcd);
}

static void *proxy_main(void *arg)
{
    struct proxy *p = arg;
    while (!atomic_load(&p->stop)) {
        struct pollfd fd = {p->listener, POLLIN, 0};
        if (poll(&fd, 1, 100) > 0) {
            int client = accept(p->listener, NULL, NULL);
            if (client >= 0)
                serve_link(p, client);
        }
    }
    return NULL;
}

static void begin_proxy(struct proxy *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(p->listener, 16), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&at, &n), 0);
    p->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
}

static void end_proxy(struct proxy *p)
{
    atomic_store(&p->stop, true);
    pthread_join(p->thread, NULL);
    close(p->listener);
}

// If the answer to a transaction is lost, the transaction is sent again although etcd has
// executed it. Each group must be in the log once.
static void test_lost_answers(void **state)
{
    (void)state;
    struct proxy p = {0};
    struct err e = {0};
    struct journal *j = open_at("answers"); // starts etcd
    journal_close(j);
    begin_proxy(&p);
    struct etcd_options o = options_at("answers", p.port);
    // The proxy serves one connection at a time, so this journal must not start threads.
    struct etcd_journal alone = {.o = o, .about = "alone", .body = BUF_INIT(4 << 20)};
    assert_int_equal(etcd_place_read(&alone.place, &o, &e), 0);
    assert_int_equal(
        etcd_client_open(&alone.asks, &alone.place, &alone.o.interrupt, NULL, &e), 0);
    bool waited;
    OK(etcd_lease_take(&alone, &waited, &ok_e));
    assert_false(waited);
    OK(etcd_group_write(&alone, "one", 3, true, &ok_e));
    OK(etcd_group_write(&alone, "two", 3, false, &ok_e));
    OK(etcd_group_write(&alone, "three", 5, true, &ok_e));
    OK(etcd_group_write(&alone, "four", 4, false, &ok_e));
    OK(etcd_group_write(&alone, "five", 4, false, &ok_e));
    etcd_lease_give_up(&alone);
    etcd_client_close(&alone.asks);
    buf_free(&alone.body);
    end_proxy(&p);
    assert_in_range(p.lost, 3, 100);
    j = open_at("answers");
    assert_groups(j, "three|four|five|");
    journal_close(j);
}

static int end(void **state)
{
    kit_etcd_kill(&server);
    return files_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_groups_come_back_in_order),
        cmocka_unit_test(test_long_and_many_groups),
        cmocka_unit_test(test_unfinished_group_does_not_count),
        cmocka_unit_test(test_lost_lease),
        cmocka_unit_test(test_lease_is_taken_again),
        cmocka_unit_test(test_lease_is_lost_while_reading),
        cmocka_unit_test(test_standby_of_an_unborn_cluster),
        cmocka_unit_test(test_lost_answers),
        cmocka_unit_test(test_etcd_is_killed_and_comes_back),
        cmocka_unit_test(test_etcd_stays_away),
        cmocka_unit_test(test_users_change),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, files_begin_in_memory, end);
}
