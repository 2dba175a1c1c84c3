// The inside of a source, shared by its thread and its consumers.
//
// Invariants:
// 1. A chunk that begins at byte o of a file ends behind the last newline within chunk_bytes
//    of o; or, if there is none, behind the first newline after that; or at the end of the
//    file. So it depends only on the file and o, and reading can begin again at any chunk.
// 2. At most queue_chunks finished chunks wait, except for the first lines of a pipe while
//    a caller reads them. Buffers come from a free list and return to it; a buffer that grew
//    for a long line is freed instead.
// 3. An error of the thread is returned after all earlier chunks, so that it does not
//    depend on timing which of several errors is reported.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_SOURCE_INTERNAL_H
#define TUG_DATA_SOURCE_SOURCE_INTERNAL_H

#include <pthread.h>

#include "data/source/paths.h"
#include "data/source/source.h"

// A chunk and its buffer. The chunk is the first member, so that a consumer's pointer to
// it is a pointer to the box.
struct box {
    struct chunk chunk;
    struct box *next;
    char *text;
    size_t cap; // size of `text` in bytes, without the padding
};

struct source {
    struct data_files files;
    size_t chunk_bytes, max_line_bytes, queue_chunks;
    bool eager;
    const atomic_bool *interrupted;
    // With grace_seconds: `asked` is the caller's flag, and `interrupted` points to gave_up,
    // which is set when no chunk has come for grace_ns since waited_from.
    const atomic_bool *asked;
    atomic_bool gave_up;
    uint64_t grace_ns, waited_from;
    int wake_fd; // readable: a read that waits for a pipe returns

    struct source_place from; // the place at which the thread begins
    bool started; // the thread exists and is not joined yet; used by consumers
    pthread_t thread;

    pthread_mutex_t lock; // protects all fields below
    pthread_cond_t ready; // there is a chunk to take, or the end
    pthread_cond_t room;  // the queue has room, or the thread must stop
    struct box *head, **tail;
    struct box *free;
    size_t queued, out;
    // The number of bytes in the queue, and the number of bytes that a caller wants in it
    // even if it is full.
    size_t queued_bytes, wanted_bytes;
    bool stop, ended, taken;
    struct source_place end; // the place at which the thread has ended
    struct err failure;      // code 0: none
};

void box_free(struct box *b); // `b` may be NULL

// The main function of the thread: reads from `from` on until the end, an error, or
// `stop`.
void *source_feed(void *source);

#endif
