// Lists of WebHDFS from a server whose directories are endlessly deep, over real
// connections: the number of requests is bounded.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kit/test.h"
#include "web/web.h"

static const char endless[] = "{\"FileStatuses\":{\"FileStatus\":["
                              "{\"pathSuffix\":\"a\",\"type\":\"DIRECTORY\",\"length\":0,"
                              "\"modificationTime\":1},"
                              "{\"pathSuffix\":\"b\",\"type\":\"DIRECTORY\",\"length\":0,"
                              "\"modificationTime\":1}]}}";
static const char empty[] = "{\"FileStatuses\":{\"FileStatus\":[]}}";

struct server {
    int listener;
    unsigned port;
    pthread_t thread;
    unsigned levels; // number of levels below the top that contain directories
    atomic_uint asked;
};

static unsigned depth_of(const char *request)
{
    unsigned depth = 0;
    for (const char *p = request; *p != '\0' && *p != '?'; p++)
        depth += *p == '/';
    return depth; // number of slashes in the path: "/webhdfs/v1/top" has three
}

// Serves one connection that stays open: it reads "GET /... HTTP/1.1" and headers,
// answers, and waits for the next request.
static void serve(struct server *s, int fd)
{
    char request[4096], answer[1024];
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, request + have, sizeof request - 1 - have);
        if (n <= 0)
            break;
        have += (size_t)n;
        request[have] = '\0';
        if (strstr(request, "\r\n\r\n") == NULL)
            continue;
        const char *body = depth_of(request + 4) < 3 + s->levels ? endless : empty;
        int len = snprintf(answer, sizeof answer,
                           "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                           strlen(body), body);
        atomic_fetch_add(&s->asked, 1);
        if (write(fd, answer, (size_t)len) != len)
            break;
        have = 0;
    }
    close(fd);
}

static void *serve_all(void *arg)
{
    struct server *s = arg;
    for (int fd; (fd = accept(s->listener, NULL, NULL)) >= 0;)
        serve(s, fd);
    return NULL;
}

static void start(struct server *s, unsigned levels)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *s = (struct server){.levels = levels};
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->listener >= 0);
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &n), 0);
    assert_int_equal(listen(s->listener, 8), 0);
    s->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve_all, s), 0);
}

static void stop(struct server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}

static int found_one(void *arg, const struct web_file *f, struct err *e)
{
    (void)arg, (void)f, (void)e;
    fail_msg("there are no files");
    return 0;
}

static void assert_refused(unsigned levels, unsigned asked, const char *why)
{
    struct server s;
    struct err e = {0};
    char address[64];
    start(&s, levels);
    snprintf(address, sizeof address, "webhdfs://127.0.0.1:%u/top", s.port);
    int rc = web_list(address, &INTERRUPT_NEVER, found_one, NULL, &e);
    stop(&s);
    if (strstr(e.text, "need libcurl") != NULL)
        skip_because("built without libcurl: libcurl4-openssl-dev");
    assert_int_equal(rc, TUG_EDATA);
    if (strstr(e.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, why);
    assert_int_equal(atomic_load(&s.asked), asked);
}

static void test_directories(void **state)
{
    (void)state;
    web_directories_max = 31;
    assert_refused(4, 31, "there is no such file or directory, or nothing is in it");
    assert_refused(5, 31, "has more than 31 directories below it");
    web_directories_max = 100000;
    assert_refused(1000, 64, "has directories nested 64 deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_directories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
