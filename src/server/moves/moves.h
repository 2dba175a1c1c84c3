// Partitions that are on their way from one shard to another. The scheduler decides: a
// move is a line of the roster, and the move ends with a roster that names the target as
// the owner, or lacks the line. The target fetches the partition from its owner, the
// source; neither of them decides whose it is.
//
//   target                                        source
//   asks for the partition, piece by piece    ->  copies the next rows (partition_copy.h),
//   applies the records, a few at a time      <-  and appends each push to rows that were
//   (partition.h), and tells COPIED when few      copied
//   are left
//   asks for the end                          ->  serves no request for it any more, and
//   applies the rest, and tells ARRIVED       <-  appends the facts
//   serves it under the newer roster              drops it under the newer roster
//
// If a move is given up, the target drops what it has, and the source serves the
// partition again. Requests that arrive after the end wait, and are then served or
// answered with the roster. A change of rows that is not a push, such as an admin
// operation or the notes after a save, breaks the moves of its space at both ends: the
// scheduler tries them again.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_MOVES_H
#define TUG_SERVER_MOVES_MOVES_H

#include "base/buf.h"
#include "cluster/roster.h"
#include "cluster/session.h"

struct partition_copy;
struct shard;
struct shard_table;
struct store_push;

// The shard copies or applies records, or drops rows, for at most MOVES_NS without
// a pause. In a loop that serves requests, the pause is MOVES_REST times as long
// as the work before it.
#define MOVES_NS (2 * SECOND_NS / 1000)
enum { MOVES_REST = 16, MOVES_DROP_ROWS = 4096 };
// The largest number of unused buffers that are kept, and of their bytes.
enum { MOVES_SPARES = 16, MOVES_SPARE_BYTES = 16 << 20 };

// A partition that this shard hands over to another shard, which fetches it.
struct outgoing {
    struct outgoing *next;
    struct roster_move move;
    struct partition_copy *copy; // NULL: all rows were copied
    // The records without the first `sent` bytes, which have arrived at the target.
    struct buf bytes;
    uint64_t sent;
    bool asked;   // the target has asked for a piece at least once
    bool handing; // all records are written, and requests for the partition wait
    // Under the roster, the partition belongs to the target, and its rows
    // must be dropped here.
    bool gone;
    struct err why; // why the move is broken; code 0: it is not
};

enum incoming_state {
    INCOMING_COPIES, // this shard fetches records of rows and pushes
    // This shard still fetches such records, and asks the scheduler whether the source
    // may hand the partition over.
    INCOMING_ASKS,
    // This shard fetches the last records. The source no longer serves
    // requests for the partition.
    INCOMING_ENDS,
    INCOMING_HERE,   // all records of the partition are applied
    INCOMING_FAILED, // failed: the scheduler must be told `why`
    INCOMING_OVER,   // the scheduler has given the move up; the next roster will not have
                     // the move
    // The move is not in the roster any more, and the rows must be dropped here.
    INCOMING_DROPS,
};

// The session with a source, for all partitions that this shard fetches from it.
struct source_link {
    struct source_link *next;
    uint32_t node;
    uint32_t users;   // number of moves and channels (server/chain) that use the session
    uint64_t idle_at; // time since which no move uses the session
    struct session s;
};

// A partition that this shard fetches.
struct incoming {
    struct incoming *next;
    struct roster_move move;
    struct source_link *source; // NULL: nothing more is fetched
    enum incoming_state state;
    // The first n bytes have arrived of the `total` that the source last announced. Bytes
    // that are not applied yet are in `bytes`.
    uint64_t n, total;
    struct buf bytes;
    bool last;   // the source will append nothing to the first n bytes
    bool behind; // `bytes` has a complete record that is not applied yet
    // The least number of bytes that were left to be applied, and the time since then.
    uint64_t left, fell_at;
    uint64_t due;    // time of the next request to the source
    uint64_t pause;  // the pause after the last answer without bytes; 0: none yet
    uint64_t try_at; // time at which to apply `bytes`
    // Time at which to report the state to the scheduler; VAN_NEVER: it was reported.
    uint64_t say_at;
    uint64_t since; // time at which the move reached its state
    bool reported;  // the report that is not answered yet is also about this move
    uint32_t place; // the move's place in that report
    struct err why;
};

