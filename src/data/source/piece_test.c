// Compares pieces with a plain walk over the lines, for every piece size, compression and
// order of requests. Errors of a file name the file and the line.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/piece.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "kit/compression.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

// The forms of a file: one of the compressions, or plain.
enum { PLAIN = COMPRESSIONS, FORMS };

static int try_open(struct pieces **ret, const char *path, uint64_t bytes,
                    size_t max_line, struct err *e)
{
    struct pieces_options o = {
        .paths = &path, .n_paths = 1, .piece_bytes = bytes, .max_line_bytes = max_line};
    return pieces_open(ret, &o, e);
}

static struct pieces *open_pieces(const char *path, uint64_t bytes, size_t max_line)
{
    struct pieces *p = NULL;
    struct err e = {0};
    if (try_open(&p, path, bytes, max_line, &e) != 0)
        fail_msg("%s", e.text);
    return p;
}

// Makes lines of random lengths, some empty, some ending with CR; the last may lack its
// newline.
static void any_text(struct buf *b, size_t lines, size_t longest)
{
    buf_clear(b);
    for (size_t i = 0; i < lines; i++) {
        size_t n = any_in_100(20) ? 0 : any_in_100(90) ? any(30) : any(longest);
        assert_int_equal(buf_reserve(b, n), 0);
        for (size_t j = 0; j < n; j++)
            b->data[b->len++] = (char)('a' + any(26));
        buf_printf(b, "%s",
                   i + 1 == lines && any_in_100(50) ? "e"
                   : any_in_100(10)                 ? "\r\n"
                                                    : "\n");
    }
}

// Writes the text to a file; a compressed one has one to three members or frames.
static const char *write_form(int form, const struct buf *text)
{
    if (form == PLAIN)
        return files_write_bytes(files_in("plain"), text->data, text->len);
    struct buf packed = BUF_INIT(256 << 20);
    size_t parts = 1 + any(3), at = 0;
    for (size_t i = 1; i <= parts; i++) {
        size_t end = i == parts ? text->len : text->len * i / parts;
        compress_to(&packed, (enum compression)form, text->data + at, end - at);
        at = end;
    }
    const char *path = files_write_bytes(files_in("packed"), packed.data, packed.len);
    buf_free(&packed);
    return path;
}

// Finds the first line at `at` or later, and its number.
static size_t line_from(const struct buf *text, uint64_t at, uint64_t *ret_line)
{
    size_t begin = 0;
    *ret_line = 1;
    while (begin < text->len && begin < at) {
        const char *end = memchr(text->data + begin, '\n', text->len - begin);
        begin = end != NULL ? (size_t)(end - text->data) + 1 : text->len;
        ++*ret_line;
    }
    return begin;
}

