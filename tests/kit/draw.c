// See draw.h. A field's type determines the random value, and for some fields also the
// name.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/draw.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "cluster/roster.h"

void draw_free(struct draw *d)
{
    while (d->memory != NULL) {
        struct draw_memory *m = d->memory;
        d->memory = m->next;
        mem_free(m);
    }
}

void *draw_room(struct draw *d, size_t n)
{
    struct draw_memory *m = mem_alloc(sizeof(*m) + n);
    require(m != NULL);
    m->next = d->memory;
    d->memory = m;
    return m->bytes;
}

uint8_t draw_byte(struct draw *d)
{
    if (d->left == 0)
        return 0;
    d->left--;
    return *d->at++;
}

uint32_t draw_below(struct draw *d, uint32_t n)
{
    return draw_byte(d) % n;
}

uint64_t draw_any(struct draw *d, unsigned bits)
{
    uint64_t x = 0;
    for (unsigned i = 0; i < bits; i += 8)
        x |= (uint64_t)draw_byte(d) << i;
    return x;
}

// ---------------------------------------------------------------- numbers

uint64_t draw_sense(struct draw *d, const char *name)
{
    static const struct {
        const char *name;
        uint32_t below;
    } small[] = {
        {"table", 6},     {"other", 6},
        {"number", 16},   {"low", 4},
        {"clock", 8},     {"partition", 9},
        {"role", 7},      {"what", 9},
        {"flags", 32},    {"op", 5},
        {"micro", 17},    {"micros", 17},
        {"save", 4},      {"pass", 4},
        {"index", 8},     {"file", 3},
        {"process", 8},   {"ticket", 8},
        {"loop", 2},      {"generation", 4},
        {"group", 9},     {"mode", 5},
        {"space", 4},     {"level", 23},
        {"steps", 8},     {"id_pass", 3},
        {"kind", 3},      {"slot", 4},
        {"id_low", 3},    {"id_group", 8},
        {"slots", 4},     {"view", 4},
        {"tables", 4},    {"alive", 2},
        {"done", 2},      {"known", 2},
        {"committed", 2}, {"partition_bits", 18},
        {"width", 12},    {"n", 20},
        {"type", 4},
    };
    if (strcmp(name, "session") == 0)
        return d->n_sessions > 0 ? d->sessions[draw_below(d, d->n_sessions)] : 0;
    if (strcmp(name, "node") == 0 || strcmp(name, "id") == 0 ||
        strcmp(name, "sender") == 0)
        return d->n_sessions > 0 ? d->nodes[draw_below(d, d->n_sessions)] : 1;
    if (strcmp(name, "epoch") == 0)
        return d->epoch + draw_below(d, 16) / 14;
    if (strcmp(name, "version") == 0)
        return d->version + draw_below(d, 3);
    if (strcmp(name, "cluster") == 0)
        return 77;
    if (strcmp(name, "loops") == 0)
        return 1 + draw_below(d, 8) / 7;
    for (size_t i = 0; i < sizeof(small) / sizeof(*small); i++)
        if (strcmp(name, small[i].name) == 0)
            return draw_below(d, small[i].below);
    return draw_byte(d);
}

static uint64_t draw_number(struct draw *d, const char *name, unsigned bits)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     7,
                                     8,
                                     63,
                                     64,
                                     127,
                                     128,
                                     255,
                                     256,
                                     4095,
                                     4096,
                                     UINT16_MAX,
                                     1 << 20,
                                     1 << 22,
                                     (1 << 26) + 1,
                                     INT32_MAX,
                                     (uint64_t)INT32_MAX + 1,
                                     UINT32_MAX,
                                     (uint64_t)UINT32_MAX + 1,
                                     (uint64_t)1 << 40,
                                     INT64_MAX,
                                     (uint64_t)INT64_MAX + 1,
                                     UINT64_MAX - 1,
                                     UINT64_MAX};
    uint8_t how = draw_byte(d);
    if (how < 216)
        return draw_sense(d, name);
    if (how < 248)
        return edges[draw_byte(d) % (sizeof(edges) / sizeof(*edges))];
    return draw_any(d, bits);
}

