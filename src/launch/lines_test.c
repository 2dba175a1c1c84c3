// Output lines of processes, which may arrive in any pieces; and quoting of words for
// shells.
//
// SPDX-License-Identifier: Apache-2.0
#include "launch/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "launch/argv.h"

// Returns what lines_add writes if `text` arrives in chunks of n bytes.
static char *passed(const char *text, size_t n, char last[512])
{
    static char out[3 * LINES_MAX];
    FILE *f = tmpfile();
    assert_non_null(f);
    struct lines l;
    lines_open(&l, "[w] ", f, NULL, "log");
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += n)
        assert_int_equal(lines_add(&l, text + at, len - at < n ? len - at : n), 0);
    lines_close(&l);
    snprintf(last, 512, "%s", l.last);
    rewind(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = 0;
    fclose(f);
    return out;
}

static void pieces_do_not_matter(void **state)
{
    (void)state;
    char last[512];
    for (size_t n = 1; n < 20; n++) {
        assert_string_equal(passed("one\ntwo\r\n\nthree", n, last),
                            "[w] one\n[w] two\n[w] \n[w] three\n");
        assert_string_equal(last, "three");
        assert_string_equal(passed("", n, last), "");
        assert_string_equal(passed("a\n\n", n, last), "[w] a\n[w] \n");
        assert_string_equal(last, "a");
    }
}

static bool begins_with_a(const char *line, size_t n)
{
    return n > 0 && line[0] == 'a';
}

static bool is_ab(void *ctx, const char *line)
{
    ++*(int *)ctx;
    return strcmp(line, "ab") == 0;
}

