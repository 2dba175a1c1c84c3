// A channel: the stream of records from a loop (the sender) to the loop that is the next
// member of chains of partitions (the receiver). The receiver asks for the bytes from `at`
// on, so nothing is lost if a link breaks. The sender keeps each record until all later
// members of the partition's chain have it, because it sends the record again if the
// receiver dies.
//
// The outlet is the sender's end, the inlet the receiver's. Neither of them reads a clock
// or does I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CHAIN_CHANNEL_H
#define TUG_SERVER_CHAIN_CHANNEL_H

#include "base/buf.h"
#include "wire/wire.h"

enum { CHANNEL_ARRAYS = 3 };

// A partition that a record is about.
struct channel_place {
    uint32_t partition;
    uint32_t n;        // number of its items, for example of its keys
    uint64_t position; // the number of records of this partition before this one
};

// A record: the common content, and items for each of some partitions of a space, which
// ascend. Some places of a record with their items make a record, too.
struct channel_record {
    uint32_t kind; // enum record_kind (server/moves/record.h)
    enum wire_space space;
    uint32_t bits; // the number of bits of partitions
    uint32_t n_places;
    uint64_t epoch; // epoch of the sender when it appended the record
    const struct channel_place *places;
    const char *common;
    size_t n_common; // number of its bytes, a multiple of 8
    // The items of all places, one place after the other, in arrays; in array i an item has
    // each[i] bytes, which may be 0.
    size_t n_items;
    uint32_t each[CHANNEL_ARRAYS];
    const char *items[CHANNEL_ARRAYS];
};

struct outlet {
    // The channel's bytes from byte `from` on, which begins a record.
    struct buf bytes;
    uint64_t from;
    uint64_t
        first; // the first byte that is kept, which begins a record; not below `from`
};

void outlet_open(struct outlet *o);
void outlet_close(struct outlet *o);
// Returns the number of all bytes that were ever appended.
uint64_t outlet_end(const struct outlet *o);
// Returns the number of bytes that are kept.
uint64_t outlet_kept(const struct outlet *o);
// Returns whether the arrays of a record whose counts are set are not too long for a
// receiver.
bool channel_fits(const struct channel_record *r);
// Returns the bytes of a record whose counts are set.
size_t channel_bytes(const struct channel_record *r);

// A record that is being appended. Offsets in the outlet's bytes: of its begin, of its next
// place, and of this place's items.
struct outlet_draft {
    size_t begin, place, items[CHANNEL_ARRAYS];
};
// outlet_begin appends a record like *r, whose places and items follow; returns 0 or
// TUG_ENOMEM. outlet_place adds the next place, and outlet_items the items
// [first, first + n) of *r.
int outlet_begin(struct outlet *o, const struct channel_record *r,
                 struct outlet_draft *ret);
void outlet_place(struct outlet *o, struct outlet_draft *d,
                  const struct channel_place *place);
void outlet_items(struct outlet *o, struct outlet_draft *d,
                  const struct channel_record *r, size_t first, size_t n);
void outlet_finish(struct outlet *o, const struct outlet_draft *d);
// Appends a whole record. Returns 0 or TUG_ENOMEM.
int outlet_append(struct outlet *o, const struct channel_record *r);
// Makes room for this many bytes of records, so that appending them cannot fail. Returns 0
// or TUG_ENOMEM.
int outlet_reserve(struct outlet *o, size_t bytes);
// Gets the bytes from byte `at` on, at most `max` of them. Returns their number; 0 if the
// outlet has none, or does not keep byte `at` any more.
size_t outlet_from(const struct outlet *o, uint64_t at, size_t max,
                   const char **ret_bytes);
// Reads the record that begins at byte *at, which was appended and is kept, and sets *at
// to its end. Returns false if *at is the end of the channel.
bool outlet_record(const struct outlet *o, uint64_t *at, struct channel_record *ret);
// Drops the records before byte `at`, which begins a record or is the end.
void outlet_drop(struct outlet *o, uint64_t at);

struct inlet {
    uint64_t at; // number of bytes that have arrived
    // The bytes that have arrived and whose records were not taken, behind `skip` bytes
    // that were taken: the n_lent bytes at `lent`, or if it is NULL, those of `bytes`.
    struct buf bytes;
    const char *lent;
    size_t n_lent, skip;
};

void inlet_open(struct inlet *i);
void inlet_close(struct inlet *i);
// Drops what was not taken; the next byte to arrive, which begins a record, is byte `at`.
void inlet_begin(struct inlet *i, uint64_t at);
// Adds bytes that arrived, whose first one is byte `at` of the channel. Ignores bytes
// that are not the next ones. The bytes must stay valid until inlet_keep, which copies
// those that were not taken. Both return 0, or TUG_ENOMEM, after which the bytes have not
// arrived.
int inlet_add(struct inlet *i, uint64_t at, const void *bytes, size_t n);
int inlet_keep(struct inlet *i);
// Returns the number of bytes that wait to be taken.
size_t inlet_left(const struct inlet *i);
// Reads the first record that was not taken; its content is valid until the next call of
// a function of this inlet. Returns 1; 0 if the record has not arrived completely; or
// TUG_EDATA if the bytes are damaged.
int inlet_record(const struct inlet *i, struct channel_record *ret, struct err *e);
void inlet_take(struct inlet *i, const struct channel_record *r); // takes this record

#endif
