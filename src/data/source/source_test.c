// Sources give the same text with every compression, chunk size and rewind. Every error
// of a path or a file is a sentence that names it.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/source.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/input/decode.h"
#include "kit/compression.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

static struct source *open_source(const char *path, size_t chunk_bytes, size_t max_line)
{
    struct source *s = NULL;
    struct err e;
    struct source_options o = {.paths = &path,
                               .n_paths = 1,
                               .chunk_bytes = chunk_bytes,
                               .max_line_bytes = max_line,
                               .queue_chunks = 3};
    if (source_open(&s, &o, &e) != 0)
        fail_msg("%s", e.text);
    return s;
}

// Makes lines of random lengths, some empty, some long; the last may lack its newline.
static void any_lines(struct buf *b, size_t bytes, bool newline_at_end)
{
    char line[1000];
    buf_clear(b);
    while (b->len < bytes) {
        size_t n = any_in_100(80) ? any(60) : any(5) * any(200);
        memset(line, (int)('a' + any(26)), n);
        for (size_t i = any(10); i < n; i += 1 + any(10))
            line[i] = (char)('a' + any(26));
        buf_add(b, line, n);
        buf_printf(b, any_in_100(10) ? "\r\n" : "\n");
    }
    if (!newline_at_end)
        buf_printf(b, "end");
}

// Takes all chunks from the source's current place on, checks what source.h promises about
// each chunk, and appends its text to *b.
static int read_rest(struct source *s, struct buf *b, struct source_place at,
                     struct err *e)
{
    for (;;) {
        struct chunk *c;
        TRY(source_next(s, &c, e));
        if (c == NULL)
            return 0;
        if (c->file != at.file)
            at = (struct source_place){
                .number = at.number, .file = at.file + 1, .line = 1};
        assert_true(c->len > 0);
        assert_int_equal(c->number, at.number);
        assert_int_equal(c->file, at.file);
        assert_int_equal(c->line, at.line);
        assert_int_equal(c->offset, at.offset);
        bool whole = c->text[c->len - 1] == '\n';
        if (!whole)
            for (int i = 0; i < READER_PADDING; i++)
                assert_int_equal(c->text[c->len + i], 0);
        for (size_t i = 0; i < c->len; i++)
            at.line += c->text[i] == '\n';
        at.number++;
        at.offset += c->len;
        assert_int_equal(buf_add(b, c->text, c->len), 0);
        source_release(s, c);
    }
}

static int read_text(const char *path, size_t chunk_bytes, struct buf *b, struct err *e)
{
    struct source *s = open_source(path, chunk_bytes, 0);
    buf_clear(b);
    int rc = read_rest(s, b, SOURCE_START, e);
    source_close(s);
    return rc;
}

