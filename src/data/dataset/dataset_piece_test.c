// Compares data sets of pieces with the data set of the whole source: all formats, piece
// sizes, teams and compressions. Bad lines are named by their place in the file.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <unistd.h>

#include "data/dataset/dataset.h"
#include "data/source/piece.h"

#include "kit/compression.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

static const char *const FORMATS[] = {"criteo", "libsvm", "libffm", "csv"};
enum { N_FORMATS = 4 };

struct setup {
    struct pieces *pieces;
    struct source *source;
    struct reader *reader;
    struct team *team;
    uint64_t bad_lines;
    struct dataset_options o;
};

static int resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)keys[i] & 0xffffff;
    return 0;
}

static int setup_open(struct setup *s, const char *format, const char *const *paths,
                      size_t n_paths, uint64_t bytes, int threads, struct err *e)
{
    *s = (struct setup){0};
    struct reader_options ro = {.format = format, .labels = true};
    struct source_options so = {.paths = paths, .n_paths = n_paths};
    struct pieces_options po = {.paths = paths, .n_paths = n_paths, .piece_bytes = bytes};
    TRY(pieces_open(&s->pieces, &po, e));
    TRY(source_open(&s->source, &so, e));
    TRY(reader_open(&s->reader, &ro, e));
    TRY(team_open(&s->team, threads, e));
    s->o = (struct dataset_options){.source = s->source,
                                    .reader = s->reader,
                                    .team = s->team,
                                    .resolve = resolve,
                                    .bad_lines = &s->bad_lines};
    return 0;
}

static void setup_close(struct setup *s)
{
    team_close(s->team);
    reader_close(s->reader);
    source_close(s->source);
    pieces_close(s->pieces);
}

// ---------------------------------------------------------------- texts

static void criteo_line(struct buf *b)
{
    buf_printf(b, "%d", (int)any(2));
    for (int i = 0; i < 39; i++)
        if (any_in_100(20))
            buf_printf(b, "\t");
        else
            buf_printf(b, "\t%x", (unsigned)any(9));
}

static void any_line(struct buf *b, const char *format)
{
    if (strcmp(format, "criteo") == 0) {
        criteo_line(b);
    } else if (strcmp(format, "csv") == 0) {
        buf_printf(b, "%d,%d,%d", (int)any(2), (int)any(1000), (int)any(1000));
    } else {
        buf_printf(b, "%d", (int)any(2));
        for (unsigned i = 0, n = (unsigned)any(10); i < n; i++)
            buf_printf(b, " %s%d:%d", strcmp(format, "libffm") == 0 ? "7:" : "",
                       100 * (int)i + (int)any(100), 1 + (int)any(3));
    }
}

static void any_text(struct buf *b, const char *format, int lines, unsigned bad)
{
    buf_clear(b);
    if (strcmp(format, "csv") == 0)
        buf_printf(b, "y,a,b\n");
    for (int i = 0; i < lines; i++) {
        if (any_in_100(bad))
            buf_printf(b, "broken");
        else if (!any_in_100(10))
            any_line(b, format);
        buf_printf(b, any_in_100(10) ? "\r\n" : "\n");
    }
    any_line(b, format);
    buf_str(b);
}

static const char *write_somehow(const char *name, const struct buf *text)
{
    int form = (int)any(COMPRESSIONS + 1);
    if (form == COMPRESSIONS)
        return files_write_bytes(files_in("%s", name), text->data, text->len);
    struct buf packed = BUF_INIT(32 << 20);
    compress_to(&packed, (enum compression)form, text->data, text->len);
    const char *path = files_write_bytes(files_in("%s", name), packed.data, packed.len);
    buf_free(&packed);
    return path;
}

// ---------------------------------------------------------------- the same examples

// Checks that the examples of `part` equal those of `all` from `first` on.
static void assert_part(const struct dataset *all, uint64_t first,
                        const struct dataset *part)
{
    struct batch a = {0}, b = {0};
    for (uint64_t i = 0; i < dataset_size(part); i++) {
        uint64_t at = first + i, line, want_line;
        uint32_t file, want_file;
        assert_true(at < dataset_size(all));
        assert_int_equal(dataset_gather(all, &at, 1, &a), 0);
        assert_int_equal(dataset_gather(part, &i, 1, &b), 0);
        assert_int_equal(a.nnz, b.nnz);
        assert_true(a.label[0] == b.label[0]);
        assert_memory_equal(a.id, b.id, a.nnz * sizeof *a.id);
        assert_memory_equal(a.slot, b.slot, a.nnz * sizeof *a.slot);
        for (size_t j = 0; j < a.nnz; j++)
            assert_true((a.value != NULL ? a.value[j] : 1) ==
                        (b.value != NULL ? b.value[j] : 1));
        dataset_where(all, at, &want_file, &want_line);
        dataset_where(part, i, &file, &line);
        assert_int_equal(file, want_file);
        assert_int_equal(line, want_line);
    }
    batch_free(&a);
    batch_free(&b);
}

