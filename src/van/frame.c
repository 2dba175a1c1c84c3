// The reader is in one of four states. It collects a header and head; it collects a body;
// it discards the remaining bytes of a refused message; or, most often, it does none of
// these, and decodes a message that is complete in the passed bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/frame.h"

#include <string.h>

enum { HEAD_KEPT = 64 << 10 }; // a head's memory is kept for reuse up to this many bytes

static const uint64_t no_body; // spans of length 0 point here if the message has no body

void frame_open(struct frame_reader *r, struct frame_pool *pool,
                const struct frame_calls *calls, uint64_t max_bytes, bool counts)
{
    *r = (struct frame_reader){
        .pool = pool,
        .calls = *calls,
        .budget = counts ? pool->budget : NULL,
        .max_bytes = max_bytes,
        .head = BUF_INIT(WIRE_FRAME_BYTES + WIRE_HEAD_MAX),
    };
}

static void give_body(struct frame_reader *r)
{
    budget_give(r->budget, BUDGET_BODIES, r->counted);
    r->counted = 0;
    if (!r->placed && !r->kept)
        frame_pool_give(r->pool, r->body);
    r->body = NULL;
    r->placed = r->kept = false;
}

void frame_close(struct frame_reader *r)
{
    if (r->pool != NULL)
        give_body(r);
    buf_free(&r->head);
}

static int read_header(struct frame_reader *r, const void *header, struct err *e)
{
    TRY(wire_frame_read(header, &r->frame, e));
    uint64_t all = WIRE_FRAME_BYTES + r->frame.head_bytes + r->frame.body_bytes;
    if (all > r->max_bytes)
        return err_set(e, TUG_EDATA,
                       "the first message (%s) announces %llu bytes, but at most %llu "
                       "are allowed before the handshake is over",
                       wire_name(r->frame.type), (unsigned long long)all,
                       (unsigned long long)r->max_bytes);
    return 0;
}

// Counts n more bytes of a message that arrives in parts. Returns false if the budget has
// no room for them.
static bool frame_count(struct frame_reader *r, uint64_t n)
{
    if (r->budget == NULL)
        return true;
    if (!budget_take(r->budget, BUDGET_BODIES, n))
        return false;
    r->counted += n;
    return true;
}

// Discards a message: first the part that has arrived, then the missing bytes as they
// arrive.
static void frame_refuse(struct frame_reader *r, uint64_t left)
{
    const struct wire_frame *f = &r->frame;
    unsigned long long bytes = f->body_bytes;
    struct err why;
    if (budget_most(r->budget, BUDGET_BODIES) < f->body_bytes)
        err_set(&why, TUG_EUSAGE,
                "a message (%s) of %llu bytes is more than the %llu that this process "
                "accepts at once: send less at a time, or start it with more --memory",
                wire_name(f->type), bytes,
                (unsigned long long)budget_most(r->budget, BUDGET_BODIES));
    else
        err_because(&why, TUG_EIO, REASON_NO_ROOM, 0,
                    "no room now for a message (%s) of %llu bytes: other messages fill "
                    "the buffers (--memory)",
                    wire_name(f->type), bytes);
    give_body(r);
    buf_free(&r->head);
    r->skip = left;
    if (r->calls.refused != NULL)
        r->calls.refused(r->calls.ctx, f->type, f->request, &why);
}

static int begin_body(struct frame_reader *r, bool whole, struct err *e)
{
    const struct wire_frame *f = &r->frame;
    r->body_have = 0;
    if (r->calls.place != NULL)
        r->body = r->calls.place(r->calls.ctx, f->type, f->request, &r->m, f->body_bytes);
    r->placed = r->body != NULL;
    if (!r->placed && !whole && budget_most(r->budget, BUDGET_BODIES) < f->body_bytes) {
        frame_refuse(r, f->body_bytes);
        return 0;
    }
    if (!r->placed)
        r->body = frame_pool_take(r->pool, f->body_bytes);
    if (r->body == NULL)
        return err_set(e, TUG_ENOMEM, "out of memory for a message (%s) of %llu bytes",
                       wire_name(f->type), (unsigned long long)f->body_bytes);
    return 0;
}

// Passes a complete message to the handler.
static int frame_finish(struct frame_reader *r, struct err *e)
{
    TRY(wire_body(&r->frame, r->body != NULL ? (void *)r->body : (void *)&no_body, &r->m,
                  e));
    struct van_message m = {
        .type = r->frame.type,
        .request = r->frame.request,
        .m = &r->m,
        .body = r->body,
        .body_bytes = r->frame.body_bytes,
        .placed = r->placed,
    };
    bool more = r->calls.message(r->calls.ctx, &m);
    give_body(r);
    if (r->head.cap > HEAD_KEPT)
        buf_free(&r->head);
    buf_clear(&r->head);
    return more ? 0 : FRAME_STOPPED;
}