static void assert_text(const char *path, size_t chunk_bytes, const struct buf *want)
{
    struct buf b = BUF_INIT(64 << 20);
    struct err e;
    if (read_text(path, chunk_bytes, &b, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(b.len, want->len);
    assert_memory_equal(b.data, want->data, b.len);
    buf_free(&b);
}

// ---------------------------------------------------------------- text

static void test_every_chunk_size(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    for (int end = 0; end < 2; end++) {
        any_lines(&b, 300, end);
        const char *path = files_write_bytes(files_in("text"), b.data, b.len);
        for (size_t bytes = 1; bytes <= b.len + 2; bytes++)
            assert_text(path, bytes, &b);
    }
    buf_free(&b);
}

static void test_every_compression(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(8 << 20), packed = BUF_INIT(8 << 20);
    any_lines(&b, 600000, false);
    for (int how = 0; how < COMPRESSIONS; how++) {
        buf_clear(&packed);
        compress_to(&packed, (enum compression)how, b.data, b.len);
        assert_text(files_write_bytes(files_in("one"), packed.data, packed.len), 0, &b);
        assert_text(files_in("one"), 5000, &b);
        buf_clear(&packed);
        size_t third = b.len / 3;
        compress_to(&packed, (enum compression)how, b.data, third);
        compress_to(&packed, (enum compression)how, NULL, 0);
        compress_to(&packed, (enum compression)how, b.data + third, third);
        compress_to(&packed, (enum compression)how, b.data + 2 * third,
                    b.len - 2 * third);
        assert_text(files_write_bytes(files_in("many"), packed.data, packed.len), 70000,
                    &b);
    }
    buf_free(&packed);
    buf_free(&b);
}

// A file that begins with a skippable frame has the compression of the frame after it; the
// skippable frame is skipped.
static void test_skippable_frames(void **state)
{
    (void)state;
    static const char skippable[] = "\x50\x2a\x4d\x18\x03\0\0\0abc";
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_lines(&b, 5000, true);
    for (int how = ZSTD; how <= LZ4; how++) {
        buf_clear(&packed);
        buf_add(&packed, skippable, sizeof skippable - 1);
        compress_to(&packed, (enum compression)how, b.data, b.len);
        buf_add(&packed, skippable, sizeof skippable - 1);
        assert_text(files_write_bytes(files_in("skippable"), packed.data, packed.len), 0,
                    &b);
    }
    buf_free(&packed);
    buf_free(&b);
}

static void test_long_line(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(32 << 20);
    any_lines(&b, 30000, true);
    size_t begin = b.len;
    assert_int_equal(buf_reserve(&b, 10 << 20), 0);
    memset(b.data + b.len, 'x', 10 << 20);
    b.len += 10 << 20;
    buf_printf(&b, "\n");
    size_t lines = begin + (10 << 20) + 1;
    for (int i = 0; i < 1000; i++)
        buf_printf(&b, "line %d\n", i);
    const char *path = files_write_bytes(files_in("long"), b.data, b.len);
    assert_text(path, 10000, &b);
    assert_text(path, 0, &b);

    struct source *s = open_source(path, 10000, 1 << 20);
    struct buf seen = BUF_INIT(32 << 20);
    struct err e;
    assert_int_equal(read_rest(s, &seen, SOURCE_START, &e), TUG_EDATA);
    uint64_t line = 1;
    for (size_t i = 0; i < begin; i++)
        line += b.data[i] == '\n';
    char want[200];
    snprintf(want, sizeof want,
             "%s:%llu: the line is longer than the limit of 1048576 bytes", path,
             (unsigned long long)line);
    assert_string_equal(e.text, want);
    assert_true(seen.len <= begin && lines > begin);
    source_close(s);
    buf_free(&seen);
    buf_free(&b);
}

// The limit on the length of lines is exact to the byte, whatever the size of chunks.
static void test_line_limit(void **state)
{
    (void)state;
    static const char *const texts[] = {"aaaa\nbbbbb\ncc\n", "aa\nbbbbb", "bbbbb\n",
                                        "bbbbb"};
    for (size_t i = 0; i < 4; i++) {
        const char *path = files_write(files_in("limit"), texts[i]);
        for (size_t chunk = 1; chunk < 16; chunk += 2)
            for (size_t max = 4; max <= 6; max++) {
                struct source *s = open_source(path, chunk, max);
                struct buf b = BUF_INIT(100);
                struct err e;
                assert_int_equal(read_rest(s, &b, SOURCE_START, &e),
                                 max >= 5 ? 0 : TUG_EDATA);
                buf_free(&b);
                source_close(s);
            }
    }
}

// ---------------------------------------------------------------- rewind

static void rewind_everywhere(const char *path, const struct buf *text)
{
    struct source *s = open_source(path, 300, 0);
    struct source_place places[500];
    size_t n = 0, done = 0, ends[500];
    struct err e;
    assert_true(source_can_rewind(s));
    for (struct chunk *c;; n++) {
        places[n] = source_place(s);
        ends[n] = done;
        assert_int_equal(source_next(s, &c, &e), 0);
        if (c == NULL)
            break;
        assert_int_equal(c->offset, places[n].offset);
        done += c->len;
        source_release(s, c);
    }
    assert_int_equal(places[n].file, source_files(s));
    for (size_t round = 0; round < 25; round++) {
        size_t i = any(n + 1);
        struct buf b = BUF_INIT(1 << 20);
        assert_int_equal(source_rewind(s, places[i], &e), 0);
        if (read_rest(s, &b, places[i], &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(b.len, text->len - ends[i]);
        if (b.len > 0)
            assert_memory_equal(b.data, text->data + ends[i], b.len);
        buf_free(&b);
    }
    source_close(s);
}

static void test_rewind(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_lines(&b, 20000, false);
    rewind_everywhere(files_write_bytes(files_in("plain"), b.data, b.len), &b);
    for (int how = 0; how < COMPRESSIONS; how++) {
        buf_clear(&packed);
        compress_to(&packed, (enum compression)how, b.data, b.len);
        rewind_everywhere(files_write_bytes(files_in("packed"), packed.data, packed.len),
                          &b);
    }
    buf_free(&packed);
    buf_free(&b);
}

static void test_rewind_refused(void **state)
{
    (void)state;
    struct source *s = open_source(files_write(files_in("short"), "abc\ndef\n"), 0, 0);
    static const struct {
        struct source_place at;
        const char *reason;
    } bad[] = {{{.line = 5, .offset = 100}, "it changed"},
               {{.line = 1, .offset = 2}, "it changed"}};
    for (size_t i = 0; i < 2; i++) {
        struct err e = {0};
        struct chunk *c;
        assert_int_equal(source_rewind(s, bad[i].at, &e), 0);
        assert_int_equal(source_next(s, &c, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, bad[i].reason));
        assert_non_null(strstr(e.text, files_in("short")));
    }
    assert_int_equal(source_rewind(s, (struct source_place){.file = 2}, NULL), TUG_EDATA);
    source_close(s);
}

// Closes and rewinds a source while its queue is full, so that its thread waits. Nothing
// may leak.
static void test_stop_in_the_middle(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    any_lines(&b, 50000, true);
    const char *path = files_write_bytes(files_in("middle"), b.data, b.len);
    size_t live = mem_live();
    for (int round = 0; round < 50; round++) {
        struct source *s = open_source(path, 100, 0);
        for (uint64_t n = any(8); n > 0; n--) {
            struct chunk *c;
            assert_int_equal(source_next(s, &c, NULL), 0);
            source_release(s, c);
        }
        if (any_in_100(50)) {
            struct chunk *c;
            assert_int_equal(source_rewind(s, SOURCE_START, NULL), 0);
            assert_int_equal(source_next(s, &c, NULL), 0);
            assert_int_equal(c->number, 0);
            source_release(s, c);
        }
        source_close(s);
        assert_int_equal(mem_live(), live);
    }
    buf_free(&b);
}

// The number of buffers does not depend on the length of the text: only the queue, the
// thread and the consumer have buffers.
static void test_back_pressure(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20);
    any_lines(&b, 200000, true);
    size_t live = mem_live();
    struct source *s = open_source(files_write_bytes(files_in("pressure"), b.data, b.len),
                                   100, 0);
    struct chunk *c;
    while (assert_int_equal(source_next(s, &c, NULL), 0), c != NULL) {
        assert_true(mem_live() - live < 30);
        source_release(s, c);
    }
    source_close(s);
    buf_free(&b);
}

// ---------------------------------------------------------------- damage

// Checks that reading the damaged *b ends with an error that names the file, but not
// before the chunk with the damage.
static void assert_damaged(const char *name, const struct buf *b, const char *reason)
{
    struct buf text = BUF_INIT(8 << 20);
    struct err e = {0};
    const char *path = files_write_bytes(files_in("%s", name), b->data, b->len);
    int rc = read_text(path, 1000, &text, &e);
    if (rc != TUG_EDATA || strstr(e.text, path) == NULL || strstr(e.text, reason) == NULL)
        fail_msg("%s: %d '%s' does not say '%s'", path, rc, e.text, reason);
    buf_free(&text);
}

static void test_truncated(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_lines(&b, 30000, true);
    for (int how = 0; how < COMPRESSIONS; how++) {
        buf_clear(&packed);
        compress_to(&packed, (enum compression)how, b.data, b.len / 2);
        size_t first = packed.len;
        compress_to(&packed, (enum compression)how, b.data, b.len / 2);
        size_t whole = packed.len;
        for (size_t cut = 2; cut < whole; cut += cut < 30 || whole - cut < 30 ? 1 : 307) {
            packed.len = cut;
            if (cut != first)
                assert_damaged("cut", &packed, "is truncated");
        }
    }
    buf_free(&packed);
    buf_free(&b);
}

static void test_trailing_garbage(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_lines(&b, 3000, true);
    for (int how = 0; how < COMPRESSIONS; how++) {
        static const char *const tails[] = {"x", "garbage behind the end", "1 2:3\n"};
        for (size_t i = 0; i < 3; i++) {
            buf_clear(&packed);
            compress_to(&packed, (enum compression)how, b.data, b.len);
            buf_printf(&packed, "%s", tails[i]);
            assert_damaged("tail", &packed, " is ");
        }
    }
    buf_free(&packed);
    buf_free(&b);
}

// A flipped bit is detected, unless it is in a part of a header that does not affect the
// text.
static void test_flipped_bits(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20),
               text = BUF_INIT(1 << 20);
    any_lines(&b, 3000, true);
    for (int how = 0; how < COMPRESSIONS; how++) {
        buf_clear(&packed);
        compress_to(&packed, (enum compression)how, b.data, b.len);
        for (size_t at = 4; at < packed.len; at += 1 + any(20)) {
            char flip = (char)(1 << any(8));
            packed.data[at] = (char)(packed.data[at] ^ flip);
            struct err e = {0};
            int rc = read_text(
                files_write_bytes(files_in("flipped"), packed.data, packed.len), 0, &text,
                &e);
            bool same = rc == 0 && text.len == b.len &&
                        memcmp(text.data, b.data, b.len) == 0;
            if (!same && (rc != TUG_EDATA || strstr(e.text, "flipped") == NULL))
                fail_msg("byte %zu: %d %s", at, rc, e.text);
            packed.data[at] = (char)(packed.data[at] ^ flip);
        }
    }
    buf_free(&text);
    buf_free(&packed);
    buf_free(&b);
}

// ---------------------------------------------------------------- paths

static void assert_not_opened(const char *path, int code, const char *reason)
{
    struct source *s = NULL;
    struct err e = {0};
    struct source_options o = {.paths = &path, .n_paths = 1};
    assert_int_equal(source_open(&s, &o, &e), code);
    assert_null(s);
    if (strstr(e.text, reason) == NULL || strstr(e.text, path) == NULL)
        fail_msg("'%s' does not say '%s' of '%s'", e.text, reason, path);
}

static void test_bad_paths(void **state)
{
    (void)state;
    files_write(files_in("nothing"), "");
    assert_int_equal(mkdir(files_in("bare"), 0755), 0);
    assert_int_equal(mkdir(files_in("bare/.hidden-dir"), 0755), 0);
    files_write(files_in("bare/.hidden"), "1\n");
    files_write(files_in("bare/_SUCCESS"), "");
    assert_not_opened(files_in("missing"), TUG_EDATA, "there is no such file");
    assert_not_opened(files_in("nothing/below"), TUG_EDATA, "there is no such file");
    assert_not_opened(files_in("nothing"), TUG_EDATA, "is empty");
    assert_not_opened(files_in("bare"), TUG_EDATA, "no plain files");
    assert_not_opened(files_in("none*"), TUG_EDATA, "matches nothing");
    assert_not_opened("/dev/null", TUG_EDATA, "is neither a file nor a pipe");
    assert_not_opened("", TUG_EUSAGE, "empty");
    struct source *s = NULL;
    static const char *const twice[] = {"-", "-"};
    struct source_options o = {.paths = twice, .n_paths = 2};
    assert_int_equal(source_open(&s, &o, NULL), TUG_EUSAGE);
    static const char *const missing[] = {"nix", "nix2"};
    struct err e = {0};
    o.paths = missing;
    assert_int_equal(source_open(&s, &o, &e), TUG_EDATA);
    assert_string_equal(e.text,
                        "2 problems: (1) no data at 'nix': there is no such file "
                        "or directory (2) no data at 'nix2': there is no such file "
                        "or directory");
    o.n_paths = 0;
    assert_int_equal(source_open(&s, &o, NULL), TUG_EUSAGE);
}

static void test_unreadable(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    const char *path = files_write(files_in("locked"), "1\n");
    assert_int_equal(chmod(path, 0), 0);
    bool root = geteuid() == 0; // root can read everything
    assert_int_equal(chmod(files_dir, 0711), 0);
    if (root && seteuid(NOBODY) != 0)
        skip_because("root cannot become another user here");
    assert_not_opened(path, TUG_EIO, "Permission denied");
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(files_dir, 0700), 0);
}

// A compressed file without text counts as empty, which only reading it shows.
static void test_empty_inside(void **state)
{
    (void)state;
    for (int how = 0; how < COMPRESSIONS; how++) {
        struct buf packed = BUF_INIT(1 << 16);
        compress_to(&packed, (enum compression)how, NULL, 0);
        assert_not_opened(
            files_write_bytes(files_in("empty-inside"), packed.data, packed.len),
            TUG_EDATA, "is empty");
        buf_free(&packed);
    }
}

static void assert_files(const char *const *paths, size_t n_paths, const char *want)
{
    struct source *s = NULL;
    struct err e;
    struct source_options o = {.paths = paths, .n_paths = n_paths};
    if (source_open(&s, &o, &e) != 0)
        fail_msg("%s", e.text);
    struct buf names = BUF_INIT(1 << 16);
    for (uint32_t i = 0; i < source_files(s); i++)
        buf_printf(&names, "%s ", source_file_name(s, i) + strlen(files_dir) + 1);
    assert_string_equal(buf_str(&names), want);
    assert_int_equal(source_text_bytes(s), 2 * source_files(s));
    buf_free(&names);
    source_close(s);
}

static void test_many_files(void **state)
{
    (void)state;
    static const char *const names[] = {
        "d/b",          "d/a", "d/c.txt", "d/.x", "d/_y", "d/sub/z", "d/sub/deep/.er/n",
        "d/sub/deep/m", "q[1]"};
    static const char *const dirs[] = {"d", "d/sub", "d/sub/deep", "d/sub/deep/.er"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        assert_int_equal(mkdir(files_in("%s", dirs[i]), 0755), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        files_write(files_in("%s", names[i]), "x\n");
    const char *paths[4] = {files_in("d/")};
    assert_files(paths, 1, "d/a d/b d/c.txt d/sub/deep/m d/sub/z ");
    paths[0] = files_in("d/[ab]");
    assert_files(paths, 1, "d/a d/b ");
    paths[0] = files_in("d/*");
    paths[1] = files_in("d/a");
    paths[2] = files_in("q[1]");
    // "d/_y" matches a pattern, so it is read although files like it are hidden in a
    // directory.
    assert_files(paths, 3, "d/_y d/a d/b d/c.txt d/sub/deep/m d/sub/z d/a q[1] ");
    assert_int_equal(symlink("nowhere", files_in("d/sub/gone")), 0);
    assert_not_opened(files_in("d"), TUG_EDATA,
                      "d/sub/gone' is a link to a missing file");
    assert_int_equal(unlink(files_in("d/sub/gone")), 0);
    assert_int_equal(symlink("../../d", files_in("d/sub/back")), 0);
    assert_not_opened(files_in("d"), TUG_EDATA, "is a link back to a directory");
}

// Tables of Hive and Spark have a directory for each value of a column. The directories
// are read in the order of their names; uncommitted files and markers are skipped.
static void test_partitions(void **state)
{
    (void)state;
    static const char *const dirs[] = {"t", "t/day=2024-01-02", "t/day=2024-01-01",
                                       "t/_temporary", "t/day=2024-01-01/hour=7"};
    static const char *const names[] = {"t/_SUCCESS",
                                        "t/_temporary/part-0",
                                        "t/day=2024-01-02/part-0",
                                        "t/day=2024-01-02/.part-0.crc",
                                        "t/day=2024-01-02/_SUCCESS",
                                        "t/day=2024-01-01/hour=7/part-1",
                                        "t/day=2024-01-01/hour=7/part-0"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        assert_int_equal(mkdir(files_in("%s", dirs[i]), 0755), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        files_write(files_in("%s", names[i]), "x\n");
    const char *path = files_in("t");
    assert_files(&path, 1,
                 "t/day=2024-01-01/hour=7/part-0 t/day=2024-01-01/hour=7/part-1 "
                 "t/day=2024-01-02/part-0 ");
    path = files_in("t/day=2024-01-0[2-9]");
    assert_files(&path, 1, "t/day=2024-01-02/part-0 ");
}

// For common kinds of files that are not text, source_open fails with an error that names
// the kind.
static void test_foreign_files(void **state)
{
    (void)state;
    static const struct {
        char bytes[16];
        size_t n;
        const char *what;
    } files[] = {
        {"PAR1\x15\x04\x15\x10", 8, "a Parquet file"},
        {"BZh91AY&SY\x01\x02", 12, "compressed with bzip2"},
        {"\xfd"
         "7zXZ\0\0\4",
         8, "compressed with xz"},
        {"PK\x03\x04\x14", 5, "a zip archive"},
        {"TUGROWS\x01", 8, "a part of a saved model or table"},
        {"ORC\x08\x03", 5, "an ORC file"},
        {"Obj\x01\x04", 5, "an Avro file"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        const char *path = files_write_bytes(files_in("foreign"), files[i].bytes,
                                             files[i].n);
        assert_not_opened(path, TUG_EDATA, files[i].what);
        struct decoder *d = NULL;
        int fd = open(path, O_RDONLY);
        assert_int_equal(decoder_open(&d, fd, path, -1, NULL), TUG_EDATA);
    }
    static const char *const texts[] = {"PAR1,b\n1,2\n", "ORC\tb\n1\t2\n",
                                        "BZh9\n1 2:1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf b = BUF_INIT(100);
        buf_printf(&b, "%s", texts[i]);
        assert_text(files_write(files_in("letters"), texts[i]), 0, &b);
        buf_free(&b);
    }
}

static void test_first_line(void **state)
{
    (void)state;
    struct source *s = open_source(files_write(files_in("header"), "a,b,c\n1,2,3\n"), 0,
                                   0);
    struct buf b = BUF_INIT(1000);
    assert_int_equal(source_first_line(s, 0, &b, NULL), 0);
    assert_string_equal(buf_str(&b), "a,b,c");
    source_close(s);
    buf_free(&b);
}

// ---------------------------------------------------------------- standard input

// Makes `bytes` the standard input, through a pipe; returns the descriptor that restores
// it.
static int feed_stdin(const void *bytes, size_t n, bool close_it, int *ret_write_end)
{
    int fds[2], old = dup(STDIN_FILENO);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], bytes, n), (ssize_t)n);
    assert_int_equal(dup2(fds[0], STDIN_FILENO), STDIN_FILENO);
    close(fds[0]);
    *ret_write_end = fds[1];
    if (close_it)
        close(fds[1]);
    return old;
}

static void restore_stdin(int old)
{
    if (old >= 0) {
        dup2(old, STDIN_FILENO);
        close(old);
    } else {
        close(STDIN_FILENO);
    }
}

static void test_stdin(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20), line = BUF_INIT(100);
    buf_printf(&b, "first\nsecond\nthird");
    compress_to(&packed, ZSTD, b.data, b.len);
    int write_end, old = feed_stdin(packed.data, packed.len, true, &write_end);
    struct source *s = open_source("-", 8, 0);
    assert_string_equal(source_file_name(s, 0), "(standard input)");
    assert_false(source_can_rewind(s));
    assert_int_equal(source_text_bytes(s), 0);
    assert_int_equal(source_first_line(s, 0, &line, NULL), 0);
    assert_string_equal(buf_str(&line), "first");
    struct buf seen = BUF_INIT(1 << 20);
    assert_int_equal(read_rest(s, &seen, SOURCE_START, NULL), 0);
    assert_string_equal(buf_str(&seen), buf_str(&b));
    assert_int_equal(source_first_line(s, 0, &line, NULL), TUG_EUSAGE);
    assert_int_equal(source_rewind(s, SOURCE_START, NULL), TUG_EUSAGE);
    source_close(s);
    restore_stdin(old);
    buf_free(&line);
    buf_free(&seen);
    buf_free(&packed);
    buf_free(&b);
}

struct feeding {
    char path[128];
    const struct buf *text;
};

static void *feed_all(void *arg)
{
    const struct feeding *f = arg;
    files_write_bytes(f->path, f->text->data, f->text->len);
    return NULL;
}

// Returns the length of the first `lines` lines, or of as many as fit into `most` bytes.
static size_t lines_within(const struct buf *b, size_t lines, size_t most)
{
    size_t end = 0, seen = 0;
    if (most > b->len)
        most = b->len + 1;
    for (size_t i = 0; i < most && i < b->len && seen < lines; i++)
        if (b->data[i] == '\n') {
            end = i;
            seen++;
        }
    return seen < lines && most > b->len ? b->len : end;
}

// The first lines of a pipe can be read even if they fill more chunks than the queue may
// hold, and are then returned as data. A file with the same text has the same first lines.
static void test_first_lines(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), seen = BUF_INIT(1 << 20), rest = BUF_INIT(1 << 20);
    any_lines(&b, 60000, false);
    struct feeding plain = {.text = &b}, fifo = {.text = &b};
    snprintf(plain.path, sizeof plain.path, "%s", files_in("plain"));
    snprintf(fifo.path, sizeof fifo.path, "%s", files_in("looked-at"));
    feed_all(&plain);
    assert_int_equal(mkfifo(fifo.path, 0644), 0);
    static const size_t wanted[][2] = {
        {1, 50000}, {2, 50000}, {300, 1 << 20}, {1 << 20, 20000}, {1 << 20, 1 << 20}};
    for (size_t i = 0; i < 2 * sizeof wanted / sizeof *wanted; i++) {
        size_t lines = wanted[i / 2][0], most = wanted[i / 2][1];
        bool pipe = i % 2 == 1;
        struct source *s = open_source(pipe ? fifo.path : plain.path, 100, 0);
        pthread_t writer;
        if (pipe)
            assert_int_equal(pthread_create(&writer, NULL, feed_all, &fifo), 0);
        buf_clear(&seen);
        buf_clear(&rest);
        for (int again = 0; again < 2; again++) {
            buf_clear(&seen);
            assert_int_equal(source_first_lines(s, 0, lines, most, &seen, NULL), 0);
            assert_int_equal(seen.len, lines_within(&b, lines, most));
            assert_memory_equal(seen.data, b.data, seen.len);
        }
        assert_int_equal(read_rest(s, &rest, SOURCE_START, NULL), 0);
        assert_int_equal(rest.len, b.len);
        assert_memory_equal(rest.data, b.data, b.len);
        if (pipe)
            pthread_join(writer, NULL);
        source_close(s);
    }
    struct err e;
    struct source *s = open_source(plain.path, 100, 0);
    buf_clear(&seen);
    assert_int_equal(source_first_lines(s, 0, 5, 1, &seen, &e),
                     b.data[0] == '\n' ? 0 : TUG_EDATA);
    source_close(s);
    buf_free(&b);
    buf_free(&seen);
    buf_free(&rest);
}

static void *write_to_pipe(void *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("first\nsecond\n", f) >= 0);
    fclose(f);
    return NULL;
}

