// Every kind of van behind one interface, for the tests that all of them must pass. A
// world has some nodes with a van each; `PUMP` lets time pass in all of them, in one
// thread, until a condition is true.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_VANS_H
#define TUG_KIT_VANS_H

#include "kit/sim.h"
#include "kit/test.h"
#include "os/clock.h"
#include "van/tcp.h"
#include "van/tls.h"

enum { NODES = 3, LINKS = 128 };

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define PATIENCE (60 * SECOND) // limit of real time for any wait

struct vans;

// A van and the messages that it got.
struct node {
    struct vans *w;
    struct van *v;
    char address[VAN_ADDRESS_MAX]; // address at which it listens
    unsigned opened, accepted, closed, messages, ticks;
    van_link link;         // the last link that opened
    van_link links[LINKS]; // the first links that opened
    van_link closed_link;  // the last link that closed
    struct err why;
    // last: number of the last request. ticked_at: time of the last tick. tick_at: time
    // of the requested tick.
    uint64_t last, ticked_at, tick_at;
    uint64_t now; // the last time that the van passed to a handler
    bool in_order;

    // Called when a link opens or a message arrives; may be NULL.
    void (*on_opened)(struct node *n, van_link link, bool accepted);
    void (*on_message)(struct node *n, van_link link, struct van_message *m);
    void *place; // memory for bodies
    unsigned places;
    void *data; // a pointer for the test's own use
};

struct vans_kind {
    const char *name;
    int (*open_van)(struct vans *w, const char *name, const struct van_handler *h,
                    struct van **ret, struct err *e);
    const char *listen; // pattern of an address; %d %d are the process and a number
    bool simulated, tls;
    enum van_kind links; // kind that links of these vans have
};

struct vans {
    const struct vans_kind *kind;
    struct sim *sim;
    struct tls *tls;
    struct tcp_options tcp; // options of vans with sockets, without keys
    struct node nodes[NODES];
    uint64_t patient_until;
};

// The van's handlers, which are the same for every node.
void node_message(void *ctx, van_link link, struct van_message *m, uint64_t now);
uint64_t node_tick(void *ctx, uint64_t now);
int vans_try_open(struct vans *w, int i, struct err *e);
struct node *vans_open(struct vans *w, int i);
void vans_close(struct node *n);
// Gets an address of this kind, for a node to listen on.
void vans_new_address(const struct vans *w, char ret[VAN_ADDRESS_MAX]);
void vans_listen(struct node *n, const char *address);
void vans_listen_anywhere(struct node *n);
void vans_step(struct vans *w);

// Lets time pass until the condition holds.
#define PUMP(w, condition)                                                               \
    do {                                                                                 \
        (w)->patient_until = clock_ns() + PATIENCE;                                      \
        while (!(condition)) {                                                           \
            if (clock_ns() > (w)->patient_until)                                         \
                fail_msg("did not happen in time: %s", #condition);                      \
            vans_step(w);                                                                \
        }                                                                                \
    } while (0)

// Lets time pass until nothing is under way, to check that something does not happen.
void vans_settle(struct vans *w);
// Sends a small message, which must be the first one on a link, as HELLO is: vans may
// demand it.
void vans_greet(struct node *from, van_link link, struct node *to);
// Opens nodes a and b; b listens, and a opens a link to it.
void vans_open_pair(struct vans *w);
// Opens keys. All nodes use the same certificate, as the vans of one process may do.
void vans_open_keys(struct vans *w);
void vans_close_keys(struct vans *w);

int vans_open_tcp(struct vans *w, const char *name, const struct van_handler *h,
                  struct van **ret, struct err *e);
enum { VANS_KINDS = 5 };
extern const struct vans_kind vans_kinds[VANS_KINDS];

#endif
