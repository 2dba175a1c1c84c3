// A link, from its connected socket to the call of `closed`.
//
// SPDX-License-Identifier: Apache-2.0
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "van/tcp_internal.h"

enum {
    STRANGER_BYTES = 16 << 10, // the longest first message of an accepted peer
    // Nanoseconds that a closed link may take to send queued bytes.
    LINGER_NS = 1000000000,
    KEEPALIVE_S = 30,
    // A link breaks if the peer's system has not acknowledged sent bytes for this long;
    // by default the kernel tries for a quarter of an hour. A stopped process keeps its
    // links for longer, because its system acknowledges bytes until its buffers are full.
    UNANSWERED_MS = 30000,
    UNIX_SEND_BYTES = 2 << 20, // size of a Unix socket's send buffer
    ALERT = 0x15,              // the first byte of a TLS alert
    TLS_MAJOR = 3,
};

void tcp_link_due_at(struct tcp_link *l, uint64_t when)
{
    l->due = when;
    if (when < l->van->next_due)
        l->van->next_due = when;
}

// ---------------------------------------------------------------- sockets

static void stream_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

struct tcp_stream *tcp_stream_new(struct tcp_van *v, bool is_unix)
{
    struct tcp_stream *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    int rc = is_unix ? uv_pipe_init(&v->loop, &s->pipe, 0)
                     : uv_tcp_init(&v->loop, &s->tcp);
    if (rc != 0) {
        mem_free(s);
        return NULL;
    }
    s->handle.data = s;
    return s;
}

void tcp_stream_close(struct tcp_stream *s)
{
    if (s == NULL)
        return;
    s->link = NULL;
    if (!uv_is_closing(&s->handle))
        uv_close(&s->handle, stream_closed);
}

// ---------------------------------------------------------------- messages in

static void *tcp_link_place(void *ctx, uint16_t type, uint64_t request,
                            const union wire_any *head, uint64_t body_bytes)
{
    struct tcp_link *l = ctx;
    const struct van_handler *h = &l->van->handler;
    if (l->state != LINK_OPEN || h->place == NULL)
        return NULL;
    return h->place(h->ctx, l->number, type, request, head, body_bytes);
}

static bool message(void *ctx, struct van_message *m)
{
    struct tcp_link *l = ctx;
    struct tcp_van *v = l->van;
    if (l->state == LINK_PROVING) {
        tcp_prove_message(l, m);
        return l->state == LINK_PROVING || l->state == LINK_OPEN;
    }
    if (l->state != LINK_OPEN)
        return false;
    if (!l->known) {
        l->known = true;
        l->reader.max_bytes = UINT64_MAX;
        tcp_limits_known(l);
    }
    v->reading = &l->reader;
    v->handler.message(v->handler.ctx, l->number, m, v->now);
    v->reading = NULL;
    return l->state == LINK_OPEN;
}

// Called for a request for which there is no room: answers it at once, while
// its bytes still arrive.
static void no_room(void *ctx, uint16_t type, uint64_t request, const struct err *why)
{
    struct tcp_link *l = ctx;
    struct msg_error m = wire_error(why);
    (void)type;
    if (request != 0 && l->state == LINK_OPEN)
        (void)tcp_send(&l->van->base, l->number, MSG_ERROR, request, &m, NULL);
}

void tcp_link_begin_frames(struct tcp_link *l, uint64_t max_bytes)
{
    frame_close(&l->reader);
    frame_open(&l->reader, &l->van->pool,
               &(struct frame_calls){l, tcp_link_place, message, no_room}, max_bytes,
               l->accepted);
}

void tcp_link_open(struct tcp_link *l)
{
    struct tcp_van *v = l->van;
    tcp_dial_free(l);
    l->reader.max_bytes = l->accepted ? STRANGER_BYTES : UINT64_MAX;
    tcp_link_becomes(l, LINK_OPEN);
    l->opened = true;
    if (v->options.prover != NULL)
        // The handshake has proven the peer's role, so the peer is not a stranger any
        // more.
        tcp_limits_known(l);
    if (!l->accepted)
        l->due = VAN_NEVER;
    v->now = clock_ns();
    if (v->handler.opened != NULL)
        v->handler.opened(v->handler.ctx, l->number, l->accepted, v->now);
}

static void unreadable(struct tcp_link *l, struct err *e)
{
    err_wrap(e, "%s", l->peer);
    tcp_link_fail(l, e);
}