// Held lines are written later or never. `last` gets a held line at once.
static void lines_are_held(void **state)
{
    (void)state;
    char out[200];
    int asked = 0;
    FILE *f = tmpfile();
    assert_non_null(f);
    struct lines l;
    lines_open(&l, "[w] ", f, NULL, "log");
    l.holds = begins_with_a;
    assert_int_equal(lines_add(&l, "ab\none\nac\ntwo\nad", 17), 0);
    lines_close(&l);
    assert_string_equal(l.last, "ad");
    lines_say_held(&l, is_ab, &asked);
    lines_say_held(&l, is_ab, &asked); // does nothing: no held line is left
    assert_int_equal(asked, 3);
    rewind(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = 0;
    assert_string_equal(out, "[w] one\n[w] two\n[w] ac\n[w] ad\n");
    fclose(f);
}

// If lines are written as JSON, JSON log lines are written unchanged, and other lines become
// messages. The text of the message decides whether the line is held.
static void lines_of_json(void **state)
{
    (void)state;
    static const char log_line[] =
        "{\"time\":\"t\",\"level\":\"info\",\"message\":\"ad\"}";
    char out[2000], said[100], *line = out;
    int asked = 0;
    const struct log_origin from = {.role = "worker", .rank = 2};
    FILE *f = tmpfile();
    assert_non_null(f);
    struct lines l;
    lines_open(&l, "[w] ", f, NULL, "log");
    l.json = &from;
    l.holds = begins_with_a;
    static const char text[] = "ab\nto\xff\"\n";
    assert_int_equal(lines_add(&l, text, sizeof(text) - 1), 0);
    assert_string_equal(l.last, "to\xff\"");
    assert_int_equal(lines_add(&l, log_line, sizeof(log_line) - 1), 0);
    lines_close(&l);
    assert_string_equal(l.last, "ad");
    lines_say_held(&l, is_ab, &asked);
    assert_int_equal(asked, 2);
    rewind(f);
    out[fread(out, 1, sizeof(out) - 1, f)] = 0;
    fclose(f);
    assert_true(log_json_message(line, strcspn(line, "\n"), said, sizeof(said)));
    assert_string_equal(said, "to\\xff\"");
    assert_non_null(strstr(line, "\"role\":\"worker\",\"rank\":2,"));
    line = strchr(line, '\n') + 1;
    assert_int_equal(strncmp(line, log_line, sizeof(log_line) - 1), 0);
    assert_string_equal(line + sizeof(log_line) - 1, "\n");
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char last[512];
    static char text[LINES_MAX + 11];
    memset(text, 'x', LINES_MAX + 5);
    memcpy(text + LINES_MAX + 5, "\nend\n", 6);
    for (size_t n = 1; n < 3 * LINES_MAX; n = n * 7 + 1) {
        char *out = passed(text, n, last);
        assert_int_equal(strlen(out), LINES_MAX + 5 + 5 + 3 * 4 + 4 - 3);
        assert_non_null(strstr(out, "x\n[w] xxxxx\n[w] end\n"));
    }
}

// Each line of a log file begins with the time, even a line that a program wrote without
// one. The same lines in the other output get no time.
static void times_in_the_log(void **state)
{
    (void)state;
    char line[64] = "";
    int at = 0;
    FILE *log = tmpfile(), *to = tmpfile();
    assert_non_null(log);
    assert_non_null(to);
    struct lines l;
    lines_open(&l, "", to, log, "log");
    assert_int_equal(lines_add(&l, "one\n\nend", 8), 0);
    lines_close(&l);
    assert_int_equal(ftell(to), 9);
    rewind(log);
    static const char *const texts[] = {"one", "", "end"};
    for (size_t i = 0; i < 3; i++) {
        assert_non_null(fgets(line, sizeof(line), log));
        (void)sscanf(line, "%*4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ%n", &at);
        assert_int_equal(at, 24);
        assert_int_equal(line[at], ' ');
        line[strcspn(line, "\n")] = '\0';
        assert_string_equal(line + at + 1, texts[i]);
    }
    fclose(to);
    fclose(log);
}

// If a log file cannot be written, the error is reported once, and the other output
// continues.
static void full_log(void **state)
{
    (void)state;
    FILE *full = fopen("/dev/full", "w"), *to = tmpfile();
    assert_non_null(full);
    assert_non_null(to);
    struct lines l;
    lines_open(&l, "", to, full, "log");
    assert_int_equal(lines_add(&l, "one\ntwo\n", 8), 0);
    assert_null(l.log); // closed to further lines after the first failed write
    assert_int_equal(l.failed.code, TUG_EIO);
    assert_non_null(strstr(l.failed.text, "cannot write the log 'log': No space left"));
    lines_close(&l);
    assert_int_equal(ftell(to), 8); // the other output has both lines
    fclose(to);
    fclose(full);
}

static void shells_read_words_back(void **state)
{
    (void)state;
    static const char *const all[] = {"plain", "two words", "it's", "$HOME `id` \"x\" \\",
                                      "",      "a\nb",      "*",    "--x=y;z"};
    struct buf b = BUF_INIT(4096);
    assert_int_equal(buf_printf(&b, "printf '%%s|'"), 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        assert_int_equal(buf_printf(&b, " "), 0);
        assert_int_equal(argv_quote(&b, all[i]), 0);
    }
    FILE *f = popen(buf_str(&b), "r");
    assert_non_null(f);
    char got[4096], wanted[4096] = "";
    got[fread(got, 1, sizeof(got) - 1, f)] = 0;
    pclose(f);
    for (size_t i = 0, at = 0; i < sizeof(all) / sizeof(*all); i++)
        at += (size_t)snprintf(wanted + at, sizeof(wanted) - at, "%s|", all[i]);
    assert_string_equal(got, wanted);
    buf_free(&b);
}

static int drop_b(const char *name_value)
{
    return strncmp(name_value, "TEST_B=", 7) == 0;
}

static const char *find(const struct argv *w, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < w->n; i++)
        if (strncmp(w->at[i], name, strlen(name)) == 0) {
            assert_null(found); // a variable occurs only once
            found = w->at[i];
        }
    return found;
}

static void environments(void **state)
{
    (void)state;
    struct argv w = {0};
    setenv("TEST_A", "1", 1);
    setenv("TEST_B", "2", 1);
    assert_int_equal(argv_environment(&w, drop_b), 0);
    assert_string_equal(find(&w, "TEST_A="), "TEST_A=1");
    assert_null(find(&w, "TEST_B="));
    assert_int_equal(argv_set(&w, "TEST_A=%d", 7), 0);
    assert_int_equal(argv_set(&w, "TEST_C=%s", "x"), 0);
    assert_string_equal(find(&w, "TEST_A="), "TEST_A=7");
    assert_string_equal(find(&w, "TEST_C="), "TEST_C=x");
    assert_null(w.at[w.n]);
    argv_free(&w);
    assert_int_equal(mem_live(), 0);
}

static void memory_runs_out(void **state)
{
    (void)state;
    bool struck = true;
    for (long i = 0; struck; i++) {
        struct argv w = {0};
        mem_fault_after(i);
        int rc = argv_add(&w, "%s-%d", "word", 1);
        if (rc == 0)
            rc = argv_set(&w, "A=%d", 1);
        if (rc == 0)
            rc = argv_set(&w, "A=%d", 2);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        argv_free(&w);
        assert_int_equal(mem_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(lines_are_held),
        cmocka_unit_test(lines_of_json),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(shells_read_words_back),
        cmocka_unit_test(environments),
        cmocka_unit_test(full_log),
        cmocka_unit_test(times_in_the_log),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
