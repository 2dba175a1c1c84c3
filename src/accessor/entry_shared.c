// Entry policies whose keys share counters. The hash of a key selects a few counters, and
// the key's count is the least of them. Other keys with the same counters only increase
// them, so a count may be too high but is never too low.
//
//   bloom    one line of 4-bit counters, of which a key has `hashes`
//            (Fan et al. 2000: counting filters)
//   sketch   `hashes` lines of 32-bit counters; a key has one in each
//            (Cormode & Muthukrishnan 2005: count-min)
//
// Both policies raise a counter at most to the key's new count ("conservative update",
// Estan & Varghese 2002), and never above the goal, so that counters cannot overflow;
// this changes no decision. Shows may be fractions, so a show is counted as a number of
// parts, as many as let the threshold fit into a counter; the parts of a push are rounded
// up.
//
//   saved   [struct shape][counters]
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <string.h>

#include "accessor/entry_internal.h"
#include "base/alloc.h"
#include "base/random.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "counters are saved as memory is");

enum { MAX_HASHES = 32, SKETCH_LINES = 4, STREAM = 0x736b65 };
// The greatest value of shape.parts. Products of such numbers and floats are exact in a
// double.
enum { MAX_PARTS = 1 << 16 };

// The shape of a filter. Counters can be loaded only into a filter with the same shape.
struct shape {
    uint64_t salt;  // mixed into the hashes of keys
    double parts;   // parts that a show (or a push) counts as
    uint64_t width; // counters in a line
    uint32_t bits;  // bits of a counter: 4 or 32
    uint32_t hashes;
};

static_assert(sizeof(struct shape) == 32, "a shape has no padding");

struct shared {
    struct shape shape;
    uint64_t step; // distance in counters between the lines of two hashes
    uint32_t goal; // the count at which a key gets a row
    size_t size;   // bytes of all counters together
    unsigned char *counters;
};

static uint32_t counter(const struct shared *s, uint64_t at)
{
    if (s->shape.bits == 4)
        return s->counters[at / 2] >> at % 2 * 4 & 15;
    uint32_t x;
    memcpy(&x, s->counters + at * sizeof(x), sizeof(x));
    return x;
}

static void counter_raise(struct shared *s, uint64_t at, uint32_t to)
{
    if (counter(s, at) >= to)
        return;
    if (s->shape.bits == 4) {
        unsigned shift = at % 2 * 4;
        unsigned rest = s->counters[at / 2] & ~(15u << shift);
        s->counters[at / 2] = (unsigned char)(rest | to << shift);
    } else {
        memcpy(s->counters + at * sizeof(to), &to, sizeof(to));
    }
}

// Gets the positions of the key's counters (double hashing: Kirsch & Mitzenmacher 2008)
// and prefetches them.
static void places(const struct shared *s, uint64_t key, uint64_t ret[MAX_HASHES])
{
    uint64_t hash = mix64(key ^ s->shape.salt), step = mix64(hash + s->shape.salt) | 1;
    for (uint32_t i = 0; i < s->shape.hashes; i++, hash += step) {
        uint64_t within = (uint64_t)((unsigned __int128)hash * s->shape.width >> 64);
        ret[i] = i * s->step + within;
        __builtin_prefetch(s->counters + ret[i] * s->shape.bits / 8, 1);
    }
}

// Returns the key's count, which is at most the goal.
static uint32_t count_of(const struct shared *s, const uint64_t at[MAX_HASHES])
{
    uint32_t count = s->goal;
    for (uint32_t i = 0; i < s->shape.hashes; i++) {
        uint32_t x = counter(s, at[i]);
        count = x < count ? x : count;
    }
    return count;
}

static bool shared_again(const void *state, const struct entry_options *o, uint64_t key)
{
    (void)o;
    const struct shared *s = state;
    uint64_t at[MAX_HASHES];
    places(s, key, at);
    return count_of(s, at) == s->goal;
}

static bool shared_admit(void *state, const struct entry_options *o, uint64_t key,
                         float show, float click)
{
    (void)click;
    struct shared *s = state;
    uint64_t at[MAX_HASHES];
    places(s, key, at);
    uint32_t count = count_of(s, at);
    double more = ceil(entry_counts(o, show) * s->shape.parts);
    count = more < s->goal - count ? count + (uint32_t)more : s->goal;
    for (uint32_t i = 0; i < s->shape.hashes; i++)
        counter_raise(s, at[i], count);
    return count == s->goal;
}

