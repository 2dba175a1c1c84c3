// Sending. Bytes that the socket takes at once are neither copied nor queued. Other
// messages wait in segments: small pieces are copied together, and bodies with a
// `release` are sent from their own memory.
//
// Small messages that a handler sends wait for the end of the round, so that a server
// answers twenty requests of one link with one system call.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "van/tcp_internal.h"

enum {
    BLOCK_BYTES = 16 << 10, // size of a block into which small pieces are copied
    TOGETHER_MAX = 4 << 10, // larger messages do not wait for the end of the round
    BUFS_MAX = 64,
    MESSAGE_BUFS = 1 + 2 * WIRE_SPANS_MAX,
    // Bytes that are encrypted first: few, so that the peer can begin to decrypt soon.
    CIPHER_FIRST = 32 << 10,
    // The most bytes that are encrypted at a time after the first ones; they fit into a
    // block of the pool.
    CIPHER_RUN = 480 << 10,
};

// ---------------------------------------------------------------- the queue

static struct tcp_segment *segment_new(struct tcp_link *l)
{
    struct tcp_van *v = l->van;
    struct tcp_segment *s = v->unused_segments;
    if (s != NULL)
        v->unused_segments = s->next;
    else if ((s = mem_alloc(sizeof(*s))) == NULL)
        return NULL;
    *s = (struct tcp_segment){.next = NULL};
    return s;
}

static void append(struct tcp_link *l, struct tcp_segment *s, uint64_t bytes)
{
    if (l->accepted) {
        s->counted = bytes;
        tcp_limits_queue(l, bytes);
    }
    if (l->last != NULL)
        l->last->next = s;
    else
        l->first = s;
    l->last = s;
}

static void segment_free(struct tcp_van *v, struct tcp_segment *s)
{
    struct van_release release = s->release;
    tcp_limits_sent(v, s->counted);
    frame_pool_give(&v->pool, s->block);
    s->next = v->unused_segments;
    v->unused_segments = s;
    if (release.release != NULL)
        release.release(release.ctx);
}

static size_t room_behind(const struct tcp_segment *s)
{
    if (s == NULL || s->block == NULL || s->offered)
        return 0;
    return frame_pool_size(s->block) - (size_t)(s->data + s->n - s->block);
}

static bool queue_copy(struct tcp_link *l, const char *data, size_t n)
{
    while (n > 0) {
        size_t some = room_behind(l->last);
        if (some == 0) {
            struct tcp_segment *s = segment_new(l);
            if (s == NULL)
                return false;
            s->block = frame_pool_take(&l->van->pool, n > BLOCK_BYTES ? n : BLOCK_BYTES);
            s->data = s->block;
            if (s->block == NULL) {
                segment_free(l->van, s);
                return false;
            }
            append(l, s, frame_pool_size(s->block));
            continue;
        }
        some = some < n ? some : n;
        memcpy((char *)l->last->data + l->last->n, data, some);
        l->last->n += some;
        l->queued += some;
        data += some;
        n -= some;
    }
    return true;
}

static bool queue_pointer(struct tcp_link *l, const char *data, size_t n)
{
    struct tcp_segment *s = segment_new(l);
    if (s == NULL)
        return false;
    s->data = data;
    s->n = n;
    l->queued += n;
    append(l, s, n);
    return true;
}

// Removes the segments after `last` from the queue, and cuts `last` to n bytes.
static void unqueue(struct tcp_link *l, struct tcp_segment *last, size_t n)
{
    struct tcp_segment *s = last != NULL ? last->next : l->first;
    for (struct tcp_segment *next; s != NULL; s = next) {
        next = s->next;
        l->queued -= s->n;
        segment_free(l->van, s);
    }
    l->last = last;
    if (last == NULL) {
        l->first = NULL;
        return;
    }
    last->next = NULL;
    l->queued -= last->n - n;
    last->n = n;
}

// Removes n sent bytes from the queue.
static void consume(struct tcp_link *l, size_t n)
{
    l->queued -= n;
    l->out.bytes += n;
    while (l->first != NULL && n >= l->first->n) {
        struct tcp_segment *s = l->first;
        n -= s->n;
        l->first = s->next;
        if (l->first == NULL)
            l->last = NULL;
        segment_free(l->van, s);
    }
    if (n > 0) {
        l->first->data += n;
        l->first->n -= n;
    }
}

