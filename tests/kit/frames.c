// See frames.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/frames.h"

#include <string.h>

#include "base/random.h"

#define UNUSED __attribute__((unused)) // some types of fields occur in no message now

const uint16_t wire_types[N_WIRE_TYPES] = {
#define MESSAGE(NAME, name, id, ...) id,
#include "wire/messages.def"
};

static uint64_t fill_next(struct fill *f)
{
    return random_u64(f->seed, 0, f->count++);
}

static void fill_run(struct fill *f, const char **ret_data, uint64_t *ret_n)
{
    uint64_t r = fill_next(f);
    *ret_n = r % (f->longest + 1);
    *ret_data = f->bytes + (r >> 32) % (f->longest + 1);
}

#define FILL_NUMBER(type)                                                                \
    UNUSED static void fill_##type(struct fill *f, WIRE_TYPE_##type *v)                  \
    {                                                                                    \
        uint64_t r = fill_next(f);                                                       \
        memcpy(v, &r, sizeof(*v));                                                       \
    }
FILL_NUMBER(u8)
FILL_NUMBER(u16)
FILL_NUMBER(u32)
FILL_NUMBER(u64)
FILL_NUMBER(i32)
FILL_NUMBER(f32)
FILL_NUMBER(f64)

static void fill_text(struct fill *f, struct wire_text *v)
{
    uint64_t n;
    fill_run(f, &v->data, &n);
    v->n = (uint32_t)n;
}

static void fill_bytes(struct fill *f, struct wire_text *v)
{
    fill_text(f, v);
}

static void fill_span(struct fill *f, struct wire_span *v)
{
    const char *data;
    fill_run(f, &data, &v->n);
    v->data = data;
}

// Numbers are equal if their bits are equal, also those of NaN.
#define SAME_NUMBER(type)                                                                \
    UNUSED static bool same_##type(const WIRE_TYPE_##type *a, const WIRE_TYPE_##type *b) \
    {                                                                                    \
        return memcmp(a, b, sizeof(*a)) == 0;                                            \
    }
SAME_NUMBER(u8)
SAME_NUMBER(u16)
SAME_NUMBER(u32)
SAME_NUMBER(u64)
SAME_NUMBER(i32)
SAME_NUMBER(f32)
SAME_NUMBER(f64)

static bool same_text(const struct wire_text *a, const struct wire_text *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

static bool same_bytes(const struct wire_text *a, const struct wire_text *b)
{
    return same_text(a, b);
}

static bool same_span(const struct wire_span *a, const struct wire_span *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

#define MESSAGE(NAME, name, id, ...)                                                     \
    static void fill_msg_##name(struct fill *f, struct msg_##name *m)                    \
    {                                                                                    \
        (void)f, (void)m;
#define RECORD(NAME, name, about)                                                        \
    void fill_record_##name(struct fill *f, struct wire_##name *m)                       \
    {
#define FIELD(type, name, about) fill_##type(f, &m->name);
#define END(name) }
#include "wire/messages.def"

#define MESSAGE(NAME, name, id, ...)                                                     \
    static bool same_msg_##name(const struct msg_##name *a, const struct msg_##name *b)  \
    {                                                                                    \
        bool same = a != NULL && b != NULL;
#define RECORD(NAME, name, about)                                                        \
    bool same_record_##name(const struct wire_##name *a, const struct wire_##name *b)    \
    {                                                                                    \
        bool same = true;
#define FIELD(type, name, about) same = same && same_##type(&a->name, &b->name);
#define END(name)                                                                        \
    return same;                                                                         \
    }
#include "wire/messages.def"

void fill_any(struct fill *f, uint16_t type, union wire_any *m)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        fill_msg_##name(f, &m->name);                                                    \
        break;
#include "wire/messages.def"
    default:
        break;
    }
}

bool same_any(uint16_t type, const union wire_any *a, const union wire_any *b)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return same_msg_##name(&a->name, &b->name);
#include "wire/messages.def"
    default:
        return false;
    }
}
