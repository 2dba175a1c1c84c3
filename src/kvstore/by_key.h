// Things of a kvstore by their keys: entries of a worker's store, and arrays that are kept.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_BY_KEY_H
#define TUG_KVSTORE_BY_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tug/kvstore.h"

enum { KVS_NAME_MAX = 256 }; // bytes of a name, its end included
enum { KVS_TEXT_MAX = KVS_NAME_MAX + 16 };

// A key that is the store's own.
struct kvs_key {
    uint64_t id;    // below 2^48
    uint64_t whole; // of a slice: the key's id; else the same
    uint32_t slice; // from 0 on
    bool named;
    int64_t number;
    char name[KVS_NAME_MAX];
    char text[KVS_TEXT_MAX]; // "key 3", "key 'w'", for sentences
};

int kvs_key_make(struct kvs_key *ret, const struct tug_kvstore_key *key, struct err *e);
// The key of a slice: 0 is the key itself.
void kvs_key_slice(struct kvs_key *k, uint32_t slice);
uint64_t kvs_slice_id(const struct kvs_key *k, uint32_t slice);
struct tug_kvstore_key kvs_key_given(const struct kvs_key *k);
bool kvs_key_same(const struct kvs_key *a, const struct kvs_key *b);

// Zeroed, it is empty. Each element begins with its struct kvs_key.
struct kvs_by_key {
    void **list; // ascending id
    size_t n, cap;
};

size_t kvs_by_key_place(const struct kvs_by_key *l,
                        uint64_t id);                           // where it is or would be
void *kvs_by_key_find(const struct kvs_by_key *l, uint64_t id); // or NULL
int kvs_by_key_reserve(struct kvs_by_key *l, struct err *e);    // room for one more
void kvs_by_key_add(struct kvs_by_key *l, void *x); // there is room, and no such key yet
void kvs_by_key_remove(struct kvs_by_key *l, const void *x);
void kvs_by_key_free(struct kvs_by_key *l); // the list, not what was in it

#endif