static void free_cipher(struct tcp_link *l)
{
    if (l->cipher != NULL && l->accepted)
        tcp_limits_sent(l->van, frame_pool_size(l->cipher));
    frame_pool_give(&l->van->pool, l->cipher);
    l->cipher = NULL;
}

void tcp_out_drop(struct tcp_link *l)
{
    while (l->first != NULL) {
        struct tcp_segment *s = l->first;
        l->first = s->next;
        segment_free(l->van, s);
    }
    l->last = NULL;
    l->queued = 0;
    l->in_flight = 0;
    free_cipher(l);
}

// ---------------------------------------------------------------- the socket

static void lost(struct tcp_link *l, int status)
{
    struct err why;
    err_set(&why, TUG_EIO, "the link to %s broke while sending: %s", l->peer,
            uv_strerror(status));
    tcp_link_fail(l, &why);
}

// Called when libuv has sent all bytes that it was given.
static void flight_landed(struct tcp_link *l)
{
    size_t n = l->in_flight;
    l->in_flight = 0;
    if (l->cipher == NULL) {
        consume(l, n);
        return;
    }
    l->queued -= n;
    l->out.bytes += n;
    free_cipher(l);
}

static void written(uv_write_t *req, int status)
{
    struct tcp_stream *s = req->data;
    struct tcp_link *l = s->link;
    if (l == NULL)
        return;
    l->writing = false;
    l->van->events++;
    if (status != 0) {
        lost(l, status);
        return;
    }
    flight_landed(l);
    if (l->tls != NULL)
        tcp_out_session(l);
    tcp_out_flush(l);
}

// Passes bytes to libuv, which calls back when all of them were sent.
static void write_later(struct tcp_link *l, const uv_buf_t *bufs, unsigned n)
{
    struct tcp_stream *s = l->stream;
    s->write.data = s;
    l->van->unsettled = true;
    int rc = uv_write(&s->write, &s->stream, bufs, n, written);
    if (rc != 0)
        lost(l, rc);
    else
        l->writing = true;
}

// Offers bytes to the socket. Returns the number of bytes that the socket has taken; a
// negative number if the link is lost.
static ssize_t try_write(struct tcp_link *l, const uv_buf_t *bufs, unsigned n)
{
    int taken = uv_try_write(&l->stream->stream, bufs, n);
    if (taken == UV_EAGAIN)
        return 0;
    if (taken < 0)
        lost(l, taken);
    return taken;
}

// ---------------------------------------------------------------- TLS

// Sends the bytes that TLS has produced, at once or when the socket has room.
void tcp_out_session(struct tcp_link *l)
{
    size_t n;
    const char *out = tls_session_out(l->tls, &n);
    if (n == 0 || l->writing)
        return;
    uv_buf_t buf = {.base = (char *)out, .len = n};
    ssize_t taken = try_write(l, &buf, 1);
    if (taken < 0)
        return;
    if ((size_t)taken == n) {
        tls_session_sent(l->tls, n);
        return;
    }
    buf = (uv_buf_t){.base = (char *)out + taken, .len = n - (size_t)taken};
    l->cipher = tls_session_take(l->tls);
    if (l->accepted)
        tcp_limits_queue(l, frame_pool_size(l->cipher));
    l->in_flight = buf.len;
    l->queued += buf.len;
    write_later(l, &buf, 1);
}

struct cursor {
    const uv_buf_t *bufs;
    unsigned left;
    size_t gone; // bytes of the first piece that TLS has taken
};

// Returns the next bytes for TLS: up to `most` of one piece, or small pieces joined to
// one record.
static const char *next_run(struct tcp_link *l, struct cursor *c, size_t most,
                            size_t *ret_n)
{
    size_t have = c->bufs[0].len - c->gone;
    const char *data = c->bufs[0].base + c->gone;
    if (have >= TLS_RECORD_MAX || c->left == 1) {
        *ret_n = have < most ? have : most;
        c->gone += *ret_n;
    } else {
        data = l->van->scratch;
        for (*ret_n = 0; c->left > 0 && *ret_n < TLS_RECORD_MAX;) {
            have = c->bufs[0].len - c->gone;
            size_t room = TLS_RECORD_MAX - *ret_n, some = have < room ? have : room;
            memcpy(l->van->scratch + *ret_n, c->bufs[0].base + c->gone, some);
            *ret_n += some;
            c->gone += some;
            if (c->gone < c->bufs[0].len)
                break;
            *c = (struct cursor){c->bufs + 1, c->left - 1, 0};
        }
    }
    if (c->left > 0 && c->gone == c->bufs[0].len)
        *c = (struct cursor){c->bufs + 1, c->left - 1, 0};
    return data;
}

