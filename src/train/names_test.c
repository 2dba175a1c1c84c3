// Compares the words of data with words counted here, and reads the file of a save, also
// when it is damaged.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/names.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "save/save.h"

static const char text[] = "y,site,age,w\n"
                           "1,a,3,\"x,1\"\n0,b,4,\n1,a,,z|u\n0,c,6,\"x,1\"\n";

static int read_names(struct names **ret, const char *path, const char *format,
                      uint64_t max, struct err *e)
{
    struct names_options o = {.max = max};
    struct source_options s = {.paths = &path, .n_paths = 1};
    struct reader_options r = {
        .format = format, .label_column = "y", .numeric = "age", .labels = true};
    if (strcmp(format, "lists") == 0) {
        r.format = "csv";
        r.lists = "site";
        r.numeric = NULL;
    } else if (strcmp(format, "csv") != 0) {
        r.label_column = r.numeric = NULL;
    }
    struct buf line = BUF_INIT(1000);
    const struct reader_layout *layout;
    int rc = team_open(&o.team, 2, e);
    if (rc == 0)
        rc = reader_open(&o.reader, &r, e);
    if (rc == 0)
        rc = source_open(&o.source, &s, e);
    if (rc == 0 && reader_has_header(o.reader)) {
        rc = source_first_line(o.source, 0, &line, e);
        if (rc == 0)
            rc = reader_header(o.reader, buf_str(&line), line.len, &layout, e);
    }
    if (rc == 0)
        rc = names_read(ret, &o, e);
    buf_free(&line);
    source_close(o.source);
    reader_close(o.reader);
    team_close(o.team);
    return rc;
}

static uint64_t key_of(const char *column, const char *word, bool number)
{
    return number ? hash_bytes(column, strlen(column), 1)
                  : hash_bytes(word, strlen(word), hash_bytes(column, strlen(column), 0));
}

static void check(const struct names *n, const char *column, const char *word,
                  const char *name, uint64_t examples)
{
    uint64_t found = 0;
    const char *is = names_find(n, key_of(column, word, word[0] == '\0'), &found);
    assert_non_null(is);
    assert_string_equal(is, name);
    assert_int_equal(found, examples);
}

static void check_all(const struct names *n)
{
    uint64_t ignored;
    check(n, "site", "a", "site=a", 2);
    check(n, "site", "b", "site=b", 1);
    check(n, "site", "c", "site=c", 1);
    check(n, "w", "x,1", "w=x,1", 2);
    check(n, "w", "z|u", "w=z|u", 1);
    check(n, "age", "", "age", 3);
    assert_null(names_find(n, key_of("site", "d", false), &ignored));
}

static void words_are_counted_and_saved(void **state)
{
    (void)state;
    struct names *n, *again;
    assert_int_equal(
        read_names(&n, files_write(files_in("d.csv"), text), "csv", 100, NULL), 0);
    check_all(n);
    assert_int_equal(names_write(n, files_in("."), NULL), 0);
    assert_int_equal(names_load(&again, files_in("."), NULL), 0);
    check_all(again);
    names_close(n);
    names_close(again);
    size_t size;
    char *bytes = files_read(files_in(SAVE_NAMES), &size);
    struct err e;
    for (size_t i = 0; i <= size; i++) { // change one byte, or cut off the end
        bytes[i % size] = (char)(bytes[i % size] ^ 1);
        files_write_bytes(files_in(SAVE_NAMES), bytes, size);
        assert_int_equal(names_load(&again, files_in("."), &e), TUG_EDATA);
        assert_non_null(strstr(e.text, SAVE_NAMES " is damaged"));
        bytes[i % size] = (char)(bytes[i % size] ^ 1);
        files_write_bytes(files_in(SAVE_NAMES), bytes, i < size ? i : 0);
        assert_int_equal(names_load(&again, files_in("."), &e), TUG_EDATA);
    }
    files_remove(files_in(SAVE_NAMES));
    assert_int_equal(names_load(&again, files_in("."), NULL), 0);
    assert_null(again);
    mem_free(bytes);
}

static void words_are_bounded(void **state)
{
    (void)state;
    struct names *n;
    uint64_t ignored;
    assert_int_equal(read_names(&n, files_write(files_in("d.csv"), text), "csv", 2, NULL),
                     0);
    check(n, "site", "a", "site=a", 2);
    check(n, "age", "", "age", 3);
    assert_null(names_find(n, key_of("site", "b", false), &ignored));
    names_close(n);
}

// A word that occurs several times in an example counts as one example.
static void examples_are_counted(void **state)
{
    static const char lists[] = "y,site\n1,a|a|b\n0,a\n1,b|c|b|b\n";
    (void)state;
    struct names *n;
    assert_int_equal(
        read_names(&n, files_write(files_in("d.csv"), lists), "lists", 100, NULL), 0);
    check(n, "site", "a", "site=a", 2);
    check(n, "site", "b", "site=b", 2);
    check(n, "site", "c", "site=c", 1);
    names_close(n);
}

static void indices_have_no_words(void **state)
{
    (void)state;
    struct names *n;
    struct err e;
    assert_int_equal(
        read_names(&n, files_write(files_in("d.svm"), "1 3:1\n"), "libsvm", 2, &e),
        TUG_EUSAGE);
    assert_non_null(strstr(e.text, "keys of libsvm data are indices and have no words"));
}

static int all(const char *path)
{
    struct names *n = NULL, *again = NULL;
    int rc = read_names(&n, path, "csv", 100, &test_err);
    if (rc == 0)
        rc = names_write(n, files_in("."), &test_err);
    if (rc == 0)
        rc = names_load(&again, files_in("."), &test_err);
    if (rc == 0)
        check_all(again);
    names_close(n);
    names_close(again);
    return rc;
}

static void without_memory(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX]; // a copy, because files_in reuses its few buffers
    snprintf(path, sizeof(path), "%s", files_write(files_in("d.csv"), text));
    FAIL_EACH_ALLOCATION(all(path), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_counted_and_saved),
        cmocka_unit_test(words_are_bounded),
        cmocka_unit_test(examples_are_counted),
        cmocka_unit_test(indices_have_no_words),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