static int shared_open(struct shape shape, bool lines, const struct entry_options *o,
                       void **ret, struct err *e)
{
    struct shared *s = mem_zalloc(sizeof(*s));
    *ret = s;
    if (s == NULL)
        return err_nomem(e, "counters of keys without rows");
    double most = shape.bits == 4 ? ENTRY_BLOOM_COUNTS : ENTRY_SKETCH_COUNTS;
    shape.salt = random_u64(o->seed, STREAM, 0);
    shape.parts = 1;
    if (o->by_shows)
        shape.parts = fmin(floor(most / (double)o->threshold), MAX_PARTS);
    s->shape = shape;
    s->goal = (uint32_t)fmin(ceil((double)o->threshold * shape.parts), most);
    s->step = lines ? shape.width : 0;
    s->size = (shape.width * (lines ? shape.hashes : 1) * shape.bits + 7) / 8;
    s->counters = mem_map(s->size);
    if (s->counters != NULL)
        return 0;
    mem_free(s);
    *ret = NULL;
    return err_nomem(e, "counters of keys without rows");
}

// Opens a Bloom filter, with the best numbers of hashes and of counters for the options'
// number of keys and fraction of errors.
static int bloom_open(const struct entry_options *o, void **ret, struct err *e)
{
    double bits = -log2((double)o->error), ln2 = 0.69314718055994531;
    double hashes = bits < 1 ? 1 : bits > MAX_HASHES ? MAX_HASHES : ceil(bits);
    struct shape shape = {.bits = 4,
                          .hashes = (uint32_t)hashes,
                          .width = (uint64_t)ceil((double)o->capacity * bits / ln2) + 1};
    return shared_open(shape, false, o, ret, e);
}

// Opens a sketch. In each line, the probability that a count is too high by more than
// error * (sum of all counts) is 1/e.
static int sketch_open(const struct entry_options *o, void **ret, struct err *e)
{
    struct shape shape = {.bits = 32,
                          .hashes = SKETCH_LINES,
                          .width = (uint64_t)ceil(2.7182818284590452 / (double)o->error)};
    return shared_open(shape, true, o, ret, e);
}

static void shared_close(void *state)
{
    struct shared *s = state;
    if (s != NULL)
        mem_unmap(s->counters, s->size);
    mem_free(s);
}

static size_t shared_bytes(const void *state)
{
    const struct shared *s = state;
    return sizeof(*s) + s->size;
}

static int shared_save(const void *state, struct buf *to)
{
    const struct shared *s = state;
    TRY(buf_reserve(to, sizeof(s->shape) + s->size));
    TRY(buf_add(to, &s->shape, sizeof(s->shape)));
    return buf_add(to, s->counters, s->size);
}

// Loads saved counters. All values are valid: a counter above the goal counts as the
// goal.
static int shared_load(void *state, const void *bytes, size_t n, struct err *e)
{
    struct shared *s = state;
    if (n != sizeof(s->shape) + s->size)
        return err_set(
            e, TUG_EDATA,
            "saved counters of keys without rows have %zu bytes instead of %zu; "
            "use the policy with which they were saved",
            n, sizeof(s->shape) + s->size);
    if (memcmp(bytes, &s->shape, sizeof(s->shape)) != 0)
        return err_set(e, TUG_EDATA,
                       "saved counters of keys without rows have another size, seed or "
                       "unit; use the policy with which they were saved");
    memcpy(s->counters, (const char *)bytes + sizeof(s->shape), s->size);
    return 0;
}

const struct entry_class entry_bloom = {
    .name = "bloom",
    .counts_to = ENTRY_BLOOM_COUNTS,
    .counters = "sketch or count",
    .about = "as count, in a few bits a key: admits some keys too early, none too late",
    .open = bloom_open,
    .close = shared_close,
    .admit = shared_admit,
    .again = shared_again,
    .bytes = shared_bytes,
    .save = shared_save,
    .load = shared_load,
};

const struct entry_class entry_sketch = {
    .name = "sketch",
    .counts_to = ENTRY_SKETCH_COUNTS,
    .counters = "count",
    .about = "like count, in memory of a fixed size: admits some keys too early, none "
             "too late",
    .open = sketch_open,
    .close = shared_close,
    .admit = shared_admit,
    .again = shared_again,
    .bytes = shared_bytes,
    .save = shared_save,
    .load = shared_load,
};
