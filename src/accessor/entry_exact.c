// Entry policies that store each candidate (a key without a row that was pushed): a map
// from its key to the sum of its pushes' counts. A candidate that gets a row leaves the
// map.
//
// The map is open addressing with linear probing in a power of two of slots, at most 3/4
// of them taken: 16 bytes a slot. Sums are above 0, so 0 marks a free slot, and every
// key can be one.
//
//   saved   [candidates, 8 bytes][key, 8 bytes; sum, 8 bytes] by ascending key
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accessor/entry_internal.h"
#include "base/alloc.h"
#include "base/random.h"
#include "base/search.h"

enum { FIRST_SLOTS = 256, STREAM = 0x656e74 };

struct candidate {
    uint64_t key;
    double sum; // the key's count so far; 0: the slot is free
};

struct exact {
    struct candidate *slots;
    size_t n, max;
    uint64_t salt; // mixed into the hashes of keys
};

static size_t home(const struct exact *x, uint64_t key)
{
    return mix64(key ^ x->salt) & (x->max - 1);
}

// Returns the key's slot, or the free slot where the key would be inserted.
static struct candidate *entry_exact_place(const struct exact *x, uint64_t key)
{
    size_t at = home(x, key);
    while (x->slots[at].sum != 0 && x->slots[at].key != key)
        at = (at + 1) & (x->max - 1);
    return &x->slots[at];
}

static void entry_exact_forget(struct exact *x, struct candidate *c)
{
    size_t gap = (size_t)(c - x->slots);
    probe_close(gap, x->max - 1, i, x->slots[i].sum != 0, home(x, x->slots[i].key),
                x->slots[gap] = x->slots[i]);
    x->slots[gap].sum = 0;
    x->n--;
}

static int entry_exact_make_room(struct exact *x)
{
    struct exact larger = {.n = x->n, .max = 2 * x->max, .salt = x->salt};
    larger.slots = mem_map(larger.max * sizeof(*larger.slots));
    if (larger.slots == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < x->max; i++)
        if (x->slots[i].sum != 0)
            *entry_exact_place(&larger, x->slots[i].key) = x->slots[i];
    mem_unmap(x->slots, x->max * sizeof(*x->slots));
    *x = larger;
    return 0;
}

static bool is_full(const struct exact *x)
{
    return x->n >= x->max / 4 * 3;
}

// Adds `more` >= 0 to the key's sum and returns whether it reaches `threshold`.
static bool entry_exact_add(struct exact *x, uint64_t key, double more, double threshold)
{
    struct candidate *c = entry_exact_place(x, key);
    double sum = c->sum + more;
    if (sum >= threshold) {
        if (c->sum != 0)
            entry_exact_forget(x, c);
        return true;
    }
    if (more == 0)
        return false;
    if (c->sum == 0) {
        if (is_full(x)) {
            if (entry_exact_make_room(x) != 0)
                return false;
            c = entry_exact_place(x, key);
        }
        c->key = key;
        x->n++;
    }
    c->sum = sum;
    return false;
}

static int exact_open(const struct entry_options *o, void **ret, struct err *e)
{
    struct exact *x = mem_zalloc(sizeof(*x));
    *ret = x;
    if (x == NULL)
        return err_nomem(e, "counts of keys without rows");
    x->salt = random_u64(o->seed, STREAM, 0);
    x->max = FIRST_SLOTS;
    x->slots = mem_map(x->max * sizeof(*x->slots));
    if (x->slots != NULL)
        return 0;
    mem_free(x);
    *ret = NULL;
    return err_nomem(e, "counts of keys without rows");
}

static void exact_close(void *state)
{
    struct exact *x = state;
    if (x != NULL)
        mem_unmap(x->slots, x->max * sizeof(*x->slots));
    mem_free(x);
}

static size_t exact_bytes(const void *state)
{
    const struct exact *x = state;
    return sizeof(*x) + x->max * sizeof(*x->slots);
}

