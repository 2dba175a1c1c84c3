// See tiers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/tiers.h"

#include <stdio.h>
#include <string.h>

#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"

char tiers_dir[64];

int tiers_open_with(struct store **ret, const char *settings, uint32_t bits,
                    uint64_t max_bytes, struct err *e)
{
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, "cold=here", &ok_e));
    OK(table_config_parse(&c, settings, &ok_e));
    OK(table_config_check(&c, &ok_e));
    struct store_options o = {.config = &c,
                              .id = STORES_ID,
                              .partition_bits = bits,
                              .max_bytes = max_bytes,
                              .cold_dir = tiers_dir};
    return store_open(ret, &o, e);
}

int tiers_open(struct store **ret, const char *settings, uint32_t bits, struct err *e)
{
    return tiers_open_with(ret, settings, bits, 0, e);
}

void tiers_remove(void)
{
    char rows[80];
    snprintf(rows, sizeof(rows), "%s/rows", tiers_dir);
    assert_int_equal(file_remove_tree(rows, NULL), 0);
    assert_int_equal(file_remove_tree(tiers_dir, NULL), 0);
}

bool tiers_begin(int *ret)
{
    struct err e = {0};
    struct store *s = NULL;
    void *state = NULL;
    *ret = 1;
    if (files_begin(&state) != 0)
        return false;
    snprintf(tiers_dir, sizeof(tiers_dir), "%s", files_in("tier"));
    int rc = tiers_open(&s, "", 0, &e);
    store_close(s);
    if (rc == 0 || strstr(e.text, "librocksdb-dev") == NULL)
        return true;
    puts("skipped: built without RocksDB: librocksdb-dev");
    *ret = files_end(NULL);
    return false;
}
