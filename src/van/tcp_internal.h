// What the files of the tcp van share: the van, its links, their sockets and what waits
// to be sent.
//
//   tcp.c         the van: polling, time, opening and freeing
//   tcp_listen.c  listening and accepting
//   tcp_dial.c    connecting: names, addresses, one attempt after the other
//   tcp_link.c    the life of a link, and reading from it
//   tcp_prove.c   the handshake of a link
//   tcp_out.c     sending
//   tcp_limits.c  strangers, slow peers, and the account of what all of them cost
//
// A link outlives its sockets (connecting takes several) and a socket may outlive its
// link: libuv closes it in its own time, and frees what is in struct tcp_stream then.
// Links are freed between rounds only, so that no caller holds one that is gone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_INTERNAL_H
#define TUG_VAN_TCP_INTERNAL_H

#include <uv.h>

#include "base/clock.h"
#include "van/frame.h"
#include "van/handshake.h"
#include "van/links.h"
#include "van/tcp.h"
#include "van/tcp_address.h"
#include "van/tls_session.h"

// Read at one go from all links; one message after the other is taken out of it. Plain
// links read less: when the head of a bulky message is there, the rest of it is read to
// where it belongs, and only what came with the head is copied. TLS copies all of it once
// more and decrypts the copy: what is read lies in the second level cache until then.
enum {
    TCP_INPUT_BYTES = 128 << 10,
    TCP_PLAIN_INPUT = 64 << 10,
    TCP_DIRECT_FROM = 32 << 10
};

enum tcp_state {
    LINK_WAITING, // for the next attempt to connect
    LINK_RESOLVING,
    LINK_CONNECTING,
    LINK_SHAKING, // hands: TLS
    LINK_PROVING, // the token, or nothing but nonces: see handshake.h
    LINK_OPEN,
    LINK_CLOSING, // by van_close_link: what is queued goes out
    LINK_FAILED,  // `closed` is to be called
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
    struct tcp_link *link; // NULL: abandoned
};

// A run of bytes to be sent.
struct tcp_segment {
    struct tcp_segment *next;
    const char *data;
    size_t n;
    char *block;      // of the van's pool, when the bytes lie there
    bool offered;     // libuv has been given its extent: nothing may be added to it
    uint64_t counted; // in the account
    struct van_release release; // when it has left; .release NULL: nothing to do
};

// Of a link that is being connected.
struct tcp_dial {
    char list[VAN_ADDRESS_MAX]; // as it was asked for: addresses with commas between
    const char *rest;           // of it: what has not been tried in this round
    struct tcp_address address; // that is tried
    uint64_t began, deadline;
    uint64_t unproven_since;   // when the handshake first failed; 0: it has not
    const char *unproven_rest; // `rest` then
    uint32_t tries;
    uint32_t n_found, next; // addresses of the host
    struct sockaddr_storage found[8];
    struct tcp_lookup *lookup; // of the name, while it goes on
};

// How fast bytes move that should.
struct tcp_pace {
    uint64_t since; // 0: none are under way
    uint64_t bytes; // that have moved since
};

enum tcp_room {
    TCP_ROOM,
    TCP_TRIAL,   // until its role is known: tcp_limits_admit
    TCP_FULL,    // for who comes now; it is told so
    TCP_NO_WORD, // it is closed at once: there are no descriptors left
};

struct tcp_link {
    struct tcp_van *van;
    van_link number;
    enum tcp_state state;
    bool accepted;
    bool known; // a whole message has come
    bool local; // both ends are on this machine
    enum van_kind kind;
    bool writing;             // libuv has bytes to write and will call back
    bool dirty;               // to be flushed at the end of the round
    bool ended;               // in the van's list of those
    bool opened;              // the handler knows of it
    bool said_end, heard_end; // of TLS
    bool knocked;             // the other end has, and was answered
    struct tcp_stream *stream;
    struct tls_session *tls;
    struct tcp_dial *dial;       // NULL: accepted, or done
    struct handshake *handshake; // while it goes on
    struct van_trust trust;
    struct frame_reader reader;
    uint64_t last_byte; // when it came
    uint64_t hello_by;  // a stranger's first message
    bool stranger;      // in the van's list of those
    bool trial;         // it is in the reserve, if still a stranger
    bool joined;        // by van_joined
    struct tcp_link *older, *newer;
    uint64_t counted; // of the link itself, in the account
    struct tcp_pace in, out;
    uint64_t due; // when tcp_link_due is to be called; VAN_NEVER
    struct tcp_segment *first, *last;
    uint64_t queued;
    size_t in_flight; // bytes that libuv has: of the queue, or of the cipher block
    char *cipher;     // a block with encrypted bytes that libuv has; counted
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
    bool waiting; // someone is to be accepted
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
    char known_as[VAN_ADDRESS_MAX]; // to those behind a proxy or NAT; empty: not so
    struct links links;
    uint32_t n_accepted, n_strangers, n_trials;
    struct tcp_link *oldest, *newest; // strangers
    bool over;                        // more is queued than there is room for
    struct frame_pool pool;
    struct wire_out out;
    struct tcp_segment *unused_segments;
    struct tcp_link *dirty, *ended;
    struct frame_reader *reading; // whose message the handler has
    uint64_t now;
    uint64_t next_due;   // no link is due before
    uint64_t accept_due; // when listeners that wait try again
    uint64_t tick_due;
    uint32_t events; // of this round
    bool in_round;
    bool deferred;  // by van_defer
    bool unsettled; // libuv has been given something since it last ran
    bool freeing;
    char *input;   // TCP_INPUT_BYTES
    char *plain;   // a record of TLS, decrypted
    char *scratch; // small pieces that become one record
};

