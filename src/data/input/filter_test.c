// Data through shell commands. The reader gets the command's output, from plain and
// compressed files and from pipes, in chunks and in pieces, also from the middle. Every
// failure of a command is reported with the file's name.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/input/filter.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/source/piece.h"
#include "data/source/source.h"
#include "kit/compression.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/clock.h"

static int open_source(struct source **ret, const char *path, const char *command,
                       struct err *e)
{
    struct source_options o = {
        .paths = &path, .n_paths = 1, .command = command, .chunk_bytes = 100};
    return source_open(ret, &o, e);
}

// Reads all text after the source's current position.
static int read_all(struct source *s, struct buf *b, struct err *e)
{
    struct chunk *c;
    for (;;) {
        TRY(source_next(s, &c, e));
        if (c == NULL)
            return 0;
        assert_int_equal(buf_add(b, c->text, c->len), 0);
        source_release(s, c);
    }
}

static int read_through(const char *path, const char *command, struct buf *b,
                        struct err *e)
{
    struct source *s;
    buf_clear(b);
    TRY(open_source(&s, path, command, e));
    int rc = read_all(s, b, e);
    source_close(s);
    return rc;
}

static void lines(struct buf *b, unsigned n, const char *prefix)
{
    buf_clear(b);
    for (unsigned i = 0; i < n; i++)
        buf_printf(b, "%s%u\n", prefix, i);
}

static void assert_through(const char *path, const char *command, const struct buf *want)
{
    struct buf b = BUF_INIT(1 << 24);
    struct err e;
    if (read_through(path, command, &b, &e) != 0)
        fail_msg("'%s': %s", command, e.text);
    assert_int_equal(b.len, want->len);
    assert_memory_equal(b.data, want->data, want->len);
    buf_free(&b);
}

static void test_files(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 24), want = BUF_INIT(1 << 24);
    lines(&text, 50000, "a");
    lines(&want, 50000, "b");
    const char *path = files_write_bytes(files_in("plain"), text.data, text.len);
    assert_through(path, "tr a b", &want);
    // if the command's output is compressed, tug decompresses it
    assert_through(path, "tr a b | gzip -c", &want);
    lines(&want, 3, "a");
    assert_through(path, "head -n 3", &want); // the command need not read everything
    for (int how = 0; how < COMPRESSIONS; how++) {
        struct buf packed = BUF_INIT(1 << 24);
        compress_to(&packed, (enum compression)how, text.data, text.len);
        path = files_write_bytes(files_in("packed"), packed.data, packed.len);
        buf_free(&packed);
        lines(&want, 3, "a");
        assert_through(path, "head -n 3", &want);
        lines(&want, 50000, "b");
        assert_through(path, "tr a b", &want);
    }
    // Only the command, not tug, knows this compression.
    path = files_write_bytes(files_in("other.xz"),
                             "\xfd"
                             "7zXZ\0 is this",
                             14);
    lines(&want, 2, "c");
    assert_through(path, "echo c0; echo c1", &want);
    buf_free(&text);
    buf_free(&want);
}

static void *write_fifo(void *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a0\na1\n", 6), 6);
    close(fd);
    return NULL;
}

static void test_pipe(void **state)
{
    (void)state;
    const char *path = files_in("fifo");
    struct buf want = BUF_INIT(100);
    pthread_t writer;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_fifo, (void *)(uintptr_t)path),
                     0);
    lines(&want, 2, "b");
    assert_through(path, "tr a b", &want);
    pthread_join(writer, NULL);
    buf_free(&want);
}

// A source can begin its pass again from the start, or from the place of any chunk.
static void test_rewind(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20), all = BUF_INIT(1 << 20),
               rest = BUF_INIT(1 << 20);
    struct err e;
    struct source *s;
    struct chunk *c;
    lines(&text, 2000, "a");
    const char *path = files_write_bytes(files_in("again"), text.data, text.len);
    OK(open_source(&s, path, "tr a b", &e));
    OK(read_all(s, &all, &e));
    OK(source_rewind(s, SOURCE_START, &e));
    for (int i = 0; i < 20; i++) {
        OK(source_next(s, &c, &e));
        OK(buf_add(&rest, c->text, c->len));
        source_release(s, c);
    }
    struct source_place at = source_place(s);
    OK(source_rewind(s, at, &e));
    OK(read_all(s, &rest, &e));
    assert_int_equal(rest.len, all.len);
    assert_memory_equal(rest.data, all.data, all.len);
    source_close(s);
    buf_free(&text);
    buf_free(&all);
    buf_free(&rest);
}

