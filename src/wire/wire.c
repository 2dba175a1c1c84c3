// The encoder and decoder of every message, made from messages.def.
//
// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#include <string.h>

#include "base/hash.h"
#include "base/printable.h"

static const unsigned char magic[4] = {'T', 'U', 'G', 0xA7};

enum { FLAG_BODY_CHECKED = 1 };

// Offsets of the fields in a frame's header.
enum {
    AT_VERSION = 4,
    AT_FLAGS = 5,
    AT_TYPE = 6,
    AT_HEAD_BYTES = 8,
    AT_ZERO = 12,
    AT_BODY_BYTES = 16,
    AT_REQUEST = 24,
    AT_BODY_CHECKSUM = 32,
    AT_CHECKSUM = 40, // checksum of the header's bytes before this field, and of the head
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are copied as they lie in memory");

#define PUT(at, value) memcpy(at, &(value), sizeof(value))
#define GET(value, at) memcpy(&(value), at, sizeof(value))

// The parts of a message that lie outside its struct: see wire_texts, wire_body.
struct parts {
    uint32_t n_texts, n_spans;
    struct wire_text *texts[WIRE_SPANS_MAX];
    struct wire_span *spans[WIRE_SPANS_MAX];
};

// Functions that read bytes at a cursor, which never passes the end of the bytes.

struct in {
    const char *at;
    size_t left;
    uint64_t body; // the number of body bytes of the spans read so far, including padding
};

static int wire_take(struct in *in, void *ret, size_t n)
{
    if (in->left < n)
        return TUG_EDATA;
    memcpy(ret, in->at, n);
    in->at += n;
    in->left -= n;
    return 0;
}

static int take_run(struct in *in, struct wire_text *ret, uint32_t max)
{
    TRY(wire_take(in, &ret->n, sizeof(ret->n)));
    if (ret->n > max || ret->n > in->left)
        return TUG_EDATA;
    ret->data = in->at;
    in->at += ret->n;
    in->left -= ret->n;
    return 0;
}

#define TAKE_NUMBER(type)                                                                \
    static inline int take_##type(struct in *in, WIRE_TYPE_##type *ret)                  \
    {                                                                                    \
        return wire_take(in, ret, sizeof(*ret));                                         \
    }                                                                                    \
    static inline void part_##type(struct parts *p, WIRE_TYPE_##type *v)                 \
    {                                                                                    \
        (void)p, (void)v;                                                                \
    }
TAKE_NUMBER(u8)
TAKE_NUMBER(u16)
TAKE_NUMBER(u32)
TAKE_NUMBER(u64)
TAKE_NUMBER(i32)
TAKE_NUMBER(f32)
TAKE_NUMBER(f64)

static inline int take_text(struct in *in, struct wire_text *ret)
{
    return take_run(in, ret, WIRE_TEXT_MAX);
}

static inline int take_bytes(struct in *in, struct wire_text *ret)
{
    return take_run(in, ret, WIRE_BYTES_MAX);
}

static inline int take_span(struct in *in, struct wire_span *ret)
{
    TRY(wire_take(in, &ret->n, sizeof(ret->n)));
    ret->data = NULL;
    if (ret->n > WIRE_SPAN_MAX)
        return TUG_EDATA;
    in->body += ret->n + wire_padding(ret->n);
    return 0;
}

static inline void part_text(struct parts *p, struct wire_text *v)
{
    p->texts[p->n_texts++] = v;
}

static inline void part_bytes(struct parts *p, struct wire_text *v)
{
    part_text(p, v);
}

static inline void part_span(struct parts *p, struct wire_span *v)
{
    p->spans[p->n_spans++] = v;
}

// ---------------------------------------------------------------- writing

struct out {
    struct buf *b;
    struct wire_out *spans; // NULL in records, which have no spans
};

#define PUT_NUMBER(type)                                                                 \
    static inline int put_##type(struct out *o, const WIRE_TYPE_##type *v)               \
    {                                                                                    \
        return buf_add(o->b, v, sizeof(*v));                                             \
    }
PUT_NUMBER(u8)
PUT_NUMBER(u16)
PUT_NUMBER(u32)
PUT_NUMBER(u64)
PUT_NUMBER(i32)
PUT_NUMBER(f32)
PUT_NUMBER(f64)

static int put_run(struct out *o, const struct wire_text *v, uint32_t max)
{
    if (v->n > max)
        return TUG_EUSAGE;
    TRY(buf_add(o->b, &v->n, sizeof(v->n)));
    return v->n > 0 ? buf_add(o->b, v->data, v->n) : 0;
}

static inline int put_text(struct out *o, const struct wire_text *v)
{
    return put_run(o, v, WIRE_TEXT_MAX);
}

static inline int put_bytes(struct out *o, const struct wire_text *v)
{
    return put_run(o, v, WIRE_BYTES_MAX);
}

static inline int put_span(struct out *o, const struct wire_span *v)
{
    if (v->n > WIRE_SPAN_MAX)
        return TUG_EUSAGE;
    o->spans->spans[o->spans->n_spans++] = *v;
    o->spans->body_bytes += v->n + wire_padding(v->n);
    return buf_add(o->b, &v->n, sizeof(v->n));
}

// Functions that write and read the fields of records and messages one after the other.

#define MESSAGE(NAME, name, id, ...)                                                     \
    __attribute__((unused)) static int put_msg_##name(struct out *o,                     \
                                                      const struct msg_##name *m)        \
    {                                                                                    \
        (void)o, (void)m;
#define RECORD(NAME, name, about)                                                        \
    static int put_record_##name(struct out *o, const struct wire_##name *m)             \
    {
#define FIELD(type, name, about) TRY(put_##type(o, &m->name));
#define END(name)                                                                        \
    return 0;                                                                            \
    }
#include "wire/messages.def"

#define MESSAGE(NAME, name, id, ...)                                                     \
    static int take_msg_##name(struct in *in, struct msg_##name *m)                      \
    {                                                                                    \
        (void)in, (void)m;
#define RECORD(NAME, name, about)                                                        \
    static int take_record_##name(struct in *in, struct wire_##name *m)                  \
    {
#define FIELD(type, name, about) TRY(take_##type(in, &m->name));
#define END(name)                                                                        \
    return 0;                                                                            \
    }
#include "wire/messages.def"

#define RECORD(NAME, name, about)                                                        \
    int wire_put_##name(struct buf *list, const struct wire_##name *r)                   \
    {                                                                                    \
        size_t before = list->len;                                                       \
        int rc = put_record_##name(&(struct out){.b = list}, r);                         \
        if (rc != 0)                                                                     \
            list->len = before;                                                          \
        return rc;                                                                       \
    }                                                                                    \
    int wire_next_##name(struct wire_text *list, struct wire_##name *ret)                \
    {                                                                                    \
        struct in in = {.at = list->data, .left = list->n};                              \
        if (list->n == 0)                                                                \
            return 0;                                                                    \
        TRY(take_record_##name(&in, ret));                                               \
        *list = (struct wire_text){in.at, (uint32_t)in.left};                            \
        return 1;                                                                        \
    }
#include "wire/messages.def"

// ------------------------------------------------------------ texts and codes from peers

const char *wire_words(struct wire_text t, char *to, size_t cap)
{
    size_t n = t.n < cap ? t.n : cap - 1;
    if (n > 0)
        memcpy(to, t.data, n);
    to[n] = '\0';
    printable_make(to);
    return to;
}

const char *wire_reason(struct wire_text t, char *to, size_t cap)
{
    static const char none[] = "it gives no reason";
    if (*wire_words(t, to, cap) == '\0')
        memcpy(to, none, cap < sizeof(none) ? cap : sizeof(none));
    to[cap - 1] = '\0';
    return to;
}

int wire_code(int32_t code)
{
    switch (code) {
#define X(name, exit_code, text) case name:
        TUG_STATUS(X)
#undef X
        return code;
    default:
        return TUG_EDATA;
    }
}

int wire_failure(int32_t code)
{
    return code != 0 ? wire_code(code) : TUG_EDATA;
}

struct msg_error wire_error(const struct err *e)
{
    return (struct msg_error){.code = e->code,
                              .reason = (uint16_t)e->reason,
                              .about = e->about,
                              .what = wire_text(e->text)};
}

enum reason wire_known_reason(uint16_t reason)
{
    return reason < REASONS ? (enum reason)reason : REASON_NONE;
}

int wire_refusal(const struct msg_error *m, const char *who, struct err *e)
{
    char why[ERR_TEXT_MAX];
    enum reason reason = wire_known_reason(m->reason);
    wire_reason(m->what, why, sizeof(why));
    return err_because(e, wire_failure(m->code), reason,
                       reason != REASON_NONE ? m->about : 0, "%s%s%s",
                       who != NULL ? who : "", who != NULL ? ": " : "", why);
}

int wire_check_flags(uint16_t type, const union wire_any *m, struct err *e)
{
    const unsigned rows = WIRE_BF16 | WIRE_ROWS_WHOLE | WIRE_FOUND;
    unsigned flags = 0, known = 0;
    switch (type) {
    case MSG_PUSH:
        flags = m->push.flags;
        known = WIRE_BF16 | WIRE_KEYS_PACKED | WIRE_ALSO_PULL | WIRE_AGAIN |
                WIRE_KEYS_ONLY;
        break;
    case MSG_PULL:
        flags = m->pull.flags;
        known = rows | WIRE_KEYS_PACKED;
        break;
    case MSG_PULLED:
        flags = m->pulled.flags;
        known = rows;
        break;
    case MSG_APP:
        flags = m->app.flags;
        known = WIRE_APP_REQUEST | WIRE_APP_PUSH | WIRE_APP_PULL | WIRE_APP_SIMPLE;
        break;
    }
    if ((flags & ~known) == 0)
        return 0;
    return err_set(e, TUG_EDATA, "%s: its flags 0x%02x contain the unknown flags 0x%02x",
                   wire_name(type), flags, flags & ~known);
}

static int take_message(struct in *in, uint16_t type, union wire_any *ret)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return take_msg_##name(in, &ret->name);
#include "wire/messages.def"
    default:
        return TUG_EDATA;
    }
}

static int put_message(struct out *o, uint16_t type, const void *msg)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        return put_msg_##name(o, msg);
#include "wire/messages.def"
    default:
        return TUG_EUSAGE;
    }
}

