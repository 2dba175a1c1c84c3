// Any bytes as a part file: they are refused or read, and nothing else happens. What is
// read is read the same way a second time.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "save/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int hash_row(void *ctx, uint64_t key, const float *values, uint32_t width,
                    struct err *e)
{
    (void)e;
    uint64_t *hash = ctx;
    *hash = mix64(*hash ^ key) ^ hash_bytes(values, width * sizeof(float), *hash);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("part", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    uint64_t first = 0, again = 0;
    struct err e = {0};
    int rc = part_each(path, NULL, hash_row, &first, &e);
    if (rc != 0 && (rc != TUG_EDATA || e.text[0] == '\0'))
        abort();
    if (rc == 0) {
        struct part_info info = {.bytes = size, .checksum = hash_bytes(data, size, 0)};
        memcpy(&info.rows, data + 32, sizeof(info.rows)); // the header's
        rc = part_each(path, &info, hash_row, &again, &e);
        if (rc != 0 || first != again)
            abort();
    }
    close(fd);
    return 0;
}