static bool speaks_tls(const struct tcp_link *l)
{
    const struct buf *head = &l->reader.head;
    return l->tls == NULL && head->len >= 2 && head->data[0] == ALERT &&
           head->data[1] == TLS_MAJOR;
}

static void lost_proving(struct tcp_link *l)
{
    struct err e;
    bool tls = speaks_tls(l);
    if (tls)
        err_set(&e, TUG_EDATA, "%s speaks TLS: give this node certificates, too",
                l->peer);
    else
        err_set(&e, TUG_EIO, "the peer closed the link in the middle of the handshake");
    tcp_dial_failed(l, &e, tls);
}

static void lost(struct tcp_link *l, int status)
{
    struct err e;
    if (l->dial != NULL && l->state == LINK_PROVING) {
        lost_proving(l);
        return;
    }
    if (l->dial != NULL) {
        err_set(&e, TUG_EIO,
                "the peer closed the link during the TLS handshake: was it "
                "given certificates?");
        tcp_dial_failed(l, &e, false);
        return;
    }
    if (status != UV_EOF)
        err_set(&e, TUG_EIO, "the link to %s broke: %s", l->peer, uv_strerror(status));
    else if (speaks_tls(l))
        err_set(&e, TUG_EDATA, "%s speaks TLS: give this node certificates, too",
                l->peer);
    else if (!frame_at_end(&l->reader))
        err_set(&e, TUG_EIO, "%s closed the link in the middle of a message", l->peer);
    else if (l->tls != NULL && !l->heard_end)
        err_set(&e, TUG_EIO, "the link to %s was cut", l->peer);
    else
        err_set(&e, 0, "%s closed the link", l->peer);
    tcp_link_fail(l, &e);
}

static void came(struct tcp_link *l, const uv_buf_t *buf, size_t n)
{
    struct err e;
    int rc = buf->base == l->van->input ? frame_read(&l->reader, buf->base, n, &e)
                                        : frame_came(&l->reader, n, &e);
    if (rc < 0)
        unreadable(l, &e);
    else if (rc == 0)
        tcp_limits_came(l, n);
}

static bool is_talking(const struct tcp_link *l)
{
    return l->state == LINK_OPEN || l->state == LINK_PROVING;
}

// Decrypts the received bytes, and puts large bodies directly into their final memory.
// Returns TLS_MORE when all bytes were read, or when the handler takes no more messages.
static int read_session(struct tcp_link *l, struct err *e)
{
    char *plain = l->van->plain;
    while (is_talking(l)) {
        size_t left, n;
        char *body = frame_direct(&l->reader, &left);
        bool direct = left >= TLS_RECORD_MAX;
        TRY(tls_session_read(l->tls, direct ? body : plain,
                             direct ? left : (size_t)TLS_RECORD_MAX, &n, e));
        int rc = direct ? frame_came(&l->reader, n, e)
                        : frame_read(&l->reader, plain, n, e);
        if (rc != 0)
            return rc == FRAME_STOPPED ? TLS_MORE : rc;
    }
    return TLS_MORE;
}

static void shake(struct tcp_link *l)
{
    struct err e;
    int rc = tls_session_shake(l->tls, &e);
    tcp_out_session(l);
    if (l->state != LINK_SHAKING || rc == TLS_MORE)
        return;
    if (rc == 0)
        tcp_prove_begin(l);
    else if (l->dial != NULL)
        tcp_dial_failed(l, &e, true);
    else
        tcp_link_fail(l, &e);
}

static void session_came(struct tcp_link *l, size_t n)
{
    struct err e;
    tls_session_feed(l->tls, l->van->input, n);
    if (l->state == LINK_SHAKING)
        shake(l);
    if (!is_talking(l))
        return;
    int rc = read_session(l, &e);
    if (!is_talking(l))
        return;
    tcp_out_session(l);
    if (rc == TLS_CLOSED) {
        l->heard_end = true;
        lost(l, UV_EOF);
    } else if (rc < 0) {
        unreadable(l, &e);
    } else {
        tcp_limits_came(l, n);
    }
}

static void alloc_input(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct tcp_link *l = ((struct tcp_stream *)handle->data)->link;
    size_t left = 0;
    char *direct = NULL;
    if (l != NULL && l->state == LINK_OPEN && l->tls == NULL)
        direct = frame_direct(&l->reader, &left);
    // So little is left that one read may also take later messages.
    bool small = left < TCP_DIRECT_FROM;
    size_t input = l != NULL && l->tls == NULL ? TCP_PLAIN_INPUT : TCP_INPUT_BYTES;
    buf->base = small ? l->van->input : direct;
    buf->len = small ? input : left;
}

