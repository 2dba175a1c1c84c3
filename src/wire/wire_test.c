// Tests every message as bytes: the bytes never change (tests/golden/wire.hex), decoding
// gives the same contents, and damaged bytes give an error.
//
// With TUG_GOLDEN_WRITE=1 in the environment, the test writes the golden bytes, and the
// fuzzer's first inputs, instead of comparing.
//
// SPDX-License-Identifier: Apache-2.0
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "kit/frames.h"
#include "kit/test.h"
#include "os/file.h"

enum { MUTATIONS = SANITIZED ? 100000 : 1000000 };

enum {
    LONGEST = 50,
    GOLDEN_MAX = 1 << 20,
    AT_VERSION = 4,
    AT_HEAD_BYTES = 8,
    AT_CHECKSUM = 40
};

// The header, head and body of a frame, each in a block of memory of exactly its size, so
// that a sanitizer catches any access past its end.
struct frame {
    unsigned char header[WIRE_FRAME_BYTES];
    size_t head_n, body_n;
    char *head, *body;
};

static void frame_free(struct frame *f)
{
    mem_free(f->head);
    mem_free(f->body);
}

static char *copy_of(const void *bytes, size_t n)
{
    char *copy = mem_alloc(n);
    assert_non_null(copy);
    if (n > 0)
        memcpy(copy, bytes, n);
    return copy;
}

static void frame_of(struct frame *ret, uint16_t type, uint64_t request, const void *msg,
                     bool check)
{
    struct wire_out o = WIRE_OUT_INIT;
    assert_int_equal(wire_encode(&o, type, request, msg, check), 0);
    memcpy(ret->header, o.head.data, WIRE_FRAME_BYTES);
    ret->head_n = o.head.len - WIRE_FRAME_BYTES;
    ret->head = copy_of(o.head.data + WIRE_FRAME_BYTES, ret->head_n);
    ret->body_n = o.body_bytes;
    ret->body = mem_alloc(o.body_bytes);
    assert_non_null(ret->body);
    wire_copy_body(&o, ret->body);
    buf_free(&o.head);
}

// Decodes a frame as a van does.
static int decode(const struct frame *f, struct wire_frame *ret_frame,
                  union wire_any *ret, struct err *e)
{
    TRY(wire_frame_read(f->header, ret_frame, e));
    if (ret_frame->head_bytes != f->head_n)
        return err_set(e, TUG_EDATA, "the head never comes");
    TRY(wire_decode(f->header, ret_frame, f->head, ret, e));
    if (ret_frame->body_bytes != f->body_n)
        return err_set(e, TUG_EDATA, "the body never comes");
    return wire_body(ret_frame, f->body, ret, e);
}

// Corrects the header's checksum, so that damage in the head must be found by other
// checks.
static void seal(struct frame *f)
{
    uint64_t sum = hash_bytes(f->head, f->head_n, hash_bytes(f->header, AT_CHECKSUM, 0));
    memcpy(f->header + AT_CHECKSUM, &sum, sizeof(sum));
}

static const char *letters(void)
{
    static char bytes[2 * LONGEST + 2];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)('a' + i % 26);
    return bytes;
}

static void golden_frame(struct frame *ret, uint16_t type)
{
    struct fill f = {.seed = type, .longest = LONGEST, .bytes = letters()};
    union wire_any m;
    fill_any(&f, type, &m);
    frame_of(ret, type, 0x0102030405060708, &m, type % 2 == 0);
}

static void put_hex(struct buf *b, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(buf_printf(b, "%02x", ((const unsigned char *)bytes)[i]), 0);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    struct err e = {0};
    struct file_writer *w;
    if (file_create(&w, path, &e) != 0 || file_write(w, bytes, n, &e) != 0 ||
        file_commit(w, &e) != 0)
        fail_msg("%s", e.text);
}

