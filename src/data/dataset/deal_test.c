// Compares dealing with the lines of the files: each line is in one bucket, the buckets
// of a piece differ by at most one line, and equal ids meet. Loaded buckets contain what
// the files contain.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/deal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/format/reader.h"

#include "kit/compression.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { FILES = 3, MAX_CELLS = 1000, MAX_LINES = 4000 };

static struct {
    struct pieces *pieces;
    struct reader *reader;
    struct team *team;
    struct deal *deal;
    uint32_t buckets;
    uint64_t bad_lines;
    struct dataset_options o;
} s;

static int resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)keys[i];
    return 0;
}

static int open_all(const char *format, const char *const *paths, size_t n,
                    uint64_t piece, uint32_t buckets, const char *by, struct err *e)
{
    memset(&s, 0, sizeof(s));
    struct reader_options ro = {.format = format, .labels = true};
    struct pieces_options po = {.paths = paths, .n_paths = n, .piece_bytes = piece};
    TRY(pieces_open(&s.pieces, &po, e));
    TRY(reader_open(&s.reader, &ro, e));
    TRY(team_open(&s.team, 2, e));
    s.buckets = buckets;
    struct deal_options o = {.buckets = buckets,
                             .seed = 5,
                             .reader = s.reader,
                             .by = by,
                             .option = "--shuffle-by"};
    TRY(deal_open(&s.deal, &o, e));
    s.o = (struct dataset_options){.reader = s.reader,
                                   .team = s.team,
                                   .resolve = resolve,
                                   .bad_lines = &s.bad_lines};
    return 0;
}

static void close_all(void)
{
    deal_close(s.deal);
    team_close(s.team);
    reader_close(s.reader);
    pieces_close(s.pieces);
}

// For each bucket, the text of its cells, as the servers of a cluster hold it.
static struct buf texts[DEAL_MAX_BUCKETS];
static struct dealt_cell cells[DEAL_MAX_BUCKETS][MAX_CELLS];
static size_t n_cells[DEAL_MAX_BUCKETS];

static void keep_cells(uint32_t file, uint64_t index)
{
    for (uint32_t b = 0; b < s.buckets; b++) {
        size_t n;
        const char *cell = deal_cell(s.deal, b, &n);
        assert_true(n_cells[b] < MAX_CELLS);
        cells[b][n_cells[b]++] = (struct dealt_cell){file, index, texts[b].len};
        assert_int_equal(buf_add(&texts[b], cell, n), 0);
    }
}

static int deal_all(struct err *e)
{
    for (uint32_t b = 0; b < s.buckets; b++) {
        buf_clear(&texts[b]);
        texts[b].max = 64 << 20;
        n_cells[b] = 0;
    }
    for (uint32_t file = 0; file < pieces_files(s.pieces); file++) {
        bool end = false;
        for (uint64_t i = 0; !end; i++) {
            TRY(deal_piece(s.deal, s.pieces, file, i, &end, e));
            keep_cells(file, i);
        }
    }
    for (uint32_t b = 0; b < s.buckets; b++) {
        OK(buf_reserve(&texts[b], READER_PADDING));
        memset(texts[b].data + texts[b].len, 0, READER_PADDING);
    }
    return 0;
}

static int load(uint32_t b, struct dataset **ret, struct err *e)
{
    struct dealt x = {.deal = s.deal,
                      .pieces = s.pieces,
                      .bucket = b,
                      .text = texts[b].data,
                      .len = texts[b].len,
                      .cells = cells[b],
                      .n = n_cells[b]};
    return dataset_load_dealt(ret, &s.o, &x, e);
}

static void free_texts(void)
{
    for (uint32_t b = 0; b < DEAL_MAX_BUCKETS; b++)
        buf_free(&texts[b]);
}

// Writes libsvm files in which each feature is the number of its line, and labels are
// sorted.
static uint64_t write_files(const char *paths[FILES])
{
    static const char *const names[FILES] = {"one", "two", "three"};
    uint64_t lines = 0;
    struct buf text = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    for (int i = 0; i < FILES; i++) {
        buf_clear(&text);
        buf_clear(&packed);
        for (uint64_t n = 1 + any(600); n > 0; n--) {
            buf_printf(&text, "%d %llu:1%s\n", i > 0, (unsigned long long)lines++,
                       any_in_100(20) ? "\r" : "");
            if (any_in_100(10))
                buf_printf(&text, any_in_100(50) ? "\n" : "\r\n");
        }
        if (any_in_100(50))
            text.len--; // the last line may lack its newline
        int form = (int)any(COMPRESSIONS + 1);
        if (form < COMPRESSIONS)
            compress_to(&packed, (enum compression)form, text.data, text.len);
        const struct buf *b = form < COMPRESSIONS ? &packed : &text;
        paths[i] = files_write_bytes(files_in("%s", names[i]), b->data, b->len);
    }
    buf_free(&text);
    buf_free(&packed);
    assert_true(lines < MAX_LINES);
    return lines;
}

