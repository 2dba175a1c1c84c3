// Where a van of the process is sent things by other threads, and how it is found.
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
    van_link to;           // number of the link where it arrives; 0: ITEM_DIAL
    van_link from_link;    // ITEM_DIAL, ITEM_ACCEPTED: number of the sender's end,
    struct inbox *from;    // and where it is; counted
    struct parcel *parcel; // ITEM_MESSAGE
    char address[];        // ITEM_DIAL: the sender's
};

struct item *item_new(enum item_kind kind, const char *address);
void item_free(struct item *i); // NULL is fine

// Returns an item to its sender, as `kind`, from `self` (NULL: from none) and its link.
// False: they are gone, and the item is freed.
bool item_answer(struct item *i, enum item_kind kind, struct inbox *self, van_link link);

struct inbox *inbox_open(void); // NULL: out of memory
struct inbox *inbox_ref(struct inbox *b);
void inbox_unref(struct inbox *b); // the last one frees it; NULL is fine

// Takes the item and returns true; false if the inbox is closed.
bool inbox_post(struct inbox *b, struct item *i);
// Takes all items, waiting until `until`, or until woken.
struct item *inbox_take(struct inbox *b, uint64_t until);
uint64_t inbox_bytes(struct inbox *b); // of messages not taken yet
void inbox_wake(struct inbox *b);
// Closes the inbox; diallers and accepted peers are told.
void inbox_shut(struct inbox *b);

// The listeners of the whole process.
int inbox_publish(struct inbox *b, const char *address, struct err *e);
void inbox_unpublish(const struct inbox *b);
struct inbox *inbox_look_up(const char *address); // with a reference; NULL: nobody

#endif
