// Shared by the simulated world and its vans.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_SIM_INTERNAL_H
#define TUG_KIT_SIM_INTERNAL_H

#include "kit/parcel.h"
#include "kit/sim.h"
#include "van/links.h"

enum { SIM_VANS_MAX = 8192 }; // at the same time

enum sim_kind { SIM_ATTEMPT, SIM_OPENED, SIM_MESSAGE, SIM_CLOSED };
enum sim_why { SIM_BY_PEER, SIM_BROKEN, SIM_CRASHED };

// Events name links by number: a link may be gone when its event comes.
struct sim_event {
    uint64_t time, number; // of events at the same time the lower number comes first
    enum sim_kind kind;
    enum sim_why why;          // SIM_CLOSED
    struct sim_van *to, *from; // NULL: the van was freed; from: no van sent it
    van_link link;             // of `to`
    struct parcel *parcel;     // SIM_MESSAGE
};

// A heap of what will happen, and a list of what waits for a partition to heal. Room is
// made before anything is promised, so putting an event never fails.
struct sim_queue {
    struct sim_event *heap, *held;
    uint32_t n_heap, n_held, cap;
    uint64_t numbers;
};

// Room for `more` events besides those there are. TUG_ENOMEM.
int sim_queue_reserve(struct sim_queue *q, uint32_t more);
void sim_queue_put(struct sim_queue *q, struct sim_event e);
struct sim_event sim_queue_take(struct sim_queue *q); // there is one
void sim_queue_hold(struct sim_queue *q, const struct sim_event *e);
void sim_queue_forget(struct sim_queue *q, const struct sim_van *v);
void sim_queue_free(struct sim_queue *q);

struct sim_end {
    struct sim_conn *conn;
    struct sim_van *van; // NULL: not there yet, or closed
    van_link number;
    enum wire_role role; // of the van; of one that has closed, too
    bool open;
    bool mute;          // what it sends does not arrive, and nobody is told
    uint64_t opened;    // nothing arrives at this end before
    uint64_t heard;     // the last message to this end came
    uint64_t arrival;   // of the last message to this end, so far
    uint64_t in_flight; // bytes that this end has sent and that have not arrived
};

struct sim_conn {
    struct sim_end ends[2]; // who connected; who accepted
    struct sim_conn *next;  // of those that can be freed
    bool broken;            // both ends will be told
    uint64_t began, deadline, backoff;
    char address[VAN_ADDRESS_MAX], from[VAN_ADDRESS_MAX];
};

struct sim_van {
    struct van base;
    struct sim *s;
    struct sim_van *next;
    struct van_handler h;
    struct links links; // of struct sim_end
    struct wire_out out;
    bool crashed;
    uint64_t still_until, deaf_until; // it is stopped, and does not tick, or hear, before
    enum van_kind kind;               // of its links, to others
    enum wire_role role;              // as what others let it in
    double silences;                  // of its links, beside those of the options
    bool loses_none;                  // messages go with their links only
    uint32_t slot;
    uint8_t apart[SIM_VANS_MAX / 8]; // bits, by slot
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
    uint64_t draws; // random numbers used so far
    struct sim_queue queue;
    struct sim_van *vans; // in the order of their opening
    // By slot: the van, and when it ticks, side by side, for it is looked for all the time.
    struct sim_van *slots[SIM_VANS_MAX];
    uint64_t tick_at[SIM_VANS_MAX];
    uint32_t n_slots; // that have ever been taken
    struct sim_listener *listeners;
    struct sim_conn *done; // freed when no handler runs
    uint32_t n_conns;
    void (*line)(void *ctx, const char *text);
    void *line_ctx;
};

bool sim_are_apart(const struct sim_van *a, const struct sim_van *b);
void sim_put_apart(struct sim_van *a, const struct sim_van *b, bool apart);

// A message on its way, with the faults that the seed has for it. Takes the parcel.
int sim_transmit(struct sim *s, struct sim_end *end, struct parcel *p);

// A new connection from `v` to `address`; NULL: out of memory.
struct sim_conn *sim_dial(struct sim *s, struct sim_van *v, const char *address,
                          uint64_t timeout_ns);
// One end closes; the other is told.
void sim_hang_up(struct sim *s, struct sim_end *end, enum sim_why why);

int sim_listen(struct sim *s, struct sim_van *v, const char *address, struct err *e);
void sim_unlisten(struct sim *s, const struct sim_van *v);

#endif
