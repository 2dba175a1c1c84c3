// Writes the files of a save in a thread of its own, so that a loop never waits for a
// disk. Blocks are copied into a queue of limited size; a caller that finds no room tries
// again when it is woken.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVES_SAVE_WRITER_H
#define TUG_SERVER_SAVES_SAVE_WRITER_H

#include "save/rows_file.h"

// Limit of the bytes in the queue. The last block that is added may exceed the limit.
#define SAVE_WRITER_BYTES ((size_t)8 << 20)

struct save_writer;

struct save_writer_options {
    int level;     // level of zstd
    bool threaded; // false, for tests: the caller of the functions below writes the files
                   // itself
    void (*wake)(void *ctx);
    void *ctx; // for `wake`, which the thread calls when the queue has room again, when a
               // file is written, or when writing has failed
};

int save_writer_open(struct save_writer **ret, const struct save_writer_options *o,
                     struct err *e);
// Waits until the current item is written, and frees the writer. A file that was begun
// and not ended is removed. NULL is fine.
void save_writer_close(struct save_writer *w);
// Abandons the writer without waiting: its thread ends by itself when the disk answers.
// NULL is fine.
void save_writer_abandon(struct save_writer *w);

// Returns whether a block may be added.
bool save_writer_has_room(struct save_writer *w);

// Begin a file, add a block and end the file. `root` is as in rows_create; an
// abandoned writer opens no more files below `root`. They return 0 or TUG_ENOMEM.
int save_writer_begin(struct save_writer *w, int root, const char *path,
                      const struct rows_shape *shape, struct err *e);
int save_writer_add(struct save_writer *w, const struct rows_block *b, struct err *e);
int save_writer_end(struct save_writer *w, struct err *e);

// Sets *ret_n to the number of files that are written and synced, and copies the
// facts about each, in their order, into ret (room for `max`). Returns the error if
// the writer has failed.
int save_writer_done(struct save_writer *w, struct rows_info *ret, size_t max,
                     size_t *ret_n, struct err *e);

#endif
