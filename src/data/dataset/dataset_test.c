// Compares data sets with a plain parse of the whole text, for all kinds of slots, ids
// and values, any threads and chunks. Also tests bad lines, windows and memory.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "data/dataset/dataset.h"

#include <string.h>

#include "kit/compression.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

// ------------------------------------------------------------ text and its plain parse

struct kind {
    const char *format;
    unsigned fields;   // libffm: fields are below this number
    bool repeat_slots; // libffm: a field may occur twice in a line
    unsigned values;   // number of different values; 0: all are 1
    bool weights;
    uint32_t id_mask;
    enum loss loss;
    bool labels; // whether examples have three labels, of which some are missing
};

static const struct kind KINDS[] = {
    {"libsvm", 0, false, 0, false, 0xff, LOSS_LOGISTIC, false},
    {"libsvm", 0, false, 256, false, 0xffff, LOSS_LOGISTIC, false},
    {"libsvm", 0, false, 0, false, 0xffffffff, LOSS_SQUARED, false},
    {"libffm", 8, false, 0, false, 0xffffff, LOSS_LOGISTIC, false},
    {"libffm", 64, false, 5, false, 0xffff, LOSS_LOGISTIC, false},
    {"libffm", 40, true, 0, false, 0xffffff, LOSS_LOGISTIC, false},
    {"libffm", 200, false, 0, false, 0xffff, LOSS_LOGISTIC, false},
    {"libffm", 60000, false, 3000, false, 0x7fffffff, LOSS_SQUARED, false},
    {"csv", 12, false, 0, false, 0xffffff, LOSS_LOGISTIC, false},
    {"csv", 12, false, 100, true, 0xffffff, LOSS_SQUARED, false},
    {"csv", 12, false, 0, false, 0xffffff, LOSS_LOGISTIC, true},
    {"csv", 2, false, 100, true, 0xffffff, LOSS_SQUARED, true},
};
enum { N_KINDS = sizeof KINDS / sizeof KINDS[0] };

static void csv_header(struct buf *b, const struct kind *k)
{
    buf_printf(b, "y%s%s%s", k->labels ? ",t,u" : "", k->weights ? ",w" : "",
               k->values ? ",n" : "");
    for (unsigned i = 0; i < k->fields; i++)
        buf_printf(b, ",c%u", i);
    buf_printf(b, "\n");
}

static void csv_line(struct buf *b, const struct kind *k, bool full)
{
    buf_printf(b, k->loss == LOSS_SQUARED ? "%d.5" : "%d", (int)any(2));
    for (int t = 0; t < 2 && k->labels; t++)
        if (any_in_100(any_in_100(50) ? 100 : 50))
            buf_printf(b, ",%d", (int)any(2));
        else
            buf_printf(b, ",");
    if (k->weights)
        buf_printf(b, ",%d", 1 + (int)any(3));
    if (k->values)
        buf_printf(b, ",%d", (int)any(k->values));
    for (unsigned i = 0; i < k->fields; i++)
        if (full || any_in_100(70))
            buf_printf(b, ",%d", (int)any(1000));
        else
            buf_printf(b, ",");
    buf_printf(b, "\n");
}

static void sparse_line(struct buf *b, const struct kind *k)
{
    buf_printf(b, k->loss == LOSS_SQUARED ? "%d.25" : "%d", (int)any(2));
    unsigned field = 0;
    for (uint64_t n = any(any_in_100(95) ? 12 : 70); n > 0; n--) {
        field = k->repeat_slots ? (unsigned)any(k->fields)
                                : field + 1 + (unsigned)any(k->fields / 20 + 1);
        if (k->fields > 0 && field >= k->fields)
            break;
        buf_printf(b, k->fields > 0 ? " %u:" : " ", field);
        buf_printf(b, "%d:%d", (int)any(100000), k->values > 0 ? (int)any(k->values) : 1);
    }
    buf_printf(b, "\n");
}

// Writes lines, some of them empty; `bad` percent of the lines are broken.
static void make_text(struct buf *b, const struct kind *k, int lines, unsigned bad)
{
    bool csv = strcmp(k->format, "csv") == 0, full = any_in_100(50);
    buf_clear(b);
    if (csv)
        csv_header(b, k);
    for (int i = 0; i < lines; i++) {
        if (any_in_100(bad))
            buf_printf(b, "broken%d:\n", i);
        else if (any_in_100(5))
            buf_printf(b, "\n");
        else if (csv)
            csv_line(b, k, full);
        else
            sparse_line(b, k);
    }
}