static void test_pieces(void **state)
{
    (void)state;
    struct buf text = BUF_INIT(1 << 20), got = BUF_INIT(1 << 20);
    lines(&text, 3000, "a");
    const char *path = files_write_bytes(files_in("pieces"), text.data, text.len);
    struct pieces_options o = {
        .paths = &path, .n_paths = 1, .command = "tr a b", .piece_bytes = 1000};
    struct pieces *p;
    struct piece_text c = {0};
    struct err e;
    OK(pieces_open(&p, &o, &e));
    for (uint64_t i = 0; !c.at_end; i++) {
        OK(piece_read(p, 0, i, &c, &e));
        OK(buf_add(&got, c.text, c.len));
    }
    lines(&text, 3000, "b");
    assert_int_equal(got.len, text.len);
    assert_memory_equal(got.data, text.data, text.len);
    OK(piece_read(p, 0, 3, &c, &e)); // an earlier piece
    assert_true(c.len > 900 && c.text[0] == 'b');
    piece_free(&c);
    pieces_close(p);
    buf_free(&text);
    buf_free(&got);
}

static void test_failures(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"cat; echo first >&2; echo 'no such slot' >&2; exit 3",
         "ended with status 3: first no such slot"},
        {"exit 1", "'exit 1' ended with status 1"},
        {"head -n 1; kill -KILL $$", "was ended by signal 9 (Killed)"},
        {"no-such-command-at-all", "'no-such-command-at-all' ended with status 127"},
        {"true", "'true' wrote nothing"},
    };
    struct buf b = BUF_INIT(1 << 20);
    lines(&b, 3000, "a");
    const char *path = files_write_bytes(files_in("bad"), b.data, b.len);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e = {0};
        assert_int_equal(read_through(path, bad[i][0], &b, &e), TUG_EDATA);
        if (strncmp(e.text, path, strlen(path)) != 0 || strstr(e.text, bad[i][1]) == NULL)
            fail_msg("'%s' does not say '%s'", e.text, bad[i][1]);
    }
    // If both the compressed file and the command fail, the file's error is reported.
    path = files_write_bytes(files_in("cut.gz"), "\x1f\x8b\x08\0\0\0\0\0\0\3\x4b", 11);
    struct err e = {0};
    assert_int_equal(read_through(path, "cat; exit 2", &b, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "is truncated"));
    buf_free(&b);
}

// A reader that stops early does not wait for the command and leaves none running.
static void test_stop(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "head -c 300; sleep 1000",          // the command waits with its output open
        "head -c 300; sleep 1000 & wait",   // a process that the command started waits
        "head -c 300; exec sleep 1000 >&-", // the command has closed its output
        "head -c 300; trap '' TERM; yes a", // the command writes for ever
        "exec 0<&-; seq 1000; sleep 1000",  // the command has closed its input
    };
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    lines(&b, 40000, "a");
    compress_to(&packed, GZIP, b.data, b.len);
    const char *path[] = {files_write_bytes(files_in("stop"), b.data, b.len),
                          files_write_bytes(files_in("packed"), packed.data, packed.len)};
    for (size_t i = 0; i < 2 * sizeof commands / sizeof commands[0]; i++) {
        struct source *s;
        struct chunk *c;
        struct err e;
        double start = clock_seconds();
        OK(open_source(&s, path[i % 2], commands[i / 2], &e));
        if (i < 4) {
            (void)source_place(s); // starts the source's thread
        } else {
            OK(source_next(s, &c, &e));
            source_release(s, c);
        }
        source_close(s);
        assert_true(clock_seconds() - start < 60);
    }
    buf_free(&b);
    buf_free(&packed);
}

static atomic_bool interrupted;

static void *interrupt(void *ctx)
{
    (void)ctx;
    atomic_store(&interrupted, true);
    return NULL;
}

// Pieces are read in the caller's thread; the flag that a signal handler sets interrupts
// the reading.
static void test_interrupt(void **state)
{
    (void)state;
    const char *path = files_write(files_in("silent"), "a\n");
    struct pieces_options o = {.paths = &path,
                               .n_paths = 1,
                               .command = "sleep 1000",
                               .piece_bytes = 1000,
                               .interrupted = &interrupted};
    struct pieces *p;
    struct piece_text c = {0};
    struct err e;
    pthread_t thread;
    OK(pieces_open(&p, &o, &e));
    assert_int_equal(pthread_create(&thread, NULL, interrupt, NULL), 0);
    assert_int_equal(piece_read(p, 0, 0, &c, &e), TUG_EINTERRUPTED);
    pthread_join(thread, NULL);
    piece_free(&c);
    pieces_close(p);
}

static int read_small(const char *path)
{
    struct buf b = BUF_INIT(1 << 20);
    struct source *s;
    TRY(open_source(&s, path, "tr a b", &test_err));
    struct chunk *c;
    int rc = 0;
    do {
        rc = source_next(s, &c, &test_err);
        if (rc == 0 && c != NULL)
            source_release(s, c);
    } while (rc == 0 && c != NULL);
    source_close(s);
    buf_free(&b);
    return rc;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct buf packed = BUF_INIT(1 << 20);
    compress_to(&packed, GZIP, "a1\na2\n", 6);
    const char *path = files_write_bytes(files_in("small"), packed.data, packed.len);
    FAIL_EACH_ALLOCATION(read_small(path), );
    buf_free(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),     cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_rewind),    cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_failures),  cmocka_unit_test(test_stop),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
