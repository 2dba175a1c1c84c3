// Messages, rosters and closings of links that a scheduler with a journal sends, in their
// order, when its state is durable (scheduler_keep.c).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_OUTBOX_H
#define TUG_CLUSTER_SCHEDULER_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "van/van.h"

struct encoded_roster;
struct outgoing;

struct outbox {
    struct outgoing *list;
    uint32_t n, cap;
    size_t bytes; // the bytes of the messages in the list, without rosters
    uint32_t
        sealed; // how many messages at the start of the list wait for the journal's last
                // group; the others wait for its next group
};

// Add a copy of a message, or a roster of which the outbox takes over one use. If memory
// is short or too many wait, the message is lost, as on the network.
void outbox_send(struct outbox *b, van_link link, uint16_t type, uint64_t request,
                 const void *msg);
void outbox_send_roster(struct outbox *b, van_link link, uint64_t request,
                        struct encoded_roster *x);
// Returns false if memory is short, so that the caller closes the link at once.
bool outbox_close_link(struct outbox *b, van_link link);

void outbox_seal(struct outbox *b); // from now on all messages in the list wait for the
                                    // journal's last group
void outbox_release_sealed(struct outbox *b, struct van *v); // sends the sealed messages
void outbox_release(struct outbox *b, struct van *v);        // sends all messages
void outbox_drop(struct outbox *b);                          // drops all messages
void outbox_free(struct outbox *b);

#endif