static struct reader *kind_reader(const struct kind *k)
{
    struct reader *r = NULL;
    struct err e;
    struct reader_options o = {.format = k->format, .loss = k->loss, .labels = true};
    if (strcmp(k->format, "csv") == 0) {
        o.numeric = k->values ? "n" : NULL;
        o.weight_column = k->weights ? "w" : NULL;
        o.label_column = k->labels ? "u,y,t" : NULL;
    }
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    return r;
}

// Parses each line by itself. x->line is the line's number in the file, from 1.
static void plain_parse(const struct kind *k, const struct buf *text, struct examples *x)
{
    struct reader *r = kind_reader(k);
    const char *p = text->data, *end = p + text->len;
    examples_clear(x);
    for (uint32_t line = 1; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop != NULL ? stop : end;
        struct line l = line_make(p, (size_t)(stop - p));
        if (line == 1 && reader_has_header(r))
            assert_int_equal(reader_header(r, l.text, l.len, &line_layout, NULL), 0);
        else if (reader_line(r, line_layout, l.text, l.len, x, NULL) == 0 && x->n > 0 &&
                 x->line[x->n - 1] == 0)
            x->line[x->n - 1] = line;
        mem_free(l.text);
        p = stop + 1;
    }
    reader_close(r);
}

// ---------------------------------------------------------------- loading

static int resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)keys[i] & *(const uint32_t *)ctx;
    return 0;
}

struct load {
    struct source *source;
    struct reader *reader;
    struct team *team;
    uint32_t mask;
    uint64_t bad_lines;
    struct dataset_options o;
};

static int load_open(struct load *l, const struct kind *k, const char *path, int threads,
                     size_t chunk_bytes, struct err *e)
{
    *l = (struct load){.mask = k->id_mask};
    struct source_options so = {
        .paths = &path, .n_paths = 1, .chunk_bytes = chunk_bytes, .queue_chunks = 3};
    struct reader_options ro = {.format = k->format, .loss = k->loss, .labels = true};
    if (strcmp(k->format, "csv") == 0) {
        ro.numeric = k->values ? "n" : NULL;
        ro.weight_column = k->weights ? "w" : NULL;
        ro.label_column = k->labels ? "u,y,t" : NULL;
    }
    TRY(source_open(&l->source, &so, e));
    TRY(reader_open(&l->reader, &ro, e));
    TRY(team_open(&l->team, threads, e));
    l->o = (struct dataset_options){.source = l->source,
                                    .reader = l->reader,
                                    .team = l->team,
                                    .resolve = resolve,
                                    .resolve_ctx = &l->mask,
                                    .bad_lines = &l->bad_lines};
    return 0;
}

static void load_close(struct load *l)
{
    team_close(l->team);
    reader_close(l->reader);
    source_close(l->source);
}

// Checks the examples `order` of the set. The first example of the set is example `first`
// of the plain parse.
static void assert_gathered(const struct dataset *d, const struct kind *k,
                            const uint64_t *order, size_t n, const struct examples *want,
                            uint64_t first, struct batch *b)
{
    assert_int_equal(dataset_gather(d, order, n, b), 0);
    assert_int_equal(b->n, n);
    assert_int_equal(b->start[0], 0);
    assert_int_equal(b->start[n], b->nnz);
    for (size_t i = 0; i < n; i++) {
        size_t at = first + order[i], from = want->start[at], to = b->start[i];
        assert_int_equal(b->labels, k->labels ? 3 : 1);
        for (size_t t = 0; t < b->labels; t++) {
            float label = b->label[i * b->labels + t],
                  wanted = want->label[at * b->labels + t];
            assert_true(label == wanted || (isnan(label) && isnan(wanted)));
        }
        assert_true((b->weight != NULL ? b->weight[i] : 1) == want->weight[at]);
        assert_int_equal(b->start[i + 1] - to, want->start[at + 1] - from);
        for (; to < b->start[i + 1]; to++, from++) {
            assert_int_equal(b->id[to], (uint32_t)want->key[from] & k->id_mask);
            assert_int_equal(b->slot[to], want->slot[from]);
            assert_true((b->value != NULL ? b->value[to] : 1) == want->value[from]);
        }
        uint32_t file;
        uint64_t line;
        dataset_where(d, order[i], &file, &line);
        assert_int_equal(file, 0);
        assert_int_equal(line, want->line[at]);
    }
}

