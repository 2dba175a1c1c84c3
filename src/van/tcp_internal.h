// Declarations that the files of the tcp van share: the van, its links, their sockets and their
// queues.
//
//   tcp.c         the van: polling, time, opening and freeing
//   tcp_listen.c  listening and accepting
//   tcp_dial.c    connecting: names, addresses, attempts
//   tcp_link.c    opening and closing links, and reading from them
//   tcp_prove.c   the handshake of a link
//   tcp_out.c     sending
//   tcp_limits.c  strangers, slow peers, and the budget of all links
//   tcp_check.c   the states of a link, and invariants, for builds with assertions
//
// A link may have several sockets, because each attempt to connect uses a new one. A
// socket may outlive its link: libuv closes the socket later, and then its struct
// tcp_stream is freed. Links are freed only between rounds, so that no caller holds a
// freed link.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_INTERNAL_H
#define TUG_VAN_TCP_INTERNAL_H

#include <assert.h>
#include <uv.h>

#include "os/clock.h"
#include "van/frame.h"
#include "van/handshake.h"
#include "van/links.h"
#include "van/tcp.h"
#include "van/tcp_address.h"
#include "van/tls_session.h"

// A read takes at most TCP_INPUT_BYTES from a TLS link, and TCP_PLAIN_INPUT from a plain
// link; messages are cut out of these bytes one by one. On a plain link, if the head of a
// message has arrived and at least TCP_DIRECT_FROM bytes of the body are missing, the
// missing bytes are read directly into their final memory. Only the bytes that came with
// the head are copied, and the smaller limit keeps them few. TLS copies all bytes before
// it decrypts them; its limit lets them stay in the second level cache until then.
enum {
    TCP_INPUT_BYTES = 128 << 10,
    TCP_PLAIN_INPUT = 64 << 10,
    TCP_DIRECT_FROM = 32 << 10
};

enum tcp_state {
    LINK_WAITING, // waits until the next attempt to connect
    LINK_RESOLVING,
    LINK_CONNECTING, // is connecting; or was accepted, and the van has not handled it yet
    LINK_SHAKING,    // does the TLS handshake
    // Proves the token, or only exchanges random numbers: see handshake.h.
    LINK_PROVING,
    LINK_OPEN,
    LINK_CLOSING, // van_close_link was called: the link sends its queued bytes
    LINK_FAILED,  // `closed` has still to be called
    LINK_DEAD,
};

struct tcp_link;

struct tcp_stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct tcp_link *link; // NULL: the link does not use this socket any more
};

// A run of bytes to send.
struct tcp_segment {
    struct tcp_segment *next;
    const char *data;
    size_t n;
    // The block of the van's pool with the bytes; NULL: the bytes are in the sender's
    // memory.
    char *block;
    bool offered;     // libuv was given this block, so no bytes may be appended to it
    uint64_t counted; // bytes taken from the budget
    // Called when the message was sent; .release NULL: nothing to call.
    struct van_release release;
};

// The state of a link that is connecting.
struct tcp_dial {
    char list[VAN_ADDRESS_MAX]; // the addresses given to van_connect, with commas
    // Those addresses of `list` that were not tried yet in this round of attempts.
    const char *rest;
    struct tcp_address address; // the address that is being tried
    uint64_t began, deadline;
    // Time at which an attempt first failed because of the token; 0: no attempt has.
    uint64_t unproven_since;
    const char *unproven_rest; // `rest` at the time unproven_since
    uint32_t tries;
    uint32_t machines;      // addresses of `list` that are not Unix sockets
    uint32_t n_found, next; // number of addresses of the host; index of the next one
    struct sockaddr_storage found[8];
    struct tcp_lookup *lookup; // looks up the host's name; NULL: no lookup runs
};

// Measures how fast the bytes of a link move while some of them wait.
struct tcp_pace {
    uint64_t since; // time at which bytes began to wait; 0: none wait
    uint64_t bytes; // bytes that moved since `since`
};

enum tcp_room {
    TCP_ROOM,
    TCP_TRIAL, // the link is on trial until its role is known (tcp_limits_admit)
    TCP_FULL,  // no room; the peer gets an error
    // No descriptor is left even for sending the error: the link is closed at once.
    TCP_NO_WORD,
};