// Functions for the parts of a message that lie outside its struct: texts in the head,
// and spans in the body.

#define MESSAGE(NAME, name, id, ...)                                                     \
    static inline void parts_of_##name(struct parts *p, struct msg_##name *m)            \
    {                                                                                    \
        (void)p, (void)m;
#define RECORD(NAME, name, about)                                                        \
    __attribute__((unused)) static void parts_of_record_##name(struct parts *p,          \
                                                               struct wire_##name *m)    \
    {
#define FIELD(type, name, about) part_##type(p, &m->name);
#define END(name) }
#include "wire/messages.def"

// Checks at compile time that no message has more texts or spans than `struct parts` has
// places for them.
#define IS(type, part) _Generic(*(WIRE_TYPE_##type *)0, part : 1, default : 0)
#define MESSAGE(NAME, name, id, ...) _Static_assert(0
#define RECORD(NAME, name, about) _Static_assert(0
#define FIELD(type, name, about) +IS(type, struct wire_text)
#define END(name) <= WIRE_SPANS_MAX, #name);
#include "wire/messages.def"
#define MESSAGE(NAME, name, id, ...) _Static_assert(0
#define RECORD(NAME, name, about) _Static_assert(0
#define FIELD(type, name, about) +IS(type, struct wire_span)
#define END(name) <= WIRE_SPANS_MAX, #name);
#include "wire/messages.def"

static void parts_of(uint16_t type, union wire_any *m, struct parts *ret)
{
    ret->n_texts = ret->n_spans = 0;
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        parts_of_##name(ret, &m->name);                                                  \
        break;
#include "wire/messages.def"
    default:
        break;
    }
}

size_t wire_texts(uint16_t type, union wire_any *m, char *to)
{
    struct parts p = {0};
    size_t bytes = 0;
    parts_of(type, m, &p);
    for (uint32_t i = 0; i < p.n_texts; i++) {
        struct wire_text *t = p.texts[i];
        if (to != NULL && t->n > 0)
            memcpy(to + bytes, t->data, t->n);
        if (to != NULL)
            t->data = to + bytes;
        bytes += t->n;
    }
    return bytes;
}

// ---------------------------------------------------------------- frames

static uint64_t checksum_of(const unsigned char *header, const void *head, size_t n)
{
    return hash_bytes(head, n, hash_bytes(header, AT_CHECKSUM, 0));
}

int wire_frame_read(const unsigned char header[WIRE_FRAME_BYTES], struct wire_frame *ret,
                    struct err *e)
{
    uint32_t zero;
    uint16_t type;
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return err_set(e, TUG_EDATA,
                       "the peer does not speak tug's protocol: is the address that of a "
                       "tug node, and do both sides use TLS or neither?");
    const uint8_t newest = wire_own_versions().newest;
    if (header[AT_VERSION] < WIRE_FIRST || header[AT_VERSION] > newest)
        return err_set(e, TUG_EDATA,
                       "the peer speaks version %u of the protocol, but tug %s speaks "
                       "versions up to %u: replace the older tug of the two",
                       header[AT_VERSION], tug_version(), newest);
    GET(type, header + AT_TYPE);
    GET(ret->head_bytes, header + AT_HEAD_BYTES);
    GET(zero, header + AT_ZERO);
    GET(ret->body_bytes, header + AT_BODY_BYTES);
    GET(ret->request, header + AT_REQUEST);
    GET(ret->body_checksum, header + AT_BODY_CHECKSUM);
    ret->type = type;
    ret->body_checked = header[AT_FLAGS] & FLAG_BODY_CHECKED;
    if (wire_name(type) == NULL)
        return err_set(e, TUG_EDATA, "a message has the type %u, which is unknown", type);
    if (zero != 0 || (header[AT_FLAGS] & ~FLAG_BODY_CHECKED) != 0)
        return err_set(e, TUG_EDATA, "a message (%s) has a damaged header",
                       wire_name(type));
    if (ret->head_bytes > WIRE_HEAD_MAX || ret->body_bytes > WIRE_BODY_MAX)
        return err_set(
            e, TUG_EDATA,
            "a message (%s) announces %llu bytes, which is more than the limit",
            wire_name(type), (unsigned long long)(ret->head_bytes + ret->body_bytes));
    return 0;
}

int wire_decode(const unsigned char header[WIRE_FRAME_BYTES], const struct wire_frame *f,
                const void *head, union wire_any *ret, struct err *e)
{
    uint64_t checksum;
    GET(checksum, header + AT_CHECKSUM);
    if (checksum != checksum_of(header, head, f->head_bytes))
        return err_set(e, TUG_EDATA, "a message (%s) has a wrong checksum",
                       wire_name(f->type));
    struct in in = {.at = head, .left = f->head_bytes};
    if (take_message(&in, f->type, ret) != 0 || in.left != 0 || in.body != f->body_bytes)
        return err_set(e, TUG_EDATA,
                       "a message (%s) has contents that do not match its header",
                       wire_name(f->type));
    return 0;
}

int wire_body(const struct wire_frame *f, const void *body, union wire_any *m,
              struct err *e)
{
    if (f->body_checked && hash_bytes(body, f->body_bytes, 0) != f->body_checksum)
        return err_set(e, TUG_EDATA, "a message (%s) has a body whose checksum is wrong",
                       wire_name(f->type));
    struct parts p;
    parts_of(f->type, m, &p);
    const char *at = body;
    for (uint32_t i = 0; i < p.n_spans; i++) {
        p.spans[i]->data = at;
        if (p.spans[i]->n > 0) // if all spans are empty, the body may be missing
            at += p.spans[i]->n + wire_padding(p.spans[i]->n);
    }
    return 0;
}

// Returns the checksum of a message's body. The checksum is used only on links without
// TLS to other machines.
static uint64_t checksum_body(const struct wire_out *o)
{
    static const char zeros[8];
    struct hash_stream s;
    hash_stream_begin(&s, 0);
    for (uint32_t i = 0; i < o->n_spans; i++) {
        hash_stream_add(&s, o->spans[i].data, o->spans[i].n);
        hash_stream_add(&s, zeros, wire_padding(o->spans[i].n));
    }
    return hash_stream_end(&s);
}

// Returns the version of the protocol that introduced the present form of this message.
static uint8_t version_of(uint16_t type)
{
    switch (type) {
#define MESSAGE(NAME, name, id, since, ...)                                              \
    case id:                                                                             \
        return since > WIRE_FIRST ? since : WIRE_FIRST;
#include "wire/messages.def"
    default:
        return WIRE_FIRST;
    }
}

int wire_encode(struct wire_out *o, uint16_t type, uint64_t request, const void *msg,
                bool check_body)
{
    unsigned char header[WIRE_FRAME_BYTES] = {0};
    o->n_spans = 0;
    o->body_bytes = 0;
    buf_clear(&o->head);
    TRY(buf_add(&o->head, header, sizeof(header)));
    TRY(put_message(&(struct out){&o->head, o}, type, msg));
    uint32_t head_bytes = (uint32_t)(o->head.len - WIRE_FRAME_BYTES);
    bool checked = check_body && o->body_bytes > 0;
    uint64_t body_checksum = checked ? checksum_body(o) : 0;
    memcpy(header, magic, sizeof(magic));
    header[AT_VERSION] = version_of(type);
    header[AT_FLAGS] = checked ? FLAG_BODY_CHECKED : 0;
    PUT(header + AT_TYPE, type);
    PUT(header + AT_HEAD_BYTES, head_bytes);
    PUT(header + AT_BODY_BYTES, o->body_bytes);
    PUT(header + AT_REQUEST, request);
    PUT(header + AT_BODY_CHECKSUM, body_checksum);
    uint64_t checksum = checksum_of(header, o->head.data + WIRE_FRAME_BYTES, head_bytes);
    PUT(header + AT_CHECKSUM, checksum);
    memcpy(o->head.data, header, sizeof(header));
    return 0;
}

void wire_copy_body(const struct wire_out *o, void *to)
{
    char *at = to;
    for (uint32_t i = 0; i < o->n_spans; i++) {
        uint64_t n = o->spans[i].n, padding = wire_padding(n);
        if (n > 0)
            memcpy(at, o->spans[i].data, n);
        memset(at + n, 0, padding);
        at += n + padding;
    }
}
