// The inside of the cold tier of a store, shared by cold*.c; store_internal.h has its
// interface.
//
// A row that is promoted into memory keeps its copy on disk: a delete would be one more
// write, and the next demotion overwrites the copy anyway. Rows with a copy are marked,
// so that the copy is deleted with them. A partition's `cold` counts the rows that are on
// disk only; if it is 0, the disk is not searched.
//
// Puts and deletes of all partitions wait in one batch of the tier, which is written
// before anything is read. If the write fails, the batch stays, so that no row is lost.
//
// Rows to demote are chosen by a clock: a hand moves over the rows of a partition, takes
// one use from each, and demotes the rows without any left. The pull and the push for
// which a row was promoted do not count as uses: most rows are not needed again soon.
// (Simulated, for batches of 4,096 keys by zipf 1.05 and memory for a tenth of them: 28 %
// of a batch's keys have to be fetched; 33 % if a row has one bit, set when it is
// promoted; 23 % if the most frequent ones were known.) The hand moves when a partition
// has more rows than its share, and demotes a sixteenth of them.
//
// On disk a row is its floats, and those of its extra row if it has one; the column of
// the extra row's handle is 0. A durable tier also has a record of each partition, in the
// form of store_put_partition. It is written with the first rows that are demoted on a
// day, since times in rows count from their partition's day.
//
// Threads: the store's owner.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_COLD_H
#define TUG_STORE_COLD_H

#include "cold/tier.h"
#include "os/file.h"
#include "store/store_internal.h"

enum {
    COLD_FETCH_ROWS = 4096, // most rows that are fetched at a time
    COLD_GO_ROWS = 1024,    // most rows that are demoted at a time
    COLD_WAITING = 1 << 14, // number of waiting changes at which they are written
    COLD_WALK_ROWS = 512,   // a walk reads at most this many rows, or COLD_WALK_BYTES,
                            // together
    COLD_WALK_BYTES = 1 << 20,
    COLD_RECORDS = 1 << 16, // number of the tier's partition that has the records
};

// The values of `uses`: 0 to COLD_USED count uses, and the others are marks.
enum {
    COLD_USED = 6,
    // The row is chosen to be demoted. The mark prevents that it is chosen again, because
    // the list of rows may contain it twice.
    COLD_GOING = 253,
    COLD_CAME = 254, // the row was just promoted. The pull and the push for which it was
                     // promoted are its next two uses, which set the value to 0
};

struct cold_part {
    uint32_t hand;  // position of the clock hand in store_part.rows
    uint32_t limit; // number of rows in memory above which some rows are demoted
    uint32_t swept; // the day of the last search for unseen rows
    uint32_t day;   // day of the record on disk
    bool recorded;  // whether the disk has a record of this partition

    // The following members serve deltas (cold_delta.c).
    uint32_t shrunk; // the day of the partition's last shrink
    struct key_list out;
    struct key_list cut_out, cut_published, cut_kept; // used during a cut
    // Keys of cold rows that were published; the operation STORE_PUBLISHED empties the
    // list.
    struct key_list published;
};

// A fetch of rows from the disk: the keys that are looked up, and the rows that were
// found.
struct cold_fetch {
    uint32_t which[COLD_FETCH_ROWS]; // index of each key among the caller's keys
    uint32_t partitions[COLD_FETCH_ROWS];
    uint64_t keys[COLD_FETCH_ROWS];
    uint8_t found[COLD_FETCH_ROWS];
    const void *rows[COLD_FETCH_ROWS];
    uint32_t sizes[COLD_FETCH_ROWS];
    uint32_t handles[COLD_FETCH_ROWS];
};

// A buffer for the rows that a walk reads together.
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
    uint32_t share; // the most rows of a partition in memory; UINT32_MAX: no limit
    // The uses of each handle's row: see COLD_USED.
    uint8_t *uses;
    uint32_t n_uses;
    struct handle_bits copied; // a bit for each row in memory that has a copy on disk
    uint32_t unwritten;        // number of puts and deletes that wait to be written
    uint32_t row_bytes, extra_bytes;
    char *image; // scratch for one row in the format of the disk
    struct cold_fetch fetch;
    struct cold_walk walk;
    uint32_t going[COLD_GO_ROWS];
    struct handle_list sweep;
    uint64_t promoted, demoted;
};

int cold_damaged(const struct store *s, uint64_t key, uint32_t size, struct err *e);
bool cold_size_fits(const struct cold *c, uint32_t size);

// Writes the waiting changes to disk, so that a get returns rows with these changes.
int cold_write_waiting(struct cold *c, struct err *e);

// Puts rows into the batch for the disk. They also stay in memory.
int cold_put_rows(struct store *s, uint32_t p, const uint32_t *handles, uint32_t n,
                  struct err *e);

// Call `fn` with a copy of each row that is on disk only: of a partition, or those of some
// keys. `fn` may put and delete rows of the tier.
typedef int (*cold_row_fn)(void *ctx, uint64_t key, float *row, uint32_t size,
                           struct err *e);
int cold_walk(struct store *s, uint32_t p, cold_row_fn fn, void *ctx, struct err *e);
int cold_visit(struct store *s, uint32_t p, const uint64_t *keys, uint32_t n,
               cold_row_fn fn, void *ctx, struct err *e);
struct cold_at { // a context for `fn`
    struct store *s;
    uint32_t p;
};

// From cold_delta.c. cold_reserve_out makes room for n calls of cold_note_out.
int cold_reserve_out(struct store *s, uint32_t p, uint32_t n);
void cold_note_out(struct store *s, uint32_t p, uint64_t key);
// Does the operation STORE_PUBLISHED.
int cold_publish(struct store *s, uint32_t p, struct err *e);
void cold_free_lists(struct cold_part *part);

// Writes all rows of a durable tier, including those in memory, so that they are found
// when the tier is opened again.
int cold_keep(struct store *s, struct err *e);

// Counts the rows on disk. Called when a durable tier is opened that was closed before.
int cold_find_again(struct store *s, struct err *e);

#endif
