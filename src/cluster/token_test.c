// SPDX-License-Identifier: Apache-2.0
#include "cluster/token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/tug-token-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL || setenv("XDG_RUNTIME_DIR", dir, 1) != 0;
}

static int finish(void **state)
{
    char mine[FILE_PATH_MAX];
    (void)state;
    return file_join(mine, dir, "tug", NULL) != 0 || rmdir(mine) != 0 || rmdir(dir) != 0;
}

static void test_text(void **state)
{
    static const char *const bad[] = {
        "",           "operator",     "operator:",  "operator:00",
        "driver:%s",  "scheduler:%s", "worker:%s0", "worker:%s\n\n",
        "worker:g%s", " worker:%s"};
    struct token t, again;
    char text[TOKEN_TEXT_MAX], wrong[2 * TOKEN_TEXT_MAX];
    struct err e;
    (void)state;
    assert_int_equal(token_make(&t, &e), 0);
    token_write(text, &t);
    assert_int_equal(token_read(&again, text, &e), 0);
    assert_int_equal(again.role, WIRE_OPERATOR);
    assert_memory_equal(again.key, t.key, MAC_BYTES);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *hex = strchr(bad[i], '%');
        snprintf(wrong, sizeof(wrong), "%.*s%s%s",
                 (int)(hex != NULL ? hex - bad[i] : (int)strlen(bad[i])), bad[i],
                 hex != NULL ? text + 9 : "", hex != NULL ? hex + 2 : "");
        assert_int_equal(token_read(&again, wrong, &e), TUG_EUSAGE);
        assert_int_equal(again.role, WIRE_NOBODY);
        assert_null(strstr(e.text, text + 9)); // no secret in a message
    }
}

static void test_roles_derive_downwards(void **state)
{
    static const enum wire_role roles[] = {WIRE_OPERATOR, WIRE_SERVER, WIRE_WORKER,
                                           WIRE_TOOL};
    struct token t, one, two;
    (void)state;
    assert_int_equal(token_make(&t, NULL), 0);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            one = two = t;
            assert_true(token_lower(&one, roles[from]));
            assert_int_equal(token_lower(&one, roles[to]), to >= from);
            if (to < from)
                continue;
            assert_true(token_lower(&two, roles[to])); // by whatever way
            assert_memory_equal(one.key, two.key, MAC_BYTES);
            assert_int_equal(memcmp(one.key, t.key, MAC_BYTES) == 0, to == 0);
        }
    assert_false(token_lower(&t, WIRE_SCHEDULER));
    assert_false(token_lower(&t, WIRE_NOBODY));
}

static void test_file(void **state)
{
    struct token t, found, other;
    char path[FILE_PATH_MAX];
    struct stat st;
    struct err e;
    (void)state;
    assert_int_equal(token_make(&t, &e), 0);
    assert_int_equal(token_make(&other, &e), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), TUG_EIO);
    assert_int_equal(token_leave(path, &t, "../evil/x", 7, &e), 0);
    assert_null(strstr(path, "/../")); // a name is no path
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), 0);
    assert_memory_equal(found.key, t.key, MAC_BYTES);
    assert_int_equal(token_find(&found, "../evil/x", 8, &e), TUG_EIO); // another port
    assert_int_equal(token_leave(path, &other, "../evil/x", 7, &e), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), 0);
    assert_memory_equal(found.key, other.key, MAC_BYTES);
    token_remove(path, &t); // it is not its own any more
    assert_int_equal(stat(path, &st), 0);
    // Who else can read it, or made it a link, has spoiled it.
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), TUG_EIO);
    assert_int_equal(chmod(path, 0600), 0);
    char elsewhere[FILE_PATH_MAX];
    snprintf(elsewhere, sizeof(elsewhere), "%.4000s.else", path);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), TUG_EIO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(elsewhere, path), 0);
    token_remove(path, &other);
    assert_int_not_equal(stat(path, &st), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_roles_derive_downwards),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