static void assert_dataset(const struct dataset *d, const struct kind *k,
                           const struct examples *want, uint64_t first, struct batch *b)
{
    uint64_t n = dataset_size(d), order[100], positives = 0, features = 0, slots = 0;
    assert_true(first + n <= want->n);
    for (uint64_t i = 0; i < n; i++)
        assert_gathered(d, k, &i, 1, want, first, b);
    for (int round = 0; n > 0 && round < 10; round++) {
        for (size_t i = 0; i < 100; i++) {
            order[i] = any(n);
            dataset_prefetch(d, order[i]);
        }
        assert_gathered(d, k, order, 100, want, first, b);
    }
    for (uint64_t i = first; i < first + n; i++) {
        positives += want->label[i * want->labels] > 0;
        features += want->start[i + 1] - want->start[i];
        for (size_t j = want->start[i]; j < want->start[i + 1]; j++)
            slots = want->slot[j] + 1u > slots ? want->slot[j] + 1u : slots;
    }
    assert_int_equal(dataset_positives(d), positives);
    assert_int_equal(dataset_features(d), features);
    assert_int_equal(dataset_slots(d), slots);
}

static void test_same_for_all_teams(void **state)
{
    (void)state;
    static const int teams[] = {1, 2, 5};
    static const size_t chunks[] = {1, 200, 3000, 0};
    struct buf text = BUF_INIT(1 << 20);
    struct examples want = {0};
    struct batch batch = {0};
    for (size_t i = 0; i < N_KINDS * 6; i++) {
        const struct kind *k = &KINDS[i % N_KINDS];
        make_text(&text, k, chunks[i / 3 % 4] == 1 ? 60 : 300, 0);
        plain_parse(k, &text, &want);
        struct load l;
        struct dataset *d = NULL;
        struct err e;
        const char *path = files_write_bytes(files_in("text"), text.data, text.len);
        if (load_open(&l, k, path, teams[i % 3], chunks[i / 3 % 4], &e) != 0 ||
            dataset_load(&d, &l.o, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(dataset_size(d), want.n);
        assert_true(dataset_at_end(d));
        assert_dataset(d, k, &want, 0, &batch);
        dataset_close(d);
        load_close(&l);
    }
    batch_free(&batch);
    examples_free(&want);
    buf_free(&text);
}

// The windows of a few chunks, one after the other, have the same examples as one data
// set of the whole source.
static void test_windows(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    struct examples want = {0};
    struct batch batch = {0};
    for (size_t i = 0; i < 12; i++) {
        const struct kind *k = &KINDS[i % N_KINDS];
        struct load l;
        make_text(&text, k, 300, 0);
        plain_parse(k, &text, &want);
        const char *path = files_write_bytes(files_in("text"), text.data, text.len);
        assert_int_equal(load_open(&l, k, path, 1 + (int)any(3), 500, NULL), 0);
        l.o.max_chunks = 1 + any(4);
        uint64_t first = 0;
        for (bool end = false; !end;) {
            struct dataset *d;
            assert_int_equal(dataset_load(&d, &l.o, NULL), 0);
            assert_dataset(d, k, &want, first, &batch);
            first += dataset_size(d);
            end = dataset_at_end(d);
            dataset_close(d);
        }
        assert_int_equal(first, want.n);
        struct dataset *d; // the window after the end of the data is empty
        assert_int_equal(dataset_load(&d, &l.o, NULL), 0);
        assert_int_equal(dataset_size(d), 0);
        assert_int_equal(dataset_gather(d, NULL, 0, &batch), 0);
        assert_true(dataset_at_end(d));
        dataset_close(d);
        load_close(&l);
    }
    batch_free(&batch);
    examples_free(&want);
    buf_free(&text);
}

// A csv reader that starts in the middle of a file, as in a resumed run, finds the
// header.
static void test_header_of_a_resumed_run(void **state)
{
    (void)state;
    const struct kind *k = &KINDS[8];
    struct buf text = BUF_INIT(1 << 20);
    struct load l;
    struct chunk *c;
    struct dataset *d;
    make_text(&text, k, 100, 0);
    const char *path = files_write_bytes(files_in("text"), text.data, text.len);
    assert_int_equal(load_open(&l, k, path, 2, 300, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(source_next(l.source, &c, NULL), 0);
        source_release(l.source, c);
    }
    assert_int_equal(source_rewind(l.source, source_place(l.source), NULL), 0);
    assert_int_equal(dataset_load(&d, &l.o, NULL), 0);
    assert_int_equal(reader_slots(l.reader), 12);
    assert_true(dataset_size(d) > 0);
    dataset_close(d);
    load_close(&l);
    buf_free(&text);
}

// ---------------------------------------------------------------- bad lines

// Returns the number of the n-th broken line, from 1; 0 if there are fewer.
static uint64_t nth_broken(const struct buf *text, uint64_t n)
{
    uint64_t line = 1, found = 0;
    for (const char *p = text->data; p < text->data + text->len; line++) {
        found += strncmp(p, "broken", 6) == 0;
        if (found == n)
            return line;
        p = (const char *)memchr(p, '\n', text->len) + 1;
    }
    return 0;
}

// With any number of threads and any size of chunks, the same lines are skipped, and the
// limit is exceeded at the same line.
static void test_bad_lines(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    struct examples want = {0};
    struct batch batch = {0};
    for (int i = 0; i < 80; i++) {
        const struct kind *k = &KINDS[any(N_KINDS)];
        struct load l;
        struct err e = {0};
        struct dataset *d = NULL;
        make_text(&text, k, 200, 1 + (unsigned)any(5));
        buf_str(&text);
        plain_parse(k, &text, &want);
        const char *path = files_write_bytes(files_in("text"), text.data, text.len);
        assert_int_equal(load_open(&l, k, path, 1 + (int)any(5), 20 + any(3000), NULL),
                         0);
        l.o.max_bad_lines = any(8);
        l.bad_lines = any(3);
        uint64_t before = l.bad_lines;
        uint64_t left = l.o.max_bad_lines > before ? l.o.max_bad_lines - before : 0;
        uint64_t line = nth_broken(&text, left + 1);
        int rc = dataset_load(&d, &l.o, &e);
        assert_int_equal(rc, line == 0 ? 0 : TUG_EDATA);
        if (line == 0) {
            assert_int_equal(nth_broken(&text, l.bad_lines - before + 1), 0);
            assert_dataset(d, k, &want, 0, &batch);
        } else {
            char start[200];
            snprintf(start, sizeof start, "%s:%llu: ", path, (unsigned long long)line);
            if (strncmp(e.text, start, strlen(start)) != 0)
                fail_msg("'%s' does not begin with '%s'", e.text, start);
            assert_int_equal(l.bad_lines, before);
        }
        dataset_close(d);
        load_close(&l);
    }
    batch_free(&batch);
    examples_free(&want);
    buf_free(&text);
}

static int load_file(const struct kind *k, const char *path, struct err *e)
{
    struct load l;
    struct dataset *d = NULL;
    int rc = load_open(&l, k, path, 2, 100, e);
    if (rc == 0)
        rc = dataset_load(&d, &l.o, e);
    dataset_close(d);
    load_close(&l);
    return rc;
}

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text, *reason;
    } bad[] = {
        {"libsvm", "1 1:1\r\n0 2:x\r\n", "bad:2: value 'x' of feature 2 is not a number"},
        {"libsvm", "\n\n1 1:1\n1 1:1e999",
         "bad:4: value '1e999' of feature 1 is too large"},
        {"libsvm", "QK\x03\x04\n\x80\x81",
         "bad:1: the label 'QK\\x03\\x04' is not a number"},
        {"criteo", "1\t2\n", "bad:1: found 2 columns"},
        {"csv", "y\n1\n", "bad:1: the header has no column that could be a feature"},
        {"csv", "y,a\n1,2\n1\n", "bad:3: found 1 column, the header has 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        struct kind k = {.format = bad[i].format, .id_mask = 0xff};
        assert_int_equal(load_file(&k, files_write(files_in("bad"), bad[i].text), &e),
                         TUG_EDATA);
        if (strstr(e.text, bad[i].reason) == NULL)
            fail_msg("'%s' does not say '%s'", e.text, bad[i].reason);
    }
}

// A window ends before the place at which the file is damaged. The next window must
// report the damage, and not take it for the end of the data.
static void test_truncated_in_windows(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    make_text(&text, &KINDS[0], 300, 0);
    compress_to(&packed, GZIP, text.data, text.len);
    const char *path = files_write_bytes(files_in("cut"), packed.data, packed.len - 9);
    struct load l;
    struct err e = {0};
    assert_int_equal(load_open(&l, &KINDS[0], path, 2, 200, NULL), 0);
    l.o.max_chunks = 1;
    int rc = 0;
    for (bool end = false; !end && rc == 0;) {
        struct dataset *d = NULL;
        rc = dataset_load(&d, &l.o, &e);
        end = rc == 0 && dataset_at_end(d);
        dataset_close(d);
    }
    assert_int_equal(rc, TUG_EDATA);
    assert_non_null(strstr(e.text, "is truncated"));
    load_close(&l);
    buf_free(&text);
    buf_free(&packed);
}

static int refuse(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    (void)ctx, (void)keys, (void)n, (void)ret_ids;
    return TUG_ENOMEM;
}

static void test_resolver_fails(void **state)
{
    (void)state;
    struct load l;
    struct dataset *d = NULL;
    const char *path = files_write(files_in("text"), "1 1:1\n0 2:1\n1 3:1\n");
    assert_int_equal(load_open(&l, &KINDS[0], path, 3, 5, NULL), 0);
    l.o.resolve = refuse;
    assert_int_equal(dataset_load(&d, &l.o, NULL), TUG_ENOMEM);
    load_close(&l);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20);
    make_text(&text, &KINDS[9], 30, 0);
    buf_printf(&text, "bad\n");
    const char *path = files_write_bytes(files_in("text"), text.data, text.len);
    buf_free(&text);
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct load l;
        struct err e = {0};
        struct dataset *d = NULL;
        struct batch b = {0};
        uint64_t order[] = {0, 1, 2};
        mem_fault_after(n);
        int rc = load_open(&l, &KINDS[9], path, 2, 400, &e);
        l.o.max_bad_lines = 1;
        if (rc == 0)
            rc = dataset_load(&d, &l.o, &e);
        if (rc == 0)
            rc = dataset_gather(d, order, 3, &b);
        done = !mem_faulted();
        mem_fault_after(-1);
        if (rc != (done ? 0 : TUG_ENOMEM))
            fail_msg("allocation %ld: %d %s", n, rc, e.text);
        batch_free(&b);
        dataset_close(d);
        load_close(&l);
        assert_int_equal(mem_live(), live);
    }
}

