// Writes the files of a save on a thread of its own, so that a loop never waits for a
// disk. Blocks are copied into a queue of bounded size; a caller that finds no room tries
// again when it is woken.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SAVE_WRITER_H
#define TUG_SERVER_SAVE_WRITER_H

#include "save/rows_file.h"

#define SAVE_WRITER_BYTES ((size_t)8 << 20) // that wait, and a block more

struct save_writer;

struct save_writer_options {
    int level;     // of zstd
    bool threaded; // false: all is written by who adds it (tests)
    void (*wake)(
        void *ctx); // from the thread: there is room again, a file is written, or
    void *ctx;      // it has failed
};

int save_writer_open(struct save_writer **ret, const struct save_writer_options *o,
                     struct err *e);
// Waits for what is being written; a file that was not ended is removed. NULL is fine.
void save_writer_close(struct save_writer *w);
// Does not wait: the thread ends by itself when its disk lets it. NULL is fine.
void save_writer_abandon(struct save_writer *w);

// Whether a block may be added.
bool save_writer_has_room(struct save_writer *w);

// A file, its blocks, its end. `root`: as in rows_create; the writer opens nothing of it
// once it is abandoned. TUG_ENOMEM.
int save_writer_begin(struct save_writer *w, int root, const char *path,
                      const struct rows_shape *shape, struct err *e);
int save_writer_add(struct save_writer *w, const struct rows_block *b, struct err *e);
int save_writer_end(struct save_writer *w, struct err *e);

// How many files are written and synced, in their order; or why it has failed. Copies the
// contents of each into ret (room for `max`).
int save_writer_done(struct save_writer *w, struct rows_info *ret, size_t max,
                     size_t *ret_n, struct err *e);

#endif
