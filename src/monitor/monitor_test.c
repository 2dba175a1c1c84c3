// A monitor with real clients: its answers and its refusals, and slow and many clients,
// which must not keep others out.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/monitor.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/browse.h"
#include "kit/clock.h"
#include "kit/facts.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"
#include "os/descriptors.h"

#define TOKEN "secret-of-the-test"

enum {
    MANY = 2000,
    SOME = 100,
    READERS = 16,
    DEAF = 128,     // the greatest number of connections of the monitor
    LARGE = 4 << 20 // bytes of an answer that no socket's buffer can hold
};

static struct monitor *monitor;
static atomic_uint asked; // how often the source was asked
static atomic_bool fails, closing, large;

static int tell(void *of, json_t **ret, struct err *e)
{
    (void)of;
    atomic_fetch_add(&asked, 1);
    if (atomic_load(&fails))
        return err_set(e, TUG_EIO, "the scheduler does not answer");
    *ret = sample_facts(SAMPLE_CLUSTER);
    if (atomic_load(&large)) {
        char *text = mem_alloc(LARGE);
        assert_non_null(text);
        memset(text, 'x', LARGE);
        (void)json_object_set_new(*ret, "filler", json_stringn(text, LARGE));
        mem_free(text);
    }
    return 0;
}

static const char *open_with(struct monitor_options at)
{
    const struct monitor_source source = {.facts = tell, .closing = &closing};
    struct err e = {0};
    atomic_store(&asked, 0);
    int rc = monitor_open(&monitor, &at, &source, &e);
    if (rc != 0 && strstr(e.text, "libmicrohttpd") != NULL)
        skip_because("libmicrohttpd-dev is not installed: run tools/deps");
    if (rc != 0)
        fail_msg("%s: %s", at.address, e.text);
    return monitor_url(monitor);
}

static const char *open_at(const char *address)
{
    return open_with((struct monitor_options){.address = address});
}

static const char *open_any(void)
{
    return open_at("127.0.0.1:0");
}

static int close_it(void **state)
{
    (void)state;
    monitor_close(monitor);
    monitor = NULL;
    atomic_store(&fails, false);
    atomic_store(&large, false);
    return 0;
}

static void answers(void **state)
{
    (void)state;
    const char *url = open_any();
    browse_says(url, "/", 200, "1 server and 2 workers alive");
    browse_says(url, "/", 200, "</html>");
    browse_says(url, "/metrics", 200, "tug_node_up{");
    browse_says(url, "/healthz", 200, "alive");
    browse_says(url, "/readyz", 200, "ready: all processes have joined");
    browse_says(url, "/nothing", 404, "/status.json");
    browse_says(url, "/../etc/passwd", 404, "/status.json");
    struct browse b = browse_get(url, "/status.json");
    json_t *shown = json_loads(b.body, 0, NULL), *told = sample_facts(SAMPLE_CLUSTER);
    assert_true(json_equal(shown, told));
    json_decref(shown);
    json_decref(told);
    browse_free(&b);
    b = browse_ask(url, "GET", "/metrics", "Accept: application/openmetrics-text\r\n");
    assert_non_null(strstr(b.head, "application/openmetrics-text; version=1.0.0"));
    assert_non_null(strstr(b.body, "# EOF\n"));
    browse_free(&b);
}

static void protects_readers(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "Content-Security-Policy: default-src 'none'; script-src 'sha256-",
        "X-Content-Type-Options: nosniff",
        "frame-ancestors 'none'",
        "Cache-Control: no-store",
        "Content-Type: text/html; charset=utf-8",
    };
    struct browse b = browse_get(open_any(), "/");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
        if (strstr(b.head, wanted[i]) == NULL)
            fail_msg("%s is not in %s", wanted[i], b.head);
    assert_null(strstr(b.head, "Access-Control"));
    browse_free(&b);
}