// Checks that the numbers of lines that the buckets get from one piece differ by at most
// one.
static void assert_balanced(void)
{
    for (size_t k = 0; k < n_cells[0]; k++) {
        uint64_t least = UINT64_MAX, most = 0;
        for (uint32_t b = 0; b < s.buckets; b++) {
            size_t at = cells[b][k].at,
                   end = k + 1 < n_cells[b] ? cells[b][k + 1].at : texts[b].len;
            uint64_t n = 0;
            for (; at < end; at++)
                n += texts[b].data[at] == '\n';
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
        assert_true(most - least <= 1);
    }
}

static void count_examples(uint32_t b, uint8_t *seen)
{
    struct dataset *d = NULL;
    struct batch x = {0};
    OK(load(b, &d, &ok_e));
    for (uint64_t i = 0; i < dataset_size(d); i++) {
        OK(dataset_gather(d, &i, 1, &x));
        assert_int_equal(x.nnz, 1);
        assert_true(x.id[0] < MAX_LINES);
        seen[x.id[0]]++;
    }
    batch_free(&x);
    dataset_close(d);
}

static void every_example_is_in_one_bucket(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        const char *paths[FILES];
        uint8_t seen[MAX_LINES] = {0};
        uint64_t lines = write_files(paths);
        OK(open_all("libsvm", paths, FILES, 50 + any(4000), 1 + (uint32_t)any(40), NULL,
                    &ok_e));
        OK(deal_all(&ok_e));
        assert_balanced();
        for (uint32_t b = 0; b < s.buckets; b++)
            count_examples(b, seen);
        for (uint64_t i = 0; i < MAX_LINES; i++)
            assert_int_equal(seen[i], i < lines);
        close_all();
    }
    free_texts();
}

// Although the data is sorted by label, each bucket has about the overall share of
// positives, and neighbours are separated.
static void a_bucket_is_a_random_sample(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    for (int i = 0; i < 8000; i++)
        buf_printf(&text, "%d %d:1\n", i >= 4000, i);
    const char *path = files_write_bytes(files_in("sorted"), text.data, text.len);
    OK(open_all("libsvm", &path, 1, 10000, 8, NULL, &ok_e));
    OK(deal_all(&ok_e));
    uint64_t together = 0;
    for (uint32_t b = 0; b < s.buckets; b++) {
        struct dataset *d = NULL;
        OK(load(b, &d, &ok_e));
        assert_in_range(dataset_positives(d), 480, 520);
        assert_in_range(dataset_size(d), 990, 1010);
        dataset_close(d);
        long before = -2;
        for (const char *p = texts[b].data; *p != '\0'; p = strchr(p, '\n') + 1) {
            long number = strtol(strchr(p, ' '), NULL, 10);
            together += number == before + 1;
            before = number;
        }
    }
    // About 1 in 64 of 8,000 neighbouring pairs stays together by chance.
    assert_in_range(together, 20, 300);
    close_all();
    buf_free(&text);
    free_texts();
}

static void equal_ids_meet(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    const char *paths[2];
    for (int file = 0; file < 2; file++) { // the second file has another order of columns
        buf_clear(&text);
        buf_printf(&text, file == 0 ? "y,user,x\n" : "user,x,y\n");
        for (int i = 0; i < 2000; i++)
            buf_printf(&text, file == 0 ? "1,u%d,%d\n" : "u%d,%d,1\n", (int)any(200), i);
        paths[file] = files_write_bytes(files_in("ids%d.csv", file), text.data, text.len);
    }
    OK(open_all("csv", paths, 2, 3000, 16, "user", &ok_e));
    OK(deal_all(&ok_e));
    int bucket_of[200];
    memset(bucket_of, -1, sizeof(bucket_of));
    uint64_t lines = 0, used = 0;
    for (uint32_t b = 0; b < s.buckets; b++) {
        used += texts[b].len > 0;
        for (const char *p = texts[b].data; *p != '\0';
             p = strchr(p, '\n') + 1, lines++) {
            long user = strtol(strchr(p, 'u') + 1, NULL, 10);
            assert_true(bucket_of[user] == -1 || bucket_of[user] == (int)b);
            bucket_of[user] = (int)b;
        }
    }
    assert_int_equal(lines, 4000);
    assert_int_equal(used, 16);
    close_all();
    OK(open_all("csv", paths, 2, 3000, 16, "nobody", &ok_e));
    struct err e = {0};
    assert_int_equal(deal_all(&e), TUG_EDATA);
    assert_non_null(strstr(e.text, "nobody"));
    assert_non_null(strstr(e.text, "--shuffle-by"));
    close_all();
    buf_free(&text);
    free_texts();
}

