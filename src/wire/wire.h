// Messages as structs and as bytes. messages.def defines the messages. From it this
// header generates the structs, and wire.c the encoder and the decoder.
//
// A frame is a fixed header, a head (the message's small fields), and a body (its spans,
// each at the next multiple of 8 bytes). The decoder checks each length against the
// limits and against the number of received bytes before it allocates memory or reads the
// bytes.
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
    WIRE_VERSION = 4,      // the newest version of the protocol: that of messages.def
    WIRE_OLDEST = 4,       // the oldest version that this tug still speaks
    WIRE_FIRST = 4,        // the first version whose messages keep their fields for ever
    WIRE_FRAME_BYTES = 48, // size of the header
    WIRE_TEXT_MAX = 4096,
    WIRE_ZONE_MAX = 64, // of the name of a zone, with a final 0
    WIRE_BYTES_MAX = 1 << 20,
    WIRE_HEAD_MAX = 4 << 20,
    WIRE_SPANS_MAX = 4, // a message has at most this many spans, and as many texts
    // Limits of collective calls, in bytes. WIRE_CALL_MAX: the call's name.
    // WIRE_COLLECT_MAX: one worker's contribution, and all contributions to a gather
    // together. WIRE_REDUCE_MAX: all contributions to a reduction together.
    WIRE_CALL_MAX = 96,
    WIRE_COLLECT_MAX = 1 << 16,
    WIRE_REDUCE_MAX = 1 << 20,
};
#define WIRE_SPAN_MAX ((uint64_t)1 << 30)
#define WIRE_BODY_MAX (WIRE_SPANS_MAX * WIRE_SPAN_MAX)
// The most steps of a session. No training makes as many steps. The limit keeps a single
// session from exhausting the global step, on which learning rates depend.
#define WIRE_STEPS_MAX ((uint64_t)1 << 48)

enum wire_role {
    WIRE_NOBODY,
    WIRE_SCHEDULER,
    WIRE_SERVER,
    WIRE_WORKER,
    WIRE_DRIVER,
    WIRE_TOOL,    // may only read status and statistics
    WIRE_OPERATOR // may also stop, save, load, clear and shrink
};
// The groups of nodes, with ps-lite's numbers; the number of a union of groups is the sum
// of their numbers.
enum wire_group {
    WIRE_GROUP_SCHEDULER = 1,
    WIRE_GROUP_SERVERS = 2,
    WIRE_GROUP_WORKERS = 4
};
// The operation that the scheduler applies to the workers' bytes in a collective call,
// and the type of the values in these bytes.
enum wire_collect { WIRE_GATHER, WIRE_SUM, WIRE_MIN, WIRE_MAX };
enum wire_number { WIRE_F64, WIRE_I64, WIRE_U64 };
enum wire_tables { WIRE_TABLES_ALL, WIRE_TABLES_SPARSE, WIRE_TABLES_DENSE };

// The spaces of partitions. SPARSE and DENSE place keys by hash, on the loops that serve
// sparse or dense tables (the same loops, unless each loop serves only one kind); RANGE
// places them by ranges of keys.
enum wire_space { WIRE_SPACE_SPARSE, WIRE_SPACE_DENSE, WIRE_SPACE_RANGE, WIRE_SPACES };
const char *wire_space_name(enum wire_space space); // "sparse"

