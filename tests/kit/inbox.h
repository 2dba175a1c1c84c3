// The queue in which a van gets items from other threads of the process, and the list of
// these queues by address.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_INBOX_H
#define TUG_KIT_INBOX_H

#include "kit/parcel.h"

struct inbox;

enum item_kind { ITEM_DIAL, ITEM_ACCEPTED, ITEM_REFUSED, ITEM_MESSAGE, ITEM_CLOSED };

struct item {
    struct item *next;
    enum item_kind kind;
    van_link to; // number of the receiver's end of the link; 0 for ITEM_DIAL
    // For ITEM_DIAL and ITEM_ACCEPTED: the number of the sender's end of the link, and the
    // sender's inbox, with a reference.
    van_link from_link;
    struct inbox *from;
    struct parcel *parcel; // for ITEM_MESSAGE
    char address[];        // for ITEM_DIAL: the sender's address
};

struct item *item_new(enum item_kind kind, const char *address);
void item_free(struct item *i); // NULL is fine

// Turns the item `i` into an item of kind `kind` and sends it back to the sender of `i`;
// its new sender is the end `link` of the inbox `self` (NULL: no inbox). Returns false if
// the sender has closed its inbox; the item is then freed.
bool item_answer(struct item *i, enum item_kind kind, struct inbox *self, van_link link);

struct inbox *inbox_open(void); // NULL if memory ran out
struct inbox *inbox_ref(struct inbox *b);
void inbox_unref(struct inbox *b); // the last reference frees it; NULL is fine

// Takes over the item and returns true; returns false if the inbox is closed.
bool inbox_post(struct inbox *b, struct item *i);
// Takes all items. Waits for an item until `until`, or until inbox_wake is called.
struct item *inbox_take(struct inbox *b, uint64_t until);
uint64_t inbox_bytes(struct inbox *b); // bytes of the messages that were not taken yet
void inbox_wake(struct inbox *b);
// Closes the inbox, and notifies peers that are connecting or were accepted.
void inbox_shut(struct inbox *b);

// The listeners of the whole process.
int inbox_publish(struct inbox *b, const char *address, struct err *e);
void inbox_unpublish(const struct inbox *b);
// Returns the inbox of the van that listens at this address, with a reference; NULL if no
// van does.
struct inbox *inbox_look_up(const char *address);

#endif
