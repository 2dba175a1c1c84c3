// Bytes of a stream in, messages out: what a link of the tcp van has received becomes
// calls of a handler. No I/O happens here, so any bytes can be tried.
//
// Memory is taken only for what a checked header promises, and counted as its bytes come:
// what a peer only announces costs nothing. A message for which the account has no room,
// now or ever, is read on and thrown away, and its sender is told (`refused`): reading
// never stops. A message that lies whole in the bytes handed in is decoded where it is;
// the rest of a large body can be read straight to where it belongs (frame_direct).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_FRAME_H
#define TUG_VAN_FRAME_H

#include "van/frame_pool.h"
#include "van/van.h"

// Who gets the messages. `place` is that of struct van_handler and may be NULL.
struct frame_calls {
    void *ctx;
    void *(*place)(void *ctx, uint16_t type, uint64_t request, const union wire_any *head,
                   uint64_t body_bytes);
    bool (*message)(void *ctx, struct van_message *m); // false: read no further
    // The message is not taken: TUG_EIO, there is no room for it now (the sentence begins
    // with VAN_NO_ROOM), or TUG_EUSAGE, there never is. May be NULL.
    void (*refused)(void *ctx, uint16_t type, uint64_t request, const struct err *why);
};

struct frame_reader {
    struct frame_pool *pool;
    struct frame_calls calls;
    struct budget *budget; // NULL: nothing is counted
    uint64_t max_bytes;    // of a message: small as long as the peer is a stranger
    struct buf head;       // header and head, as far as they have come
    struct wire_frame frame;
    union wire_any m;
    char *body; // NULL: none is awaited
    uint64_t body_have;
    uint64_t counted; // bytes of the message that are in the account
    uint64_t skip;    // bytes of a refused message that are still to come
    bool placed;
    bool kept; // the handler has taken the body over
};

// Messages that come in parts are counted in the pool's account if `counts`.
void frame_open(struct frame_reader *r, struct frame_pool *pool,
                const struct frame_calls *calls, uint64_t max_bytes, bool counts);
void frame_close(struct frame_reader *r);

enum { FRAME_STOPPED = 1 };

// The next bytes of the stream. 0; FRAME_STOPPED: `message` said so; TUG_EDATA: what came
// cannot be read; TUG_ENOMEM. After anything but 0 the stream can only be closed.
int frame_read(struct frame_reader *r, const void *bytes, size_t n, struct err *e);

// Where the rest of a body that is awaited belongs, and how much of it; NULL: there is
// none. frame_came says that n bytes of it have been put there; returns as frame_read.
void *frame_direct(struct frame_reader *r, size_t *ret_n);
int frame_came(struct frame_reader *r, size_t n, struct err *e);

// Whether the stream stands at the end of a message, not in the middle of one.
bool frame_at_end(const struct frame_reader *r);

// Inside `message`: the body is the caller's until frame_pool_give. NULL: there is none,
// or it was placed.
void *frame_keep(struct frame_reader *r);

#endif
