// SPDX-License-Identifier: Apache-2.0
#include "synth/synth.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/input/decode.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"
#include "synth/synth_plant.h"

static struct synth *synth; // a model with seed 1, for all tests

static int setup(void **state)
{
    (void)state;
    return synth_open(&synth, 1, NULL);
}

static int teardown(void **state)
{
    (void)state;
    synth_close(synth);
    return 0;
}

static uint64_t hash_of(const struct synth *s, enum synth_format format,
                        enum synth_part part)
{
    enum { ROWS = 300 };
    static char text[ROWS * SYNTH_LINE_MAX];
    char *to = text;
    for (uint64_t i = 0; i < ROWS; i++) {
        struct synth_example x;
        synth_draw(s, part, i, &x);
        char *end = synth_print(s, format, &x, to);
        assert_true(end - to < SYNTH_LINE_MAX - 8);
        to = end;
    }
    return hash_bytes(text, (size_t)(to - text), 0);
}

// The same seed makes the same bytes in all versions and on all machines.
static void test_golden(void **state)
{
    (void)state;
    struct synth *other;
    assert_int_equal(synth_open(&other, 7, NULL), 0);
    const uint64_t got[] = {
        hash_of(synth, SYNTH_CRITEO, SYNTH_TRAIN),
        hash_of(synth, SYNTH_LIBSVM, SYNTH_TRAIN),
        hash_of(synth, SYNTH_LIBFFM, SYNTH_TRAIN),
        hash_of(synth, SYNTH_CSV, SYNTH_TRAIN),
        hash_of(synth, SYNTH_CRITEO, SYNTH_TEST),
        hash_of(other, SYNTH_CRITEO, SYNTH_TRAIN),
        hash_of(synth, SYNTH_MULTISLOT, SYNTH_TRAIN),
    };
    const uint64_t want[] = {
        0x1b26020adb1afbfa, 0x2482a54de73808e1, 0x2143564206470874, 0x83fc38b9448dbf6a,
        0xfcde8f5ff4eccd0f, 0xbf9b7230484b985f, 0x557568f500f62f09,
    };
    for (size_t i = 0; i < sizeof(got) / sizeof(*got); i++)
        if (got[i] != want[i])
            print_message("hash %zu is 0x%016llx\n", i, (unsigned long long)got[i]);
    assert_memory_equal(got, want, sizeof(got));
    synth_close(other);
}

// ------------------------------------------------------- the same examples in all formats

struct line {
    char text[SYNTH_LINE_MAX];
    char *field[SYNTH_SLOTS + 1];
    int n;
};

static void split(const struct synth_example *x, enum synth_format format, char separator,
                  struct line *l)
{
    char *end = synth_print(synth, format, x, l->text);
    assert_int_equal(end[-1], '\n');
    end[-1] = 0;
    l->n = 0;
    for (char *at = l->text; at; l->n++) {
        assert_true(l->n <= SYNTH_SLOTS);
        l->field[l->n] = at;
        at = strchr(at, separator);
        if (at)
            *at++ = 0;
    }
    assert_string_equal(l->field[0], x->label ? "1" : "0");
}

// Returns the bucket of a number in criteo data, as libffm's preprocessing computes it: 2
// + floor(ln(n)^2) for numbers above 2.
static uint32_t bucket_of(uint32_t n)
{
    return n <= 2 ? n : 2 + (uint32_t)floor(log(n) * log(n));
}

static void check_tables(const struct synth_example *x)
{
    static struct line tsv, csv;
    split(x, SYNTH_CRITEO, '\t', &tsv);
    split(x, SYNTH_CSV, ',', &csv);
    assert_int_equal(tsv.n, SYNTH_SLOTS + 1);
    assert_int_equal(csv.n, SYNTH_SLOTS + 1);
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        const char *a = tsv.field[i + 1], *b = csv.field[i + 1];
        if (x->value[i] == SYNTH_MISSING) {
            assert_string_equal(a, "");
            assert_string_equal(b, "");
        } else if (i < SYNTH_NUMERIC) {
            assert_int_equal(bucket_of((uint32_t)strtoul(a, NULL, 10)), x->value[i]);
            assert_int_equal(strtoul(b, NULL, 10), x->value[i]);
        } else {
            assert_string_equal(a, b);
            assert_int_equal(strlen(a), 6);
            assert_int_equal(strspn(a, "0123456789abcdef"), 6);
        }
    }
}