// The error about a line that cannot be read names the line by its place in its file.
static void bad_lines_are_named(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    for (int round = 0; round < 20; round++) {
        int bad = (int)any(500), failed = 0;
        buf_clear(&text);
        for (int i = 0; i < 500; i++)
            buf_printf(&text, i == bad     ? "broken\n"
                              : i % 7 == 0 ? "\n1 3:1\n"
                                           : "0 2:1\n");
        const char *path = files_write_bytes(files_in("bad"), text.data, text.len);
        OK(open_all("libsvm", &path, 1, 700, 5, NULL, &ok_e));
        OK(deal_all(&ok_e));
        int line = 1 + bad; // the line number also counts the empty lines before that
                            // line
        for (int i = 0; i < bad; i++)
            line += i % 7 == 0;
        for (uint32_t b = 0; b < s.buckets; b++) {
            struct dataset *d = NULL;
            struct err e = {0};
            if (load(b, &d, &e) == 0) {
                dataset_close(d);
                continue;
            }
            char want[FILES_PATH + 32];
            snprintf(want, sizeof(want), "%s:%d: ", path, line);
            if (strncmp(e.text, want, strlen(want)) != 0)
                fail_msg("'%s' does not begin with '%s'", e.text, want);
            failed++;
        }
        assert_int_equal(failed, 1);
        close_all();
    }
    buf_free(&text);
    free_texts();
}

// The number of buckets is reduced so that cells are not too small, but not below 16, so
// that a small cluster has enough buckets.
static void number_of_buckets(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    for (int i = 0; i < 20000; i++)
        buf_printf(&text, "1 %d:1\n", i);
    const char *path = files_write_bytes(files_in("many"), text.data, text.len);
    OK(open_all("libsvm", &path, 1, text.len, 1, NULL, &ok_e));
    assert_int_equal(deal_buckets(s.pieces, text.len), 1);
    close_all();
    OK(open_all("libsvm", &path, 1, text.len / 8, 1, NULL, &ok_e));
    assert_in_range(deal_buckets(s.pieces, text.len), 8, 9);
    close_all();
    OK(open_all("libsvm", &path, 1, 1000, 1, NULL, &ok_e));
    assert_int_equal(deal_buckets(s.pieces, text.len), 16);
    assert_int_equal(deal_buckets(s.pieces, 1ull << 40), (text.len + 999) / 1000);
    close_all();
    buf_free(&text);
}

static int deal_and_load(const char *path, struct err *e)
{
    TRY(open_all("csv", &path, 1, 300, 3, "a", e));
    for (uint64_t i = 0; i < 3; i++) {
        bool end;
        TRY(deal_piece(s.deal, s.pieces, 0, i, &end, e));
    }
    size_t n;
    static char text[1000];
    const char *cell = deal_cell(s.deal, 0, &n);
    assert_true(n > 0 && n + READER_PADDING < sizeof(text));
    memcpy(text, cell, n);
    struct dealt_cell one = {0, 2, 0};
    struct dealt x = {.deal = s.deal,
                      .pieces = s.pieces,
                      .text = text,
                      .len = n,
                      .cells = &one,
                      .n = 1};
    struct dataset *d = NULL;
    int rc = dataset_load_dealt(&d, &s.o, &x, e);
    dataset_close(d);
    return rc;
}

static void allocations_fail(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 16);
    buf_printf(&text, "y,a\n");
    for (int i = 0; i < 150; i++)
        buf_printf(&text, "1,%d\n", i);
    const char *path = files_write_bytes(files_in("few.csv"), text.data, text.len);
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct err e = {0};
        mem_fault_after(n);
        int rc = deal_and_load(path, &e);
        done = !mem_faulted();
        mem_fault_after(-1);
        if (rc != (done ? 0 : TUG_ENOMEM))
            fail_msg("allocation %ld: %d %s", n, rc, e.text);
        close_all();
        assert_int_equal(mem_live(), live);
    }
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_example_is_in_one_bucket),
        cmocka_unit_test(a_bucket_is_a_random_sample),
        cmocka_unit_test(equal_ids_meet),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(number_of_buckets),
        cmocka_unit_test(allocations_fail),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
