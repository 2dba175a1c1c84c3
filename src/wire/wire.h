// Messages as structs, and structs as bytes. messages.def is the definition; this header
// makes the structs of it, wire.c the encoder and decoder.
//
// A frame is a fixed header, a head (the message's small fields), and a body (its spans,
// each at the next multiple of 8 bytes). Decoding believes nothing: lengths are checked
// against limits and against what is there before memory is taken or a byte is touched.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WIRE_WIRE_H
#define TUG_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    WIRE_VERSION = 3,
    WIRE_FRAME_BYTES = 48, // of the header
    WIRE_TEXT_MAX = 4096,
    WIRE_BYTES_MAX = 1 << 20,
    WIRE_HEAD_MAX = 4 << 20,
    WIRE_SPANS_MAX = 4, // and texts, of a message
};
#define WIRE_SPAN_MAX ((uint64_t)1 << 30)
#define WIRE_BODY_MAX (WIRE_SPANS_MAX * WIRE_SPAN_MAX)
// Steps of one session: no training does as many, and so one session alone can't take
// the global step, which rates follow, to its end.
#define WIRE_STEPS_MAX ((uint64_t)1 << 48)

enum wire_role {
    WIRE_NOBODY,
    WIRE_SCHEDULER,
    WIRE_SERVER,
    WIRE_WORKER,
    WIRE_DRIVER,
    WIRE_TOOL,    // looks only
    WIRE_OPERATOR // orders: stop, save, load, clear, shrink
};
// ps-lite's group ids; sums are unions.
enum wire_group {
    WIRE_GROUP_SCHEDULER = 1,
    WIRE_GROUP_SERVERS = 2,
    WIRE_GROUP_WORKERS = 4
};
enum wire_tables { WIRE_TABLES_ALL, WIRE_TABLES_SPARSE, WIRE_TABLES_DENSE };

// How partitions lie on server loops: by hash of the key on loops for sparse
// tables, by hash on loops for dense ones (the same loops unless they were split),
// or by ranges of keys.
enum wire_space { WIRE_SPACE_SPARSE, WIRE_SPACE_DENSE, WIRE_SPACE_RANGE, WIRE_SPACES };

enum wire_mode { WIRE_ASYNC, WIRE_SSP, WIRE_SYNC };
enum wire_op {
    WIRE_GRADIENT, // the accessor's rules apply them
    WIRE_ASSIGN,   // weights are set (n x pull width); state stays
    // Of rows without a life:
    WIRE_ROW,   // whole rows are set (n x width)
    WIRE_DELTA, // changes of whole rows are added (n x width): who pushes applied the rules
};
enum wire_flags {
    WIRE_BF16 = 1,        // values
    WIRE_KEYS_PACKED = 2, // keys: see wire/pack.h
    WIRE_ROWS_WHOLE = 4,  // a pull of all columns, and of which keys have a row
    WIRE_ALSO_PULL = 8,   // a push answered by pulled: the rows after it
    WIRE_FOUND = 16,      // a pull that also says which keys have a row
    WIRE_AGAIN =
        32, // a push of examples that were pushed before in the run: a later pass
};
enum wire_order {
    WIRE_CLEAR,
    WIRE_COPY,
    WIRE_DROP,
    WIRE_CLOCK,
    WIRE_SHRINK, // rows decay, and the faded go
    WIRE_DAY,    // likewise: a day has ended
    WIRE_MEAN,   // rows go by the share `threshold` into their mean in another table
};
enum wire_root { WIRE_ROOT_SAVE, WIRE_ROOT_LOAD, WIRE_ROOT_COLD };
enum wire_profile {
    WIRE_PROFILE_START,
    WIRE_PROFILE_STOP,
    WIRE_PROFILE_READ,
    WIRE_PROFILE_FORGET, // it has been read: its memory is given back
};
enum wire_pass {
    WIRE_PASS_PIECES,
    WIRE_PASS_SHARES,
    // Behind the pass of that number, over files that are scored and not trained on.
    WIRE_PASS_VALID,
    WIRE_PASS_TEST,
    WIRE_PASS_TEST_BEST,
};
enum wire_lease {
    WIRE_LEASE_WAIT,  // ask again in a moment
    WIRE_LEASE_PIECE, // read and train on this piece
    WIRE_LEASE_SHARE, // train on this share of every batch of the pass
    WIRE_LEASE_OVER,  // the run is over
    WIRE_LEASE_MARK,  // mark a save, and ask again
    WIRE_LEASE_SCORE, // score the examples of this piece by the rows that are trained
    WIRE_LEASE_SCORE_BEST, // or by those of the best pass
};
enum wire_app {
    WIRE_APP_REQUEST = 1,
    WIRE_APP_PUSH = 2,
    WIRE_APP_PULL = 4,
    WIRE_APP_SIMPLE = 8
};

// Strings and bulk data point into the receive buffer (or, to be sent, at
// the sender's memory).
struct wire_text {
    const char *data; // not terminated
    uint32_t n;
};
struct wire_span {
    const void *data; // when decoded: 8-byte aligned
    uint64_t n;       // bytes
};

static inline struct wire_text wire_text(const char *s)
{
    return (struct wire_text){s, (uint32_t)__builtin_strlen(s)};
}

// A peer's words as people are shown them: cut to fit `cap` bytes, and printable
// (base/printable.h). Returns `to`.
const char *wire_words(struct wire_text t, char *to, size_t cap);
// The same of why something failed, which a peer may have left out.
const char *wire_reason(struct wire_text t, char *to, size_t cap);