static void only_reads(void **state)
{
    (void)state;
    static const char *const others[] = {"POST",    "PUT",   "DELETE",
                                         "OPTIONS", "PATCH", "X"};
    const char *url = open_any();
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct browse b = browse_ask(url, others[i], "/", "");
        assert_int_equal(b.status, 405);
        assert_non_null(strstr(b.head, "Allow: GET, HEAD"));
        browse_free(&b);
    }
    struct browse head = browse_ask(url, "HEAD", "/", "");
    assert_int_equal(head.status, 200);
    assert_int_equal(head.n_body, 0);
    browse_free(&head);
    head = browse_ask(url, "HEAD", "/events", "");
    assert_int_equal(head.status, 200);
    assert_int_equal(head.n_body, 0);
    browse_free(&head);
    struct browse body = browse_ask(url, "GET", "/", "Content-Length: 5\r\n\r\nabcde");
    assert_int_equal(body.status, 400);
    browse_free(&body);
    body = browse_ask(url, "POST", "/", "Content-Length: 99999999999\r\n");
    assert_int_equal(body.status, 405);
    browse_free(&body);
}

static int status_for_host(const char *url, const char *host)
{
    char line[512];
    int fd = browse_connect(url);
    snprintf(line, sizeof(line),
             "GET /healthz HTTP/1.1\r\n%s%s%sConnection: close\r\n\r\n",
             *host != '\0' ? "Host: " : "", host, *host != '\0' ? "\r\n" : "");
    browse_send(fd, line);
    struct browse b = browse_read(fd);
    int ret = b.status;
    browse_free(&b);
    return ret;
}

// A page of another site can make a browser send requests to this port, under the site's
// own name.
static void knows_its_names(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost", "localhost:1",  "LOCALHOST",
                                       "127.0.0.1", "127.9.9.9:80", "[::1]",
                                       "[::1]:8080"},
                             *const bad[] = {"evil.example",   "evil.example:80",
                                             "localhost.evil", "127.0.0.1.evil",
                                             "10.0.0.1",       "[::2]",
                                             "[::1",           "a b",
                                             "localhost:80x",  "@localhost",
                                             "0.0.0.0"};
    for (int unix_socket = 0; unix_socket < 2; unix_socket++) {
        char address[FILES_PATH + 8];
        snprintf(address, sizeof(address), "unix:%s", files_in("names.sock"));
        const char *url = open_at(unix_socket ? address : "127.0.0.1:0");
        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
            if (status_for_host(url, good[i]) != 200)
                fail_msg("'%s' is refused", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
            if (status_for_host(url, bad[i]) != 421)
                fail_msg("'%s' is not refused", bad[i]);
        assert_int_equal(status_for_host(url, "") == 200, 0);
        close_it(NULL);
    }
}

static void asks_once_a_second_at_most(void **state)
{
    (void)state;
    const char *url = open_any();
    uint64_t begun = clock_ns();
    for (int i = 0; i < SOME; i++)
        browse_says(url, "/metrics", 200, "tug_node_up{");
    uint64_t seconds = (clock_ns() - begun) / SECOND_NS;
    assert_true(atomic_load(&asked) >= 1 && atomic_load(&asked) <= seconds + 2);
    browse_says(url, "/healthz", 200, "alive");
}

static void tells_why_there_are_no_facts(void **state)
{
    (void)state;
    atomic_store(&fails, true);
    const char *url = open_any();
    browse_says(url, "/status.json", 503, "the scheduler does not answer");
    browse_says(url, "/readyz", 503, "the scheduler does not answer");
    browse_says(url, "/", 200, "class=\"ill\">the scheduler does not answer");
    browse_says(url, "/healthz", 200, "alive");
}

