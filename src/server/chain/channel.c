// See channel.h. Each record is a head and its content, with a hash of the content.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/channel.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "server/moves/stream.h"

struct head {
    uint32_t kind, space, partition, bits;
    uint64_t position, epoch, n, hash;
};

static_assert(sizeof(struct head) % STREAM_ALIGN == 0, "records begin at multiples of 8");

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

int outlet_reserve(struct outlet *o, size_t n, size_t bytes)
{
    return buf_reserve(&o->bytes, n * sizeof(struct head) + bytes);
}

int outlet_begin(struct outlet *o, const struct channel_record *r, size_t *ret_begin)
{
    struct head h = {.kind = r->kind,
                     .space = r->space,
                     .partition = r->partition,
                     .bits = r->bits,
                     .position = r->position,
                     .epoch = r->epoch};
    *ret_begin = o->bytes.len;
    return stream_add(&o->bytes, &h, sizeof(h));
}

void outlet_finish(struct outlet *o, size_t begin)
{
    struct head h;
    memcpy(&h, o->bytes.data + begin, sizeof(h));
    h.n = o->bytes.len - begin - sizeof(h);
    h.hash = hash_bytes(o->bytes.data + begin + sizeof(h), h.n, 0);
    memcpy(o->bytes.data + begin, &h, sizeof(h));
}

int outlet_append(struct outlet *o, const struct channel_record *r)
{
    size_t begin;
    TRY(outlet_reserve(o, 1, r->n));
    TRY(outlet_begin(o, r, &begin));
    TRY(stream_add(&o->bytes, r->bytes, r->n));
    outlet_finish(o, begin);
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

// Reads the record at the start of n bytes. Returns its size; 0 if it is not complete.
static size_t read_record(const char *bytes, size_t n, struct channel_record *ret,
                          uint64_t *ret_hash)
{
    struct head h;
    if (n < sizeof(h))
        return 0;
    memcpy(&h, bytes, sizeof(h));
    *ret = (struct channel_record){.kind = h.kind,
                                   .space = (enum wire_space)h.space,
                                   .partition = h.partition,
                                   .bits = h.bits,
                                   .position = h.position,
                                   .epoch = h.epoch,
                                   .bytes = bytes + sizeof(h),
                                   .n = h.n};
    *ret_hash = h.hash;
    return h.n <= n - sizeof(h) ? sizeof(h) + h.n : 0;
}

bool outlet_record(const struct outlet *o, uint64_t *at, struct channel_record *ret)
{
    uint64_t hash;
    size_t skip = *at - o->from;
    assert(*at >= o->from && skip <= o->bytes.len);
    size_t n = read_record(o->bytes.data + skip, o->bytes.len - skip, ret, &hash);
    assert(n > 0 || skip == o->bytes.len);
    *at += n;
    return n > 0;
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

int inlet_record(const struct inlet *i, struct channel_record *ret, struct err *e)
{
    uint64_t hash;
    size_t left = inlet_left(i);
    if (left < sizeof(struct head))
        return 0;
    size_t n = read_record(i->bytes.data + i->skip, left, ret, &hash);
    // The head is checked before its content has arrived, because a wrong length would
    // let this loop wait for ever.
    if (ret->n % STREAM_ALIGN != 0 || ret->n > WIRE_SPAN_MAX ||
        (unsigned)ret->space >= WIRE_SPACES || ret->bits > 31 ||
        ret->partition >> ret->bits != 0)
        return stream_damaged(e);
    if (n == 0)
        return 0;
    if (hash != hash_bytes(ret->bytes, ret->n, 0))
        return stream_damaged(e);
    return 1;
}

void inlet_take(struct inlet *i, const struct channel_record *r)
{
    i->skip += sizeof(struct head) + r->n;
    assert(i->skip <= i->bytes.len);
}