enum wire_mode { WIRE_ASYNC, WIRE_SSP, WIRE_SYNC };
enum wire_op {
    WIRE_GRADIENT, // gradients; the accessor's rules apply them
    WIRE_ASSIGN,   // sets weights (n x pull width) and keeps state
    // The kinds below are only for rows without a lifecycle.
    WIRE_ROW, // sets whole rows (n x width)
    // Adds differences of whole rows (n x width), which the sender has computed by its rules.
    WIRE_DELTA,
};
enum wire_flags {
    WIRE_BF16 = 1,        // values are bfloat16
    WIRE_KEYS_PACKED = 2, // keys are packed: see wire/pack.h
    WIRE_ROWS_WHOLE =
        4,              // a pull of all columns, which also returns which keys have a row
    WIRE_ALSO_PULL = 8, // a push whose answer is MSG_PULLED with the rows after the push
    WIRE_FOUND = 16,    // a pull that also returns which keys have a row
    // mode sync: all pushes to the table have the same keys, and loops without any of
    // these keys get no push
    WIRE_KEYS_ONLY = 64,
    // The examples of the push were already pushed in an earlier pass of the run.
    WIRE_AGAIN = 32,
};
enum wire_admin {
    WIRE_CLEAR,
    WIRE_COPY,
    WIRE_DROP,
    WIRE_CLOCK,
    WIRE_SHRINK, // decays all rows, and removes rows whose score is below the threshold
    WIRE_DAY,    // ends a day: adds one to the days for which each row was not seen
    // Moves the mean, which is in another table, towards the rows by the fraction
    // `threshold`.
    WIRE_MEAN,
};
// The state of a move of a partition, which the target reports.
enum wire_move_state {
    WIRE_MOVE_COPYING,
    // The target has almost all pushes, and asks whether the partition may be handed
    // over.
    WIRE_MOVE_COPIED,
    WIRE_MOVE_ARRIVED, // the partition is complete and can be served
    WIRE_MOVE_FAILED,
};
// The scheduler's answers to a target's report: the lowest WIRE_MOVED_BITS bits of the
// value of MSG_OK. If they are WIRE_MOVE_SOME, bit WIRE_MOVED_BITS + i says whether the
// i-th move of the report goes on; the first is `move`, and `others` follow in their order.
enum wire_moved { WIRE_MOVE_GO_ON, WIRE_MOVE_WAIT, WIRE_MOVE_OVER, WIRE_MOVE_SOME };
enum { WIRE_MOVED_BITS = 2, WIRE_MOVES_MOST = 64 - WIRE_MOVED_BITS };
// Kinds of admin operations in the scheduler's log.
enum wire_operation {
    WIRE_OPERATION_OTHER, // operations on tables and on the placement
    WIRE_OPERATION_SAVE,
    WIRE_OPERATION_PROFILE,
    WIRE_OPERATION_STOP,
    WIRE_OPERATION_DRAIN,
    WIRE_OPERATIONS,
};
enum wire_root { WIRE_ROOT_SAVE, WIRE_ROOT_LOAD, WIRE_ROOT_COLD };
enum wire_profile {
    WIRE_PROFILE_START,
    WIRE_PROFILE_STOP,
    WIRE_PROFILE_READ,
    WIRE_PROFILE_FORGET, // frees the memory of a profile that was read
};
enum wire_pass {
    WIRE_PASS_PIECES,
    WIRE_PASS_SHARES,
    // Passes over files that are only scored, after the training pass with the same
    // number.
    WIRE_PASS_VALID,
    WIRE_PASS_TEST,
    WIRE_PASS_TEST_BEST,
};
enum wire_lease {
    WIRE_LEASE_WAIT,  // no piece is free now; the worker must ask again soon
    WIRE_LEASE_PIECE, // a piece of the data, which the worker reads and trains on
    WIRE_LEASE_SHARE, // a share of every batch of the pass, which the worker trains on
    WIRE_LEASE_OVER,  // the run is over
    WIRE_LEASE_MARK,  // a save, which the worker must mark before it asks again
    WIRE_LEASE_SCORE, // a piece, which the worker scores with the rows in training
    // A piece, which the worker scores with the rows of the best pass.
    WIRE_LEASE_SCORE_BEST,
};
enum wire_app {
    WIRE_APP_REQUEST = 1,
    WIRE_APP_PUSH = 2,
    WIRE_APP_PULL = 4,
    WIRE_APP_SIMPLE = 8
};

// Texts and bulk data. They point into the receive buffer, or, in a message to be sent,
// at the sender's memory.
struct wire_text {
    const char *data; // n bytes, without a final 0
    uint32_t n;
};
struct wire_span {
    const void *data; // decoded data is aligned to 8 bytes
    uint64_t n;       // number of bytes
};

static inline struct wire_text wire_text(const char *s)
{
    return (struct wire_text){s, (uint32_t)__builtin_strlen(s)};
}

// Copies a peer's text so that it can be printed (base/printable.h), cut to fit
// `cap` bytes. Returns `to`.
const char *wire_words(struct wire_text t, char *to, size_t cap);
// Copies the reason of a failure as wire_words does. If the peer has sent no
// reason, the copy says so.
const char *wire_reason(struct wire_text t, char *to, size_t cap);

// Both functions check a code that a peer sent. They return the code, or TUG_EDATA if
// tug/tug.h does not have this code. wire_code is for the code with which a node or a run
// ended, where 0 means without an error. wire_failure is for the error of a request, so
// it returns TUG_EDATA for 0.
int wire_code(int32_t code);
int wire_failure(int32_t code);

// The versions of the protocol that a node speaks. In HELLO and WELCOME, `newest` 0 means
// WIRE_FIRST only.
struct wire_versions {
    uint8_t oldest, newest;
};
struct wire_versions wire_own_versions(void);
// Checks that this program and a peer speak a common version of the protocol. `tug` is the
// version of the peer's tug, for the error. Returns TUG_EUSAGE if they have no version in
// common: one of the two programs has to be replaced.
int wire_agree(struct wire_versions with, struct wire_text tug, struct err *e);

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

// The types of messages: MSG_HELLO, ...
enum wire_type {
#define MESSAGE(NAME, name, id, ...) MSG_##NAME = id,
#include "wire/messages.def"
};

// Any message, decoded.
union wire_any {
#define MESSAGE(NAME, name, id, ...) struct msg_##name name;
#include "wire/messages.def"
};

// Checks that a message has only flags that its type defines. Returns TUG_EDATA if
// another flag is set, because its meaning is unknown. A receiver calls this before it
// uses any flag.
int wire_check_flags(uint16_t type, const union wire_any *m, struct err *e);

// Returns the reason of a message; REASON_NONE for a reason that this version does not
// know.
enum reason wire_known_reason(uint16_t reason);

