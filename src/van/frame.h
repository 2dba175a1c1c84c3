// Cuts the byte stream of a tcp link into messages and calls a handler for each. No I/O
// happens here, so that tests can feed any bytes.
//
// Memory for a message is allocated after its header was checked, and counted in the
// budget as its bytes arrive. So bytes that a peer announces but does not send are not
// counted. If the budget has no room for a message, now or ever, the message is read and
// discarded, and its sender gets an error (`refused`). Reading never stops. If a message
// is complete in the passed bytes, it is decoded in place. The remaining bytes of a large
// body can be read directly into their final memory (frame_direct).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_FRAME_H
#define TUG_VAN_FRAME_H

#include "van/frame_pool.h"
#include "van/van.h"

// The receiver of the messages. `place` works as in struct van_handler and may be NULL.
struct frame_calls {
    void *ctx;
    void *(*place)(void *ctx, uint16_t type, uint64_t request, const union wire_any *head,
                   uint64_t body_bytes);
    // Receives a message; returns false to stop reading.
    bool (*message)(void *ctx, struct van_message *m);
    // The message was discarded. The code in *why is TUG_EIO if the budget has no
    // room for the message now (REASON_NO_ROOM), and TUG_EUSAGE if it can never
    // have room. May be NULL.
    void (*refused)(void *ctx, uint16_t type, uint64_t request, const struct err *why);
};

struct frame_reader {
    struct frame_pool *pool;
    struct frame_calls calls;
    struct budget *budget; // NULL: nothing is counted
    uint64_t max_bytes;    // most bytes of a message; small while the peer is a stranger
    struct buf head;       // the part of header and head that has arrived
    struct wire_frame frame;
    union wire_any m;
    char *body; // the body that is being received; NULL: none
    uint64_t body_have;
    uint64_t counted; // bytes of the message that the budget has counted
    uint64_t skip;    // bytes of a refused message that have not arrived yet
    bool placed;
    bool kept; // the handler has taken the body over
};

// Makes a reader of frames. If `counts` is true, messages that arrive in parts are
// counted in the pool's budget.
void frame_open(struct frame_reader *r, struct frame_pool *pool,
                const struct frame_calls *calls, uint64_t max_bytes, bool counts);
void frame_close(struct frame_reader *r);

enum { FRAME_STOPPED = 1 };

// Takes the next bytes of the stream. Returns 0; FRAME_STOPPED if `message` returned
// false; TUG_EDATA if the bytes are not valid frames; TUG_ENOMEM. After any other result
// than 0 the stream can only be closed.
int frame_read(struct frame_reader *r, const void *bytes, size_t n, struct err *e);

// If a body is incomplete, returns the address for its missing bytes, and their number in
// *ret_n; otherwise returns NULL. The caller reads bytes to this address and reports them
// by frame_came, whose results are those of frame_read.
void *frame_direct(struct frame_reader *r, size_t *ret_n);
int frame_came(struct frame_reader *r, size_t n, struct err *e);

// Returns whether the stream is at the end of a message, not in the middle of one.
bool frame_at_end(const struct frame_reader *r);

// Keeps the body of a message; called inside `message`. The caller owns the body until
// frame_pool_give. Returns NULL if the message has no body or the body was placed.
void *frame_keep(struct frame_reader *r);

#endif
