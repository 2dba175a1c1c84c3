// Reads the keys of a request. One loop over the keys cuts them into runs. A set of the
// keys of one run, which usually fits into the L1 cache, finds keys that occur twice.
//
// SPDX-License-Identifier: Apache-2.0
#include "protocol/keys.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/roster.h"
#include "wire/pack.h"

int keys_scratch_init(struct keys_scratch *s, uint32_t partition_bits)
{
    *s = (struct keys_scratch){.bits = partition_bits};
    s->runs = mem_array(((size_t)1 << partition_bits) + 1, sizeof(*s->runs));
    return s->runs != NULL ? 0 : TUG_ENOMEM;
}

void keys_scratch_fini(struct keys_scratch *s)
{
    mem_free(s->runs);
    mem_free(s->unpacked);
    key_set_fini(&s->seen);
    *s = (struct keys_scratch){0};
}

// ---------------------------------------------------------------- lists

void key_lists_free(struct key_lists *l)
{
    for (size_t i = 0; i < KEYS_LISTS; i++)
        mem_free(l->list[i].keys);
    budget_give(l->budget, BUDGET_LISTS, l->bytes);
    *l = (struct key_lists){.budget = l->budget};
}

static struct listed_keys *list_find(struct key_lists *l, uint64_t signature)
{
    for (size_t i = 0; i < KEYS_LISTS; i++)
        if (l->list[i].signature == signature)
            return &l->list[i];
    return NULL;
}

static void list_drop(struct key_lists *l, struct listed_keys *x)
{
    assert(l->bytes >= x->n * sizeof(*x->keys));
    mem_free(x->keys);
    l->bytes -= x->n * sizeof(*x->keys);
    budget_give(l->budget, BUDGET_LISTS, x->n * sizeof(*x->keys));
    *x = (struct listed_keys){0};
}

static struct listed_keys *list_oldest(struct key_lists *l)
{
    struct listed_keys *oldest = &l->list[0];
    for (size_t i = 1; i < KEYS_LISTS; i++)
        if (l->list[i].used < oldest->used)
            oldest = &l->list[i];
    return oldest;
}

// Remembers a list, unless there is no memory for it. Then a later request with this list
// is refused with REASON_KEYS_UNKNOWN.
static void list_add(struct key_lists *l, uint64_t signature, const uint64_t *keys,
                     uint32_t n)
{
    size_t bytes = n * sizeof(*keys);
    struct listed_keys *x = list_find(l, signature);
    if (bytes > KEYS_LISTS_BYTES)
        return;
    if (x != NULL)
        list_drop(l, x);
    x = list_oldest(l);
    list_drop(l, x);
    for (size_t i = 0; i < KEYS_LISTS && l->bytes + bytes > KEYS_LISTS_BYTES; i++) {
        struct listed_keys *old = NULL;
        for (size_t k = 0; k < KEYS_LISTS; k++)
            if (l->list[k].signature != 0 && (old == NULL || l->list[k].used < old->used))
                old = &l->list[k];
        assert(old != NULL); // the limit is exceeded, so a list exists
        list_drop(l, old);
    }
    assert(x->signature == 0 && l->bytes + bytes <= KEYS_LISTS_BYTES);
    if (!budget_take(l->budget, BUDGET_LISTS, bytes))
        return;
    uint64_t *copy = mem_alloc(bytes);
    if (copy == NULL) {
        budget_give(l->budget, BUDGET_LISTS, bytes);
        return;
    }
    memcpy(copy, keys, bytes);
    *x = (struct listed_keys){signature, ++l->uses, copy, n};
    l->bytes += bytes;
}

static int list_use(struct key_lists *l, const struct keys_wire *w, const uint64_t **ret,
                    struct err *e)
{
    struct listed_keys *x = list_find(l, w->list);
    if (x == NULL || x->n != w->n)
        return err_because(e, TUG_EUSAGE, REASON_KEYS_UNKNOWN, 0,
                           "key list unknown: %016llx of %u keys",
                           (unsigned long long)w->list, w->n);
    x->used = ++l->uses;
    *ret = x->keys;
    return 0;
}

// ---------------------------------------------------------------- decoding

static int unpacked_reserve(struct keys_scratch *s, size_t n)
{
    if (n <= s->max_unpacked)
        return 0;
    uint64_t *keys = mem_array(n, sizeof(*keys));
    if (keys == NULL)
        return TUG_ENOMEM;
    mem_free(s->unpacked);
    s->unpacked = keys;
    s->max_unpacked = n;
    return 0;
}