static uint64_t load_all_pieces(struct setup *s, const struct dataset *all)
{
    uint64_t first = 0;
    struct err e = {0};
    for (uint32_t file = 0; file < pieces_files(s->pieces); file++)
        for (uint64_t i = 0, end = 0; !end; i++) {
            struct dataset *d = NULL;
            if (dataset_load_piece(&d, &s->o, s->pieces, file, i, &e) != 0)
                fail_msg("%s", e.text);
            assert_part(all, first, d);
            first += dataset_size(d);
            end = dataset_at_end(d);
            dataset_close(d);
        }
    return first;
}

static void test_pieces_are_the_source(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(8 << 20);
    for (int round = 0; round < 40; round++) {
        const char *format = FORMATS[round % N_FORMATS], *paths[2];
        static const char *const names[] = {"one", "two"};
        for (int i = 0; i < 2; i++) {
            any_text(&text, format, 1 + (int)any(100), 0);
            paths[i] = write_somehow(names[i], &text);
        }
        struct setup s;
        struct dataset *all = NULL;
        uint64_t bytes = any_in_100(30) ? 1 + any(100) : 100 + any(8000);
        int threads = 1 + (int)any(4);
        assert_int_equal(setup_open(&s, format, paths, 2, bytes, threads, NULL), 0);
        assert_int_equal(dataset_load(&all, &s.o, NULL), 0);
        assert_int_equal(load_all_pieces(&s, all), dataset_size(all));
        dataset_close(all);
        setup_close(&s);
    }
    buf_free(&text);
}

// All members of the team load a piece of many chunks; the examples keep their order.
static void test_large_pieces(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(32 << 20), long_line = BUF_INIT(32 << 20);
    any_text(&text, "libsvm", 60000, 0);
    buf_printf(&text, "\n1"); // a line longer than a chunk
    for (int i = 0; i < 200000; i++)
        buf_printf(&text, " %d:1", 1000000 + i);
    buf_printf(&text, "\n");
    size_t tail = text.len;
    any_text(&long_line, "libsvm", 30000, 0);
    assert_int_equal(buf_add(&text, long_line.data, long_line.len), 0);
    assert_true(tail > 3 << 20 && text.len > 4 << 20);
    for (int round = 0; round < 2; round++) {
        struct setup s;
        struct dataset *all = NULL;
        const char *path = write_somehow("large", &text);
        uint64_t bytes = round == 0 ? 64 << 20 : 2500000;
        assert_int_equal(setup_open(&s, "libsvm", &path, 1, bytes, 3, NULL), 0);
        assert_int_equal(dataset_load(&all, &s.o, NULL), 0);
        struct dataset *d = NULL;
        assert_int_equal(dataset_load_piece(&d, &s.o, s.pieces, 0, 0, NULL), 0);
        assert_part(all, 0, d);
        assert_true(dataset_at_end(d) == (round == 0));
        dataset_close(d);
        dataset_close(all);
        setup_close(&s);
    }
    buf_free(&long_line);
    buf_free(&text);
}

// ---------------------------------------------------------------- headers

// A worker that never gets a piece of the first file still uses the first file's header,
// and reads the header of each file.
static void test_headers(void **state)
{
    (void)state;
    const char *paths[] = {files_write(files_in("a.csv"), "y,a,b\n1,2,3\n"),
                           files_write(files_in("b.csv"), "y,a,b\n1,2,3\n0,5,6\n1,4,4\n"),
                           files_write(files_in("c.csv"), "b,y,a\n1,0,3\n0,1,6\n"),
                           files_write(files_in("d.csv"), "y,b,z\n1,2,3\n0,5,6\n")};
    struct setup s;
    struct dataset *d = NULL;
    struct err e = {0};
    char want[200];
    assert_int_equal(setup_open(&s, "csv", paths, 4, 10, 2, NULL), 0);
    assert_int_equal(dataset_load_piece(&d, &s.o, s.pieces, 3, 1, &e), TUG_EDATA);
    snprintf(want, sizeof want, "%s:1: the first file does not have the column 'z'",
             paths[3]);
    assert_non_null(strstr(e.text, want));
    assert_int_equal(dataset_load_piece(&d, &s.o, s.pieces, 2, 1, &e), 0);
    // the columns are in the order of the file's own header
    assert_int_equal(dataset_size(d), 1);
    assert_int_equal(dataset_positives(d), 1);
    dataset_close(d);
    assert_int_equal(dataset_load_piece(&d, &s.o, s.pieces, 1, 1, &e), 0);
    assert_int_equal(dataset_size(d), 2); // lines 3 and 4 begin at bytes 12 and 18
    dataset_close(d);
    setup_close(&s);
}

