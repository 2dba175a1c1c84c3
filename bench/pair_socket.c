// A pair (bench/pair.h) of plain TCP sockets: the least that a byte over loopback costs.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "bench/pair.h"
#include "os/clock.h"

// The header before each message; a header without a message is a ping or an answer.
struct header {
    uint64_t bytes;
    char padding[56];
};

struct socket_pair {
    struct bench_pair base;
    struct bench_pair_options o;
    int here, there;
    char *source, *sink;
    pthread_t thread;
    bool started;
};

// Waits until the socket is readable: polls for a while before it sleeps, as a van does.
// Returns 0 when a read would return bytes, the end of the stream or an error.
static int wait_readable(int fd, const struct bench_pair_options *o)
{
    char byte;
    uint64_t until = clock_ns() + o->spin_ns;
    do {
        if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0 || errno != EAGAIN)
            return 0;
        sched_yield();
    } while (clock_ns() < until);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, (int)(o->timeout_ns / 1000000)) > 0 ? 0 : TUG_EIO;
}

static int get(int fd, const struct bench_pair_options *o, char *to, uint64_t n)
{
    while (n > 0) {
        ssize_t some = recv(fd, to, n, MSG_DONTWAIT);
        if (some < 0 && errno == EAGAIN) {
            TRY(wait_readable(fd, o));
            continue;
        }
        if (some <= 0)
            return TUG_EIO;
        to += some;
        n -= (uint64_t)some;
    }
    return 0;
}

static int put(int fd, char *data, uint64_t n)
{
    struct header h = {.bytes = n};
    struct iovec v[2] = {{&h, sizeof(h)}, {data, n}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = n > 0 ? 2 : 1};
    while (m.msg_iovlen > 0) {
        ssize_t some = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (some < 0)
            return TUG_EIO;
        while (m.msg_iovlen > 0 && (size_t)some >= m.msg_iov->iov_len) {
            some -= (ssize_t)m.msg_iov->iov_len;
            m.msg_iov++;
            m.msg_iovlen--;
        }
        if (m.msg_iovlen > 0) {
            m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + some;
            m.msg_iov->iov_len -= (size_t)some;
        }
    }
    return 0;
}

static void *serve(void *arg)
{
    struct socket_pair *p = arg;
    struct header h;
    while (get(p->there, &p->o, (char *)&h, sizeof(h)) == 0 &&
           h.bytes <= p->o.max_bytes && get(p->there, &p->o, p->sink, h.bytes) == 0 &&
           put(p->there, NULL, 0) == 0)
        ;
    return NULL;
}

static int send_message(struct bench_pair *base, uint64_t bytes, struct err *e)
{
    struct socket_pair *p = (struct socket_pair *)base;
    uint64_t body = bytes > sizeof(struct header) ? bytes : 0;
    return put(p->here, p->source, body) == 0 ? 0 : err_sys(e, TUG_EIO, "a plain socket");
}

static int await(struct bench_pair *base, struct err *e)
{
    struct socket_pair *p = (struct socket_pair *)base;
    struct header h;
    if (get(p->here, &p->o, (char *)&h, sizeof(h)) != 0)
        return err_set(e, TUG_EIO, "a plain socket: no answer from the other end");
    return 0;
}

static void close_pair(struct bench_pair *base)
{
    struct socket_pair *p = (struct socket_pair *)base;
    if (p->here >= 0)
        close(p->here);
    if (p->started)
        pthread_join(p->thread, NULL);
    if (p->there >= 0)
        close(p->there);
    mem_unmap(p->source, p->o.max_bytes);
    mem_unmap(p->sink, p->o.max_bytes);
    mem_free(p);
}

static void set_options(int fd)
{
    static const char cubic[] = "cubic";
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof(cubic) - 1);
}

static int connect_ends(struct socket_pair *p, int listener)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    p->here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || p->here < 0 || bind(listener, (struct sockaddr *)&a, n) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&a, &n) != 0 ||
        connect(p->here, (struct sockaddr *)&a, n) != 0)
        return TUG_EIO;
    p->there = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (p->there < 0)
        return TUG_EIO;
    set_options(p->here);
    set_options(p->there);
    return 0;
}

int bench_pair_socket(struct bench_pair **ret, const struct bench_pair_options *o,
                      struct err *e)
{
    struct socket_pair *p = mem_zalloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "a pair of sockets");
    *p = (struct socket_pair){
        .base = {close_pair, send_message, await}, .o = *o, .here = -1, .there = -1};
    p->source = mem_map(o->max_bytes);
    p->sink = mem_map(o->max_bytes);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int rc = p->source == NULL || p->sink == NULL ? err_nomem(e, "a pair of sockets") : 0;
    if (rc == 0 && connect_ends(p, listener) != 0)
        rc = err_sys(e, TUG_EIO, "cannot connect two sockets over loopback");
    if (listener >= 0)
        close(listener);
    if (rc == 0) {
        memset(p->source, 1, o->max_bytes);
        memset(p->sink, 1, o->max_bytes);
        p->started = pthread_create(&p->thread, NULL, serve, p) == 0;
        if (!p->started)
            rc = err_set(e, TUG_EIO, "cannot start a thread");
    }
    if (rc != 0)
        close_pair(&p->base);
    else
        *ret = &p->base;
    return rc;
}
