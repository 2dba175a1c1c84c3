// See channel.h. A record is a head, its places, the common content, and the arrays of items.
// The head has a hash of the places and the common content, and one of itself, so that a
// receiver does not wait for the bytes of a wrong length. Items are not hashed: the links
// protect them as they protect those of a worker's push.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/roster.h"
#include "server/moves/stream.h"

struct head {
    uint64_t hash; // of what follows, up to the items
    uint32_t kind, space, bits, n_places;
    uint64_t epoch, n_common, n_items;
    uint32_t each[CHANNEL_ARRAYS];
    uint32_t check; // hash of the fields from `kind` to `each`
};

static_assert(sizeof(struct head) % STREAM_ALIGN == 0 &&
                  sizeof(struct channel_place) % STREAM_ALIGN == 0,
              "records and their contents begin at multiples of 8");

void outlet_open(struct outlet *o)
{
    *o = (struct outlet){.bytes = BUF_INIT(SIZE_MAX / 2)};
}

void outlet_close(struct outlet *o)
{
    buf_free(&o->bytes);
}

uint64_t outlet_end(const struct outlet *o)
{
    return o->from + o->bytes.len;
}

uint64_t outlet_kept(const struct outlet *o)
{
    return outlet_end(o) - o->first;
}

int outlet_reserve(struct outlet *o, size_t bytes)
{
    return buf_reserve(&o->bytes, bytes);
}

static size_t items_bytes(const struct channel_record *r, int i)
{
    return (r->n_items * r->each[i] + STREAM_ALIGN - 1) / STREAM_ALIGN * STREAM_ALIGN;
}

// Returns the bytes before the items.
static size_t front_bytes(const struct channel_record *r)
{
    return sizeof(struct head) + r->n_places * sizeof(*r->places) + r->n_common;
}

bool channel_fits(const struct channel_record *r)
{
    if (r->n_items > WIRE_SPAN_MAX)
        return false;
    for (int i = 0; i < CHANNEL_ARRAYS; i++)
        if (r->n_items * r->each[i] > WIRE_SPAN_MAX)
            return false;
    return true;
}

size_t channel_bytes(const struct channel_record *r)
{
    size_t n = front_bytes(r);
    for (int i = 0; i < CHANNEL_ARRAYS; i++)
        n += items_bytes(r, i);
    return n;
}

static uint32_t check_of(const struct head *h)
{
    size_t begin = offsetof(struct head, kind), end = offsetof(struct head, check);
    return (uint32_t)hash_bytes((const char *)h + begin, end - begin, 0);
}

int outlet_begin(struct outlet *o, const struct channel_record *r,
                 struct outlet_draft *ret)
{
    struct head h = {.kind = r->kind,
                     .space = r->space,
                     .bits = r->bits,
                     .n_places = r->n_places,
                     .epoch = r->epoch,
                     .n_common = r->n_common,
                     .n_items = r->n_items};
    struct buf *to = &o->bytes;
    TRY(buf_reserve(to, channel_bytes(r)));
    size_t begin = to->len, items = begin + front_bytes(r);
    *ret = (struct outlet_draft){.begin = begin, .place = begin + sizeof(h)};
    memcpy(h.each, r->each, sizeof(h.each));
    h.check = check_of(&h);
    memcpy(to->data + begin, &h, sizeof(h));
    memcpy(to->data + items - r->n_common, r->common, r->n_common);
    for (int i = 0; i < CHANNEL_ARRAYS; items += items_bytes(r, i++)) {
        ret->items[i] = items;
        // The last bytes of an array may be padding.
        if (items_bytes(r, i) > 0)
            memset(to->data + items + items_bytes(r, i) - STREAM_ALIGN, 0, STREAM_ALIGN);
    }
    to->len = items;
    return 0;
}

void outlet_place(struct outlet *o, struct outlet_draft *d,
                  const struct channel_place *place)
{
    memcpy(o->bytes.data + d->place, place, sizeof(*place));
    d->place += sizeof(*place);
}

void outlet_items(struct outlet *o, struct outlet_draft *d,
                  const struct channel_record *r, size_t first, size_t n)
{
    for (int i = 0; i < CHANNEL_ARRAYS; i++) {
        memcpy(o->bytes.data + d->items[i], r->items[i] + first * r->each[i],
               n * r->each[i]);
        d->items[i] += n * r->each[i];
    }
    assert(d->items[CHANNEL_ARRAYS - 1] <= o->bytes.len);
}

// Returns the hash of the record that begins at this address.
static uint64_t hash_of(const char *record)
{
    struct head h;
    memcpy(&h, record, sizeof(h));
    size_t n = sizeof(h) - sizeof(h.hash) + h.n_places * sizeof(struct channel_place) +
               h.n_common;
    return hash_bytes(record + sizeof(h.hash), n, 0);
}

void outlet_finish(struct outlet *o, const struct outlet_draft *d)
{
    char *record = o->bytes.data + d->begin;
    uint64_t hash = hash_of(record);
    memcpy(record, &hash, sizeof(hash));
}

int outlet_append(struct outlet *o, const struct channel_record *r)
{
    struct outlet_draft d;
    TRY(outlet_begin(o, r, &d));
    for (uint32_t i = 0; i < r->n_places; i++)
        outlet_place(o, &d, &r->places[i]);
    outlet_items(o, &d, r, 0, r->n_items);
    outlet_finish(o, &d);
    return 0;
}

size_t outlet_from(const struct outlet *o, uint64_t at, size_t max,
                   const char **ret_bytes)
{
    if (at < o->from || at >= outlet_end(o))
        return 0;
    size_t n = outlet_end(o) - at;
    *ret_bytes = o->bytes.data + (at - o->from);
    return n < max ? n : max;
}

