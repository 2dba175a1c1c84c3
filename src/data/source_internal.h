// The inside of a source: what its thread and its consumers share.
//
// Invariants:
// 1. A chunk that begins at byte o of a file ends behind the last newline within
//    chunk_bytes of o; when there is none, behind the first newline after; at the end of
//    the file, there. It so depends on nothing but the file and o, and reading can begin
//    anew at any chunk.
// 2. At most queue_chunks finished chunks wait, except the first lines of a pipe while a
// caller reads them. Their buffers come from a free list and go
//    back to it; one that grew for a long line is freed instead.
// 3. An error of the thread is handed out behind the earlier chunks, so that the choice
// among several errors does not depend on timing.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_INTERNAL_H
#define TUG_DATA_SOURCE_INTERNAL_H

#include <pthread.h>

#include "data/paths.h"
#include "data/source.h"

// A chunk and its buffer; the chunk is the first member, so that a consumer's pointer is
// ours.
struct box {
    struct chunk chunk;
    struct box *next;
    char *text;
    size_t cap; // without the padding
};

struct source {
    struct data_files files;
    size_t chunk_bytes, max_line_bytes, queue_chunks;
    bool eager;
    const atomic_bool *interrupted;
    int wake_fd; // ends the wait for a pipe

    struct source_place from; // where the thread begins
    bool started;             // the thread exists and is not joined; consumers' side
    pthread_t thread;

    pthread_mutex_t lock; // of all below
    pthread_cond_t ready; // something to take, or the end
    pthread_cond_t room;  // the queue has room, or stop
    struct box *head, **tail;
    struct box *free;
    size_t queued, out;
    size_t queued_bytes,
        wanted_bytes; // of the queue; that are wanted whatever its length
    bool stop, ended, taken;
    struct source_place end; // where the thread ended
    struct err failure;      // code 0: none
};

void box_free(struct box *b); // NULL is fine

// The thread: reads from `from` on until the end, an error, or `stop`.
void *source_feed(void *source);

#endif