static void write_input(uint16_t type)
{
    struct buf b = BUF_INIT(GOLDEN_MAX);
    struct frame f;
    char path[FILE_PATH_MAX];
    golden_frame(&f, type);
    snprintf(path, sizeof(path), "%s/fuzz/corpus/wire/%s", TUG_TESTS_FOLDER,
             wire_name(type));
    assert_int_equal(buf_add(&b, f.header, sizeof(f.header)), 0);
    assert_int_equal(buf_add(&b, f.head, f.head_n), 0);
    assert_int_equal(buf_add(&b, f.body, f.body_n), 0);
    write_file(path, b.data, b.len);
    buf_free(&b);
    frame_free(&f);
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : at + strlen(at);
}

// Returns the line that has the same first word (a message type) as the line `of`; NULL if no
// line has this type.
static const char *line_like(const char *lines, const char *of)
{
    size_t name = strcspn(of, " ") + 1;
    for (const char *l = lines; *l != 0; l = next_line(l))
        if (strncmp(l, of, name) == 0)
            return l;
    return NULL;
}

static bool same_version(const char *line, const char *other)
{
    return strncmp(strchr(line, ' ') + 1 + 2 * (size_t)AT_VERSION,
                   strchr(other, ' ') + 1 + 2 * (size_t)AT_VERSION, 2) == 0;
}

// Peers of one version must understand each other. Returns whether each message of
// `golden` still has the same bytes; if not, *ret_name is a message that has changed or
// is missing.
static bool keeps_version(const char *now, const char *golden, char ret_name[LONGEST])
{
    for (const char *old = golden; *old != 0 && same_version(now, golden);
         old = next_line(old)) {
        const char *l = line_like(now, old);
        snprintf(ret_name, LONGEST, "%.*s", (int)strcspn(old, " "), old);
        if (l == NULL || strncmp(l, old, (size_t)(next_line(old) - old)) != 0)
            return false;
    }
    return true;
}

static void test_keeps_version(void **state)
{
    (void)state;
    char name[LONGEST];
    static const char two[] = "a 5455473102aa 01\nb 5455473102aa 02\n",
                      more[] =
                          "a 5455473102aa 01\nb 5455473102aa 02\nc 5455473102aa 03\n",
                      other[] = "a 5455473102aa 01\nb 5455473102aa 0200\n",
                      raised[] = "a 5455473103aa 0100\n";
    assert_true(keeps_version(two, two, name) && keeps_version(more, two, name));
    assert_true(keeps_version(raised, two, name) && keeps_version(two, "", name));
    assert_false(keeps_version(other, two, name));
    assert_string_equal(name, "b");
    assert_false(keeps_version(two, more, name));
    assert_string_equal(name, "c");
}

static void put_line(struct buf *b, uint16_t type)
{
    struct frame f;
    golden_frame(&f, type);
    assert_int_equal(buf_printf(b, "%s ", wire_name(type)), 0);
    put_hex(b, f.header, sizeof(f.header));
    assert_int_equal(buf_printf(b, " "), 0);
    put_hex(b, f.head, f.head_n);
    assert_int_equal(buf_printf(b, " "), 0);
    put_hex(b, f.body, f.body_n);
    assert_int_equal(buf_printf(b, "\n"), 0);
    frame_free(&f);
}

static void write_golden(const char *path, const char *now, const char *golden)
{
    char name[LONGEST];
    if (!keeps_version(now, golden, name))
        fail_msg(
            "%s is another message now: nodes of the version before read it wrongly; "
            "give the new form an id of its own",
            name);
    for (int i = 0; i < N_WIRE_TYPES; i++)
        write_input(wire_types[i]);
    write_file(path, now, strlen(now));
}

static void test_golden(void **state)
{
    (void)state;
    static const char path[] = TUG_TESTS_FOLDER "/golden/wire.hex";
    struct buf now = BUF_INIT(GOLDEN_MAX), golden = BUF_INIT(GOLDEN_MAX);
    struct err e = {0};
    for (int i = 0; i < N_WIRE_TYPES; i++)
        put_line(&now, wire_types[i]);
    if (file_read(path, &golden, &e) != 0)
        fail_msg("%s", e.text);
    if (getenv("TUG_GOLDEN_WRITE") != NULL)
        write_golden(path, buf_str(&now), buf_str(&golden));
    else
        assert_string_equal(buf_str(&now), buf_str(&golden));
    buf_free(&now);
    buf_free(&golden);
}