static void assert_piece(struct pieces *p, const struct buf *text, int form,
                         uint64_t bytes, uint64_t index, struct piece_text *c)
{
    struct err e = {0};
    uint64_t line, next, counted;
    size_t begin = line_from(text, index * bytes, &line);
    size_t end = line_from(text, (index + 1) * bytes, &next);
    if (piece_read(p, 0, index, c, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(c->len, end - begin);
    assert_memory_equal(c->text, text->data + begin, c->len);
    if (c->at_end || c->len > 0)
        assert_int_equal(c->at_end, end == text->len);
    if (end == text->len)
        for (int i = 0; i < READER_PADDING; i++)
            assert_int_equal(c->text[c->len + i], 0);
    if (c->len == 0)
        return;
    assert_int_equal(c->offset, begin);
    assert_int_equal(c->line, form == PLAIN ? 0 : line);
    if (any_in_100(90))
        return; // the check below opens the file, so it is made rarely
    assert_int_equal(pieces_line(p, 0, begin, &counted, &e), 0);
    assert_int_equal(counted, line);
}

// Reads all pieces in ascending order, then random pieces, some of them after the end.
static void assert_pieces(const char *path, const struct buf *text, int form,
                          uint64_t bytes, unsigned random_ones)
{
    struct pieces *p = open_pieces(path, bytes, 0);
    struct piece_text c = {0};
    bool exact;
    uint64_t pieces = (text->len + bytes - 1) / bytes, seen = 0;
    if (form == PLAIN)
        assert_int_equal(pieces_count(p, 0, &exact), pieces);
    assert_true(pieces_count(p, 0, &exact) > 0);
    assert_int_equal(exact, form == PLAIN);
    for (uint64_t i = 0; seen < text->len; i++) {
        assert_piece(p, text, form, bytes, i, &c);
        seen += c.len;
    }
    assert_true(c.at_end);
    assert_int_equal(pieces_count(p, 0, &exact), pieces);
    assert_true(exact);
    for (unsigned i = 0; i < random_ones; i++)
        assert_piece(p, text, form, bytes, any(pieces + 3), &c);
    assert_int_equal(piece_read(p, 0, UINT64_MAX, &c, NULL), 0);
    assert_int_equal(c.len, 0);
    assert_true(c.at_end);
    piece_free(&c);
    pieces_close(p);
}

static void test_every_size(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    for (int form = 0; form < FORMS; form++)
        for (int round = 0; round < 3; round++) {
            any_text(&b, 1 + any(20), 60);
            const char *path = write_form(form, &b);
            for (uint64_t bytes = 1; bytes <= b.len + 2; bytes++)
                assert_pieces(path, &b, form, bytes, 12);
        }
    buf_free(&b);
}

// The texts are longer than one read of the file; some lines are longer than a piece.
static void test_large_texts(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(16 << 20);
    for (int form = 0; form < FORMS; form++)
        for (int round = 0; round < 4; round++) {
            any_text(&b, 300, round % 2 == 0 ? 3000 : 50000);
            const char *path = write_form(form, &b);
            assert_pieces(path, &b, form, 2000 + any(60000), 6);
            assert_pieces(path, &b, form, 60000 + any(20000), 6);
            assert_pieces(path, &b, form, 500000 + any(3000000), 2);
        }
    buf_free(&b);
}

static void test_one_long_line(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(16 << 20);
    for (int newline = 0; newline < 2; newline++) {
        buf_clear(&b);
        assert_int_equal(buf_reserve(&b, 3 << 20), 0);
        memset(b.data, 'x', 3 << 20);
        b.len = 3 << 20;
        buf_printf(&b, newline ? "\n" : "");
        for (int form = 0; form < FORMS; form++)
            assert_pieces(write_form(form, &b), &b, form, (1 << 19) + any(3), 20);
    }
    buf_free(&b);
}

// Reads random pieces of two files, changing between the files.
static void test_several_files(void **state)
{
    (void)state;
    struct buf a = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
    struct piece_text c = {0};
    any_text(&a, 50, 100);
    any_text(&b, 50, 100);
    const char *paths[] = {write_form(PLAIN, &a), write_form(GZIP, &b)};
    struct pieces_options o = {.paths = paths, .n_paths = 2, .piece_bytes = 64};
    struct pieces *p = NULL;
    assert_int_equal(pieces_open(&p, &o, NULL), 0);
    assert_int_equal(pieces_files(p), 2);
    assert_string_equal(pieces_file_name(p, 0), paths[0]);
    assert_string_equal(pieces_file_name(p, 1), paths[1]);
    for (int i = 0; i < 200; i++) {
        const struct buf *text = i % 3 == 0 ? &a : &b;
        uint64_t index = any(text->len / 64 + 1), line;
        size_t begin = line_from(text, index * 64, &line);
        assert_int_equal(piece_read(p, i % 3 == 0 ? 0 : 1, index, &c, NULL), 0);
        assert_int_equal(c.len, line_from(text, index * 64 + 64, &line) - begin);
        assert_memory_equal(c.text, text->data + begin, c.len);
    }
    struct buf first = BUF_INIT(1 << 20);
    size_t len = (size_t)((char *)memchr(b.data, '\n', b.len) - b.data);
    assert_int_equal(pieces_first_lines(p, 1, 1, 1 << 20, &first, NULL), 0);
    assert_int_equal(first.len, len);
    buf_free(&first);
    piece_free(&c);
    pieces_close(p);
    buf_free(&a);
    buf_free(&b);
}

// ---------------------------------------------------------------- descriptions of files

static uint64_t described(const char *path)
{
    struct piece_file f = {0};
    struct pieces *p = open_pieces(path, 100, 0);
    assert_int_equal(pieces_describe(p, &f, NULL), 0);
    assert_string_equal(f.name, path);
    pieces_close(p);
    return f.hash;
}

static void test_description(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 100, 65535, 65536, 65537, 131072, 300000};
    static char bytes[300001];
    memset(bytes, 'a', sizeof bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        uint64_t hash = described(files_write_bytes(files_in("same"), bytes, n));
        assert_int_equal(described(files_write_bytes(files_in("same"), bytes, n)), hash);
        assert_int_not_equal(described(files_write_bytes(files_in("same"), bytes, n + 1)),
                             hash);
        size_t changed[] = {0, n - 1, n > 65536 ? n - 65536 : 0, n > 65535 ? 65535 : 0};
        for (size_t j = 0; j < 4; j++) {
            bytes[changed[j]] = 'b';
            assert_int_not_equal(described(files_write_bytes(files_in("same"), bytes, n)),
                                 hash);
            bytes[changed[j]] = 'a';
        }
    }
    struct buf text = BUF_INIT(100);
    struct piece_file f;
    buf_printf(&text, "a\nb\n");
    for (int form = 0; form < FORMS; form++) {
        struct pieces *p = open_pieces(write_form(form, &text), 100, 0);
        assert_int_equal(pieces_describe(p, &f, NULL), 0);
        assert_int_equal(f.compressed, form != PLAIN);
        assert_true(form != PLAIN || f.bytes == 4);
        pieces_close(p);
    }
    buf_free(&text);
}

// ---------------------------------------------------------------- errors

static void assert_unopened(const char *path, uint64_t bytes, int code,
                            const char *reason)
{
    struct pieces *p = NULL;
    struct err e = {0};
    assert_int_equal(try_open(&p, path, bytes, 0, &e), code);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, reason);
}

