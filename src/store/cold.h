// Rows of a store that lie on disk: what cold*.c know of them, beyond what
// store_internal.h says.
//
// A row that comes into memory leaves its copy on disk: it will be written again when it
// goes out, and a delete now would only be one more write. Rows that have a copy are
// marked, so that it goes when they go. A partition's `cold` counts the rows that are on
// disk only; where it is 0 nothing is looked for.
//
// What is put and deleted waits in the tier's batch, for all partitions together, and is
// written before anything is read. If that fails it goes on waiting, so nothing is lost.
//
// What goes out is chosen as by a clock: a hand goes round over the rows of a partition,
// takes a use from each, and sends out those that have none left. What a row came in for,
// a pull and a push, is no use of it: most are not asked for again soon. (Simulated, for
// batches of 4,096 keys by zipf 1.05 and memory for a tenth of them: 28 % of a batch's
// keys have to be fetched; 33 % if a row has one bit, set when it comes; 23 % if the most
// frequent ones were known.) The hand goes when a partition has more rows than its share,
// and sends out a sixteenth of them.
//
// On disk a row is its floats, and those of its extra row if it has one; the column of
// the extra row's handle is 0. A durable tier has a record of each partition, too, as
// store_put_partition wants it. It is written with the first rows that go out on a day,
// since what rows say of time counts from their partition's day.
//
// Threads: the store's owner.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_COLD_H
#define TUG_STORE_COLD_H

#include "base/file.h"
#include "cold/tier.h"
#include "store/store_internal.h"

enum {
    COLD_FETCH_ROWS = 4096, // asked for together
    COLD_GO_ROWS = 1024,    // that go out together
    COLD_WAITING = 1 << 14, // changes that wait to be written, at most
    COLD_WALK_ROWS = 512,   // of a walk, looked at together: as many, or
    COLD_WALK_BYTES = 1 << 20,
    COLD_RECORDS = 1 << 16, // the tier's partition with the records
};

// Uses: 0 to COLD_USED, and
enum {
    COLD_USED = 6,
    COLD_GOING = 253, // chosen; a row may stand in a partition's list twice
    COLD_CAME = 254,  // two uses make it 0
};

struct cold_part {
    uint32_t hand;  // in store_part.rows
    uint32_t limit; // rows in memory beyond which some go out
    uint32_t swept; // the day on which unseen rows were last looked for
    uint32_t day;   // of the record on disk
    bool recorded;  // there is one

    // For deltas: cold_delta.c.
    uint32_t shrunk; // the day of the last shrink
    struct key_list out;
    struct key_list cut_out, cut_published, cut_kept; // while a cut goes on
    struct key_list published;                        // until STORE_PUBLISHED
};

// Keys that are asked for, and what was found.
struct cold_fetch {
    uint32_t which[COLD_FETCH_ROWS]; // of the caller's keys
    uint32_t partitions[COLD_FETCH_ROWS];
    uint64_t keys[COLD_FETCH_ROWS];
    uint8_t found[COLD_FETCH_ROWS];
    const void *rows[COLD_FETCH_ROWS];
    uint32_t sizes[COLD_FETCH_ROWS];
    uint32_t handles[COLD_FETCH_ROWS];
};

// Rows that a walk looks at together.
struct cold_walk {
    uint32_t max, slot_bytes;
    char *bytes;
    uint64_t keys[COLD_WALK_ROWS];
    uint32_t sizes[COLD_WALK_ROWS], handles[COLD_WALK_ROWS];
};

struct cold {
    struct tier *tier;
    char dir[FILE_PATH_MAX];
    struct cold_part *parts;
    uint32_t share; // of a partition: rows in memory; UINT32_MAX: any number
    uint8_t *uses;  // by handle: since the hand came by, see above
    uint32_t n_uses;
    struct handle_bits copied; // a copy is on disk
    uint32_t unwritten;        // puts and deletes without a tier_write
    uint32_t row_bytes, extra_bytes;
    char *image; // of one row
    struct cold_fetch fetch;
    struct cold_walk walk;
    uint32_t going[COLD_GO_ROWS];
    struct handle_list sweep;
    uint64_t promoted, demoted;
};

int cold_damaged(const struct store *s, uint64_t key, uint32_t size, struct err *e);
bool cold_size_fits(const struct cold *c, uint32_t size);

// What waits to be written: a get must not find what was there before it.
int cold_write_waiting(struct cold *c, struct err *e);

// Puts what is in memory of rows to disk, to be written. They stay in memory.
int cold_put_rows(struct store *s, uint32_t p, const uint32_t *handles, uint32_t n,
                  struct err *e);

// Rows on disk, but not in memory, of some keys: copies. `fn` may put and delete.
typedef int (*cold_row_fn)(void *ctx, uint64_t key, float *row, uint32_t size,
                           struct err *e);
int cold_visit(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
               cold_row_fn fn, void *ctx, struct err *e);
struct cold_at { // a context for it
    struct store *s;
    uint32_t p;
};

// cold_delta.c. After cold_reserve_out cold_note_out has room for n keys.
int cold_reserve_out(struct store *s, uint32_t p, uint32_t n);
void cold_note_out(struct store *s, uint32_t p, uint64_t key);
int cold_publish(struct store *s, uint32_t p, struct err *e); // STORE_PUBLISHED
void cold_free_lists(struct cold_part *part);

// Durable: all rows, those in memory too, are on disk and will be found again.
int cold_keep(struct store *s, struct err *e);

// Durable, when it is opened: counts what is there.
int cold_find_again(struct store *s, struct err *e);

#endif