// After its texts were copied, a message does not need the received head any more.
static void test_texts(void **state)
{
    (void)state;
    size_t live = mem_live();
    for (int i = 0; i < N_WIRE_TYPES; i++) {
        struct fill fill = {.seed = 3, .longest = LONGEST, .bytes = letters()};
        union wire_any sent, got;
        struct wire_frame head;
        struct frame f;
        fill_any(&fill, wire_types[i], &sent);
        frame_of(&f, wire_types[i], 1, &sent, false);
        assert_int_equal(decode(&f, &head, &got, NULL), 0);
        size_t n = wire_texts(head.type, &got, NULL);
        assert_true(same_any(head.type, &sent, &got));
        char *texts = mem_alloc(n);
        assert_int_equal(wire_texts(head.type, &got, texts), n);
        memset(f.head, 0, f.head_n);
        assert_true(same_any(head.type, &sent, &got));
        mem_free(texts);
        frame_free(&f);
    }
    assert_int_equal(mem_live(), live);
}

static void test_round_trip(void **state)
{
    (void)state;
    enum { TRIALS = 200, LONG = 4096 };
    static char bytes[2 * LONG + 2];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)random_u64(1, 0, i);
    for (int t = 0; t < N_WIRE_TYPES * TRIALS; t++) {
        uint16_t type = wire_types[t % N_WIRE_TYPES];
        struct fill fill = {
            .seed = (uint64_t)t, .longest = t % 5 == 0 ? LONG : t % 30, .bytes = bytes};
        union wire_any sent, got;
        struct wire_frame head;
        struct frame f;
        struct err e = {0};
        bool checked = t % 3 == 0;
        fill_any(&fill, type, &sent);
        frame_of(&f, type, (uint64_t)t * 77, &sent, checked);
        if (decode(&f, &head, &got, &e) != 0)
            fail_msg("%s: %s", wire_name(type), e.text);
        assert_int_equal(head.type, type);
        assert_int_equal(head.request, (uint64_t)t * 77);
        assert_int_equal(head.body_checked, checked && f.body_n > 0);
        assert_int_equal(head.body_bytes % 8, 0);
        assert_true(same_any(type, &sent, &got));
        frame_free(&f);
    }
}

static void assert_refused(const struct frame *f)
{
    struct err e = {0};
    struct wire_frame head;
    union wire_any m;
    assert_int_equal(decode(f, &head, &m, &e), TUG_EDATA);
    assert_int_equal(e.code, TUG_EDATA);
    assert_true(e.text[0] != '\0');
}

// Cuts the head to n bytes, and corrects all lengths and checksums.
static void cut_head(const struct frame *f, size_t n)
{
    struct frame cut = *f;
    uint32_t bytes = (uint32_t)n;
    cut.head = copy_of(f->head, n);
    cut.head_n = n;
    memcpy(cut.header + AT_HEAD_BYTES, &bytes, sizeof(bytes));
    assert_refused(&cut);
    seal(&cut);
    assert_refused(&cut);
    mem_free(cut.head);
}

static void test_truncations(void **state)
{
    (void)state;
    for (int i = 0; i < N_WIRE_TYPES; i++) {
        struct frame f;
        golden_frame(&f, wire_types[i]);
        for (size_t n = 0; n < f.head_n; n++)
            cut_head(&f, n);
        for (size_t n = 0; n < f.body_n; n++) {
            struct frame cut = f;
            uint64_t bytes = n;
            cut.body_n = n;
            assert_refused(&cut);
            memcpy(cut.header + 16, &bytes, sizeof(bytes));
            seal(&cut);
            assert_refused(&cut);
        }
        frame_free(&f);
    }
}

// A head that is one byte too long is refused.
static void test_longer_heads(void **state)
{
    (void)state;
    for (int i = 0; i < N_WIRE_TYPES; i++) {
        struct frame f, longer;
        golden_frame(&f, wire_types[i]);
        longer = f;
        longer.head_n = f.head_n + 1;
        longer.head = mem_alloc(longer.head_n);
        memcpy(longer.head, f.head, f.head_n);
        longer.head[f.head_n] = 0;
        uint32_t bytes = (uint32_t)longer.head_n;
        memcpy(longer.header + AT_HEAD_BYTES, &bytes, sizeof(bytes));
        seal(&longer);
        assert_refused(&longer);
        mem_free(longer.head);
        frame_free(&f);
    }
}