static void test_refused_files_and_sizes(void **state)
{
    (void)state;
    const char *path = files_write(files_in("some"), "a\n");
    assert_unopened("-", 10, TUG_EUSAGE, "(standard input) is a pipe, which the workers");
    assert_unopened(path, 0, TUG_EUSAGE, "cannot have 0 bytes");
    assert_unopened(path, PIECE_BYTES_MAX + 1ull, TUG_EUSAGE, "cannot have 1073741825");
    assert_unopened(files_in("none"), 10, TUG_EDATA, "no such file");
    assert_unopened(files_write(files_in("nothing"), ""), 10, TUG_EDATA, "is empty");
    struct pieces_options o = {.piece_bytes = 1};
    struct pieces *p = NULL;
    assert_int_equal(pieces_open(&p, &o, NULL), TUG_EUSAGE);
}

// Reads all pieces until one fails.
static int read_all(struct pieces *p, struct err *e)
{
    struct piece_text c = {0};
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && !c.at_end; i++)
        rc = piece_read(p, 0, i, &c, e);
    piece_free(&c);
    return rc;
}

static void assert_fails(struct pieces *p, const char *path, const char *reason)
{
    struct err e = {0};
    char want[300];
    snprintf(want, sizeof want, "%s%s", path, reason);
    // After a failure, reading again gives the same error.
    for (int again = 0; again < 2; again++) {
        assert_int_equal(read_all(p, &e), TUG_EDATA);
        if (strncmp(e.text, want, strlen(want)) != 0)
            fail_msg("'%s' does not begin with '%s'", e.text, want);
    }
    pieces_close(p);
}

static void test_damaged_files(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_text(&text, 3000, 100);
    for (int form = 0; form < COMPRESSIONS; form++) {
        buf_clear(&packed);
        compress_to(&packed, (enum compression)form, text.data, text.len);
        const char *path = files_write_bytes(files_in("cut"), packed.data,
                                             packed.len - 3);
        assert_fails(open_pieces(path, 5000, 0), path, " is truncated");
        packed.data[packed.len / 2] ^= 0x55;
        path = files_write_bytes(files_in("corrupt"), packed.data, packed.len);
        assert_fails(open_pieces(path, 5000, 0), path, "");
        buf_clear(&packed);
        compress_to(&packed, (enum compression)form, "", 0);
        path = files_write_bytes(files_in("hollow"), packed.data, packed.len);
        assert_unopened(path, 5000, TUG_EDATA, "is empty");
    }
    const char *path = files_write_bytes(files_in("shrinks"), text.data, text.len);
    struct pieces *p = open_pieces(path, 5000, 0);
    assert_int_equal(read_all(p, NULL), 0);
    assert_int_equal(truncate(path, (off_t)text.len / 2), 0);
    assert_fails(p, path, " no longer has");
    buf_free(&packed);
    buf_free(&text);
}

