// Any bytes as packed keys are refused, or read; keys that were read are packed and read
// again to the same keys.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_again(const uint64_t *keys, size_t n)
{
    enum { MOST = 64 << 20 };
    struct buf b = BUF_INIT(MOST);
    uint64_t *again = mem_array(n, sizeof(*again));
    require(again != NULL && pack_keys(keys, n, &b) == 0);
    require(unpack_keys(b.data, b.len, n, again, NULL) == 0);
    require(n == 0 || memcmp(keys, again, n * sizeof(*keys)) == 0);
    mem_free(again);
    buf_free(&b);
}

// The first two bytes are the number of keys.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint16_t n;
    struct err e = {0};
    if (size < sizeof(n))
        return 0;
    memcpy(&n, data, sizeof(n));
    uint64_t *keys = mem_array(n, sizeof(*keys));
    require(keys != NULL);
    int rc = unpack_keys(data + sizeof(n), size - sizeof(n), n, keys, &e);
    require(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    if (rc == 0)
        check_again(keys, n);
    mem_free(keys);
    return 0;
}