// Records that n more bytes of the body are in place.
static int body_came(struct frame_reader *r, size_t n, struct err *e)
{
    r->body_have += n;
    uint64_t left = r->frame.body_bytes - r->body_have;
    if (left == 0)
        return frame_finish(r, e);
    if (!r->placed && !frame_count(r, n))
        frame_refuse(r, left);
    return 0;
}

static int take_body(struct frame_reader *r, const char **at, size_t *n, struct err *e)
{
    uint64_t left = r->frame.body_bytes - r->body_have;
    size_t some = *n < left ? *n : (size_t)left;
    memcpy(r->body + r->body_have, *at, some);
    *at += some;
    *n -= some;
    return body_came(r, some, e);
}

static void take_refused(struct frame_reader *r, const char **at, size_t *n)
{
    size_t some = *n < r->skip ? *n : (size_t)r->skip;
    r->skip -= some;
    *at += some;
    *n -= some;
}

static int head_came(struct frame_reader *r, const void *header, bool whole,
                     struct err *e)
{
    const char *head = (const char *)header + WIRE_FRAME_BYTES;
    TRY(wire_decode(header, &r->frame, head, &r->m, e));
    return r->frame.body_bytes > 0 ? begin_body(r, whole, e) : frame_finish(r, e);
}

// Collects bytes until `need` bytes of header and head have arrived.
static int frame_gather(struct frame_reader *r, size_t need, const char **at, size_t *n,
                        struct err *e)
{
    size_t left = need - r->head.len;
    size_t some = *n < left ? *n : left;
    if (buf_add(&r->head, *at, some) != 0)
        return err_nomem(e, "the head of a message");
    *at += some;
    *n -= some;
    return 0;
}

static int gather_head(struct frame_reader *r, const char **at, size_t *n, struct err *e)
{
    if (r->head.len < WIRE_FRAME_BYTES) {
        TRY(frame_gather(r, WIRE_FRAME_BYTES, at, n, e));
        if (r->head.len < WIRE_FRAME_BYTES)
            return 0;
        TRY(read_header(r, r->head.data, e));
    }
    size_t need = WIRE_FRAME_BYTES + (size_t)r->frame.head_bytes, had = r->head.len;
    TRY(frame_gather(r, need, at, n, e));
    if (r->head.len == need)
        return head_came(r, r->head.data, false, e);
    if (!frame_count(r, r->head.len - had))
        frame_refuse(r, need - r->head.len + r->frame.body_bytes);
    return 0;
}

// Reads one message, or the part of it that has arrived.
static int read_some(struct frame_reader *r, const char **at, size_t *n, struct err *e)
{
    if (r->body != NULL)
        return take_body(r, at, n, e);
    if (r->skip > 0) {
        take_refused(r, at, n);
        return 0;
    }
    if (r->head.len > 0 || *n < WIRE_FRAME_BYTES)
        return gather_head(r, at, n, e);
    TRY(read_header(r, *at, e));
    size_t heads = WIRE_FRAME_BYTES + (size_t)r->frame.head_bytes;
    if (*n < heads || *n - heads < r->frame.body_bytes)
        // Texts point into the head, which must stay in memory until the body has
        // arrived.
        return gather_head(r, at, n, e);
    const char *header = *at;
    *at += heads;
    *n -= heads;
    return head_came(r, header, true, e);
}

int frame_read(struct frame_reader *r, const void *bytes, size_t n, struct err *e)
{
    const char *at = bytes;
    while (n > 0)
        TRY(read_some(r, &at, &n, e));
    return 0;
}

void *frame_direct(struct frame_reader *r, size_t *ret_n)
{
    *ret_n = r->body != NULL ? (size_t)(r->frame.body_bytes - r->body_have) : 0;
    return r->body != NULL ? r->body + r->body_have : NULL;
}

int frame_came(struct frame_reader *r, size_t n, struct err *e)
{
    return body_came(r, n, e);
}

bool frame_at_end(const struct frame_reader *r)
{
    return r->body == NULL && r->head.len == 0 && r->skip == 0;
}

void *frame_keep(struct frame_reader *r)
{
    if (r->body == NULL || r->placed)
        return NULL;
    r->kept = true;
    return r->body;
}