// Reads the head at the start of the bytes, without the addresses of what follows.
static void read_head(const char *bytes, struct channel_record *ret, uint64_t *ret_hash)
{
    struct head h;
    memcpy(&h, bytes, sizeof(h));
    *ret = (struct channel_record){.kind = h.kind,
                                   .space = (enum wire_space)h.space,
                                   .bits = h.bits,
                                   .n_places = h.n_places,
                                   .epoch = h.epoch,
                                   .n_common = h.n_common,
                                   .n_items = h.n_items};
    memcpy(ret->each, h.each, sizeof(h.each));
    *ret_hash = h.hash;
}

// Sets the addresses in a record whose counts are those of the head at `bytes`, and right.
static void set_addresses(const char *bytes, struct channel_record *r)
{
    const char *items = bytes + front_bytes(r);
    r->places = (const void *)(bytes + sizeof(struct head));
    r->common = items - r->n_common;
    for (int i = 0; i < CHANNEL_ARRAYS; items += items_bytes(r, i++))
        r->items[i] = items;
}

bool outlet_record(const struct outlet *o, uint64_t *at, struct channel_record *ret)
{
    uint64_t hash;
    size_t skip = *at - o->from;
    assert(*at >= o->from && skip <= o->bytes.len);
    if (skip == o->bytes.len)
        return false;
    read_head(o->bytes.data + skip, ret, &hash);
    set_addresses(o->bytes.data + skip, ret);
    *at += channel_bytes(ret);
    return true;
}

// The bytes are freed when half of them are dropped, because this moves the other bytes,
// which costs as much as sending them.
void outlet_drop(struct outlet *o, uint64_t at)
{
    assert(at >= o->first && at <= outlet_end(o));
    o->first = at;
    size_t n = o->first - o->from;
    if (n < o->bytes.len / 2 || n == 0)
        return;
    memmove(o->bytes.data, o->bytes.data + n, o->bytes.len - n);
    o->bytes.len -= n;
    o->from = o->first;
}

void inlet_open(struct inlet *i)
{
    *i = (struct inlet){.bytes = BUF_INIT(SIZE_MAX / 2)};
}

void inlet_close(struct inlet *i)
{
    buf_free(&i->bytes);
}

void inlet_begin(struct inlet *i, uint64_t at)
{
    buf_clear(&i->bytes);
    i->lent = NULL;
    i->n_lent = i->skip = 0;
    i->at = at;
}

int inlet_add(struct inlet *i, uint64_t at, const void *bytes, size_t n)
{
    if (at != i->at)
        return 0;
    if (inlet_left(i) == 0 && (uintptr_t)bytes % STREAM_ALIGN == 0) {
        buf_clear(&i->bytes);
        i->lent = bytes;
        i->n_lent = n;
        i->skip = 0;
        i->at += n;
        return 0;
    }
    assert(i->lent == NULL);
    if (i->skip > 0) {
        memmove(i->bytes.data, i->bytes.data + i->skip, i->bytes.len - i->skip);
        i->bytes.len -= i->skip;
        i->skip = 0;
    }
    if (buf_add(&i->bytes, bytes, n) != 0)
        return TUG_ENOMEM;
    i->at += n;
    return 0;
}

int inlet_keep(struct inlet *i)
{
    if (i->lent == NULL)
        return 0;
    size_t left = inlet_left(i);
    int rc = buf_add(&i->bytes, i->lent + i->skip, left);
    i->lent = NULL;
    i->n_lent = i->skip = 0;
    if (rc != 0)
        i->at -= left;
    return rc != 0 ? TUG_ENOMEM : 0;
}

size_t inlet_left(const struct inlet *i)
{
    return (i->lent != NULL ? i->n_lent : i->bytes.len) - i->skip;
}

// Returns whether the lengths of a head can be right. They are checked before the record
// has arrived, because a wrong length would let this loop wait for ever.
static bool has_right_head(const struct channel_record *r)
{
    return r->n_common % STREAM_ALIGN == 0 && r->n_common <= WIRE_SPAN_MAX &&
           channel_fits(r) && (unsigned)r->space < WIRE_SPACES &&
           r->bits <= ROSTER_MAX_PARTITION_BITS && r->n_places <= (uint32_t)1 << r->bits;
}

static bool has_right_check(const char *bytes)
{
    struct head h;
    memcpy(&h, bytes, sizeof(h));
    return h.check == check_of(&h);
}

static bool has_right_places(const struct channel_record *r)
{
    uint64_t n = 0, least = 0;
    for (uint32_t i = 0; i < r->n_places; i++) {
        const struct channel_place *p = &r->places[i];
        if (p->partition < least || p->partition >> r->bits != 0)
            return false;
        least = (uint64_t)p->partition + 1;
        n += p->n;
    }
    return n == r->n_items;
}

int inlet_record(const struct inlet *i, struct channel_record *ret, struct err *e)
{
    uint64_t hash;
    size_t left = inlet_left(i);
    if (left < sizeof(struct head))
        return 0;
    const char *bytes = (i->lent != NULL ? i->lent : i->bytes.data) + i->skip;
    read_head(bytes, ret, &hash);
    if (!has_right_check(bytes) || !has_right_head(ret))
        return stream_damaged(e);
    if (left < channel_bytes(ret))
        return 0;
    set_addresses(bytes, ret);
    if (hash != hash_of(bytes) || !has_right_places(ret))
        return stream_damaged(e);
    return 1;
}

void inlet_take(struct inlet *i, const struct channel_record *r)
{
    assert(channel_bytes(r) <= inlet_left(i));
    i->skip += channel_bytes(r);
}