// Encrypts about `most` bytes. Returns the number of encrypted bytes; a negative number
// if the link is lost.
static ssize_t encrypt(struct tcp_link *l, struct cursor *c, size_t most)
{
    size_t done = 0;
    while (c->left > 0 && done < most) {
        struct err e;
        size_t run;
        const char *data = next_run(l, c, most - done, &run);
        if (tls_session_write(l->tls, data, run, &e) != 0) {
            tcp_link_fail(l, &e);
            return -1;
        }
        done += run;
    }
    return (ssize_t)done;
}

// Encrypts bytes as long as the socket takes the result. Returns how many of the given
// bytes were encrypted; a negative number if the link is lost.
static ssize_t push_session(struct tcp_link *l, const uv_buf_t *bufs, unsigned n)
{
    struct cursor c = {bufs, n, 0};
    size_t taken = 0, most = CIPHER_FIRST;
    while (c.left > 0 && !l->writing) {
        ssize_t some = encrypt(l, &c, most);
        if (some < 0)
            return -1;
        taken += (size_t)some;
        tcp_out_session(l);
        if (l->state > LINK_CLOSING)
            return -1;
        most = 2 * most < CIPHER_RUN ? 2 * most : CIPHER_RUN;
    }
    return (ssize_t)taken;
}

// Sends as much as the socket takes now.
static ssize_t push(struct tcp_link *l, const uv_buf_t *bufs, unsigned n)
{
    if (l->writing)
        return 0;
    return l->tls != NULL ? push_session(l, bufs, n) : try_write(l, bufs, n);
}

static unsigned fill_bufs(struct tcp_link *l, uv_buf_t bufs[BUFS_MAX], size_t *ret_bytes)
{
    unsigned n = 0;
    *ret_bytes = 0;
    for (struct tcp_segment *s = l->first; s != NULL && n < BUFS_MAX; s = s->next) {
        bufs[n++] = (uv_buf_t){.base = (char *)s->data, .len = s->n};
        *ret_bytes += s->n;
    }
    return n;
}

// Passes libuv the bytes that the socket did not take, up to BUFS_MAX segments.
static void wait_for_room(struct tcp_link *l)
{
    uv_buf_t bufs[BUFS_MAX];
    size_t bytes;
    unsigned n = fill_bufs(l, bufs, &bytes);
    struct tcp_segment *s = l->first;
    for (unsigned i = 0; i < n; i++, s = s->next)
        s->offered = true;
    l->in_flight = bytes;
    write_later(l, bufs, n);
}

void tcp_out_flush(struct tcp_link *l)
{
    while (l->first != NULL && !l->writing && l->state <= LINK_CLOSING) {
        uv_buf_t bufs[BUFS_MAX];
        size_t bytes;
        unsigned n = fill_bufs(l, bufs, &bytes);
        ssize_t taken = push(l, bufs, n);
        if (taken < 0)
            return;
        consume(l, (size_t)taken);
        if ((size_t)taken < bytes && !l->writing)
            wait_for_room(l);
    }
    if (l->state == LINK_CLOSING && l->first == NULL && !l->writing)
        tcp_link_drained(l);
}

// ---------------------------------------------------------------- messages

struct piece {
    const char *data;
    size_t n;
    // The bytes are not copied: the segment points at the sender's memory until the
    // release.
    bool pointed;
};

static unsigned pieces_of(const struct wire_out *o, bool stays,
                          struct piece ret[MESSAGE_BUFS])
{
    static const char zeros[8];
    unsigned n = 0;
    ret[n++] = (struct piece){o->head.data, o->head.len, false};
    for (uint32_t i = 0; i < o->n_spans; i++) {
        if (o->spans[i].n == 0)
            continue;
        ret[n++] = (struct piece){o->spans[i].data, (size_t)o->spans[i].n, stays};
        size_t padding = (size_t)wire_padding(o->spans[i].n);
        if (padding > 0)
            ret[n++] = (struct piece){zeros, padding, false};
    }
    return n;
}

