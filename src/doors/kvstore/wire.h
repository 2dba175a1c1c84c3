// The protocol between workers and servers of a kvstore, in messages of kvapp.
//
// Pushes and pulls are key-value requests with one key, which names a part of an array:
// the first key of the server's range plus the id of the array's key or slice. Their
// values are 4-byte words: a head and then what enum kvs_cmd says; an answer to a pull
// has the elements alone. Everything else is a simple request whose head is one of enum
// kvs_ask. All numbers are little-endian, like the machines that tug runs on. The server
// checks everything that it receives.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_WIRE_H
#define TUG_DOORS_KVSTORE_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { KVS_APP = 77 };

// Returns n rounded up to a multiple of `to`.
static inline size_t kvs_padded(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

enum kvs_cmd {
    // The contents of each kind of request:
    KVS_INIT = 1,  // head, the key's name (`n` bytes, padded to 8), elements
    KVS_PUSH,      // head, elements
    KVS_PUSH_ROWS, // head, `n` 64-bit row numbers within the part, elements of these rows
    KVS_PUSH_CODED, // head, the compressed elements (coding.h)
    KVS_PULL,       // none
    KVS_PULL_ROWS,  // head, `n` 64-bit row numbers within the part
};

struct kvs_head {
    uint32_t dtype;
    uint32_t coding;      // for KVS_PUSH_CODED: an enum kvs_coding
    uint64_t rows, width; // the shape of the part
    uint64_t n;
    int64_t number; // for KVS_INIT: the key, if it is a number
    uint32_t sparse, named;
    float threshold;
    // The low 32 bits of the number of pushes that this rank made to the key before.
    uint32_t round;
    uint32_t slice; // for KVS_INIT: number of the slice in the key, from 0
    uint32_t unused;
};

enum kvs_ask {
    // Each line names the body of the request, and the body of its answer.
    KVS_HELLO = 1, // has struct kvs_hello; answered with struct kvs_welcome
    KVS_META,      // asks with an id; answered with struct kvs_meta when the key was made
    KVS_OPTIMIZER, // has the optimizer's text
    KVS_COMMAND,   // has an int32_t head and the command's body
    KVS_BARRIER,   // has no body; sent to server 0
    KVS_SAVE,      // has no body; answered with the server's states
    KVS_LOAD,      // has states
    KVS_STOP,      // has no body; no worker sends requests any more
    KVS_CHECK,     // has states; fails if KVS_LOAD would fail
    KVS_WHO,       // has struct kvs_who; answered with struct kvs_missing
};

struct kvs_hello {
    uint32_t async, workers;
};
struct kvs_welcome {
    uint32_t recovers; // 1: an earlier worker of this rank has sent KVS_HELLO
};
struct kvs_meta {
    uint32_t dtype, sparse;
    uint64_t rows, width, rounds;
};

// Asks the server for the workers that have not reached the barrier, or have not pushed to
// the key `id`.
struct kvs_who {
    uint32_t barrier, unused;
    uint64_t id;
};
enum { KVS_RANKS_SHOWN = 8 };
struct kvs_missing {
    uint32_t made;                   // 0: there is no such key
    uint32_t n;                      // number of workers for which the request waits
    uint32_t ranks[KVS_RANKS_SHOWN]; // ranks of the first of these workers
};

#endif