// The limit on the length of lines is exact to the byte, whatever the size of pieces.
static void test_line_limit(void **state)
{
    (void)state;
    static const char *const texts[] = {"aaaa\nbbbbb\ncc\n", "aa\nbbbbb", "bbbbb\n",
                                        "bbbbb", "a\n\nbbbbb\nb"};
    static const char *const lines[] = {":2", ":2", ":1", ":1", ":3"};
    struct buf b = BUF_INIT(100);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int form = 0; form < FORMS; form++) {
            buf_clear(&b);
            buf_printf(&b, "%s", texts[i]);
            const char *path = write_form(form, &b);
            for (uint64_t bytes = 1; bytes < 20; bytes++) {
                char reason[80];
                snprintf(reason, sizeof reason,
                         "%s: the line is longer than the limit "
                         "of 4 bytes",
                         lines[i]);
                assert_fails(open_pieces(path, bytes, 4), path, reason);
                struct pieces *p = open_pieces(path, bytes, 5);
                assert_int_equal(read_all(p, NULL), 0);
                pieces_close(p);
            }
        }
    buf_free(&b);
}

// An endless line is read only up to the limit on the length of lines.
static void test_endless_line(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(16 << 20);
    buf_printf(&b, "a\nb\n");
    assert_int_equal(buf_reserve(&b, 8 << 20), 0);
    memset(b.data + b.len, 'x', 8 << 20);
    b.len += 8 << 20;
    for (int form = 0; form < FORMS; form++) {
        struct piece_text c = {0};
        const char *path = write_form(form, &b);
        struct pieces *p = open_pieces(path, 1000, 1 << 20);
        assert_int_equal(piece_read(p, 0, 0, &c, NULL), TUG_EDATA);
        assert_true(c.cap < 4 << 20);
        piece_free(&c);
        assert_fails(p, path, ":3: the line is longer");
    }
    buf_free(&b);
}

static void test_interrupted(void **state)
{
    (void)state;
    atomic_bool stop = false;
    struct buf b = BUF_INIT(100);
    buf_printf(&b, "a\nb\n");
    for (int form = 0; form < FORMS; form++) {
        const char *path = write_form(form, &b);
        struct pieces *p = NULL;
        struct piece_text c = {0};
        struct pieces_options o = {
            .paths = &path, .n_paths = 1, .piece_bytes = 2, .interrupted = &stop};
        assert_int_equal(pieces_open(&p, &o, NULL), 0);
        atomic_store(&stop, true);
        assert_int_equal(piece_read(p, 0, 1, &c, NULL), TUG_EINTERRUPTED);
        atomic_store(&stop, false);
        assert_int_equal(piece_read(p, 0, 1, &c, NULL), 0);
        assert_int_equal(c.len, 2);
        piece_free(&c);
        pieces_close(p);
    }
    buf_free(&b);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    any_text(&b, 100, 200);
    for (int form = 0; form < FORMS; form++) {
        const char *path = write_form(form, &b);
        size_t live = mem_live();
        bool done = false;
        for (long n = 0; !done; n++) {
            struct pieces *p = NULL;
            struct piece_text c = {0};
            struct piece_file f;
            struct err e = {0};
            mem_fault_after(n);
            int rc = try_open(&p, path, 700, 0, &e);
            if (rc == 0)
                rc = pieces_describe(p, &f, &e);
            for (uint64_t i = 0; rc == 0 && i < 3; i++)
                rc = piece_read(p, 0, (i + 1) % 3, &c, &e);
            done = !mem_faulted();
            mem_fault_after(-1);
            if (rc != (done ? 0 : TUG_ENOMEM))
                fail_msg("allocation %ld: %d %s", n, rc, e.text);
            piece_free(&c);
            pieces_close(p);
            assert_int_equal(mem_live(), live);
        }
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_large_texts),
        cmocka_unit_test(test_one_long_line),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_refused_files_and_sizes),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_line_limit),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
