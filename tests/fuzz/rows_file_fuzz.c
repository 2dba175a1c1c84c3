// Any bytes as a file of rows are refused with the file's name, or read; a second reading
// gives the same. The input is then read again with all checksums corrected, as a forger
// would do it.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/file.h"
#include "save/rows_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static int hash_block(void *ctx, const struct rows_block *b, struct err *e)
{
    (void)e;
    uint64_t *hash = ctx;
    size_t bytes = b->kind == ROWS_PARTITION ? b->n : b->n * rows_row_bytes(b->width);
    require((uintptr_t)b->payload % ROWS_ALIGN == 0 && b->n > 0);
    *hash = hash_bytes(b->payload, bytes, *hash + b->partition + b->kind);
    return 0;
}

static int read_all(const char *path, const struct rows_info *expect,
                    struct rows_info *ret, uint64_t *hash, struct err *e)
{
    struct rows_reader *r;
    TRY(rows_open(&r, FILE_ANYWHERE, path, expect, e));
    *ret = rows_info(r);
    int rc = rows_each(r, ROWS_ALL, hash_block, hash, e);
    uint64_t parts = 0;
    for (uint32_t p = 0; p >> rows_shape(r)->partition_bits == 0 && rc == 0; p++)
        rc = rows_each(r, p, hash_block, &parts, e);
    require(rc != 0 || parts == *hash);
    rows_close(r);
    return rc;
}

static void read_file(const uint8_t *data, size_t size)
{
    int fd = memfd_create("rows", MFD_CLOEXEC);
    if (fd < 0)
        return;
    require(write(fd, data, size) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    uint64_t first = 0, again = 0;
    struct rows_info info;
    struct err e = {0};
    int rc = read_all(path, NULL, &info, &first, &e);
    require(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    if (rc == 0)
        require(read_all(path, &info, &info, &again, &e) == 0 && first == again);
    close(fd);
}

// Corrects the checksums of a partition's blocks from `at` on, and the blocks' entries in
// the directory.
static void seal_partition(uint8_t *bytes, uint64_t end, struct rows_entry *x)
{
    uint64_t at = x->at;
    x->checksum = 0;
    for (uint32_t i = 0; i < x->blocks; i++) {
        struct rows_block_header h;
        if (at > end || end - at < sizeof(h))
            return;
        memcpy(&h, bytes + at, sizeof(h));
        if (h.stored > end - at - sizeof(h))
            return;
        h.checksum = rows_block_checksum(&h, bytes + at + sizeof(h));
        memcpy(bytes + at, &h, sizeof(h));
        x->checksum = rows_add_checksum(x->checksum, h.checksum);
        at += sizeof(h) + rows_padded(h.stored);
    }
}

static void forge(const uint8_t *data, size_t size)
{
    struct rows_header h;
    struct rows_trailer t;
    if (size < sizeof(h) + sizeof(t))
        return;
    uint8_t *bytes = mem_alloc(size);
    require(bytes != NULL);
    memcpy(bytes, data, size);
    memcpy(&h, bytes, sizeof(h));
    memcpy(&t, bytes + size - sizeof(t), sizeof(t));
    h.checksum = rows_header_checksum(&h);
    if (t.at <= size - sizeof(t) && t.bytes <= size - sizeof(t) - t.at) {
        size_t n = t.bytes / sizeof(struct rows_entry);
        struct rows_entry *directory = mem_alloc(t.bytes + sizeof(*directory));
        require(directory != NULL);
        memcpy(directory, bytes + t.at, t.bytes);
        for (size_t i = 0; i < n; i++)
            seal_partition(bytes, t.at, &directory[i]);
        memcpy(bytes + t.at, directory, t.bytes);
        t.checksum = rows_file_checksum(&h, directory, &t);
        mem_free(directory);
    }
    memcpy(bytes, &h, sizeof(h));
    memcpy(bytes + size - sizeof(t), &t, sizeof(t));
    read_file(bytes, size);
    mem_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_file(data, size);
    forge(data, size);
    return 0;
}