static void read_came(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct tcp_link *l = ((struct tcp_stream *)stream->data)->link;
    if (l == NULL || n == 0)
        return;
    struct tcp_van *v = l->van;
    v->events++;
    v->now = l->last_byte = clock_ns();
    if (l->state == LINK_CLOSING) {
        if (n < 0)
            tcp_link_end(l, LINK_DEAD);
    } else if (n < 0) {
        lost(l, (int)n);
    } else if (l->tls != NULL) {
        session_came(l, (size_t)n);
    } else {
        came(l, buf, (size_t)n);
    }
}

// ---------------------------------------------------------------- opening

// Sets the options of a TCP socket. Within a machine it selects the congestion control
// cubic, because the kernel's default may be one for long distances (bbr), which reaches
// a third of cubic's rate there.
static void set_options(struct tcp_link *l)
{
    static const char cubic[] = "cubic";
    uv_tcp_nodelay(&l->stream->tcp, 1);
    uv_tcp_keepalive(&l->stream->tcp, 1, KEEPALIVE_S);
    uv_os_fd_t fd;
    const unsigned unanswered = UNANSWERED_MS;
    if (uv_fileno(&l->stream->handle, &fd) != 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof(unanswered));
    if (l->local)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cubic, sizeof(cubic) - 1);
}

static bool is_unix(const struct tcp_link *l)
{
    return l->stream->handle.type == UV_NAMED_PIPE;
}

// A TCP socket's buffer grows by itself, a Unix socket's does not: with its initial 208
// KiB a large message wakes both processes many times. The system doubles the requested
// size, up to net.core.wmem_max.
static void set_unix_options(struct tcp_link *l)
{
    int bytes = UNIX_SEND_BYTES;
    uv_send_buffer_size(&l->stream->handle, &bytes);
}

// Asks the system for the user of the process at the other end of a Unix socket.
static int look_at_user(struct tcp_link *l, struct err *e)
{
    uv_os_fd_t fd;
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t n = sizeof(peer);
    l->local = true;
    if (uv_fileno(&l->stream->handle, &fd) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0)
        peer.uid = (uid_t)-1;
    if (peer.uid == geteuid())
        l->kind = VAN_OWNER;
    else if (!l->van->options.insecure && l->van->options.tls == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "the process at the other end belongs to another user (uid %d, while this "
            "one belongs to %d): a Unix socket is for the processes of one user",
            (int)peer.uid, (int)geteuid());
    return 0;
}

// Sets the link's kind and peer from the addresses of its ends, and whether both ends are
// on this machine. Returns false if the socket is connected to itself, which happens when
// a process keeps dialling a local port without a listener.
static bool look_at_ends(struct tcp_link *l)
{
    struct sockaddr_storage here, there;
    int n = sizeof(here);
    if (uv_tcp_getsockname(&l->stream->tcp, (struct sockaddr *)&here, &n) != 0)
        return true;
    n = sizeof(there);
    if (uv_tcp_getpeername(&l->stream->tcp, (struct sockaddr *)&there, &n) != 0)
        return true;
    if (tcp_address_is_loopback(&there))
        l->kind = VAN_LOOPBACK;
    l->local = tcp_address_is_loopback(&there) || tcp_address_same_host(&here, &there);
    if (l->accepted)
        tcp_address_of(l->peer, &there);
    return l->accepted || !tcp_address_same_host(&here, &there) ||
           tcp_address_port(&here) != tcp_address_port(&there);
}

static void begin_session(struct tcp_link *l)
{
    struct err e;
    struct tcp_van *v = l->van;
    tcp_link_becomes(l, LINK_SHAKING);
    if (tls_session_open(&l->tls, v->options.tls, l->accepted, &v->pool, &e) != 0)
        tcp_link_fail(l, &e);
    else if (!l->accepted)
        shake(l);
}

void tcp_link_connected(struct tcp_link *l)
{
    struct err e;
    l->van->events++;
    if (is_unix(l) && look_at_user(l, &e) != 0) {
        if (l->dial != NULL)
            tcp_dial_failed(l, &e, true);
        else
            tcp_link_fail(l, &e);
        return;
    }
    if (!is_unix(l) && !look_at_ends(l)) {
        err_set(&e, TUG_EIO, "connection refused: no process listens there");
        tcp_dial_failed(l, &e, false);
        return;
    }
    if (is_unix(l))
        set_unix_options(l);
    else
        set_options(l);
    if (l->van->options.tls != NULL)
        l->kind = VAN_TLS;
    int rc = uv_read_start(&l->stream->stream, alloc_input, read_came);
    if (rc != 0)
        lost(l, rc);
    else if (l->van->options.tls != NULL)
        begin_session(l);
    else
        tcp_prove_begin(l);
}