static double draw_real(struct draw *d)
{
    static const double reals[] = {0,   1,        0.1,       -1,   0.5,   2,
                                   NAN, INFINITY, -INFINITY, 1e38, -1e38, 1e-40};
    uint8_t how = draw_byte(d);
    uint32_t bits;
    float x;
    if (how < 240)
        return reals[how % (how < 160 ? 3 : sizeof(reals) / sizeof(*reals))];
    bits = (uint32_t)draw_any(d, 32);
    memcpy(&x, &bits, sizeof(x));
    return (double)x;
}

// ---------------------------------------------------------------- texts, lists, spans

static struct wire_text draw_raw(struct draw *d, uint32_t most)
{
    uint32_t n = draw_byte(d) % (most + 1);
    char *to = draw_room(d, n);
    for (uint32_t i = 0; i < n; i++)
        to[i] = (char)draw_byte(d);
    return (struct wire_text){to, n};
}

static struct wire_text draw_words(struct draw *d)
{
    static const char *const texts[] = {"",      "a",          "users",
                                        "table", "sim://s8",   "../../x",
                                        "%s%n",  "\x1b[31m\n", "\xff\xc2"};
    uint32_t n = 0, own = sizeof(texts) / sizeof(*texts);
    uint8_t how = draw_byte(d);
    while (d->texts != NULL && d->texts[n] != NULL)
        n++;
    if (how >= 250) {
        uint32_t length = how >= 254 ? WIRE_TEXT_MAX : 64 + how;
        return (struct wire_text){memset(draw_room(d, length), 'x', length), length};
    }
    if (how >= 240)
        return draw_raw(d, 40);
    return wire_text(n > 0 && how < 180 ? d->texts[how % n] : texts[how % own]);
}

static struct wire_text draw_list(struct draw *d, const char *name);

struct wire_span draw_keys(struct draw *d, uint32_t n, enum wire_space space)
{
    uint64_t *keys = draw_room(d, n * sizeof(*keys));
    uint32_t found = 0, wild = draw_below(d, 16);
    for (uint32_t p = 0; p < 1u << d->bits && d->bits < 10; p++)
        for (uint64_t k = draw_below(d, 3), key; k < 40 && found < n; k += 1) {
            key = space == WIRE_SPACE_RANGE && d->bits > 0 ? k << (64 - d->bits) | k : k;
            if (roster_partition(d->bits, space, key) == p)
                keys[found++] = key;
        }
    for (; found < n; found++)
        keys[found] = wild == 0 ? draw_any(d, 64) : found;
    return (struct wire_span){keys, n * sizeof(*keys)};
}

struct wire_span draw_floats(struct draw *d, uint64_t n)
{
    float *x = draw_room(d, n * sizeof(*x));
    float all = (float)draw_real(d);
    for (uint64_t i = 0; i < n; i++)
        x[i] = all;
    return (struct wire_span){x, n * sizeof(*x)};
}

static struct wire_span draw_span_of(struct draw *d, const char *name)
{
    static const size_t sizes[] = {0, 1, 4, 8, 16, 24, 64, 256, 1024, 8192};
    size_t n = sizes[draw_below(d, sizeof(sizes) / sizeof(*sizes))];
    if (strcmp(name, "keys") == 0 && draw_below(d, 4) != 0)
        return draw_keys(d, (uint32_t)(n / 8), (enum wire_space)draw_below(d, 3));
    if (strcmp(name, "owners") == 0 && draw_below(d, 8) != 0) {
        uint32_t all = WIRE_SPACES << (d->bits < 10 ? d->bits : 0);
        uint32_t *owners = draw_room(d, all * sizeof(*owners));
        uint32_t node = (uint32_t)draw_sense(d, "node"), odd = draw_below(d, 64);
        for (uint32_t i = 0; i < all; i++)
            owners[i] = i == odd ? draw_byte(d) : node;
        return (struct wire_span){owners, all * sizeof(*owners)};
    }
    char *to = draw_room(d, n);
    memset(to, draw_byte(d), n);
    for (size_t i = 0; i < n && i < 32; i++)
        to[i] = (char)draw_byte(d);
    return (struct wire_span){to, n};
}