struct moves {
    struct outgoing *out;
    struct incoming *in;
    struct source_link *sources;
    struct session_side side;
    // The first move of the last report, which the scheduler has not answered yet, and the
    // reported state (enum wire_move_state); 0: none.
    uint64_t saying;
    uint8_t said;
    bool again;   // a move has another state, for which others may have waited
    bool asked;   // a source was asked for bytes in this call of moves_tick
    bool put_off; // the last call of moves_tick applied no records, because it asked
    // No records are applied before this time, except at the end of a move.
    uint64_t rest_until;
    uint64_t drop_at; // no rows of outgoing partitions are dropped before this time
    // Buffers of earlier moves for later ones: the first use of a page costs as much as
    // sending its bytes. They are freed a while after the last move.
    struct buf spares[MOVES_SPARES];
    uint32_t n_spares;
    size_t spare_bytes;
    uint64_t spared_at; // the time at which the last of them came
};

void moves_close(struct shard *s);
// Called when the first n keys of a push were applied: appends these keys and their
// values to the records of the partitions that are being copied.
void moves_note(struct shard *s, const struct shard_table *t, const struct store_push *p,
                size_t n);
// Called when tables or rows of a space change in another way, which `what` names: breaks
// the moves of this space that are copying.
void moves_break(struct shard *s, enum wire_space space, const char *what);
// Called when an operation changes the partitions that this shard leads: breaks their moves.
// Without replicas it does what moves_break does.
void moves_break_led(struct shard *s, enum wire_space space, const char *what);
// Breaks the move of one partition, if this shard is copying it.
void moves_break_copy(struct shard *s, enum wire_space space, uint32_t partition,
                      const char *what);
// Called with each new roster: begins and ends moves.
void moves_follow(struct shard *s, const struct roster *r);
// Returns whether moves_tick has nothing to do.
bool moves_idle(const struct shard *s);
// Does the work that is due. Returns when to call it again.
uint64_t moves_tick(struct shard *s, uint64_t now);
// The van's handler calls these functions. They return whether the link is one that this
// shard has opened to a source.
bool moves_opened(struct shard *s, van_link link);
bool moves_message(struct shard *s, van_link link, const struct van_message *m);
bool moves_closed(struct shard *s, van_link link, const struct err *why);

// Begins a slice of work, and returns when the next one may begin.
uint64_t moves_slice_begin(const struct shard *s);
bool moves_slice_over(const struct shard *s, uint64_t begun);
uint64_t moves_slice_end(const struct shard *s, uint64_t begun, uint32_t rest);

// Gives an unused buffer to `b` if it has none.
void moves_buffer_take(struct shard *s, struct buf *b);
// Takes the buffer of `b` away, and keeps it for another move or frees it.
void moves_buffer_leave(struct shard *s, struct buf *b);

// Defined in source.c and target.c:

// Frees the bytes and the copy of an outgoing partition.
void outgoing_stop(struct shard *s, struct outgoing *o);
void outgoing_free(struct shard *s, struct outgoing **at);
void incoming_fail(struct shard *s, struct incoming *m);
void outgoing_follow(struct shard *s, const struct roster *r);
uint64_t outgoing_tick(struct shard *s);
void incoming_follow(struct shard *s, const struct roster *r);
// Asks for more bytes of the partition, if it is time. Returns when to call it again.
uint64_t incoming_fetch(struct shard *s, struct incoming *m);
// Applies the bytes that have arrived. Returns when to call it again.
uint64_t incoming_tick(struct shard *s, struct incoming *m);
// Reports a move to the scheduler if one is due and the last report was answered. Returns
// when to call it again.
uint64_t incoming_report(struct shard *s);
void incoming_take(struct shard *s, struct incoming *m, const struct van_message *x);

// Defined in source_link.c:

// Returns the session with a node, for one more move. A new session is closed at first.
// Returns NULL if memory is out.
struct source_link *source_link_take(struct shard *s, uint32_t node);
// Ends a use of a session. The session stays open for a while for the next move.
void source_link_release(struct shard *s, struct source_link *l);
// Ends m's use of its session, if it has one.
void source_link_leave(struct shard *s, struct incoming *m);
// Connects sessions that are used, and closes others. Returns when to call it again.
uint64_t source_links_tick(struct shard *s);
void source_links_close(struct shard *s);

#endif
