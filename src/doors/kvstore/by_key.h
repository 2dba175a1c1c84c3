// Lists of structs by key: the entries of a worker's store, and the arrays of a server.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_BY_KEY_H
#define TUG_DOORS_KVSTORE_BY_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tug/kvstore.h"

enum { KVS_NAME_MAX = 256 }; // bytes of a name, including the final 0
enum { KVS_TEXT_MAX = KVS_NAME_MAX + 16 };

// A key with a copy of its name.
struct kvs_key {
    uint64_t id;    // id of the array or slice, below 2^48
    uint64_t whole; // for a slice: id of the key's array; else equal to `id`
    uint32_t slice; // number of the slice in the key, from 0
    bool named;
    int64_t number;
    char name[KVS_NAME_MAX];
    char text[KVS_TEXT_MAX]; // the key in messages: "key 3" or "key 'w'"
};

int kvs_key_make(struct kvs_key *ret, const struct tug_kvstore_key *key, struct err *e);
// Changes the key *k to the key of one of its slices. Slice 0 has the same key.
void kvs_key_slice(struct kvs_key *k, uint32_t slice);
uint64_t kvs_slice_id(const struct kvs_key *k, uint32_t slice);
struct tug_kvstore_key kvs_key_given(const struct kvs_key *k);
bool kvs_key_same(const struct kvs_key *a, const struct kvs_key *b);

// A list of structs that begin with their struct kvs_key. Zeroed, it is empty.
struct kvs_by_key {
    void **list; // sorted by id
    size_t n, cap;
};

// Returns the index of the id, or the index at which to insert it.
size_t kvs_by_key_place(const struct kvs_by_key *l, uint64_t id);
void *kvs_by_key_find(const struct kvs_by_key *l, uint64_t id); // NULL if not found
int kvs_by_key_reserve(struct kvs_by_key *l, struct err *e);    // memory for one more
// Adds x, after kvs_by_key_reserve. The list must not have the key of x.
void kvs_by_key_add(struct kvs_by_key *l, void *x);
void kvs_by_key_remove(struct kvs_by_key *l, const void *x);
void kvs_by_key_free(struct kvs_by_key *l); // frees the list, not its elements

#endif
