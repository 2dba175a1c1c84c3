// Bytes of a partition on their way between two shards: each item starts at a multiple of 8
// bytes. Bytes that are read come from another process, so every length is checked.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_MOVES_STREAM_H
#define TUG_SERVER_MOVES_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum { STREAM_ALIGN = 8 };

// stream_add appends n bytes, and zeros up to the next multiple of 8; stream_add_u64s
// appends n numbers. Both return what buf_add returns.
int stream_add(struct buf *to, const void *bytes, size_t n);
int stream_add_u64s(struct buf *to, const uint64_t *x, size_t n);

struct stream {
    const char *bytes;
    size_t n, at; // `at` is a multiple of 8
};

// Returns the address of the next n items of `size` bytes, and moves past them;
// NULL if fewer are left.
const void *stream_take(struct stream *x, uint64_t n, size_t size);
// Copies n numbers. Returns false if fewer are left.
bool stream_u64s(struct stream *x, uint64_t *ret, size_t n);
// Sets the error that the bytes are damaged. Returns TUG_EDATA.
int stream_damaged(struct err *e);

#endif