static void serves_a_unix_socket(void **state)
{
    (void)state;
    char address[FILES_PATH + 8];
    struct stat s;
    snprintf(address, sizeof(address), "unix:%s", files_in("page.sock"));
    const char *url = open_at(address);
    assert_int_equal(stat(files_in("page.sock"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    browse_says(url, "/readyz", 200, "ready");
    struct monitor *first = monitor, *second = NULL;
    const struct monitor_source source = {.facts = tell};
    assert_int_equal(monitor_open(&second, &(struct monitor_options){.address = address},
                                  &source, &test_err),
                     TUG_EIO);
    assert_non_null(strstr(test_err.text, "another process listens there"));
    monitor = first;
    close_it(NULL);
    assert_false(files_exists(files_in("page.sock")));
    // a file that another process has put at the path is not removed
    (void)open_at(address);
    assert_int_equal(unlink(files_in("page.sock")), 0);
    files_write(files_in("page.sock"), "precious");
    close_it(NULL);
    assert_true(files_exists(files_in("page.sock")));
}

static void refused_with(struct monitor_options at, const char *says)
{
    const struct monitor_source source = {.facts = tell};
    struct monitor *m = NULL;
    struct err e = {0};
    int rc = monitor_check(&at, &e);
    if (rc == 0)
        rc = monitor_open(&m, &at, &source, &e);
    if (rc == 0 || strstr(e.text, says) == NULL)
        fail_msg("%s: %d '%s'", at.address, rc, e.text);
}

static void refused_as(const char *address, const char *says)
{
    refused_with((struct monitor_options){.address = address}, says);
}

// A monitor cannot listen at a port at which another monitor listens. The error says what
// to do.
static void says_what_to_do_about_a_taken_port(void **state)
{
    (void)state;
    char address[64];
    unsigned port = 0;
    assert_int_equal(sscanf(open_any(), "http://127.0.0.1:%u/", &port), 1);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    refused_as(address, "another process has it: choose another port, or 0 for any");
}

static void refuses_addresses(void **state)
{
    (void)state;
    open_any(); // skips the test if libmicrohttpd is missing
    refused_as("8080", "HOST:PORT");
    refused_as("http://127.0.0.1:8080", "HOST:PORT");
    refused_as("127.0.0.1:99999", "--http");
    refused_as("unix:", "path");
    refused_as("0.0.0.0:0", "is not a loopback address");
    refused_as("unix:/nowhere/at/all", "cannot listen");
    refused_as(":80", "HOST:PORT");
    struct monitor_options at = {.address = "127.0.0.1:0"}, none = {0};
    assert_int_equal(monitor_check(&at, &test_err), 0);
    assert_int_equal(monitor_check(&none, &test_err), 0);
}

#define AT(where, ...) ((struct monitor_options){.address = where, __VA_ARGS__})

static void refuses_options(void **state)
{
    (void)state;
    char bad[FILES_PATH], token[FILES_PATH], blank[FILES_PATH], brief[FILES_PATH];
    open_any(); // skips the test if libmicrohttpd is missing
    snprintf(bad, sizeof(bad), "%s", files_in("bad.pem"));
    snprintf(token, sizeof(token), "%s", files_in("token"));
    snprintf(blank, sizeof(blank), "%s", files_in("blank"));
    snprintf(brief, sizeof(brief), "%s", files_in("brief"));
    files_write(bad, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    files_write(token, TOKEN "\n");
    files_write(blank, "two words are not one token\n");
    files_write(brief, "too-short\n");
    refused_with(AT("0.0.0.0:0"), "add --http-cert, --http-key and --http-token-file,");
    refused_with(AT("0.0.0.0:0", .token_file = token), "add --http-cert and --http-key,");
    refused_with(AT("0.0.0.0:0", .cert = bad, .key = bad), "add --http-token-file,");
    refused_with(AT("0.0.0.0:0", .cluster_cert = bad, .cluster_key = bad),
                 "add --http-token-file,");
    refused_with(AT("127.0.0.1:0", .cert = bad), "--http-key is missing");
    refused_with(AT("127.0.0.1:0", .key = bad), "--http-cert is missing");
    refused_with(AT("127.0.0.1:0", .cert = bad, .key = bad),
                 "does not hold a certificate in PEM form");
    refused_with(AT("unix:x", .cert = bad, .key = bad),
                 "does not work with --http unix:");
    refused_with(AT("127.0.0.1:0", .token_file = blank), "must hold one line");
    refused_with(AT("127.0.0.1:0", .token_file = brief), "must hold one line");
    refused_with(AT("127.0.0.1:0", .token_file = "/nowhere"), "--http-token-file");
    assert_int_equal(monitor_check(&AT(NULL, .token_file = token), &test_err), 0);
}

static int status_with(const char *url, const char *path, const char *authorization)
{
    char line[20 << 10];
    snprintf(line, sizeof(line), "Authorization: %s\r\n", authorization);
    struct browse b = browse_ask(url, "GET", path, line);
    int ret = b.status;
    browse_free(&b);
    return ret;
}

// Answers only requests that have the token, also on loopback. Probes of health need no
// token, and learn nothing that a stranger may not know.
static void asks_for_the_token(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "Bearer " TOKEN "x",
                                        TOKEN,
                                        "Basic",
                                        "Basic ",
                                        "Basic ====",
                                        "Basic !!!!",
                                        "Basic YQ==" /* a */,
                                        "Basic YTpi" /* a:b */,
                                        "Basic eDpzZWNyZXQgb2YgdGhlIHRlc3Q=",
                                        "Digest " TOKEN,
                                        "Bearer secret-of-the-tes",
                                        "Bearer  " TOKEN};
    static const char *const open[] = {"/healthz", "/readyz"};
    static const char *const paths[] = {"/", "/metrics", "/status.json", "/events", "/x"};
    char token[FILES_PATH], much[16 << 10];
    snprintf(token, sizeof(token), "%s", files_in("token"));
    files_write(token, TOKEN "\n");
    const char *url = open_with(AT("127.0.0.1:0", .token_file = token));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        if (status_with(url, "/metrics", wrong[i]) != 401)
            fail_msg("'%s' is let in", wrong[i]);
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        browse_says(url, paths[i], 401, "the token is missing or wrong");
    memset(much, 'a', sizeof(much));
    much[sizeof(much) - 1] = '\0';
    memcpy(much, "Basic ", 6);
    much[9 << 10] = '\0';
    assert_int_equal(status_with(url, "/", much), 401);
    much[9 << 10] = 'a';
    assert_int_not_equal(status_with(url, "/", much), 200);
    assert_int_equal(status_with(url, "/metrics", "Bearer " TOKEN), 200);
    assert_int_equal(status_with(url, "/metrics", "bEARER " TOKEN), 200);
    assert_int_equal(status_with(url, "/", "Basic YW55OnNlY3JldC1vZi10aGUtdGVzdA=="),
                     200);
    assert_int_equal(status_with(url, "/", "Basic OnNlY3JldC1vZi10aGUtdGVzdA=="), 200);
    for (size_t i = 0; i < sizeof(open) / sizeof(*open); i++) {
        struct browse b = browse_get(url, open[i]);
        assert_int_equal(b.status, 200);
        assert_string_equal(b.body, i == 0 ? "alive\n" : "ready\n");
        browse_free(&b);
    }
    struct browse b = browse_ask(url, "GET", "/readyz",
                                 "Authorization: Bearer " TOKEN "\r\n");
    assert_non_null(strstr(b.body, "ready: all processes have joined"));
    browse_free(&b);
    b = browse_get(url, "/");
    assert_non_null(strstr(b.head, "WWW-Authenticate: Basic realm=\"tug\""));
    browse_free(&b);
}

// Reads from a connection until the bytes read contain `text`.
static void await_text(int fd, struct buf *seen, const char *text)
{
    char part[4096];
    while (strstr(buf_str(seen), text) == NULL) {
        ssize_t n = recv(fd, part, sizeof(part), 0);
        if (n <= 0)
            fail_msg("'%s' has not come, but %s", text, buf_str(seen));
        OK(buf_add(seen, part, (size_t)n));
    }
}

static void sends_events(void **state)
{
    (void)state;
    const char *url = open_any();
    int fds[READERS];
    struct buf seen = BUF_INIT(1 << 20);
    for (int i = 0; i < READERS; i++) {
        fds[i] = browse_connect(url);
        browse_send(fds[i], "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        buf_clear(&seen);
        await_text(fds[i], &seen, "text/event-stream");
        await_text(fds[i], &seen, "event: facts\ndata: {");
    }
    await_text(fds[0], &seen, "\"operations_seen\":1");
    browse_says(url, "/events", 503, "too many clients");
    browse_says(url, "/metrics", 200, "tug_"); // other requests are still answered
    for (int i = 1; i < READERS; i++)
        close(fds[i]);
    buf_clear(&seen);
    await_text(fds[0], &seen, "event: facts"); // the event of the next second
    // Closes the monitor while a reader of events is suspended.
    close_it(NULL);
    close(fds[0]);
    buf_free(&seen);
}

static void survives_bad_requests(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"};
    const char *url = open_any();
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int fd = browse_connect(url);
        browse_send(fd, bad[i]);
        struct browse b = browse_read(fd);
        assert_int_not_equal(b.status, 200);
        browse_free(&b);
    }
    char *lines = mem_alloc(64 << 10);
    assert_non_null(lines);
    memset(lines, 'a', 64 << 10);
    memcpy(lines, "X: ", 3);
    memcpy(lines + (64 << 10) - 3, "\r\n", 3);
    int fd = browse_connect(url);
    browse_send(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n");
    browse_send(fd, lines);
    browse_send(fd, "\r\n");
    struct browse b = browse_read(fd);
    assert_true(b.status == 0 || b.status == 413 || b.status == 431 || b.status == 414);
    browse_free(&b);
    mem_free(lines);
    browse_says(url, "/healthz", 200, "alive");
}

// Connections that say nothing, or only a part of a request, do not keep others out.
static void serves_beside_many_connections(void **state)
{
    (void)state;
    static int fds[MANY];
    descriptors_raise();
    int many = descriptors_left() > 2 * MANY + 64 ? MANY : SOME;
    const char *url = open_any();
    for (int i = 0; i < many; i++) {
        fds[i] = browse_connect(url);
        if (i % 2 == 0)
            browse_send(fds[i], "GET / HTTP/1.1\r\nHost: local");
        // Waits for an answer now and then, so that the listen queue does not fill up.
        if (i % SOME == 0)
            browse_says(url, "/healthz", 200, "alive");
    }
    browse_says(url, "/readyz", 200, "ready");
    browse_says(url, "/metrics", 200, "tug_node_up{");
    for (int i = 0; i < many; i++)
        close(fds[i]);
    browse_says(url, "/healthz", 200, "alive");
}

// Clients that ask for large answers and read nothing of them do not keep others out.
static void serves_beside_deaf_readers(void **state)
{
    (void)state;
    static int fds[DEAF];
    const int small = 4096;
    char first;
    atomic_store(&large, true);
    const char *url = open_any();
    for (int i = 0; i < DEAF; i++) {
        fds[i] = browse_connect(url);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        browse_send(fds[i], "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if (recv(fds[i], &first, 1, MSG_PEEK) != 1) // the answer has begun
            fail_msg("the connection of reader %d was closed", i);
    }
    uint64_t begun = clock_ns();
    browse_says(url, "/healthz", 200, "alive");
    assert_true(clock_ns() - begun < 10 * SECOND_NS);
    for (int i = 0; i < DEAF; i++)
        close(fds[i]);
    browse_says(url, "/healthz", 200, "alive");
}

// This test must be the last one, because it moves the clock of this process.
static void closes_slow_connections(void **state)
{
    (void)state;
    const char *url = open_any();
    const int small = 4096;
    int half = browse_connect(url), deaf = browse_connect(url);
    setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    browse_send(half, "GET / HTTP/1.1\r\nHost: ");
    // By now the monitor has accepted both slow connections.
    browse_says(url, "/healthz", 200, "alive");
    kit_clock_skip(31 * SECOND_NS);
    struct browse b = browse_read(half);
    assert_int_equal(b.status, 0); // the monitor has closed the connection
    browse_free(&b);
    browse_says(url, "/healthz", 200, "alive");
    close(deaf);
}

#define TEST(f) cmocka_unit_test_teardown(f, close_it)

// The end of the work counts as seen when all pages and readers of metrics have got the facts
// about it.
static void waits_until_the_end_is_seen(void **state)
{
    (void)state;
    const char *url = open_any();
    assert_false(monitor_is_read(monitor));
    monitor_end(monitor, 0); // no page is open, so the end counts as seen
    assert_true(monitor_is_seen(monitor));
    monitor_close(monitor);

    url = open_any();
    browse_says(url, "/metrics", 200, "tug_run_state{");
    while (!monitor_is_read(monitor))
        sched_yield();
    unsigned before = atomic_load(&asked);
    monitor_end(monitor, 3600);
    assert_false(monitor_is_seen(monitor));
    browse_says(url, "/healthz", 200, "alive");
    assert_false(monitor_is_seen(monitor));
    // facts from before the end of the work do not count
    browse_says(url, "/metrics", 200, "tug_run_state{");
    while (!monitor_is_seen(monitor))
        sched_yield();
    assert_true(atomic_load(&asked) > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers),
        TEST(protects_readers),
        TEST(only_reads),
        TEST(knows_its_names),
        TEST(asks_once_a_second_at_most),
        TEST(tells_why_there_are_no_facts),
        TEST(serves_a_unix_socket),
        TEST(says_what_to_do_about_a_taken_port),
        TEST(refuses_addresses),
        TEST(refuses_options),
        TEST(asks_for_the_token),
        TEST(sends_events),
        TEST(survives_bad_requests),
        TEST(serves_beside_many_connections),
        TEST(serves_beside_deaf_readers),
        TEST(waits_until_the_end_is_seen),
        TEST(closes_slow_connections), // the last one: it moves the clock
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