static int by_key(const void *a, const void *b)
{
    struct candidate x, y; // copies, because candidates in the buffer are not aligned
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x.key > y.key) - (x.key < y.key);
}

static int exact_save(const void *state, struct buf *to)
{
    const struct exact *x = state;
    uint64_t n = x->n;
    TRY(buf_reserve(to, sizeof(n) + x->n * sizeof(*x->slots)));
    TRY(buf_add(to, &n, sizeof(n)));
    char *first = to->data + to->len;
    for (size_t i = 0; i < x->max; i++)
        if (x->slots[i].sum != 0)
            TRY(buf_add(to, &x->slots[i], sizeof(x->slots[i])));
    qsort(first, x->n, sizeof(*x->slots), by_key);
    return 0;
}

static int entry_exact_damaged(struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "saved counts of keys without rows are damaged; use another save");
}

static int load_candidates(struct exact *x, const char *bytes, uint64_t n, struct err *e)
{
    struct candidate c = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t before = c.key;
        memcpy(&c, bytes + i * sizeof(c), sizeof(c));
        if (!(c.sum > 0) || !isfinite(c.sum) || (i > 0 && c.key <= before))
            return entry_exact_damaged(e);
        if (is_full(x) && entry_exact_make_room(x) != 0)
            return err_nomem(e, "counts of keys without rows");
        *entry_exact_place(x, c.key) = c;
        x->n++;
    }
    return 0;
}

// Loads a saved state into a second map first, so that a refused save changes nothing.
static int exact_load(void *state, const void *bytes, size_t size, struct err *e)
{
    struct exact *x = state, loaded = {.max = FIRST_SLOTS, .salt = x->salt};
    uint64_t n;
    if (size < sizeof(n))
        return entry_exact_damaged(e);
    memcpy(&n, bytes, sizeof(n));
    if ((size - sizeof(n)) % sizeof(*x->slots) != 0 ||
        n != (size - sizeof(n)) / sizeof(*x->slots))
        return entry_exact_damaged(e);
    loaded.slots = mem_map(loaded.max * sizeof(*loaded.slots));
    if (loaded.slots == NULL)
        return err_nomem(e, "counts of keys without rows");
    int rc = load_candidates(&loaded, (const char *)bytes + sizeof(n), n, e);
    struct exact old = rc == 0 ? *x : loaded;
    if (rc == 0)
        *x = loaded;
    mem_unmap(old.slots, old.max * sizeof(*old.slots));
    return rc;
}

static bool count_admit(void *state, const struct entry_options *o, uint64_t key,
                        float show, float click)
{
    (void)click;
    return entry_exact_add(state, key, entry_counts(o, show), (double)o->threshold);
}

static bool show_click_admit(void *state, const struct entry_options *o, uint64_t key,
                             float show, float click)
{
    double score = (double)o->nonclick * ((double)show - (double)click) +
                   (double)o->click * (double)click;
    return entry_exact_add(state, key, score > 0 && isfinite(score) ? score : 0,
                           (double)o->threshold);
}

static bool exact_again(const void *state, const struct entry_options *o, uint64_t key)
{
    return entry_exact_place(state, key)->sum >= (double)o->threshold;
}

const struct entry_class entry_count = {
    .name = "count",
    .about = "keys that occurred `threshold` times, each counted exactly",
    .open = exact_open,
    .close = exact_close,
    .admit = count_admit,
    .again = exact_again,
    .bytes = exact_bytes,
    .save = exact_save,
    .load = exact_load,
};

const struct entry_class entry_show_click = {
    .name = "show-click",
    .about = "keys whose score of shows and clicks reached `threshold`",
    .open = exact_open,
    .close = exact_close,
    .admit = show_click_admit,
    .again = exact_again,
    .bytes = exact_bytes,
    .save = exact_save,
    .load = exact_load,
};
