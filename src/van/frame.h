// Cuts the byte stream of a tcp link into messages and calls a handler for each. No I/O
// happens here, so that tests can feed any bytes.
//
// Memory is allocated only for the size in a checked header, and counted as the bytes
// arrive. So a message that a peer announces but does not send costs nothing. If the
// budget has no room for a message, now or ever, the message is read and discarded, and
// its sender gets an error (`refused`). Reading never stops. A message that is complete
// in the passed bytes is decoded in place. The rest of a large body can be read directly
// into its final memory (frame_direct).
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

// Returns the address at which the rest of an incomplete body must be stored, and the
// size of the rest in *ret_n; NULL if no body is incomplete. The caller reads bytes there
// and reports them with frame_came, which returns as frame_read does.
void *frame_direct(struct frame_reader *r, size_t *ret_n);
int frame_came(struct frame_reader *r, size_t n, struct err *e);

// Returns whether the stream is at the end of a message, not in the middle of one.
bool frame_at_end(const struct frame_reader *r);

// Keeps the body of a message; called inside `message`. The caller owns the body until
// frame_pool_give. Returns NULL if the message has no body or the body was placed.
void *frame_keep(struct frame_reader *r);

#endif