// ---------------------------------------------------------------- real data

static void assert_packed(const char *path, const struct kind *k, uint64_t examples,
                          uint64_t features, double most)
{
    struct load l;
    struct dataset *d = NULL;
    uint64_t text = 0;
    assert_int_equal(load_open(&l, k, path, 2, 0, NULL), 0);
    assert_int_equal(dataset_load(&d, &l.o, NULL), 0);
    assert_int_equal(source_rewind(l.source, SOURCE_START, NULL), 0);
    for (struct chunk *c;
         assert_int_equal(source_next(l.source, &c, NULL), 0), c != NULL;) {
        text += c->len;
        source_release(l.source, c);
    }
    assert_int_equal(dataset_size(d), examples);
    assert_int_equal(dataset_features(d), features);
    assert_true((double)dataset_bytes(d) < most * (double)text);
    dataset_close(d);
    load_close(&l);
}

static void assert_memory(const char *name, const char *format, uint64_t examples,
                          uint64_t features, double most)
{
    struct kind k = {.format = format,
                     .id_mask = strcmp(format, "criteo") == 0 ? 0xfffff : 0xffff};
    const char *path = files_shared(name);
    assert_packed(path, &k, examples, features, most);
}

// Checks that the memory stays within its limit for the shortest lines that are possible
// if each feature is a word with its frequency as its value.
static void test_memory_counts(void **state)
{
    (void)state;
    enum { LINES = 20000, WORDS = 30 };
    struct kind k = {.format = "libsvm", .id_mask = 0xffff};
    struct buf text = BUF_INIT(1 << 30);
    for (int i = 0; i < LINES; i++) {
        buf_printf(&text, "%d", i % 2);
        for (int j = 0; j < WORDS; j++)
            buf_printf(&text, " %d:%d", (int)any(2000), 1 + (int)any(9));
        buf_printf(&text, "\n");
    }
    assert_packed(files_write(files_in("counts"), buf_str(&text)), &k, LINES,
                  LINES * WORDS, 2.0 / 3);
    buf_free(&text);
}

static void test_memory_ml1m(void **state)
{
    (void)state;
    assert_memory("ml1m/test.libsvm.zst", "libsvm", 48765, 492683 - 48765, 0.5);
    assert_memory("ml1m/test.ffm.zst", "libffm", 48765, 492683 - 48765, 0.5);
}

static void test_memory_criteo(void **state)
{
    (void)state;
    assert_memory("criteo/train.tsv", "criteo", 7200, 239815, 0.6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_for_all_teams),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_header_of_a_resumed_run),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_truncated_in_windows),
        cmocka_unit_test(test_resolver_fails),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_memory_counts),
        cmocka_unit_test(test_memory_ml1m),
        cmocka_unit_test(test_memory_criteo),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