// Returns a pointer to the byte at offset `at` of the frame (header, head and body).
static unsigned char *byte_at(struct frame *f, size_t at)
{
    if (at < sizeof(f->header))
        return &f->header[at];
    at -= sizeof(f->header);
    char *byte = at < f->head_n ? &f->head[at] : &f->body[at - f->head_n];
    return (unsigned char *)byte;
}

// Encodes a message that was decoded from `f`, and expects the same head as in `f`.
static void assert_same_again(const struct frame *f, const struct wire_frame *head,
                              const union wire_any *m)
{
    struct frame again;
    frame_of(&again, head->type, head->request, m, head->body_checked);
    assert_int_equal(again.head_n, f->head_n);
    assert_int_equal(again.body_n, f->body_n);
    assert_memory_equal(again.head, f->head, f->head_n);
    frame_free(&again);
}

static unsigned mutate(struct frame *f, const struct frame *good, uint64_t trial)
{
    uint64_t r = random_u64(11, 0, trial);
    struct wire_frame head;
    union wire_any m;
    struct err e = {0};
    memcpy(f->header, good->header, sizeof(f->header));
    memcpy(f->head, good->head, good->head_n);
    memcpy(f->body, good->body, good->body_n);
    for (uint64_t changes = 1 + r % 3; changes > 0; changes--) {
        uint64_t s = random_u64(12, trial, changes);
        size_t all = sizeof(f->header) + f->head_n + f->body_n;
        *byte_at(f, (s >> 16) % all) ^= (unsigned char)(1u << s % 8 | (s >> 8 & s >> 3));
    }
    if (r >> 40 & 1)
        seal(f);
    int rc = decode(f, &head, &m, &e);
    if (rc == 0)
        assert_same_again(f, &head, &m);
    else if (rc != TUG_EDATA || e.text[0] == '\0')
        fail_msg("trial %llu: %d", (unsigned long long)trial, rc);
    return rc == 0;
}

static void test_mutations(void **state)
{
    (void)state;
    unsigned read = 0;
    for (int i = 0; i < N_WIRE_TYPES; i++) {
        struct frame good, f;
        golden_frame(&good, wire_types[i]);
        golden_frame(&f, wire_types[i]);
        for (uint64_t t = 0; t < MUTATIONS / N_WIRE_TYPES + 1; t++)
            read += mutate(&f, &good, t * N_WIRE_TYPES + (uint64_t)i);
        frame_free(&good);
        frame_free(&f);
    }
    // Some changed messages are still valid; the checksums of most of these were corrected.
    assert_in_range(read, MUTATIONS / 100, MUTATIONS * 2 / 3);
}

static void test_damaged_bodies(void **state)
{
    (void)state;
    struct frame f;
    // golden_frame adds a checksum of the body to messages with an even type, such as
    // this one.
    golden_frame(&f, MSG_ROSTER);
    assert_true(f.body_n > 0);
    for (size_t i = 0; i < f.body_n; i++) {
        f.body[i] ^= 1;
        assert_refused(&f);
        f.body[i] ^= 1;
    }
    frame_free(&f);
}

static void test_headers(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        unsigned char byte;
        const char *says;
    } wrong[] = {
        {0, 'G', "does not speak tug's protocol"},
        {4, 99, "speaks version 99"},
        {5, 2, "damaged header"},
        {7, 0xff, "which is unknown"},
        {11, 1, "more than the limit"},
        {12, 1, "damaged header"},
        {20, 2, "more than the limit"},
        {23, 0x80, "more than the limit"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct frame f;
        struct wire_frame head;
        struct err e = {0};
        golden_frame(&f, MSG_HELLO);
        f.header[wrong[i].at] = wrong[i].byte;
        assert_int_equal(wire_frame_read(f.header, &head, &e), TUG_EDATA);
        if (strstr(e.text, wrong[i].says) == NULL)
            fail_msg("byte %zu: %s", wrong[i].at, e.text);
        frame_free(&f);
    }
}

