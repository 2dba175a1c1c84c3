// Compares merging by id with a naive computation, over ids in random order: which lines
// form which example, which are left out, and the origins of examples.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/dataset_merge.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"

// Slots: a has keys below 1,000, b has keys from 1,000 on, c has a number.
enum { LINES = 30000, IDS = 9000, A = 0, B = 1, C = 2, SLOTS = 3, KEYS = 3 };

struct line {
    unsigned id, label, n[SLOTS];
    unsigned key[SLOTS][KEYS]; // keys of each slot; for slot c, its number
};
static struct line lines[LINES];

static unsigned draw(unsigned below)
{
    static uint64_t n;
    return (unsigned)random_below(11, 1, n++, below);
}

// For most ids, the lines have different slots: one line has a, another b and c. Every
// 50th line of the file cannot be read; its entry in `lines` is empty.
static void write_lines(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (unsigned i = 0; i < LINES; i++) {
        struct line *l = &lines[i];
        *l = (struct line){.id = draw(IDS)};
        l->label = draw(10) > 0 ? l->id % 2 : draw(2);
        l->n[A] = i % 2 == 0 ? draw(KEYS + 1) : 0;
        l->n[B] = i % 2 == 1 ? draw(KEYS + 1) : 0;
        l->n[C] = i % 2 == 1 ? draw(2) : 0;
        if (i % 50 == 7) {
            l->id = IDS;
            fprintf(f, "\n");
            continue;
        }
        fprintf(f, "1 i%u 1 %u", l->id, l->label);
        for (unsigned s = 0; s < SLOTS; s++) {
            fprintf(f, " %u", l->n[s]);
            for (unsigned k = 0; k < l->n[s]; k++) {
                l->key[s][k] = s * 1000 + draw(1000);
                fprintf(f, " %u", l->key[s][k]);
            }
        }
        fprintf(f, "\n");
    }
    assert_int_equal(fclose(f), 0);
}

static int resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)keys[i] & 0xffff;
    return 0;
}

static int load_slots(const char *slots, const char *path, int threads, uint32_t size,
                      struct dataset **ret, struct dataset_merged *told)
{
    struct source_options s = {.paths = &path, .n_paths = 1, .chunk_bytes = 20000};
    struct reader_options r = {.format = "multislot", .labels = true, .slots = slots};
    struct source *source = NULL;
    struct reader *reader = NULL;
    struct team *team = NULL;
    uint64_t bad = 0;
    int rc = source_open(&source, &s, &test_err);
    if (rc == 0)
        rc = reader_open(&reader, &r, &test_err);
    if (rc == 0)
        rc = team_open(&team, threads, &test_err);
    struct dataset_options o = {.source = source,
                                .reader = reader,
                                .team = team,
                                .resolve = resolve,
                                .max_bad_lines = LINES,
                                .bad_lines = &bad,
                                .keep = "id",
                                .keep_option = "--merge-ids",
                                .merge = size,
                                .merged = told};
    if (rc == 0)
        rc = dataset_load(ret, &o, &test_err);
    team_close(team);
    reader_close(reader);
    source_close(source);
    return rc;
}

static int load(const char *path, int threads, uint32_t size, struct dataset **ret,
                struct dataset_merged *told)
{
    return load_slots("id:skip, label:label, a:keys, b:keys, c:dense", path, threads,
                      size, ret, told);
}

// Lists the lines of an id in ascending order; returns their number.
static size_t lines_of(unsigned id, unsigned ret[LINES])
{
    static unsigned of[IDS][64], n[IDS];
    static bool known;
    for (unsigned i = 0; i < LINES && !known; i++)
        if (lines[i].id < IDS)
            of[lines[i].id][n[lines[i].id]++] = i;
    known = true;
    memcpy(ret, of[id], n[id] * sizeof(*ret));
    return n[id];
}

static bool agree(const unsigned *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct line *a = &lines[of[i]], *b = &lines[of[j]];
            if (a->label != b->label)
                return false;
            for (unsigned s = 0; s < SLOTS; s++)
                if (a->n[s] > 0 && b->n[s] > 0)
                    return false;
        }
    return true;
}

