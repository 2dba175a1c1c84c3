// Types that the simulated world and its vans share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SIM_INTERNAL_H
#define TUG_KIT_SIM_INTERNAL_H

#include "kit/parcel.h"
#include "kit/sim.h"
#include "van/links.h"

enum { SIM_VANS_MAX = 8192 }; // most vans at the same time

enum sim_kind { SIM_ATTEMPT, SIM_OPENED, SIM_MESSAGE, SIM_CLOSED };
enum sim_why { SIM_BY_PEER, SIM_BROKEN, SIM_CRASHED };

// Events name a link by its number, because the link may be freed before the event is
// due.
struct sim_event {
    // `number` orders events of the same time: lower numbers come first.
    uint64_t time, number;
    enum sim_kind kind;
    enum sim_why why; // reason, for SIM_CLOSED
    // `to` is NULL if the van was freed; `from` is NULL if no van sent the event.
    struct sim_van *to, *from;
    van_link link;         // number of the link at `to`
    struct parcel *parcel; // the message, for SIM_MESSAGE
};

// A heap of future events, and a list of the events that wait until a partition ends.
// Room for events is made in advance, so putting an event never fails.
struct sim_queue {
    struct sim_event *heap, *held;
    uint32_t n_heap, n_held, cap;
    uint64_t numbers;
};

// Makes room for `more` events besides the present ones. Returns TUG_ENOMEM if memory ran
// out.
int sim_queue_reserve(struct sim_queue *q, uint32_t more);
void sim_queue_put(struct sim_queue *q, struct sim_event e);
struct sim_event sim_queue_take(struct sim_queue *q); // the queue must not be empty
void sim_queue_hold(struct sim_queue *q, const struct sim_event *e);
void sim_queue_forget(struct sim_queue *q, const struct sim_van *v);
void sim_queue_free(struct sim_queue *q);

struct sim_end {
    struct sim_conn *conn;
    // The van of this end; NULL if the end is not open yet, or closed.
    struct sim_van *van;
    van_link number;
    enum wire_role role; // role of the van, also after this end has closed
    bool open;
    bool mute;       // messages that this end sends are lost, and neither end is notified
    uint64_t opened; // nothing arrives at this end before this time
    uint64_t heard;  // time at which the last message arrived at this end
    uint64_t arrival; // latest arrival of the messages that were sent to this end so far
    uint64_t in_flight; // bytes that this end has sent and that have not arrived
};

struct sim_conn {
    struct sim_end ends[2]; // the end that connected, then the end that accepted
    struct sim_conn *next;  // next in the list of connections that can be freed
    bool broken;            // the connection has broken, and both ends will be notified
    uint64_t began, deadline, backoff;
    char address[VAN_ADDRESS_MAX], from[VAN_ADDRESS_MAX];
};

struct sim_van {
    struct van base;
    struct sim *s;
    struct sim_van *next;
    struct van_handler h;
    struct links links; // the van's ends of connections (struct sim_end)
    struct wire_out out;
    bool crashed;
    // The process is stopped: it does not tick before still_until, and receives nothing
    // before deaf_until.
    uint64_t still_until, deaf_until;
    // The time that the process has read before it was stopped. Calls between deaf_until
    // and still_until get this time.
    uint64_t clock;
    enum van_kind kind;  // the kind that this van's links have for other nodes
    enum wire_role role; // the role with which other nodes accept this van
    // Rate at which the van's links fall silent, in addition to that of the options.
    double silences;
    bool loses_none;  // messages are lost only together with their link
    bool breaks_none; // its links do not break by themselves
    // The least time between ticks, and the time of the last tick.
    uint64_t round, ticked;
    uint32_t slot;
    // Bits by slot: the vans to which no message of this one gets.
    uint8_t apart[SIM_VANS_MAX / 8];
    char name[VAN_ADDRESS_MAX];
};

struct sim_listener {
    struct sim_listener *next;
    struct sim_van *van;
    char address[VAN_ADDRESS_MAX];
};

struct sim {
    struct sim_options o;
    uint64_t now;
    uint64_t draws;  // number of random numbers used so far
    uint64_t rounds; // number of rounds so far
    struct sim_queue queue;
    struct sim_van *vans; // all vans, in the order of their opening
    // For each slot, the van and the time of its tick. They are in two arrays of their own,
    // because the search for the next tick is frequent.
    struct sim_van *slots[SIM_VANS_MAX];
    uint64_t tick_at[SIM_VANS_MAX];
    uint32_t n_slots; // number of slots that were ever used
    struct sim_listener *listeners;
    struct sim_conn *done; // connections that will be freed when no handler runs
    uint32_t n_conns;
    void (*line)(void *ctx, const char *text);
    void *line_ctx;
};

// Returns whether messages of one van do not get to the other one.
bool sim_are_apart(const struct sim_van *from, const struct sim_van *to);
void sim_put_apart(struct sim_van *a, const struct sim_van *b, bool apart);

// Sends a message with the faults that the seed has for it. Takes over the parcel.
int sim_transmit(struct sim *s, struct sim_end *end, struct parcel *p);

// Begins a connection from `v` to `address`; returns NULL if memory ran out.
struct sim_conn *sim_dial(struct sim *s, struct sim_van *v, const char *address,
                          uint64_t timeout_ns);
// Closes one end and notifies the other end.
void sim_hang_up(struct sim *s, struct sim_end *end, enum sim_why why);

int sim_listen(struct sim *s, struct sim_van *v, const char *address, struct err *e);
void sim_unlisten(struct sim *s, const struct sim_van *v);

#endif
