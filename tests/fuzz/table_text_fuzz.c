// Any bytes as text of a table, in tug's format and in Paddle's, are refused with file
// and line, or read; rows that were read are exported and read back to equal rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "save/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static struct store *open_store(const char *settings)
{
    struct table_config c = table_config_defaults();
    struct store *s;
    require(table_config_parse(&c, settings, NULL) == 0);
    struct store_options o = {.config = &c, .partition_bits = 1};
    require(store_open(&s, &o, NULL) == 0);
    return s;
}

static int import(struct store *s, bool paddle, const void *bytes, size_t n,
                  struct err *e)
{
    struct text_import *x;
    uint64_t rows;
    require(text_import_open(&x, s, paddle, e) == 0);
    int rc = text_import_file(x, "FILE", e);
    if (rc == 0)
        rc = text_import_add(x, bytes, n, e);
    if (rc == 0)
        return text_import_end(x, &rows, e);
    text_import_abort(x);
    return rc;
}

static int put(void *ctx, const char *bytes, size_t n, struct err *e)
{
    (void)e;
    return buf_add(ctx, bytes, n);
}

static void read_text(const char *settings, bool paddle, const void *bytes, size_t n)
{
    struct store *s = open_store(settings), *r = open_store(settings);
    struct buf a = BUF_INIT(256 << 20), b = BUF_INIT(256 << 20);
    struct err e = {0};
    int rc = import(s, paddle, bytes, n, &e);
    require(rc == 0 || (rc == TUG_EDATA && strstr(e.text, "FILE:") != NULL));
    if (rc == 0) {
        require(text_export(s, true, put, &a, &e) == 0);
        require(import(r, false, a.data, a.len, &e) == 0);
        require(text_export(r, true, put, &b, &e) == 0);
        require(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    }
    buf_free(&a);
    buf_free(&b);
    store_close(s);
    store_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char ctr[] = "accessor=ctr; dim=2; ttl-steps=9";
    read_text(ctr, false, data, size);
    read_text(ctr, true, data, size);
    read_text("accessor=ctr_double; dim=2", true, data, size);
    read_text("accessor=plain; dim=2; rule=adagrad", false, data, size);
    read_text("accessor=plain; dim=2; rule=adagrad", true, data, size);
    return 0;
}
