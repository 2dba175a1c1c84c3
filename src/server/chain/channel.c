// See channel.h. A record is a head, its places, the common content, and the contents of
// the places. The head has a hash of everything behind it.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "cluster/roster.h"
#include "server/moves/stream.h"

struct head {
    uint32_t kind, space, bits, n_places;
    uint64_t epoch, n_common, n, hash;
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

int outlet_reserve(struct outlet *o, size_t n, size_t places, size_t bytes)
{
    return buf_reserve(&o->bytes, n * sizeof(struct head) +
                                      places * sizeof(struct channel_place) + bytes);
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
                     .n = r->n};
    struct buf *to = &o->bytes;
    TRY(outlet_reserve(o, 1, r->n_places, r->n_common + r->n));
    ret->begin = to->len;
    ret->place = ret->begin + sizeof(h);
    ret->content = ret->place + r->n_places * sizeof(*r->places) + r->n_common;
    memcpy(to->data + ret->begin, &h, sizeof(h));
    memcpy(to->data + ret->content - r->n_common, r->common, r->n_common);
    to->len = ret->content + r->n;
    return 0;
}

char *outlet_place(struct outlet *o, struct outlet_draft *d,
                   const struct channel_place *place)
{
    char *content = o->bytes.data + d->content;
    memcpy(o->bytes.data + d->place, place, sizeof(*place));
    d->place += sizeof(*place);
    d->content += place->bytes;
    assert(d->content <= o->bytes.len);
    return content;
}

void outlet_finish(struct outlet *o, const struct outlet_draft *d)
{
    struct head h;
    size_t begin = d->begin + sizeof(h);
    memcpy(&h, o->bytes.data + d->begin, sizeof(h));
    assert(d->place == begin + h.n_places * sizeof(struct channel_place) &&
           d->content == d->place + h.n_common + h.n);
    h.hash = hash_bytes(o->bytes.data + begin, d->content - begin, 0);
    memcpy(o->bytes.data + d->begin, &h, sizeof(h));
}

int outlet_append(struct outlet *o, const struct channel_record *r)
{
    struct outlet_draft d;
    const char *content = r->bytes;
    TRY(outlet_begin(o, r, &d));
    for (uint32_t i = 0; i < r->n_places; i++) {
        memcpy(outlet_place(o, &d, &r->places[i]), content, r->places[i].bytes);
        content += r->places[i].bytes;
    }
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

// Returns the size of a record.
static size_t size_of(const struct channel_record *r)
{
    return sizeof(struct head) + r->n_places * sizeof(*r->places) + r->n_common + r->n;
}

// Reads the head at the start of the bytes, and sets the addresses of what follows.
static void read_head(const char *bytes, struct channel_record *ret, uint64_t *ret_hash)
{
    struct head h;
    memcpy(&h, bytes, sizeof(h));
    const char *places = bytes + sizeof(h),
               *common = places + h.n_places * sizeof(struct channel_place);
    *ret = (struct channel_record){.kind = h.kind,
                                   .space = (enum wire_space)h.space,
                                   .bits = h.bits,
                                   .n_places = h.n_places,
                                   .epoch = h.epoch,
                                   .places = (const void *)places,
                                   .common = common,
                                   .n_common = h.n_common,
                                   .bytes = common + h.n_common,
                                   .n = h.n};
    *ret_hash = h.hash;
}

bool outlet_record(const struct outlet *o, uint64_t *at, struct channel_record *ret)
{
    uint64_t hash;
    size_t skip = *at - o->from;
    assert(*at >= o->from && skip <= o->bytes.len);
    if (skip == o->bytes.len)
        return false;
    read_head(o->bytes.data + skip, ret, &hash);
    *at += size_of(ret);
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

int inlet_add(struct inlet *i, uint64_t at, const void *bytes, size_t n)
{
    if (at != i->at)
        return 0;
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

size_t inlet_left(const struct inlet *i)
{
    return i->bytes.len - i->skip;
}

// Returns whether the lengths of a head can be right. They are checked before the record
// has arrived, because a wrong length would let this loop wait for ever.
static bool has_right_head(const struct channel_record *r)
{
    return r->n_common % STREAM_ALIGN == 0 && r->n % STREAM_ALIGN == 0 &&
           r->n_common <= WIRE_SPAN_MAX && r->n <= WIRE_SPAN_MAX &&
           (unsigned)r->space < WIRE_SPACES && r->bits <= ROSTER_MAX_PARTITION_BITS &&
           r->n_places <= (uint32_t)1 << r->bits;
}

static bool has_right_places(const struct channel_record *r)
{
    uint64_t n = 0, least = 0;
    for (uint32_t i = 0; i < r->n_places; i++) {
        const struct channel_place *p = &r->places[i];
        if (p->bytes % STREAM_ALIGN != 0 || p->partition < least ||
            p->partition >> r->bits != 0)
            return false;
        least = (uint64_t)p->partition + 1;
        n += p->bytes;
    }
    return n == r->n;
}

int inlet_record(const struct inlet *i, struct channel_record *ret, struct err *e)
{
    uint64_t hash;
    size_t left = inlet_left(i);
    if (left < sizeof(struct head))
        return 0;
    const char *bytes = i->bytes.data + i->skip;
    read_head(bytes, ret, &hash);
    if (!has_right_head(ret))
        return stream_damaged(e);
    if (left < size_of(ret))
        return 0;
    bytes += sizeof(struct head);
    if (hash != hash_bytes(bytes, size_of(ret) - sizeof(struct head), 0) ||
        !has_right_places(ret))
        return stream_damaged(e);
    return 1;
}

void inlet_take(struct inlet *i, const struct channel_record *r)
{
    i->skip += size_of(r);
    assert(i->skip <= i->bytes.len);
}
