// The protocol between workers and servers of a kvstore, in messages of kvapp.
//
// Pushes and pulls are key-value requests of one key: a part of an array, at the
// beginning of its server's range + the id of the key, or of the slice. Values are 4-byte
// words of any kind: a head, then what the request says behind it; answers to pulls are
// the elements alone. All else is simple requests, whose head is one of enum kvs_ask. All
// numbers are little-endian, as the machines are that tug runs on. The server checks all
// received values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_WIRE_H
#define TUG_KVSTORE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { KVS_APP = 77 };

// Bytes of n with what pads them to a multiple of `to`.
static inline size_t kvs_padded(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

enum kvs_cmd {
    KVS_INIT = 1,   // head, `n` bytes of name padded to 8, elements
    KVS_PUSH,       // head, elements
    KVS_PUSH_ROWS,  // head, `n` ids (64 bits, of this part), their elements
    KVS_PUSH_CODED, // head, words as coding.h has them
    KVS_PULL,       // nothing
    KVS_PULL_ROWS,  // head, `n` ids
};

struct kvs_head {
    uint32_t dtype;
    uint32_t coding;      // KVS_PUSH_CODED
    uint64_t rows, width; // of the part
    uint64_t n;
    int64_t number; // KVS_INIT
    uint32_t sparse, named;
    float threshold;
    uint32_t round; // of a push: the last 32 bits of how many its rank has given before
    uint32_t slice; // KVS_INIT: which slice of its key the part is, from 0 on
    uint32_t unused;
};

enum kvs_ask {
    KVS_HELLO = 1, // struct kvs_hello; the answer is a struct kvs_welcome
    KVS_META,      // an id; struct kvs_meta, once the key has been made
    KVS_OPTIMIZER, // its text
    KVS_COMMAND,   // int32_t head, the body
    KVS_BARRIER,   // nothing: of server 0
    KVS_SAVE,      // nothing; states
    KVS_LOAD,      // states
    KVS_STOP,      // nothing: no worker will ask for anything any more
    KVS_CHECK,     // states: whether a KVS_LOAD would take them
};

struct kvs_hello {
    uint32_t async, workers;
};
struct kvs_welcome {
    uint32_t recovers; // a worker of this rank was here before
};
struct kvs_meta {
    uint32_t dtype, sparse;
    uint64_t rows, width, rounds;
};

#endif