// A named pipe and a shell's <(command) can be read only once, like standard input.
static void test_pipes(void **state)
{
    (void)state;
    char name[128], fd_name[32];
    snprintf(name, sizeof name, "%s", files_in("fifo"));
    assert_int_equal(mkfifo(name, 0644), 0);
    struct source *s = open_source(name, 0, 0);
    assert_false(source_can_rewind(s));
    assert_int_equal(source_text_bytes(s), 0);
    source_close(s); // works although no process has written to the pipe
    s = open_source(name, 0, 0);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_to_pipe, name), 0);
    struct buf seen = BUF_INIT(1000), line = BUF_INIT(100);
    assert_int_equal(source_first_line(s, 0, &line, NULL), 0);
    assert_string_equal(buf_str(&line), "first");
    assert_int_equal(read_rest(s, &seen, SOURCE_START, NULL), 0);
    assert_string_equal(buf_str(&seen), "first\nsecond\n");
    assert_int_equal(source_rewind(s, SOURCE_START, NULL), TUG_EUSAGE);
    pthread_join(writer, NULL);
    source_close(s);

    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "a\nb\n", 4), 4);
    close(fds[1]);
    snprintf(fd_name, sizeof fd_name, "/dev/fd/%d", fds[0]);
    buf_clear(&seen);
    s = open_source(fd_name, 0, 0);
    assert_int_equal(read_rest(s, &seen, SOURCE_START, NULL), 0);
    assert_string_equal(buf_str(&seen), "a\nb\n");
    source_close(s);
    close(fds[0]);
    buf_free(&seen);
    buf_free(&line);
}