// Returns the MSG_ERROR for *e. The message points to the text in *e.
struct msg_error wire_error(const struct err *e);
// Copies a MSG_ERROR into *e, with the text "who: why" ("why" if `who` is NULL). A reason
// that is not known becomes REASON_NONE. Returns the code of the error.
int wire_refusal(const struct msg_error *m, const char *who, struct err *e);

// The rights needed to send a message, in ascending order: each right includes all rights
// before it.
enum wire_from {
    WIRE_FROM_KNOCK,
    WIRE_FROM_LOOK,
    WIRE_FROM_WORK,
    WIRE_FROM_SERVE,
    WIRE_FROM_ADMIN,
    WIRE_FROM_ANSWER, // the message is an answer; no role may send it as a request
};

// Returns the rights of a role in a certificate or token. The role of a driver exists
// only in the cluster, not in certificates and tokens, so it has no rights.
enum wire_from wire_right(enum wire_role role);
bool wire_may(uint16_t type, enum wire_role role);
// Sets *e to an error about a message that the role may not send. The text names the role
// with the fewest rights that may send the message.
int wire_may_not(uint16_t type, enum wire_role role, struct err *e);

// Returns a role's name, for example "worker"; NULL if no role has that number.
const char *wire_role_name(enum wire_role role);
// Returns the role with this name in certificates and tokens; WIRE_NOBODY if no role has
// this name.
enum wire_role wire_role_read(const char *name);

// Returns a message's name, for example "push"; NULL for an unknown type.
const char *wire_name(uint16_t type);

// Returns the type of the answer to a request of this type, if the answer is not an
// ERROR. Returns 0 if messages of this type are not answered or have answers of several
// types; also for HEARTBEAT and MAY_LEAVE, which are not sent as requests of a member.
uint16_t wire_answer(uint16_t type);

// Returns the address of the field of *m whose type and name in messages.def are
// type_and_name, for example "u32 table"; NULL if messages of this type do not have this
// field.
void *wire_field(uint16_t type, union wire_any *m, const char *type_and_name);

// The header of a frame, decoded.
struct wire_frame {
    uint16_t type;
    bool body_checked; // whether body_checksum is set
    uint32_t head_bytes;
    uint64_t body_bytes;
    uint64_t request; // chosen by the sender of a request, repeated in the answer
    uint64_t body_checksum;
};

// Reads a header. Returns TUG_EDATA if the peer is not tug, the version of the protocol
// or the type of the message is unknown, or a length exceeds its limit; the error names
// the reason.
int wire_frame_read(const unsigned char header[WIRE_FRAME_BYTES], struct wire_frame *ret,
                    struct err *e);

// Decodes the head that follows the header. Texts in *ret point into the head. Spans get
// their lengths and a NULL address; wire_body sets the address when the body has arrived.
// wire_decode and wire_body return TUG_EDATA if the bytes do not match the header.
int wire_decode(const unsigned char header[WIRE_FRAME_BYTES], const struct wire_frame *f,
                const void *head, union wire_any *ret, struct err *e);
int wire_body(const struct wire_frame *f, const void *body, union wire_any *m,
              struct err *e);

// Returns the size of a message's texts (`text` and `bytes`), which are valid only as
// long as the frame's head. If `to` is not NULL, copies the texts there and lets the
// message point at the copies, so that the message can be used without the head.
size_t wire_texts(uint16_t type, union wire_any *m, char *to);

// An encoded message. `head` has the header and the head, and its memory is reused for
// the next message. The body stays in the sender's memory; when it is sent, each span is
// padded with zeros to a multiple of 8 bytes.
struct wire_out {
    struct buf head;
    uint32_t n_spans;
    struct wire_span spans[WIRE_SPANS_MAX];
    uint64_t body_bytes;
};
#define WIRE_OUT_INIT                                                                    \
    ((struct wire_out){.head = BUF_INIT(WIRE_FRAME_BYTES + WIRE_HEAD_MAX)})

// Encodes `msg`, the struct of a message of this type. If `check_body`, the header
// carries the body's checksum. Returns TUG_EUSAGE if a field exceeds its limit; may
// return TUG_ENOMEM.
int wire_encode(struct wire_out *o, uint16_t type, uint64_t request, const void *msg,
                bool check_body);

// Copies the body of an encoded message, padding included, to the body_bytes bytes at
// `to`.
void wire_copy_body(const struct wire_out *o, void *to);

// Returns the number of a piece in FORGET and JOIN.
static inline uint64_t wire_piece(uint32_t file, uint64_t index)
{
    return (uint64_t)file << 40 | index;
}

// Returns the number of bytes of padding after a span of n bytes.
static inline uint64_t wire_padding(uint64_t n)
{
    return -n & 7;
}

// Functions for records in a bytes field. wire_put_x adds a record. wire_next_x removes
// the first record from *list and returns 1; it returns 0 at the end of the list, or
// TUG_EDATA.
#define RECORD(NAME, name, about)                                                        \
    int wire_put_##name(struct buf *list, const struct wire_##name *r);                  \
    int wire_next_##name(struct wire_text *list, struct wire_##name *ret);
#include "wire/messages.def"

#endif