// tcp_listen.c
int tcp_listen(struct van *base, const char *address, char ret[VAN_ADDRESS_MAX],
               struct err *e);
void tcp_listeners_close(struct tcp_van *v);
void tcp_accept_due(struct tcp_van *v);

// tcp_dial.c
van_link tcp_connect(struct van *base, const char *address, uint64_t timeout_ns);
void tcp_dial_due(struct tcp_link *l);
// An attempt has failed: the next one, or, with `final`, none.
void tcp_dial_failed(struct tcp_link *l, const struct err *why, bool final);
// Likewise, for want of the right token: attempts are made for a while.
void tcp_dial_unproven(struct tcp_link *l, struct err *why);
void tcp_dial_free(struct tcp_link *l);
// Whether plain TCP to or from there is allowed; else TUG_EUSAGE in a sentence.
int tcp_plain_allowed(const struct tcp_van *v, const struct sockaddr_storage *s,
                      const char *what, struct err *e);

// tcp_link.c
struct tcp_link *tcp_link_new(struct tcp_van *v, bool accepted);
struct tcp_stream *tcp_stream_new(struct tcp_van *v, bool is_unix);
void tcp_stream_close(struct tcp_stream *s);
void tcp_link_connected(struct tcp_link *l); // its socket is
void tcp_link_open(struct tcp_link *l);      // it can be used from now on
// What comes now are frames of at most so many bytes.
void tcp_link_begin_frames(struct tcp_link *l, uint64_t max_bytes);
void tcp_link_due_at(struct tcp_link *l, uint64_t when);
void tcp_link_due(struct tcp_link *l); // it is
void tcp_link_fail(struct tcp_link *l, const struct err *why);
void tcp_link_drained(struct tcp_link *l); // nothing is queued any more
void tcp_link_say_end(struct tcp_link *l);
void tcp_link_disconnect(struct tcp_link *l);
void tcp_link_end(struct tcp_link *l, enum tcp_state state);
void tcp_link_free(struct tcp_link *l);
void tcp_close_link(struct van *base, van_link number);

// tcp_prove.c
void tcp_prove_begin(struct tcp_link *l); // it is connected, and TLS is done
void tcp_prove_message(struct tcp_link *l, const struct van_message *m);
void tcp_prove_free(struct tcp_link *l);

// tcp_limits.c
void tcp_limits_open(struct tcp_van *v);
// Whether one more may come; the oldest stranger may have been closed for it.
enum tcp_room tcp_limits_room(struct tcp_van *v, const struct tcp_stream *s);
void tcp_limits_stranger(struct tcp_link *l, bool trial); // who has come
void tcp_limits_known(struct tcp_link *l);                // who has said something
// There is room for who says that it is of this role, or, when it has proven it, room is
// made. TUG_EIO: there is none.
int tcp_limits_admit(struct tcp_link *l, enum wire_role role, bool proven, struct err *e);
void tcp_limits_say_full(const struct tcp_van *v, struct err *ret);
void tcp_limits_gone(struct tcp_link *l);
void tcp_limits_came(struct tcp_link *l, size_t n); // n bytes were read
void tcp_limits_due(struct tcp_link *l);            // of an open link
// n bytes more, or fewer, wait to be sent.
void tcp_limits_queue(struct tcp_link *l, uint64_t n);
void tcp_limits_sent(struct tcp_van *v, uint64_t n);
void tcp_limits_relieve(struct tcp_van *v); // when there is no room for more

// tcp_out.c
// A message of the van itself, before the link is open. What does not go out is noticed
// by the one who waits for it.
void tcp_link_say(struct tcp_link *l, uint16_t type, const void *msg);
int tcp_send(struct van *base, van_link link, uint16_t type, uint64_t request,
             const void *msg, const struct van_release *release);
void tcp_out_flush(struct tcp_link *l);
void tcp_out_drop(struct tcp_link *l);
// What TLS has to say of itself goes out now.
void tcp_out_session(struct tcp_link *l);

#endif