struct tcp_link {
    struct tcp_van *van;
    van_link number;
    enum tcp_state state;
    bool accepted;
    bool known; // whether a whole message has arrived on the link
    bool local; // whether both ends are on this machine
    enum van_kind kind;
    bool writing; // libuv has bytes of the link to write, and will call back
    bool dirty;   // small messages of the link wait for the end of the round
    bool ended;   // the link is in the van's list of ended links
    bool opened;  // `opened` was called
    // Whether TLS's end of the stream was sent, and whether it was received.
    bool said_end, heard_end;
    bool knocked; // the peer has sent KNOCK, and was answered
    struct tcp_stream *stream;
    struct tls_session *tls;
    // The state of connecting; NULL: the link was accepted, or is connected.
    struct tcp_dial *dial;
    struct handshake *handshake; // NULL: the handshake has not begun, or is finished
    struct van_trust trust;
    struct frame_reader reader;
    uint64_t last_byte; // time at which the last byte arrived
    uint64_t hello_by;  // time by which a stranger's first message must have arrived
    bool stranger;      // the link is in the van's list of strangers
    bool trial;  // a stranger that holds one of the places kept free for new peers, for a
                 // short time (tcp_limits.c)
    bool joined; // van_joined was called
    struct tcp_link *older, *newer;
    uint64_t counted; // bytes taken from the budget for the link itself
    struct tcp_pace in, out;
    uint64_t due; // time at which tcp_link_due must be called; VAN_NEVER: never
    struct tcp_segment *first, *last;
    uint64_t queued;
    size_t in_flight; // bytes of the queue or of `cipher` that libuv is sending
    // A block of encrypted bytes that libuv is sending; counted in the budget.
    char *cipher;
    struct tcp_link *next_dirty, *next_ended;
    char peer[VAN_ADDRESS_MAX];
    struct err why;
};

struct tcp_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    };
    struct tcp_van *van;
    struct tcp_listener *next;
    bool waiting; // a peer waits to be accepted by this listener
    char address[VAN_ADDRESS_MAX];
};

struct tcp_van {
    struct van base;
    struct van_handler handler;
    struct tcp_options options;
    uv_loop_t loop;
    uv_async_t wake;
    uv_timer_t timer;
    struct tcp_listener *listeners;
    // The address by which peers behind a proxy or NAT know this listener; "": none.
    char known_as[VAN_ADDRESS_MAX];
    struct links links;
    uint32_t n_accepted, n_strangers, n_trials;
    struct tcp_link *oldest, *newest; // the ends of the list of strangers, by age
    // The queues of all links have more bytes than the budget allows.
    bool over;
    struct frame_pool pool;
    struct wire_out out;
    struct tcp_segment *unused_segments;
    struct tcp_link *dirty, *ended;
    // The frame reader of the link whose message is being handled.
    struct frame_reader *reading;
    uint64_t now;
    uint64_t next_due;   // no link is due before this time
    uint64_t accept_due; // time at which waiting listeners try again
    uint64_t tick_due;
    uint32_t events; // number of events in this round
    uint64_t rounds; // number of rounds before this one
    bool in_round;
    bool deferred;  // van_defer is on
    bool unsettled; // libuv was given work since its loop last ran
    bool freeing;
    char *input;   // buffer of TCP_INPUT_BYTES for received bytes
    char *plain;   // a decrypted TLS record
    char *scratch; // small pieces joined to one TLS record
};

// Defined in tcp_check.c: Returns whether a link may change from state
// `from` to state `to`.
bool tcp_may_follow(enum tcp_state from, enum tcp_state to);
#ifndef NDEBUG
void tcp_check(const struct tcp_van *v);
#else
static inline void tcp_check(const struct tcp_van *v)
{
    (void)v;
}
#endif

static inline void tcp_link_becomes(struct tcp_link *l, enum tcp_state next)
{
    assert(tcp_may_follow(l->state, next));
    l->state = next;
}

// Defined in tcp_listen.c:
int tcp_listen(struct van *base, const char *address, char ret[VAN_ADDRESS_MAX],
               struct err *e);
