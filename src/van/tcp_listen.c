// Listening: makes a socket for an address, finds the address by which peers reach the
// socket, and accepts links.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/disk.h"
#include "os/route.h"
#include "os/runtime_dir.h"
#include "van/tcp_internal.h"

enum { BACKLOG = 4096, ACCEPT_PAUSE_NS = 10000000 };

// ---------------------------------------------------------------- accepting

static void tcp_listen_refuse(struct tcp_listener *listener, struct tcp_link *l)
{
    struct tcp_van *v = listener->van;
    struct err e;
    if (v->options.tls == NULL) {
        tcp_limits_say_full(v, &e);
        struct msg_error m = wire_error(&e);
        tcp_link_becomes(l, LINK_OPEN);
        tcp_send(&v->base, l->number, MSG_ERROR, 0, &m, NULL);
    }
    tcp_close_link(&v->base, l->number);
}

// Sets the time of the next attempt to accept a peer for which there was no memory. Until
// that peer is accepted, libuv announces no other peer.
static void accept_later(struct tcp_listener *listener)
{
    struct tcp_van *v = listener->van;
    listener->waiting = true;
    v->accept_due = clock_ns() + ACCEPT_PAUSE_NS;
}

static void accept_one(uv_stream_t *server, int status)
{
    struct tcp_listener *listener = server->data;
    struct tcp_van *v = listener->van;
    if (status != 0)
        return; // no descriptor was left, so libuv has closed the connection
    struct tcp_stream *s = tcp_stream_new(v, server->type == UV_NAMED_PIPE);
    if (s == NULL) {
        accept_later(listener);
        return;
    }
    if (uv_accept(server, &s->stream) != 0) {
        tcp_stream_close(s);
        return;
    }
    enum tcp_room room = tcp_limits_room(v, s);
    struct tcp_link *l = room != TCP_NO_WORD ? tcp_link_new(v, true) : NULL;
    if (l == NULL) {
        tcp_stream_close(s);
        return;
    }
    s->link = l;
    l->stream = s;
    l->last_byte = v->now = clock_ns();
    snprintf(l->peer, sizeof(l->peer), "%s", listener->address);
    if (room == TCP_FULL) {
        tcp_listen_refuse(listener, l);
        return;
    }
    l->hello_by = v->now + v->options.hello_timeout_ns;
    tcp_limits_stranger(l, room == TCP_TRIAL);
    tcp_link_due_at(l, l->hello_by);
    tcp_link_connected(l);
}

void tcp_accept_due(struct tcp_van *v)
{
    if (v->now < v->accept_due)
        return;
    v->accept_due = VAN_NEVER;
    for (struct tcp_listener *l = v->listeners; l != NULL; l = l->next) {
        if (l->waiting) {
            l->waiting = false;
            accept_one(&l->stream, 0);
        }
    }
}

// ---------------------------------------------------------------- listening

static void listener_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

static void listener_close(struct tcp_listener *listener)
{
    uv_close(&listener->handle, listener_closed);
}

void tcp_listeners_close(struct tcp_van *v)
{
    for (struct tcp_listener *l = v->listeners, *next; l != NULL; l = next) {
        next = l->next;
        listener_close(l);
    }
    v->listeners = NULL;
}

static int tcp_listen_refused(const char *address, int status, struct err *e)
{
    const char *hint = "";
    if (status == UV_EADDRINUSE)
        hint = ": another process has it; choose another port, or 0 for any";
    else if (status == UV_EACCES)
        hint = ": choose a port above 1023, or a place where you may write";
    else if (status == UV_EADDRNOTAVAIL)
        hint = ": this machine does not have that address; 0.0.0.0 stands for all of its "
               "addresses";
    err_set(e, TUG_EIO, "cannot listen on %s: %s%s", address, uv_strerror(status), hint);
    err_limit(e, status);
    return TUG_EIO;
}