static void check_pairs(const struct synth_example *x)
{
    static struct line svm, ffm;
    split(x, SYNTH_LIBSVM, ' ', &svm);
    split(x, SYNTH_LIBFFM, ' ', &ffm);
    assert_int_equal(svm.n, ffm.n);
    int k = 1;
    uint32_t base = 1;
    for (uint32_t i = 0; i < SYNTH_SLOTS; base += synth->slots[i++].size) {
        if (x->value[i] == SYNTH_MISSING)
            continue;
        char want[64];
        assert_true(x->value[i] < synth->slots[i].size);
        snprintf(want, sizeof(want), "%u:%u:1", i, base + x->value[i]);
        assert_string_equal(ffm.field[k], want);
        assert_string_equal(svm.field[k], strchr(want, ':') + 1);
        k++;
    }
    assert_int_equal(k, svm.n);
}

// Checks the line in format multislot word by word: the label, and for each slot the
// number of values (0 or 1) and the value.
static void check_slots(const struct synth_example *x)
{
    char text[SYNTH_LINE_MAX], *at = text;
    *synth_print(synth, SYNTH_MULTISLOT, x, text) = 0;
    assert_int_equal(strtoul(at, &at, 10), 1);
    assert_int_equal(strtoul(at, &at, 10), x->label);
    for (int i = 0; i < SYNTH_SLOTS; i++) {
        bool missing = x->value[i] == SYNTH_MISSING;
        assert_int_equal(strtoul(at, &at, 10), missing ? 0 : 1);
        if (!missing)
            assert_int_equal(strtoul(at, &at, 10), x->value[i]);
    }
    assert_string_equal(at, "\n");
}

static void test_formats(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3000; i++) {
        struct synth_example x;
        synth_draw(synth, SYNTH_TEST, i, &x);
        check_tables(&x);
        check_pairs(&x);
        check_slots(&x);
    }
    int columns = 1;
    for (const char *c = synth_header(SYNTH_CSV); *c; c++)
        columns += *c == ',';
    assert_int_equal(columns, SYNTH_SLOTS + 1);
    assert_string_equal(synth_header(SYNTH_LIBFFM), "");
}

static int compare_words(const void *a, const void *b)
{
    return memcmp(a, b, 6);
}

// Different values of a slot have different words.
static void test_words(void **state)
{
    (void)state;
    enum { N = 50000, SLOT = 15 }; // SLOT has two million values
    char(*words)[6] = mem_array(N, sizeof(*words));
    struct synth_example x;
    synth_draw(synth, SYNTH_TRAIN, 0, &x);
    for (int i = 0; i < SYNTH_SLOTS; i++)
        x.value[i] = SYNTH_MISSING;
    for (uint32_t v = 0; v < N; v++) {
        char line[SYNTH_LINE_MAX];
        x.value[SLOT] = v * 39 + 1;
        synth_print(synth, SYNTH_CRITEO, &x, line);
        memcpy(words[v], line + 1 + SLOT + 1, 6);
    }
    qsort(words, N, sizeof(*words), compare_words);
    for (uint32_t v = 1; v < N; v++)
        assert_true(memcmp(words[v - 1], words[v], 6) < 0);
    mem_free(words);
}

// ---------------------------------------------------------------- planted effects

static void test_plant(void **state)
{
    (void)state;
    enum { N = 40000 };
    struct synth_score *truth, *linear;
    assert_int_equal(synth_score_open(&truth, NULL), 0);
    assert_int_equal(synth_score_open(&linear, NULL), 0);
    uint64_t clicks = 0, missing = 0, same = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct synth_example x, y;
        synth_draw(synth, SYNTH_TRAIN, i, &x);
        synth_draw(synth, SYNTH_TEST, i, &y);
        same += memcmp(x.value, y.value, sizeof(x.value)) == 0;
        clicks += x.label;
        for (int s = 0; s < SYNTH_SLOTS; s++)
            missing += x.value[s] == SYNTH_MISSING;
        synth_score_add(truth, x.score, x.label);
        synth_score_add(linear, x.linear, x.label);
    }
    assert_int_equal(same, 0);
    assert_in_range(clicks, N * 24 / 100, N * 26 / 100);
    assert_in_range(missing, N * 2, N * 6);
    double auc = synth_score_auc(truth);
    assert_true(auc > 0.785 && auc < 0.815);
    assert_true(fabs(auc - synth_score_expected_auc(truth)) < 0.01);
    assert_true(synth_score_auc(linear) < auc - 0.04);
    assert_true(synth_score_logloss(truth) < synth_score_logloss(linear));
    synth_score_close(truth);
    synth_score_close(linear);
}

