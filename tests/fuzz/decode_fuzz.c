// Fuzzes decompression and the division into chunks: the input is a file. Chunks must be
// whole lines, one after the other, and be the same when reading begins anew at the
// second chunk.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/source/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_TEXT = 4 << 20 }; // a small input can decompress to a huge text

static void require(bool ok)
{
    if (!ok)
        abort();
}

// Returns the hash sum of the text from this place on, or the negative error.
static int64_t read_from(struct source *s, struct source_place at,
                         struct source_place *ret_second)
{
    struct chunk *c;
    struct err e = {0};
    int64_t sum = 0;
    uint64_t bytes = 0;
    require(source_rewind(s, at, &e) == 0);
    while (bytes < MAX_TEXT) {
        int rc = source_next(s, &c, &e);
        require(rc == 0 || rc == TUG_EDATA);
        if (rc != 0)
            require(e.text[0] != '\0');
        if (rc != 0 || c == NULL)
            return rc != 0 ? rc : sum;
        require(c->number == at.number && c->offset == at.offset && c->line == at.line);
        require(c->len > 0);
        for (size_t i = 0; i < c->len; i++) {
            sum += (unsigned char)c->text[i];
            at.line += c->text[i] == '\n';
        }
        at.number++;
        at.offset += c->len;
        bytes += c->len;
        if (c->number == 0 && ret_second != NULL && c->text[c->len - 1] == '\n')
            *ret_second = at;
        source_release(s, c);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    char name[64];
    const char *path = name;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    struct source *s = NULL;
    struct source_options o = {
        .paths = &path, .n_paths = 1, .chunk_bytes = 100, .max_line_bytes = 10000};
    struct err e = {0};
    int rc = source_open(&s, &o, &e);
    // Files that can never be text (empty, UTF-16, other kinds of files) are refused by
    // source_open.
    require(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    if (rc == 0) {
        struct source_place second = SOURCE_START;
        int64_t whole = read_from(s, SOURCE_START, &second);
        int64_t rest = read_from(s, second, NULL);
        require((whole < 0) == (rest < 0));
        source_close(s);
    }
    close(fd);
    return 0;
}