static int tcp_listen_resolve(struct tcp_van *v, const struct tcp_address *a,
                              const char *address, struct sockaddr_storage *ret,
                              struct err *e)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    uv_getaddrinfo_t req;
    if (tcp_address_number(a, ret))
        return 0;
    int rc = uv_getaddrinfo(&v->loop, &req, NULL, a->host, NULL, &hints);
    if (rc != 0)
        return err_set(e, TUG_EIO, "cannot listen on %s: the name %s is not known: %s",
                       address, a->host, uv_strerror(rc));
    memcpy(ret, req.addrinfo->ai_addr, req.addrinfo->ai_addrlen);
    tcp_address_set_port(ret, a->port);
    uv_freeaddrinfo(req.addrinfo);
    return 0;
}

// Gets the address at which other machines reach this machine; the loopback address if it
// has no other.
static void own_address(char *ret, size_t n, int family)
{
    char own[ROUTE_ADDRESS_MAX];
    bool six = family == AF_INET6;
    if (!route_own(six, own))
        snprintf(own, sizeof(own), "%s", six ? "::1" : "127.0.0.1");
    snprintf(ret, n, "%.*s", (int)n - 1, own);
}

static int publish(struct tcp_listener *l, const struct tcp_address *a,
                   const struct sockaddr_storage *s)
{
    struct sockaddr_storage bound = {0};
    char host[INET6_ADDRSTRLEN];
    int n = sizeof(bound);
    int rc = uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&bound, &n);
    if (rc != 0)
        return rc;
    if (tcp_address_is_any(s))
        own_address(host, sizeof(host), s->ss_family);
    tcp_address_write(l->address, tcp_address_is_any(s) ? host : a->host,
                      tcp_address_port(&bound));
    return 0;
}

static int listen_tcp(struct tcp_listener *l, const struct tcp_address *a,
                      const char *address, struct err *e)
{
    struct sockaddr_storage s;
    TRY(tcp_listen_resolve(l->van, a, address, &s, e));
    TRY(tcp_plain_allowed(l->van, &s, address, e));
    int rc = uv_tcp_bind(&l->tcp, (const struct sockaddr *)&s, 0);
    if (rc == 0)
        rc = uv_listen(&l->stream, BACKLOG, accept_one);
    if (rc == 0)
        rc = publish(l, a, &s);
    return rc == 0 ? 0 : tcp_listen_refused(address, rc, e);
}

static int listen_unix(struct tcp_listener *l, const struct tcp_address *a,
                       const char *address, struct err *e)
{
    // Removes the socket's file that a killed process has left.
    if (runtime_socket_is_dead(a->host))
        (void)disk_remove(a->host);
    int rc = uv_pipe_bind(&l->pipe, a->host);
    if (rc == 0 && chmod(a->host, S_IRUSR | S_IWUSR) != 0) // keeps other users out
        rc = uv_translate_sys_error(errno);
    if (rc == 0)
        rc = uv_listen(&l->stream, BACKLOG, accept_one);
    if (rc == UV_EADDRINUSE)
        return err_set(e, TUG_EIO,
                       "cannot listen on %s: another process listens there, or the path "
                       "is another file; choose another path",
                       address);
    if (rc == UV_EACCES || rc == UV_ENOTDIR) // libuv changes ENOENT to EACCES
        return err_set(e, TUG_EIO,
                       "cannot listen on %s: its directory does not exist, or you may "
                       "not write there",
                       address);
    if (rc != 0)
        return tcp_listen_refused(address, rc, e);
    snprintf(l->address, sizeof(l->address), "%s", address);
    return 0;
}

int tcp_listen(struct van *base, const char *address, char ret[VAN_ADDRESS_MAX],
               struct err *e)
{
    struct tcp_van *v = (struct tcp_van *)base;
    struct tcp_address a;
    TRY(tcp_address_read(&a, address, e));
    struct tcp_listener *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return err_nomem(e, "a listening socket");
    int rc = a.is_unix ? uv_pipe_init(&v->loop, &l->pipe, 0)
                       : uv_tcp_init(&v->loop, &l->tcp);
    if (rc != 0) {
        mem_free(l);
        return tcp_listen_refused(address, rc, e);
    }
    l->handle.data = l;
    l->van = v;
    rc = a.is_unix ? listen_unix(l, &a, address, e) : listen_tcp(l, &a, address, e);
    if (rc != 0) {
        listener_close(l);
        return rc;
    }
    l->next = v->listeners;
    v->listeners = l;
    memcpy(ret, l->address, VAN_ADDRESS_MAX);
    return 0;
}