void tcp_listeners_close(struct tcp_van *v);
void tcp_accept_due(struct tcp_van *v);

// Defined in tcp_dial.c:
van_link tcp_connect(struct van *base, const char *address, uint64_t timeout_ns);
void tcp_dial_due(struct tcp_link *l);
// Schedules the next attempt to connect after one has failed, or, if `final`, gives up.
void tcp_dial_failed(struct tcp_link *l, const struct err *why, bool final);
// Tries for token_timeout_ns longer after an attempt has failed because the token was
// wrong.
void tcp_dial_unproven(struct tcp_link *l, struct err *why);
void tcp_dial_free(struct tcp_link *l);
// Returns 0 if plain TCP with this address is allowed; otherwise sets *e and returns
// TUG_EUSAGE.
int tcp_plain_allowed(const struct tcp_van *v, const struct sockaddr_storage *s,
                      const char *what, struct err *e);

// Defined in tcp_link.c:
struct tcp_link *tcp_link_new(struct tcp_van *v, bool accepted);
struct tcp_stream *tcp_stream_new(struct tcp_van *v, bool is_unix);
void tcp_stream_close(struct tcp_stream *s);
void tcp_link_connected(struct tcp_link *l); // called when the link's socket is connected
void tcp_link_open(struct tcp_link *l); // called when messages can be sent over the link
// Makes the link read frames of at most max_bytes from now on.
void tcp_link_begin_frames(struct tcp_link *l, uint64_t max_bytes);
void tcp_link_due_at(struct tcp_link *l, uint64_t when);
void tcp_link_due(struct tcp_link *l); // called at the time that tcp_link_due_at has set
void tcp_link_fail(struct tcp_link *l, const struct err *why);
void tcp_link_drained(struct tcp_link *l); // called when the queue is empty
void tcp_link_say_end(struct tcp_link *l);
void tcp_link_disconnect(struct tcp_link *l);
void tcp_link_end(struct tcp_link *l, enum tcp_state state);
void tcp_link_free(struct tcp_link *l);
void tcp_close_link(struct van *base, van_link number);

// Defined in tcp_prove.c:
void tcp_prove_begin(struct tcp_link *l); // called after connecting and the TLS handshake
void tcp_prove_message(struct tcp_link *l, const struct van_message *m);
void tcp_prove_free(struct tcp_link *l);

// Defined in tcp_limits.c:
void tcp_limits_open(struct tcp_van *v);
// Returns whether one more link may be accepted; may close the oldest stranger for it.
enum tcp_room tcp_limits_room(struct tcp_van *v, const struct tcp_stream *s);
// Adds a link to the list of strangers.
void tcp_limits_stranger(struct tcp_link *l, bool trial);
void tcp_limits_known(struct tcp_link *l); // the link is not a stranger any more
// Checks that there is room for a peer that claims this role; if it has proven the role,
// makes room by closing other links. TUG_EIO if there is no room.
int tcp_limits_admit(struct tcp_link *l, enum wire_role role, bool proven, struct err *e);
void tcp_limits_say_full(const struct tcp_van *v, struct err *ret);
void tcp_limits_gone(struct tcp_link *l);
void tcp_limits_came(struct tcp_link *l, size_t n); // notes that n bytes were read
void tcp_limits_due(struct tcp_link *l); // closes an open link if it is too slow
// Records that n more bytes wait to be sent; tcp_limits_sent records that n fewer do.
void tcp_limits_queue(struct tcp_link *l, uint64_t n);
void tcp_limits_sent(struct tcp_van *v, uint64_t n);
void tcp_limits_relieve(struct tcp_van *v); // frees memory when the budget is exhausted

// Defined in tcp_out.c: Sends a message of the van itself, before the link is open. If
// the message is lost, the peer that waits for it times out.
void tcp_link_say(struct tcp_link *l, uint16_t type, const void *msg);
int tcp_send(struct van *base, van_link link, uint16_t type, uint64_t request,
             const void *msg, const struct van_release *release);
void tcp_out_flush(struct tcp_link *l);
void tcp_out_drop(struct tcp_link *l);
// Sends the bytes that TLS itself has produced, such as its handshake and alerts.
void tcp_out_session(struct tcp_link *l);

#endif