// Queues the bytes after the first `skip` bytes. Sets *ret_last to the last segment that
// points at the sender's memory; NULL: no segment does. Returns false if memory is out.
static bool queue_pieces(struct tcp_link *l, const struct piece *p, unsigned n,
                         size_t skip, struct tcp_segment **ret_last)
{
    *ret_last = NULL;
    for (unsigned i = 0; i < n; i++) {
        size_t gone = skip < p[i].n ? skip : p[i].n;
        skip -= gone;
        if (gone == p[i].n)
            continue;
        const char *data = p[i].data + gone;
        size_t left = p[i].n - gone;
        bool pointed = p[i].pointed && left >= TOGETHER_MAX;
        if (!(pointed ? queue_pointer(l, data, left) : queue_copy(l, data, left)))
            return false;
        if (pointed)
            *ret_last = l->last;
    }
    return true;
}

static void mark_dirty(struct tcp_link *l)
{
    if (l->dirty)
        return;
    l->dirty = true;
    l->next_dirty = l->van->dirty;
    l->van->dirty = l;
}

// Sends as much of the pieces as the socket takes now.
static ssize_t push_pieces(struct tcp_link *l, const struct piece *p, unsigned n)
{
    uv_buf_t bufs[MESSAGE_BUFS];
    if (l->first != NULL)
        tcp_out_flush(l);
    if (l->state != LINK_OPEN && l->state != LINK_PROVING)
        return -1;
    if (l->first != NULL)
        return 0;
    for (unsigned i = 0; i < n; i++)
        bufs[i] = (uv_buf_t){.base = (char *)p[i].data, .len = p[i].n};
    return push(l, bufs, n);
}

static int send_pieces(struct tcp_link *l, const struct piece *p, unsigned n,
                       size_t bytes, struct van_release *release)
{
    bool later = bytes <= TOGETHER_MAX ? l->van->in_round
                                       : l->van->deferred && release->release != NULL;
    ssize_t taken = later ? 0 : push_pieces(l, p, n);
    if (taken < 0)
        return TUG_EIO;
    if ((size_t)taken == bytes)
        return 0;
    struct tcp_segment *last = l->last, *pointing;
    size_t last_n = last != NULL ? last->n : 0;
    if (!queue_pieces(l, p, n, (size_t)taken, &pointing)) {
        unqueue(l, last, last_n);
        if (taken > 0)
            lost(l, UV_ENOMEM); // a part of the message was sent, so the link is lost
        return TUG_ENOMEM;
    }
    if (pointing != NULL) {
        pointing->release = *release;
        *release = (struct van_release){.release = NULL};
    }
    if (later)
        mark_dirty(l);
    else
        tcp_out_flush(l);
    return 0;
}

static int send_message(struct tcp_link *l, uint16_t type, uint64_t request,
                        const void *msg, struct van_release *release)
{
    struct tcp_van *v = l->van;
    TRY(wire_encode(&v->out, type, request, msg, l->tls == NULL && !l->local));
    struct piece pieces[MESSAGE_BUFS];
    unsigned n = pieces_of(&v->out, release->release != NULL, pieces);
    return send_pieces(l, pieces, n, v->out.head.len + v->out.body_bytes, release);
}

int tcp_send(struct van *base, van_link link, uint16_t type, uint64_t request,
             const void *msg, const struct van_release *release)
{
    struct van_release mine = {.release = NULL};
    if (release != NULL)
        mine = *release;
    struct tcp_link *l = links_find(&((struct tcp_van *)base)->links, link);
    int rc = TUG_EIO;
    if (l != NULL && l->state == LINK_OPEN)
        rc = send_message(l, type, request, msg, &mine);
    if (mine.release != NULL)
        mine.release(mine.ctx); // no segment points at the body
    return rc;
}

void tcp_link_say(struct tcp_link *l, uint16_t type, const void *msg)
{
    struct van_release none = {.release = NULL};
    (void)send_message(l, type, 0, msg, &none);
}
