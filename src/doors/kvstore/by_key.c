// Lists by key, as sorted arrays: keys are made at the beginning of a run and looked up
// afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/by_key.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/search.h"

// ---------------------------------------------------------------- keys

int kvs_key_make(struct kvs_key *ret, const struct tug_kvstore_key *key, struct err *e)
{
    struct kvs_key k = {.named = key->name != NULL, .number = key->number};
    if (!k.named) {
        k.id = k.whole = hash_bytes(&k.number, sizeof(k.number), 0) >> 16;
        snprintf(k.text, sizeof(k.text), "key %lld", (long long)k.number);
        *ret = k;
        return 0;
    }
    size_t n = strlen(key->name);
    if (n == 0 || n >= sizeof(k.name))
        return err_set(e, TUG_EUSAGE,
                       "a key's name has 1 to %d bytes, but this one has %zu",
                       KVS_NAME_MAX - 1, n);
    memcpy(k.name, key->name, n + 1);
    k.number = 0;
    k.id = k.whole = hash_bytes(k.name, n, 1) >> 16;
    snprintf(k.text, sizeof(k.text), "key '%s'", k.name);
    *ret = k;
    return 0;
}

uint64_t kvs_slice_id(const struct kvs_key *k, uint32_t slice)
{
    return slice == 0 ? k->whole : mix64(k->whole + ((uint64_t)slice << 48)) >> 16;
}

void kvs_key_slice(struct kvs_key *k, uint32_t slice)
{
    k->id = kvs_slice_id(k, slice);
    k->slice = slice;
}

struct tug_kvstore_key kvs_key_given(const struct kvs_key *k)
{
    return (struct tug_kvstore_key){k->named ? k->name : NULL, k->number};
}

bool kvs_key_same(const struct kvs_key *a, const struct kvs_key *b)
{
    return a->named == b->named && a->number == b->number && a->slice == b->slice &&
           strcmp(a->name, b->name) == 0;
}

// ---------------------------------------------------------------- the list

static const struct kvs_key *key_of(const struct kvs_by_key *l, size_t i)
{
    return l->list[i];
}

size_t kvs_by_key_place(const struct kvs_by_key *l, uint64_t id)
{
    return search_first(0, l->n, i, key_of(l, i)->id >= id);
}

void *kvs_by_key_find(const struct kvs_by_key *l, uint64_t id)
{
    size_t at = kvs_by_key_place(l, id);
    return at < l->n && key_of(l, at)->id == id ? l->list[at] : NULL;
}

int kvs_by_key_reserve(struct kvs_by_key *l, struct err *e)
{
    return mem_room(&l->list, &l->cap, l->n + 1) == 0 ? 0 : err_nomem(e, "a key");
}

void kvs_by_key_add(struct kvs_by_key *l, void *x)
{
    size_t at = kvs_by_key_place(l, ((const struct kvs_key *)x)->id);
    memmove(l->list + at + 1, l->list + at, (l->n - at) * sizeof(*l->list));
    l->list[at] = x;
    l->n++;
}

void kvs_by_key_remove(struct kvs_by_key *l, const void *x)
{
    size_t at = kvs_by_key_place(l, ((const struct kvs_key *)x)->id);
    l->n--;
    memmove(l->list + at, l->list + at + 1, (l->n - at) * sizeof(*l->list));
}

void kvs_by_key_free(struct kvs_by_key *l)
{
    mem_free(l->list);
    *l = (struct kvs_by_key){0};
}