static void check_example(const struct dataset *d, uint64_t i, const unsigned *of,
                          size_t n)
{
    struct batch b = {0};
    uint32_t file, at = 0;
    uint64_t line;
    assert_int_equal(dataset_gather(d, &i, 1, &b), 0);
    dataset_where(d, i, &file, &line);
    assert_int_equal(file, 0);
    assert_int_equal(line, of[0] + 1);
    assert_true(b.label[0] == (float)lines[of[0]].label);
    for (unsigned s = 0; s < SLOTS; s++)
        for (size_t k = 0; k < n; k++)
            for (unsigned j = 0; j < lines[of[k]].n[s]; j++, at++) {
                unsigned key = lines[of[k]].key[s][j];
                assert_true(at < b.nnz);
                assert_int_equal(b.slot[at], s);
                float value = b.value != NULL ? b.value[at] : 1;
                assert_true(value == (s == C ? (float)key : 1));
                if (s != C)
                    assert_int_equal(b.id[at], key);
            }
    assert_int_equal(at, b.nnz);
    batch_free(&b);
}

static void check(uint32_t size, int threads)
{
    static unsigned of[LINES];
    struct dataset *d = NULL;
    struct dataset_merged told, want = {0};
    assert_int_equal(load(files_in("data"), threads, size, &d, &told), 0);
    for (unsigned i = 0; i < LINES; i++) {
        if (lines[i].id == IDS)
            continue;
        size_t n = lines_of(lines[i].id, of);
        want.lines++;
        if (of[0] != i)
            continue;
        want.groups += n != size;
        want.group_lines += n != size ? n : 0;
        if (n != size)
            continue;
        if (!agree(of, n)) {
            if (want.conflicts++ == 0)
                assert_int_equal(told.line[0], i + 1);
            continue;
        }
        check_example(d, want.examples++, of, n);
    }
    assert_true(want.examples > 100 && want.conflicts > 100 && want.groups > 100);
    assert_int_equal(dataset_size(d), want.examples);
    assert_int_equal(told.examples, want.examples);
    assert_int_equal(told.lines, want.lines);
    assert_int_equal(told.groups, want.groups);
    assert_int_equal(told.group_lines, want.group_lines);
    assert_int_equal(told.conflicts, want.conflicts);
    assert_true(dataset_at_end(d));
    dataset_close(d);
}

static void test_against_naive(void **state)
{
    (void)state;
    check(2, 1);
    check(2, 3);
    check(3, 2);
}

static void test_nothing_is_left(void **state)
{
    (void)state;
    struct dataset *d = NULL;
    struct dataset_merged told;
    const char *path = files_write(files_in("few"), "1 x 1 1 1 5 0 0\n1 y 1 0 1 6 0 0\n");
    assert_int_equal(load(path, 1, 2, &d, &told), 0);
    assert_int_equal(dataset_size(d), 0);
    assert_int_equal(told.groups, 2);
    dataset_close(d);
}

// In a merged example, labels may come from different lines. If two lines both have a
// label, their values must be equal.
static void test_several_labels(void **state)
{
    (void)state;
    struct dataset *d = NULL;
    struct dataset_merged told;
    struct batch b = {0};
    const char *path = files_write(files_in("labels"),
                                   "1 x 1 1 0 1 5 0\n1 x 0 1 0 0 1 6\n"
                                   "1 y 0 1 1 1 5 0\n1 y 0 1 1 0 1 6\n"
                                   "1 z 1 1 0 1 5 0\n1 z 1 0 0 0 1 6\n");
    assert_int_equal(
        load_slots("id:skip, p:label, q:label, a:keys, b:keys", path, 1, 2, &d, &told),
        0);
    assert_int_equal(dataset_size(d), 2);
    assert_int_equal(told.conflicts, 1);
    assert_int_equal(told.line[0], 5);
    assert_int_equal(dataset_gather(d, (const uint64_t[]){0, 1}, 2, &b), 0);
    assert_true(b.labels == 2 && b.nnz == 4);
    assert_true(b.label[0] == 1 && b.label[1] == 0);
    assert_true(isnan(b.label[2]) && b.label[3] == 1);
    batch_free(&b);
    dataset_close(d);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    struct dataset *d = NULL;
    struct dataset_merged told;
    const char *path = files_write(files_in("some"),
                                   "1 x 1 1 1 5 0 0\n1 y 1 0 1 6 0 0\n1 x 1 1 0 1 9 0\n");
    FAIL_EACH_ALLOCATION(load(path, 1, 2, &d, &told), dataset_close(d));
}

static int begin(void **state)
{
    if (files_begin(state) != 0)
        return -1;
    write_lines(files_in("data"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_several_labels),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, begin, files_end);
}