// Fields of the greatest length can be sent; one byte more is refused by encoder and
// decoder.

static void test_limits_of_encoding(void **state)
{
    (void)state;
    struct wire_out o = WIRE_OUT_INIT;
    char *bytes = mem_zalloc(WIRE_BYTES_MAX + 1);
    struct msg_error error = {.what = {bytes, WIRE_TEXT_MAX}};
    assert_int_equal(wire_encode(&o, MSG_ERROR, 0, &error, false), 0);
    error.what.n++;
    assert_int_equal(wire_encode(&o, MSG_ERROR, 0, &error, false), TUG_EUSAGE);
    struct msg_trace trace = {.events = {bytes, WIRE_BYTES_MAX}};
    assert_int_equal(wire_encode(&o, MSG_TRACE, 0, &trace, false), 0);
    trace.events.n++;
    assert_int_equal(wire_encode(&o, MSG_TRACE, 0, &trace, false), TUG_EUSAGE);
    // Only the length counts: the bytes are not read.
    struct msg_pull pull = {.keys = {bytes, WIRE_SPAN_MAX}};
    assert_int_equal(wire_encode(&o, MSG_PULL, 0, &pull, false), 0);
    assert_int_equal(o.body_bytes, WIRE_SPAN_MAX);
    pull.keys.n++;
    assert_int_equal(wire_encode(&o, MSG_PULL, 0, &pull, false), TUG_EUSAGE);
    assert_int_equal(wire_encode(&o, 9999, 0, &pull, false), TUG_EUSAGE);
    mem_free(bytes);
    buf_free(&o.head);
}

// Decodes a head whose last field was made longer. `at` is the offset of the length of
// this field.
static int decode_long(uint16_t type, const void *msg, size_t at, uint64_t n,
                       size_t width, uint64_t body_bytes)
{
    struct frame f;
    struct wire_frame head;
    union wire_any m;
    frame_of(&f, type, 0, msg, false);
    size_t tail = width == sizeof(uint32_t) ? n : 0; // texts are part of the head
    mem_free(f.head);
    f.head_n = at + width + tail;
    f.head = mem_zalloc(f.head_n);
    memcpy(f.head + at, &n, width);
    uint32_t head_n = (uint32_t)f.head_n;
    memcpy(f.header + AT_HEAD_BYTES, &head_n, sizeof(head_n));
    memcpy(f.header + 16, &body_bytes, sizeof(body_bytes));
    seal(&f);
    int rc = wire_frame_read(f.header, &head, NULL);
    if (rc == 0)
        rc = wire_decode(f.header, &head, f.head, &m, NULL);
    frame_free(&f);
    return rc;
}

static void test_limits_of_decoding(void **state)
{
    (void)state;
    const struct msg_error error = {.code = 0};
    assert_int_equal(decode_long(MSG_ERROR, &error, 14, WIRE_TEXT_MAX, 4, 0), 0);
    assert_int_equal(decode_long(MSG_ERROR, &error, 14, WIRE_TEXT_MAX + 1, 4, 0),
                     TUG_EDATA);
    const struct msg_trace trace = {.from = 0};
    assert_int_equal(decode_long(MSG_TRACE, &trace, 32, WIRE_BYTES_MAX, 4, 0), 0);
    assert_int_equal(decode_long(MSG_TRACE, &trace, 32, WIRE_BYTES_MAX + 1, 4, 0),
                     TUG_EDATA);
    const struct msg_pull pull = {.table = 0};
    const uint64_t most = WIRE_SPAN_MAX;
    enum { AT = 49 }; // offset of the length of pull's keys
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, most, 8, most), 0);
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, most, 8, most + 8), TUG_EDATA);
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, most + 1, 8, most + 8), TUG_EDATA);
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, UINT64_MAX, 8, 0), TUG_EDATA);
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, UINT64_MAX - 7, 8, 0), TUG_EDATA);
    assert_int_equal(decode_long(MSG_PULL, &pull, AT, (uint64_t)1 << 63, 8, 0),
                     TUG_EDATA);
}