// Closing the source must not wait while no process writes to the named pipe.
static void test_pipe_stop(void **state)
{
    (void)state;
    const char *name = files_in("silent");
    assert_int_equal(mkfifo(name, 0644), 0);
    atomic_bool stop = true;
    struct source_options o = {.paths = &name, .n_paths = 1, .interrupted = &stop};
    struct source *s = NULL;
    struct chunk *c;
    assert_int_equal(source_open(&s, &o, NULL), 0);
    assert_int_equal(source_next(s, &c, NULL), TUG_EINTERRUPTED);
    source_close(s);
}

// With a grace, an interrupted source goes on as long as data comes. When none has come for
// that time, it fails.
static void test_grace(void **state)
{
    (void)state;
    int write_end, old = feed_stdin("1\n2\n", 4, false, &write_end);
    atomic_bool stop = true;
    const char *name = "-";
    struct source_options o = {.paths = &name,
                               .n_paths = 1,
                               .chunk_bytes = 2,
                               .interrupted = &stop,
                               .grace_seconds = 0.3};
    struct source *s = NULL;
    struct chunk *c;
    struct err e;
    assert_int_equal(source_open(&s, &o, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(source_next(s, &c, &e), 0);
        source_release(s, c);
    }
    assert_int_equal(source_next(s, &c, &e), TUG_EIO);
    assert_string_equal(e.text, "(standard input): no more data came within 0.3 s after "
                                "the interrupt");
    source_close(s);
    close(write_end);
    restore_stdin(old);
}

// Closing the source must not wait while no process writes to standard input.
static void test_stdin_stop(void **state)
{
    (void)state;
    int write_end, old = feed_stdin("1\n2\n", 4, false, &write_end);
    struct source *s = open_source("-", 2, 0);
    struct chunk *c;
    assert_int_equal(source_next(s, &c, NULL), 0);
    source_release(s, c);
    source_close(s);
    close(write_end);
    restore_stdin(old);
}

static void test_stdin_empty(void **state)
{
    (void)state;
    int write_end, old = feed_stdin("", 0, true, &write_end);
    struct source *s = open_source("-", 0, 0);
    struct chunk *c;
    struct err e;
    assert_int_equal(source_next(s, &c, &e), TUG_EDATA);
    assert_string_equal(e.text, "(standard input) is empty");
    assert_int_equal(source_next(s, &c, &e), TUG_EDATA);
    source_close(s);
    restore_stdin(old);
}

// ---------------------------------------------------------------- memory

static int read_all(const char *const *paths, struct err *e)
{
    struct source *s = NULL;
    struct source_options o = {.paths = paths, .n_paths = 2, .chunk_bytes = 50};
    TRY(source_open(&s, &o, e));
    int rc;
    struct chunk *c = NULL;
    do {
        rc = source_next(s, &c, e);
        if (rc == 0 && c != NULL)
            source_release(s, c);
    } while (rc == 0 && c != NULL);
    source_close(s);
    return rc;
}

static void test_allocation_failures(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 20), packed = BUF_INIT(1 << 20);
    any_lines(&b, 400, true);
    compress_to(&packed, GZIP, b.data, b.len);
    const char *paths[] = {files_write_bytes(files_in("m.gz"), packed.data, packed.len),
                           files_write_bytes(files_in("m"), b.data, b.len)};
    buf_free(&b);
    buf_free(&packed);
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct err e = {0};
        mem_fault_after(n);
        int rc = read_all(paths, &e);
        done = !mem_faulted();
        mem_fault_after(-1);
        if (rc != (done ? 0 : TUG_ENOMEM))
            fail_msg("allocation %ld: %d %s", n, rc, e.text);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunk_size),
        cmocka_unit_test(test_every_compression),
        cmocka_unit_test(test_skippable_frames),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_line_limit),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_rewind_refused),
        cmocka_unit_test(test_stop_in_the_middle),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_trailing_garbage),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_bad_paths),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_empty_inside),
        cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_first_line),
        cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_stdin_stop),
        cmocka_unit_test(test_first_lines),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_pipe_stop),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_stdin_empty),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
