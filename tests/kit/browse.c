// HTTP for tests; see browse.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/browse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "kit/test.h"

enum { PATIENCE_SECONDS = 60, ANSWER_MAX = 64 << 20 };

static int connect_to(int family, const struct sockaddr *a, socklen_t n)
{
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, a, n) != 0)
        fail_msg("cannot connect: %s", strerror(errno));
    return fd;
}

int browse_connect(const char *url)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char host[64];
    unsigned port = 0;
    if (sscanf(url, "unix:%107s", un.sun_path) == 1)
        return connect_to(AF_UNIX, (const struct sockaddr *)&un, sizeof(un));
    if (sscanf(url, "http://%63[^:]:%u/", host, &port) != 2)
        fail_msg("not a URL for tests: %s", url);
    in.sin_port = htons((uint16_t)port);
    assert_int_equal(inet_pton(AF_INET, host, &in.sin_addr), 1);
    return connect_to(AF_INET, (const struct sockaddr *)&in, sizeof(in));
}

void browse_send(int fd, const char *text)
{
    // Ignores errors: if the server has closed the connection, browse_read notices that.
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

struct browse browse_read(int fd)
{
    struct buf b = BUF_INIT(ANSWER_MAX);
    struct browse ret = {0};
    char part[4096];
    ssize_t n;
    while ((n = recv(fd, part, sizeof(part), 0)) > 0)
        assert_int_equal(buf_add(&b, part, (size_t)n), 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        fail_msg("no answer within %d s", PATIENCE_SECONDS);
    close(fd);
    const char *all = buf_str(&b), *end = strstr(all, "\r\n\r\n");
    if (end != NULL) {
        ret.n_body = b.len - (size_t)(end + 4 - all);
        ret.head = mem_strdup(all);
        ret.body = mem_alloc(ret.n_body + 1);
        assert_true(ret.head != NULL && ret.body != NULL);
        ret.head[end + 2 - all] = '\0';
        memcpy(ret.body, end + 4, ret.n_body);
        ret.body[ret.n_body] = '\0';
        assert_int_equal(sscanf(all, "HTTP/1.1 %d", &ret.status), 1);
    }
    buf_free(&b);
    return ret;
}

struct browse browse_ask(const char *url, const char *method, const char *path,
                         const char *headers)
{
    char line[32 << 10];
    int fd = browse_connect(url);
    snprintf(line, sizeof(line),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: "
             "close\r\n%s\r\n",
             method, path, headers);
    browse_send(fd, line);
    return browse_read(fd);
}

struct browse browse_get(const char *url, const char *path)
{
    return browse_ask(url, "GET", path, "");
}

void browse_free(struct browse *b)
{
    mem_free(b->head);
    mem_free(b->body);
    *b = (struct browse){0};
}

void browse_says(const char *url, const char *path, int status, const char *text)
{
    struct browse b = browse_get(url, path);
    if (b.status != status || strstr(b.body, text) == NULL)
        fail_msg("%s: %d, not %d with '%s': %s", path, b.status, status, text,
                 b.body != NULL ? b.body : "");
    browse_free(&b);
}