// --------------------------------------------------- random lists of each kind of record

#define RECORD(NAME, name, about)                                                        \
    static void list_of_##name(void)                                                     \
    {                                                                                    \
        enum { COUNT = 20 };                                                             \
        struct fill f = {.seed = 5, .longest = LONGEST, .bytes = letters()};             \
        struct fill again = f;                                                           \
        struct buf list = BUF_INIT(WIRE_BYTES_MAX);                                      \
        struct wire_##name in, out;                                                      \
        for (int i = 0; i < COUNT; i++) {                                                \
            fill_record_##name(&f, &in);                                                 \
            assert_int_equal(wire_put_##name(&list, &in), 0);                            \
        }                                                                                \
        struct wire_text at = {list.data, (uint32_t)list.len};                           \
        for (int i = 0; i < COUNT; i++) {                                                \
            fill_record_##name(&again, &in);                                             \
            assert_int_equal(wire_next_##name(&at, &out), 1);                            \
            assert_true(same_record_##name(&in, &out));                                  \
        }                                                                                \
        assert_int_equal(wire_next_##name(&at, &out), 0);                                \
        for (uint32_t n = 0; n < list.len; n++) {                                        \
            int rc = 1, count = 0;                                                       \
            char *cut = copy_of(list.data, n);                                           \
            at = (struct wire_text){cut, n};                                             \
            while ((rc = wire_next_##name(&at, &out)) == 1)                              \
                count++;                                                                 \
            assert_true(rc == TUG_EDATA || rc == 0);                                     \
            assert_true(count < COUNT);                                                  \
            mem_free(cut);                                                               \
        }                                                                                \
        buf_free(&list);                                                                 \
    }
#include "wire/messages.def"

static void test_lists(void **state)
{
    (void)state;
#define RECORD(NAME, name, about) list_of_##name();
#include "wire/messages.def"
}

// A record that does not fit leaves the list unchanged.
static void test_full_lists(void **state)
{
    (void)state;
    struct buf list = BUF_INIT(60);
    const struct wire_file_done done = {.bits = {"twelve bytes", 12}};
    int n = 0;
    while (wire_put_file_done(&list, &done) == 0)
        n++;
    assert_int_equal(n, 3);
    assert_int_equal(list.len, 3 * 16);
    buf_free(&list);
}

static void test_allocations(void **state)
{
    (void)state;
    size_t live = mem_live();
    struct msg_error error = {.what = {letters(), LONGEST}};
    bool faulted = true;
    for (long n = 0; faulted; n++) {
        struct wire_out o = WIRE_OUT_INIT;
        mem_fault_after(n);
        int rc = wire_encode(&o, MSG_ERROR, 0, &error, true);
        faulted = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
        buf_free(&o.head);
    }
    assert_int_equal(mem_live(), live);
}

static void test_words_and_codes(void **state)
{
    (void)state;
    char to[8];
    assert_string_equal(wire_words(wire_text("a\x1b\n\xffz"), to, sizeof(to)), "a???z");
    assert_string_equal(wire_words(wire_text("123456789"), to, sizeof(to)), "1234567");
    assert_string_equal(wire_words((struct wire_text){"a\0b", 3}, to, sizeof(to)), "a");
    assert_string_equal(wire_words((struct wire_text){0}, to, sizeof(to)), "");
    assert_string_equal(wire_reason(wire_text("why"), to, sizeof(to)), "why");
    assert_string_equal(wire_reason((struct wire_text){0}, to, sizeof(to)), "it give");
    assert_int_equal(wire_code(0), 0);
    assert_int_equal(wire_failure(0), TUG_EDATA);
    for (int32_t code = -200; code < 200; code++) {
        bool known = strcmp(err_text(code), err_text(1)) != 0;
        assert_int_equal(wire_code(code), known ? code : TUG_EDATA);
    }
    assert_int_equal(wire_failure(INT32_MIN), TUG_EDATA);
    assert_int_equal(wire_failure(TUG_EINTERRUPTED), TUG_EINTERRUPTED);
}

// An error's reason and number arrive; a reason that this version does not
// know becomes REASON_NONE.
static void test_reasons(void **state)
{
    (void)state;
    struct err e, had;
    err_because(&had, TUG_EUSAGE, REASON_NOT_FINITE, UINT64_MAX, "key %d", 7);
    struct msg_error m = wire_error(&had);
    assert_int_equal(wire_refusal(&m, NULL, &e), TUG_EUSAGE);
    assert_int_equal(e.reason, REASON_NOT_FINITE);
    assert_int_equal(e.about, UINT64_MAX);
    assert_string_equal(e.text, "key 7");
    assert_int_equal(wire_refusal(&m, "server 0", &e), TUG_EUSAGE);
    assert_int_equal(e.reason, REASON_NOT_FINITE);
    assert_string_equal(e.text, "server 0: key 7");
    for (unsigned reason = REASONS; reason <= UINT16_MAX; reason++) {
        m.reason = (uint16_t)reason;
        wire_refusal(&m, NULL, &e);
        assert_int_equal(e.reason, REASON_NONE);
        assert_int_equal(e.about, 0);
    }
}

// Each message with flags has a line in wire_check_flags: a message with all flag bits is
// refused with its name in the error, and a message without flags is accepted.
static void test_flags(void **state)
{
    (void)state;
    static const struct {
        uint16_t type;
        const char *fields;
    } messages[] = {
#define RECORD(NAME, name, about) {0, " " // a record is not a message
#define MESSAGE(NAME, name, id, ...) {id, " "
#define FIELD(type, name, about) #name " "
#define END(name)                                                                        \
    }                                                                                    \
    ,
#include "wire/messages.def"
    };
    size_t with = 0;
    for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
        union wire_any m;
        struct err e;
        memset(&m, 0, sizeof(m));
        assert_int_equal(wire_check_flags(messages[i].type, &m, &e), 0);
        memset(&m, 255, sizeof(m));
        int rc = wire_check_flags(messages[i].type, &m, &e);
        bool has = strstr(messages[i].fields, " flags ") != NULL;
        assert_int_equal(rc, has ? TUG_EDATA : 0);
        if (has)
            assert_memory_equal(e.text, wire_name(messages[i].type),
                                strlen(wire_name(messages[i].type)));
        with += has;
    }
    assert_int_equal(with, 4);
}

// Each answer is a known type of message, and a message that is an answer has no answer
// itself.
static void test_answers(void **state)
{
    (void)state;
    assert_int_equal(wire_answer(MSG_LEASE), MSG_LEASED);
    assert_int_equal(wire_answer(MSG_ROWS), MSG_ROWS_ARE);
    assert_int_equal(wire_answer(MSG_LOAD), MSG_OK); // a request that is answered by OK
    assert_int_equal(wire_answer(MSG_HOLD), MSG_OK);
    assert_int_equal(wire_answer(MSG_HELLO), 0);
    for (uint16_t type = 0; type < 200; type++)
        if (wire_answer(type) != 0) {
            assert_non_null(wire_name(type));
            assert_non_null(wire_name(wire_answer(type)));
            assert_int_equal(wire_answer(wire_answer(type)), 0);
        }
}

// A field is found by its type and its name, and not found in a message that lacks it.
static void test_fields(void **state)
{
    union wire_any m = {0};
    (void)state;
    assert_ptr_equal(wire_field(MSG_TICK, &m, "u32 table"), &m.tick.table);
    assert_ptr_equal(wire_field(MSG_TICK, &m, "u64 epoch"), &m.tick.epoch);
    assert_ptr_equal(wire_field(MSG_STEP, &m, "u64 session"), &m.step.session);
    assert_null(wire_field(MSG_STEP, &m, "u32 table"));
    assert_null(wire_field(MSG_TICK, &m, "u64 table"));
    assert_null(wire_field(MSG_PING, &m, "u64 session"));
    assert_null(wire_field(0, &m, "u64 session"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_keeps_version),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_longer_heads),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_damaged_bodies),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_limits_of_encoding),
        cmocka_unit_test(test_limits_of_decoding),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_full_lists),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_words_and_codes),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