struct tcp_link *tcp_link_new(struct tcp_van *v, bool accepted)
{
    struct tcp_link *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return NULL;
    l->number = links_add(&v->links, l);
    if (l->number == 0) {
        mem_free(l);
        return NULL;
    }
    l->van = v;
    l->accepted = accepted;
    l->state = accepted ? LINK_CONNECTING : LINK_WAITING;
    l->known = !accepted;
    l->due = VAN_NEVER;
    v->n_accepted += accepted;
    l->trust.role = WIRE_OPERATOR; // stays if the van has no handshake
    tcp_link_begin_frames(l, accepted ? STRANGER_BYTES : UINT64_MAX);
    return l;
}

// ---------------------------------------------------------------- closing

void tcp_link_disconnect(struct tcp_link *l)
{
    tcp_stream_close(l->stream);
    l->stream = NULL;
    l->writing = false;
    tcp_out_drop(l);
}

void tcp_link_end(struct tcp_link *l, enum tcp_state state)
{
    struct tcp_van *v = l->van;
    tcp_link_becomes(l, state);
    v->events++;
    if (l->ended)
        return;
    l->ended = true;
    l->next_ended = v->ended;
    v->ended = l;
    l->due = VAN_NEVER;
    tcp_limits_gone(l);
    tcp_dial_free(l);
    tcp_link_disconnect(l);
}

void tcp_link_fail(struct tcp_link *l, const struct err *why)
{
    if (l->state == LINK_CLOSING) {
        tcp_link_end(l, LINK_DEAD);
    } else if (l->state < LINK_CLOSING) {
        l->why = *why;
        tcp_link_end(l, LINK_FAILED);
    }
}

static void shut(uv_shutdown_t *req, int status)
{
    struct tcp_stream *s = req->data;
    if (status != 0 && s->link != NULL)
        tcp_link_end(s->link, LINK_DEAD);
}

// Sends TLS's end of the stream, by which the peer can distinguish the end from a broken
// link.
void tcp_link_say_end(struct tcp_link *l)
{
    if (l->tls == NULL || l->said_end)
        return;
    l->said_end = true;
    tls_session_end(l->tls);
    tcp_out_session(l);
}

// Shuts down our end and waits for the peer's: if unread bytes are left, closing at once
// would make the kernel discard bytes that are being sent.
void tcp_link_drained(struct tcp_link *l)
{
    struct tcp_stream *s = l->stream;
    tcp_link_say_end(l);
    if (l->state != LINK_CLOSING || l->writing || s->shutdown.data != NULL)
        return;
    s->shutdown.data = s;
    if (uv_shutdown(&s->shutdown, &s->stream, shut) != 0)
        tcp_link_end(l, LINK_DEAD);
}

void tcp_close_link(struct van *base, van_link number)
{
    struct tcp_van *v = (struct tcp_van *)base;
    struct tcp_link *l = links_find(&v->links, number);
    if (l == NULL || l->state == LINK_CLOSING || l->state == LINK_DEAD)
        return;
    v->unsettled = true;
    if (!is_talking(l) || l->dial != NULL) {
        tcp_link_end(l, LINK_DEAD);
        return;
    }
    tcp_link_becomes(l, LINK_CLOSING);
    tcp_link_due_at(l, clock_ns() + LINGER_NS);
    tcp_out_flush(l);
}

// ---------------------------------------------------------------- time

void tcp_link_due(struct tcp_link *l)
{
    if (l->dial != NULL)
        tcp_dial_due(l);
    else if (l->state == LINK_CLOSING)
        tcp_link_end(l, LINK_DEAD);
    else
        tcp_limits_due(l);
}

void tcp_link_free(struct tcp_link *l)
{
    struct tcp_van *v = l->van;
    tcp_limits_gone(l);
    tcp_dial_free(l);
    tcp_link_disconnect(l);
    tls_session_close(l->tls);
    tcp_prove_free(l);
    frame_close(&l->reader);
    v->n_accepted -= l->accepted;
    links_remove(&v->links, l->number);
    mem_free(l);
}