// Frequencies of values fall as a power of their rank: in a slot with two million values,
// the first value is frequent, and most values are rare.
static void test_frequencies(void **state)
{
    (void)state;
    enum { N = 20000, SLOT = 15 };
    uint32_t first = 0, rare = 0;
    for (uint64_t i = 0; i < N; i++) {
        struct synth_example x;
        synth_draw(synth, SYNTH_TRAIN, i, &x);
        first += x.value[SLOT] == 0;
        rare += x.value[SLOT] != SYNTH_MISSING && x.value[SLOT] > 1000;
    }
    assert_in_range(first, N / 50, N / 5);
    assert_in_range(rare, N / 20, N / 2);
}

// ---------------------------------------------------------------- AUC

static void test_auc(void **state)
{
    (void)state;
    enum { N = 400 };
    double score[N];
    bool label[N];
    struct synth_score *s;
    assert_int_equal(synth_score_open(&s, NULL), 0);
    assert_true(isnan(synth_score_auc(s)) && isnan(synth_score_logloss(s)));
    for (int i = 0; i < N; i++) {
        // Some scores are equal, and different scores are further apart
        // than the width of a bin.
        score[i] = (i * 7919 % 97) / 16.0 - 3;
        label[i] = i * 31 % 5 < 2;
        synth_score_add(s, score[i], label[i]);
    }
    double right = 0, pairs = 0, loss = 0;
    for (int i = 0; i < N; i++) {
        double p = 1 / (1 + exp(-score[i]));
        loss -= log(label[i] ? p : 1 - p) / N;
        for (int j = 0; j < N; j++) {
            if (!label[i] || label[j])
                continue;
            pairs++;
            right += score[i] > score[j] ? 1 : score[i] < score[j] ? 0 : 0.5;
        }
    }
    assert_true(fabs(synth_score_auc(s) - right / pairs) < 1e-12);
    assert_true(fabs(synth_score_logloss(s) - loss) < 1e-12);
    synth_score_add(s, 1e9, true); // beyond the ends of the histogram
    synth_score_add(s, -1e9, false);
    assert_true(synth_score_auc(s) > right / pairs);
    synth_score_close(s);
}

// ---------------------------------------------------------------- files

static char dir[64];

static int dir_setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/tug_synth_%d", (int)getpid());
    return file_make_dir(dir, NULL);
}

static int dir_teardown(void **state)
{
    (void)state;
    return file_remove_tree(dir, NULL);
}

static uint64_t decoded_hash(const char *path, uint64_t *ret_lines)
{
    static char text[1 << 20];
    struct decoder *d;
    size_t n;
    assert_int_equal(decoder_open(&d, open(path, O_RDONLY), path, -1, NULL), 0);
    assert_int_equal(decoder_read_full(d, text, sizeof(text), &n, NULL), 0);
    assert_true(n < sizeof(text));
    decoder_close(d);
    *ret_lines = 0;
    for (size_t i = 0; i < n; i++)
        *ret_lines += text[i] == '\n';
    return hash_bytes(text, n, 0);
}

static void test_files(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "a.gz", "a.zst", "a.lz4"};
    char path[128], test_path[128];
    uint64_t hash[4], lines;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        snprintf(test_path, sizeof(test_path), "%s/test", dir);
        struct synth_options o = {.rows = 2000,
                                  .test_rows = 10,
                                  .seed = 1,
                                  .out = path,
                                  .format = SYNTH_CSV,
                                  .test_out = test_path};
        struct synth_summary s;
        assert_int_equal(synth_write(&o, &s, NULL), 0);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, s.bytes);
        hash[i] = decoded_hash(path, &lines);
        assert_int_equal(lines, 2001);
        assert_true(hash[i] == hash[0]);
        decoded_hash(test_path, &lines);
        assert_int_equal(lines, 11);
    }
}

// The test limits the size of files, so that the write fails in the same system
// call as on a full disk.
static void test_disk_full(void **state)
{
    (void)state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    static const char *const names[] = {"full", "full.gz", "full.zst", "full.lz4"};
    for (int i = 0; i < 4; i++) {
        char path[128];
        struct err e = {0};
        struct synth_summary s;
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        struct synth_options o = {.rows = 5000, .seed = 1, .out = path};
        assert_int_equal(synth_write(&o, &s, &e), TUG_EIO);
        assert_non_null(strstr(e.text, path));
        assert_false(file_exists(path));
        assert_int_equal(files_beside(dir, NULL), 0);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void test_no_memory(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/memory.gz", dir);
    struct synth_options o = {.rows = 2, .seed = 1, .out = path};
    struct synth_summary s;
    size_t before = mem_live();
    for (long n = 0;; n++) {
        mem_fault_after(n);
        int rc = synth_write(&o, &s, NULL);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
        assert_int_equal(mem_live(), before);
        if (!faulted)
            break;
        assert_false(file_exists(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_plant),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_auc),
        cmocka_unit_test_setup_teardown(test_files, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, dir_setup, dir_teardown),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
