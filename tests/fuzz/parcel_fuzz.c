// Any bytes as the parcel of a partition are refused, and leave the partition empty, or
// are installed; then the partition's own parcel is the same after another move. The hash
// of each input is corrected first, as a forger would do it. The first byte chooses the
// settings.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "store/parcel.h"

enum { PARTITION = 1, END_BYTES = 16, HASH_BYTES = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct store *open_store(uint8_t which)
{
    static const char *const settings[] = {
        "accessor=plain; dim=2; deltas=yes",
        "accessor=ctr; dim=2; embedx-threshold=1",
        "accessor=sparse; dim=1; embedx-threshold=1; deltas=yes; entry=count:2",
    };
    struct table_config c = table_config_defaults();
    struct store *s;
    require(table_config_parse(&c, settings[which % 3], NULL) == 0);
    struct store_options o = {.config = &c, .partition_bits = 1};
    require(store_open(&s, &o, NULL) == 0);
    store_set_owned(s, PARTITION, false);
    return s;
}

static void check_installed(struct store *a, uint8_t which)
{
    struct store *b = open_store(which);
    struct buf x = BUF_INIT(1 << 26), y = BUF_INIT(1 << 26);
    require(store_owns(a, PARTITION));
    require(parcel_get(a, PARTITION, &x, NULL) == 0);
    require(parcel_put(b, PARTITION, x.data, x.len, NULL) == 0);
    require(parcel_get(b, PARTITION, &y, NULL) == 0);
    require(x.len == y.len && memcmp(x.data, y.data, x.len) == 0);
    buf_free(&x);
    buf_free(&y);
    store_close(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct store *s = open_store(data[0]);
    struct err e = {0};
    size_t n = size - 1;
    char *bytes = mem_alloc(n + 1);
    require(bytes != NULL);
    memcpy(bytes, data + 1, n);
    if (n > END_BYTES) {
        uint64_t hash = hash_bytes(bytes, n - END_BYTES, 0);
        memcpy(bytes + n - HASH_BYTES, &hash, sizeof(hash));
    }
    int rc = parcel_put(s, PARTITION, bytes, n, &e);
    require(rc == 0 || ((rc == TUG_EDATA || rc == TUG_ENOMEM) && e.text[0] != '\0'));
    if (rc == 0)
        check_installed(s, data[0]);
    require(rc == 0 || store_stats(s).rows == 0);
    mem_free(bytes);
    store_close(s);
    return 0;
}