#define draw_u8(d, name) (uint8_t) draw_number(d, name, 8)
#define draw_u16(d, name) (uint16_t) draw_number(d, name, 16)
#define draw_u32(d, name) (uint32_t) draw_number(d, name, 32)
#define draw_u64(d, name) draw_number(d, name, 64)
#define draw_i32(d, name) (int32_t) draw_number(d, name, 32)
#define draw_f32(d, name) (float)draw_real(d)
#define draw_f64(d, name) draw_real(d)
#define draw_text(d, name) draw_words(d)
#define draw_bytes(d, name) draw_list(d, name)
#define draw_span(d, name) draw_span_of(d, name)

// Some kinds of records are used only in lists, and some only outside lists.
#define UNUSED __attribute__((unused))

// Draws a list of each kind of record, and each message.

#define FIELD(type, name, about) m->name = draw_##type(d, #name);
#define END(name) }

#define MESSAGE(NAME, name, id, ...)                                                     \
    UNUSED static void draw_msg_##name(struct draw *d, struct msg_##name *m)             \
    {                                                                                    \
        (void)d, (void)m;
#define RECORD(NAME, name, about)                                                        \
    void draw_record_##name(struct draw *d, struct wire_##name *m)                       \
    {
#include "wire/messages.def"

#define RECORD(NAME, name, about)                                                        \
    UNUSED static struct wire_text draw_list_##name(struct draw *d)                      \
    {                                                                                    \
        struct buf list = BUF_INIT(WIRE_BYTES_MAX);                                      \
        struct wire_##name r;                                                            \
        for (uint32_t n = draw_below(d, 8); n > 0; n--) {                                \
            draw_record_##name(d, &r);                                                   \
            (void)wire_put_##name(&list, &r);                                            \
        }                                                                                \
        char *to = draw_room(d, list.len);                                               \
        if (list.len > 0)                                                                \
            memcpy(to, list.data, list.len);                                             \
        struct wire_text text = {to, (uint32_t)list.len};                                \
        buf_free(&list);                                                                 \
        return text;                                                                     \
    }
#include "wire/messages.def"

static struct wire_text draw_list(struct draw *d, const char *name)
{
    uint8_t how = draw_byte(d);
    if (how >= 248)
        return draw_raw(d, 200);
    if (strcmp(name, "nodes") == 0)
        return draw_list_node(d);
    if (strcmp(name, "files") == 0)
        return how & 1 ? draw_list_data_file(d) : draw_list_saved_file(d);
    if (strcmp(name, "done") == 0)
        return draw_list_file_done(d);
    if (strcmp(name, "tables") == 0)
        return draw_list_save_table(d);
    if (strcmp(name, "events") == 0)
        return draw_list_event(d);
    return draw_raw(d, 64);
}

bool draw_message(struct draw *d, uint16_t type, union wire_any *ret)
{
    switch (type) {
#define MESSAGE(NAME, name, id, ...)                                                     \
    case id:                                                                             \
        draw_msg_##name(d, &ret->name);                                                  \
        return true;
#include "wire/messages.def"
    default:
        return false;
    }
}

uint16_t draw_type(struct draw *d)
{
    static const uint16_t types[] = {
#define MESSAGE(NAME, name, id, ...) id,
#include "wire/messages.def"
    };
    return types[draw_byte(d) % (sizeof(types) / sizeof(*types))];
}

void draw_know(struct draw *d, uint32_t node, uint64_t session)
{
    for (uint32_t i = 0; i < d->n_sessions; i++)
        if (d->sessions[i] == session)
            return;
    uint32_t at = d->n_sessions < DRAW_KNOWN ? d->n_sessions++
                                             : (uint32_t)(session % DRAW_KNOWN);
    d->sessions[at] = session;
    d->nodes[at] = node;
}