// ---------------------------------------------------------------- bad lines

// Returns the nth broken line that begins in [begin, end); 0 if there is none.
static uint64_t broken_line(const struct buf *text, size_t begin, size_t end,
                            uint64_t nth)
{
    uint64_t line = 1;
    for (size_t at = 0; at < text->len && at < end; line++) {
        const char *p = text->data + at;
        if (at >= begin && strncmp(p, "broken", 6) == 0 && nth-- == 0)
            return line;
        const char *stop = memchr(p, '\n', text->len - at);
        at = stop != NULL ? (size_t)(stop - text->data) + 1 : text->len;
    }
    return 0;
}

static void assert_bad_piece(struct setup *s, const struct buf *text, const char *path,
                             uint64_t bytes, uint64_t index)
{
    struct dataset *d = NULL;
    struct err e = {0};
    char want[200];
    uint64_t before = s->bad_lines, left = s->o.max_bad_lines - before;
    uint64_t line = broken_line(text, bytes * index, bytes * (index + 1), left);
    int rc = dataset_load_piece(&d, &s->o, s->pieces, 0, index, &e);
    assert_int_equal(rc, line == 0 ? 0 : TUG_EDATA);
    dataset_close(d);
    if (line == 0)
        return;
    snprintf(want, sizeof want, "%s:%llu: ", path, (unsigned long long)line);
    if (strncmp(e.text, want, strlen(want)) != 0)
        fail_msg("'%s' does not begin with '%s'", e.text, want);
    assert_int_equal(s->bad_lines, before);
    assert_int_equal(dataset_load_piece(&d, &s->o, s->pieces, 0, index, NULL), TUG_EDATA);
}

static void test_bad_lines(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    for (int round = 0; round < 60; round++) {
        const char *format = FORMATS[round % N_FORMATS];
        any_text(&text, format, 100, 4);
        struct setup s;
        const char *path = write_somehow("bad", &text);
        uint64_t bytes = 50 + any(3000), pieces = text.len / bytes + 1;
        assert_int_equal(setup_open(&s, format, &path, 1, bytes, 2, NULL), 0);
        s.o.max_bad_lines = any(3);
        for (int i = 0; i < 10; i++)
            assert_bad_piece(&s, &text, path, bytes, any(pieces));
        setup_close(&s);
    }
    buf_free(&text);
}

// If the file was removed before the number of a line is computed, the line is reported
// as unknown.
static void test_place_without_the_file(void **state)
{
    (void)state;
    const char *path = files_write(files_in("gone"), "1 1:1\n0 2:1\n");
    struct setup s;
    struct dataset *d = NULL;
    uint32_t file;
    uint64_t line;
    assert_int_equal(setup_open(&s, "libsvm", &path, 1, 6, 1, NULL), 0);
    assert_int_equal(dataset_load_piece(&d, &s.o, s.pieces, 0, 1, NULL), 0);
    dataset_where(d, 0, &file, &line);
    assert_int_equal(line, 2);
    assert_int_equal(unlink(path), 0);
    dataset_where(d, 0, &file, &line);
    assert_int_equal(line, 0);
    dataset_close(d);
    setup_close(&s);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    any_text(&text, "csv", 100, 0);
    buf_printf(&text, "\nbroken\n");
    const char *path = files_write_bytes(files_in("text"), text.data, text.len);
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct setup s;
        struct err e = {0};
        struct dataset *d = NULL;
        mem_fault_after(n);
        int rc = setup_open(&s, "csv", &path, 1, 1000, 2, &e);
        s.o.max_bad_lines = 1;
        for (uint64_t i = 0; rc == 0 && i < 2; i++) {
            dataset_close(d);
            d = NULL;
            rc = dataset_load_piece(&d, &s.o, s.pieces, 0, 1 - i, &e);
        }
        done = !mem_faulted();
        mem_fault_after(-1);
        if (rc != (done ? 0 : TUG_ENOMEM))
            fail_msg("allocation %ld: %d %s", n, rc, e.text);
        dataset_close(d);
        setup_close(&s);
        assert_int_equal(mem_live(), live);
    }
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_the_source),
        cmocka_unit_test(test_large_pieces),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_place_without_the_file),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