// A code that a peer gives: how a node or a run ended (0: well), or why a request failed
// (never 0). One that is not one of tug/tug.h is TUG_EDATA.
int wire_code(int32_t code);
int wire_failure(int32_t code);

#define WIRE_TYPE_u8 uint8_t
#define WIRE_TYPE_u16 uint16_t
#define WIRE_TYPE_u32 uint32_t
#define WIRE_TYPE_u64 uint64_t
#define WIRE_TYPE_i32 int32_t
#define WIRE_TYPE_f32 float
#define WIRE_TYPE_f64 double
#define WIRE_TYPE_text struct wire_text
#define WIRE_TYPE_bytes struct wire_text
#define WIRE_TYPE_span struct wire_span

#define RECORD(NAME, name, about) struct wire_##name {
#define MESSAGE(NAME, name, id, ...) struct msg_##name {
#define FIELD(type, name, about) WIRE_TYPE_##type name;
#define END(name)                                                                        \
    }                                                                                    \
    ;
#include "wire/messages.def"

// MSG_HELLO, ...
enum wire_type {
#define MESSAGE(NAME, name, id, ...) MSG_##NAME = id,
#include "wire/messages.def"
};

// Any message, decoded.
union wire_any {
#define MESSAGE(NAME, name, id, ...) struct msg_##name name;
#include "wire/messages.def"
};

// Whether tug knows all flags of a message that has some. TUG_EDATA: one is set that has
// no meaning in a message of that type, so what the peer wants is not known. Who receives
// a message asks before anything looks at its flags.
int wire_check_flags(uint16_t type, const union wire_any *m, struct err *e);

// What MSG_ERROR says, as "who: why" (`who` NULL: only why). Returns its code.
int wire_refusal(const struct msg_error *m, const char *who, struct err *e);

// Who may ask for a message, the least first; each may what those before it may.
enum wire_from {
    WIRE_FROM_KNOCK,
    WIRE_FROM_LOOK,
    WIRE_FROM_WORK,
    WIRE_FROM_SERVE,
    WIRE_FROM_ORDER,
    WIRE_FROM_ANSWER, // nobody
};

// What a role may do at most. As certificates and tokens say it; a driver is a role in
// the cluster, not one of these: it may nothing.
enum wire_from wire_right(enum wire_role role);
bool wire_may(uint16_t type, enum wire_role role);
// The error of a message that the role may not send: it names the least role that may.
int wire_may_not(uint16_t type, enum wire_role role, struct err *e);

// Of a role: "worker". NULL: there is none of that number.
const char *wire_role_name(enum wire_role role);
// The role of that name that a certificate or a token may have; WIRE_NOBODY: none.
enum wire_role wire_role_read(const char *name);

// "push"; "message 99" for an unknown one is the caller's business: then NULL.
const char *wire_name(uint16_t type);

// The type of the answer to what is asked of a scheduler or of any node, unless that is
// an ERROR; 0: nothing of this type is asked.
uint16_t wire_answer(uint16_t type);

// What the header of a frame says.
struct wire_frame {
    uint16_t type;
    bool body_checked; // body_checksum is that of the body
    uint32_t head_bytes;
    uint64_t body_bytes;
    uint64_t request; // chosen by who asks, repeated by who answers
    uint64_t body_checksum;
};

// Reads a header. TUG_EDATA in one sentence: no tug speaks here, another version, an
// unknown type, a length beyond the limits.
int wire_frame_read(const unsigned char header[WIRE_FRAME_BYTES], struct wire_frame *ret,
                    struct err *e);

// Decodes the head that follows the header. Texts point into it; spans have their
// lengths, and NULL where they are: wire_body sets that when the body has arrived. Both
// TUG_EDATA when bytes are not what the header promised.
int wire_decode(const unsigned char header[WIRE_FRAME_BYTES], const struct wire_frame *f,
                const void *head, union wire_any *ret, struct err *e);
int wire_body(const struct wire_frame *f, const void *body, union wire_any *m,
              struct err *e);

// The bytes of a message's texts (`text` and `bytes`), which end with the frame's head.
// Who keeps the message longer gives room for them: they are copied to `to`, unless that
// is NULL, and the message points there.
size_t wire_texts(uint16_t type, union wire_any *m, char *to);

// An encoded message: header and head in `head`, the body as the sender's memory.
// `head` is reused from message to message; spans are padded to 8 bytes with zeros.
struct wire_out {
    struct buf head;
    uint32_t n_spans;
    struct wire_span spans[WIRE_SPANS_MAX];
    uint64_t body_bytes;
};
#define WIRE_OUT_INIT                                                                    \
    ((struct wire_out){.head = BUF_INIT(WIRE_FRAME_BYTES + WIRE_HEAD_MAX)})

// Encodes `msg`, a struct of the type. With `check_body` the header carries the body's
// checksum. TUG_EUSAGE: a field is longer than the limits allow; TUG_ENOMEM.
int wire_encode(struct wire_out *o, uint16_t type, uint64_t request, const void *msg,
                bool check_body);

// Copies the body of an encoded message, padding included; `to` has body_bytes.
void wire_copy_body(const struct wire_out *o, void *to);

// Bytes of padding behind a span.
static inline uint64_t wire_padding(uint64_t n)
{
    return -n & 7;
}

// Records in a bytes field. wire_put_x adds one; wire_next_x takes the first off the
// front of *list: 1, 0 at the end, or TUG_EDATA.
#define RECORD(NAME, name, about)                                                        \
    int wire_put_##name(struct buf *list, const struct wire_##name *r);                  \
    int wire_next_##name(struct wire_text *list, struct wire_##name *ret);
#include "wire/messages.def"

#endif
