// SPDX-License-Identifier: Apache-2.0
#include "cluster/token.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/test.h"
#include "os/clock.h"
#include "os/runtime_dir.h"

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
        assert_null(strstr(e.text, text + 9)); // a message must not quote a secret
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
            // The key is the same whether it was derived in one step or in several.
            assert_true(token_lower(&two, roles[to]));
            assert_memory_equal(one.key, two.key, MAC_BYTES);
            assert_int_equal(memcmp(one.key, t.key, MAC_BYTES) == 0, to == 0);
        }
    assert_false(token_lower(&t, WIRE_SCHEDULER));
    assert_false(token_lower(&t, WIRE_NOBODY));
}

// Checks that the file is refused, and that the error has its name and this reason.
static void is_not_trusted(const char *why)
{
    struct token found;
    struct err e;
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), TUG_EIO);
    assert_non_null(strstr(e.text, dir));
    assert_non_null(strstr(e.text, why));
    assert_non_null(strstr(e.text, "TUG_TOKEN"));
}

static void test_file(void **state)
{
    struct token t, found, other;
    char path[FILE_PATH_MAX];
    int lock, other_lock;
    struct stat st;
    struct err e;
    (void)state;
    assert_int_equal(token_make(&t, &e), 0);
    assert_int_equal(token_make(&other, &e), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), TUG_EIO);
    assert_int_equal(token_leave(path, &lock, &t, "../evil/x", 7, &e), 0);
    assert_null(strstr(path, "/../")); // characters of a path in the cluster's name are
                                       // replaced
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), 0);
    assert_memory_equal(found.key, t.key, MAC_BYTES);
    // the token is not found under another port
    assert_int_equal(token_find(&found, "../evil/x", 8, &e), TUG_EIO);
    assert_int_equal(token_leave(path, &other_lock, &other, "../evil/x", 7, &e), 0);
    assert_int_equal(token_find(&found, "../evil/x", 7, &e), 0);
    assert_memory_equal(found.key, other.key, MAC_BYTES);
    token_remove(path, lock, &t); // the file has another token now, so it stays
    assert_int_equal(stat(path, &st), 0);
    // A file that other users can read, or that is a link, is refused.
    assert_int_equal(chmod(path, 0640), 0);
    is_not_trusted("(mode 0640)");
    assert_int_equal(chmod(path, 0600), 0);
    char elsewhere[FILE_PATH_MAX];
    snprintf(elsewhere, sizeof(elsewhere), "%.4000s.else", path);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    is_not_trusted("it is a link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_not_trusted("it is not a file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    is_not_trusted("does not hold a token");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(elsewhere, path), 0);
    assert_int_equal(chmod(dir, 0777), 0); // other users could replace this directory
    is_not_trusted("could replace it");
    assert_int_equal(chmod(dir, 0700), 0);
    token_remove(path, other_lock, &other);
    assert_int_not_equal(stat(path, &st), 0);
}

// When a scheduler starts, it removes the files of dead schedulers, whatever their
// cluster and port. Files of living schedulers stay, and so do files that are not tokens.
static void test_leftovers(void **state)
{
    static const char *const others[] = {"a@8.sock", "a.token", "x@9.tokens"};
    struct token t, found;
    char dead[FILE_PATH_MAX], living[FILE_PATH_MAX], next[FILE_PATH_MAX],
        beside[FILE_PATH_MAX], mine[FILE_PATH_MAX], other[FILE_PATH_MAX];
    int dead_lock, living_lock, next_lock;
    struct err e;
    (void)state;
    assert_int_equal(token_make(&t, &e), 0);
    assert_int_equal(token_leave(living, &living_lock, &t, "one", 7, &e), 0);
    assert_int_equal(token_leave(dead, &dead_lock, &t, "two", 8, &e), 0);
    close(dead_lock); // the system does this when a process is killed
    snprintf(beside, sizeof(beside), "%.4000s.0123456789ab", living);
    // The temporary file of a process that was killed before it renamed the file.
    close(open(beside, O_WRONLY | O_CREAT | O_EXCL, 0600));
    assert_int_equal(file_join(mine, dir, "tug", NULL), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file_join(other, mine, others[i], NULL), 0);
        close(open(other, O_WRONLY | O_CREAT | O_EXCL, 0600));
    }
    assert_int_equal(file_join(other, mine, "link@7.token", NULL), 0);
    assert_int_equal(symlink(living, other), 0);
    assert_int_equal(token_leave(next, &next_lock, &t, "three", 9, &e), 0);
    assert_int_equal(token_find(&found, "one", 7, &e), 0);
    assert_int_equal(token_find(&found, "two", 8, &e), TUG_EIO);
    assert_int_not_equal(access(dead, F_OK), 0);
    assert_int_not_equal(access(beside, F_OK), 0);
    assert_int_equal(unlink(other), 0); // removes the link
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file_join(other, mine, others[i], NULL), 0);
        assert_int_equal(unlink(other), 0);
    }
    token_remove(living, living_lock, &t);
    token_remove(next, next_lock, &t);
    assert_int_not_equal(access(living, F_OK), 0);
}

struct leaving {
    struct token t;
    char path[FILE_PATH_MAX];
    int lock, rc;
    atomic_bool done;
};

static void *leave(void *arg)
{
    struct leaving *l = arg;
    l->rc = token_leave(l->path, &l->lock, &l->t, "four", 10, NULL);
    atomic_store(&l->done, true);
    return NULL;
}

// Processes that connect need the token at once, because the scheduler listens already.
// So token_leave must not wait for the search for leftovers in other places.
static void test_does_not_wait_for_leftovers(void **state)
{
    struct leaving l = {.rc = -1};
    struct token found;
    pthread_t thread;
    char other[FILE_PATH_MAX];
    (void)state;
    unsetenv("XDG_RUNTIME_DIR");
    int rc = runtime_dir_make(other, NULL), lock = rc == 0 ? runtime_dir_lock(other) : -1;
    setenv("XDG_RUNTIME_DIR", dir, 1);
    if (lock < 0)
        skip_because("no other place for tokens, or a process holds it for long");
    assert_int_equal(token_make(&l.t, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, leave, &l), 0);
    bool too_late; // true: the token could not be found before token_leave returned,
                   // so token_leave waited for the lock of the leftovers first
    do {
        sched_yield();
        too_late = atomic_load(&l.done);
        rc = token_find(&found, "four", 10, NULL);
    } while (rc != 0 && !too_late);
    close(lock);
    pthread_join(thread, NULL);
    assert_int_equal(rc, 0);
    assert_false(too_late);
    assert_int_equal(l.rc, 0);
    token_remove(l.path, l.lock, &l.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_roles_derive_downwards),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_does_not_wait_for_leftovers),
    };
    return cmocka_run_group_tests(tests, begin, finish);
}