static int unpack(struct keys_scratch *s, const struct keys_wire *w, const uint64_t **ret,
                  struct err *e)
{
    // A block of 128 packed keys takes at least 9 bytes, so this check refuses only
    // impossible numbers of keys. It comes before the allocation of memory.
    if (w->n / 256 > w->span.n)
        return err_set(e, TUG_EUSAGE,
                       "it announces %u keys, but has only %llu bytes of packed keys",
                       w->n, (unsigned long long)w->span.n);
    if (unpacked_reserve(s, w->n) != 0)
        return err_nomem(e, "keys to unpack");
    if (unpack_keys(w->span.data, w->span.n, w->n, s->unpacked, e) != 0) {
        if (e != NULL)
            e->code = TUG_EUSAGE;
        return TUG_EUSAGE;
    }
    *ret = s->unpacked;
    return 0;
}

static int decode(struct keys_scratch *s, struct key_lists *lists,
                  const struct keys_wire *w, const uint64_t **ret, struct err *e)
{
    *ret = NULL;
    if (w->n > KEYS_MAX)
        return err_set(e, TUG_EUSAGE, "it has %u keys; %d are allowed", w->n, KEYS_MAX);
    if (w->span.n == 0 && w->list != 0 && w->n > 0)
        return list_use(lists, w, ret, e);
    if (w->flags & WIRE_KEYS_PACKED) {
        TRY(unpack(s, w, ret, e));
    } else {
        if (w->span.n != (uint64_t)w->n * sizeof(uint64_t))
            return err_set(e, TUG_EUSAGE,
                           "it announces %u keys, but has %llu bytes of keys", w->n,
                           (unsigned long long)w->span.n);
        *ret = w->span.data;
    }
    if (w->list != 0 && w->n > 0)
        list_add(lists, w->list, *ret, w->n);
    return 0;
}

static int keys_cut(struct keys_scratch *s, enum wire_space space, struct keys *k,
                    struct err *e)
{
    struct key_run *run = s->runs - 1;
    uint32_t bits = s->bits, last = 0, longest = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t p = roster_partition(bits, space, k->key[i]);
        if (p == last && i > 0)
            continue;
        if (p < last)
            return err_set(e, TUG_EUSAGE,
                           "key %llu of partition %u follows one of partition %u, but "
                           "keys must be sent by ascending partition",
                           (unsigned long long)k->key[i], p, last);
        if (i > 0 && i - run->begin > longest)
            longest = i - run->begin;
        *++run = (struct key_run){p, i};
        assert(p >> bits == 0 &&
               run - s->runs <= p); // partitions ascend, so there is a place for each run
        last = p;
    }
    k->runs = s->runs;
    k->n_runs = (uint32_t)(run + 1 - s->runs);
    k->longest = longest;
    if (k->n_runs > 0 && k->n - run->begin > longest)
        k->longest = k->n - run->begin;
    run[1] = (struct key_run){UINT32_MAX, k->n};
    assert((k->n > 0) == (k->n_runs > 0) && k->longest <= k->n);
    return 0;
}

int keys_read(struct keys_scratch *s, struct key_lists *lists, const struct keys_wire *w,
              enum wire_space space, struct keys *ret, struct err *e)
{
    *ret = (struct keys){.n = w->n};
    TRY(decode(s, lists, w, &ret->key, e));
    return keys_cut(s, space, ret, e);
}

// Runs of at most this many keys are compared pair by pair, which is faster than a set.
enum { FEW = 6 };

static bool few_distinct(const uint64_t *keys, uint32_t n, uint32_t *ret_twice)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (keys[k] == keys[i]) {
                *ret_twice = i;
                return false;
            }
    return true;
}

// Returns whether the keys of a run are distinct; if not, *ret_twice is the index of a
// key that occurred before. Equal keys are always in the same run, because they have the
// same partition.
static bool run_distinct(struct key_set *seen, const uint64_t *keys, uint32_t n,
                         uint32_t *ret_twice)
{
    if (n <= FEW)
        return few_distinct(keys, n, ret_twice);
    key_set_clear(seen, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *place = key_set_place(seen, keys, keys[i]);
        if (*place != 0) {
            *ret_twice = i;
            return false;
        }
        *place = i + 1;
    }
    return true;
}

int keys_check_distinct(struct keys_scratch *s, const struct keys *k, struct err *e)
{
    if (k->n == 0)
        return 0;
    if (key_set_reserve(&s->seen, k->longest) != 0)
        return err_nomem(e, "the keys of a push");
    for (uint32_t r = 0; r < k->n_runs; r++) {
        const uint64_t *keys = k->key + k->runs[r].begin;
        uint32_t n = k->runs[r + 1].begin - k->runs[r].begin, twice;
        if (n > 1 && !run_distinct(&s->seen, keys, n, &twice))
            return err_set(e, TUG_EUSAGE, "key %llu occurs twice",
                           (unsigned long long)keys[twice]);
    }
    return 0;
}
