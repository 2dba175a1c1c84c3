// Any bytes as a journal are refused, or are read as whole groups that lie within them. The
// checksums of the input are corrected first, as far as its lengths lead, so that the fuzzer also
// reaches the code behind these checks.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/journal/journal_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

struct range {
    const char *from, *end;
};

static int look(void *ctx, const void *bytes, size_t n, struct err *e)
{
    const struct range *r = ctx;
    (void)e;
    require((const char *)bytes > r->from && (const char *)bytes + n <= r->end);
    return 0;
}

static void correct(char *bytes, size_t size)
{
    struct journal_head head;
    struct journal_group g;
    if (size < sizeof(head))
        return;
    journal_head_make(&head, 7);
    memcpy(bytes, &head, sizeof(head));
    for (uint64_t at = sizeof(head); at + sizeof(g) <= size;
         at += journal_group_bytes(g.n)) {
        memcpy(&g, bytes + at, sizeof(g));
        if (g.n > size - at - sizeof(g))
            return;
        journal_group_make(&g, head.random, at, bytes + at + sizeof(g), g.n);
        memcpy(bytes + at, &g, sizeof(g));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    uint64_t end = 0;
    char *bytes = mem_alloc(size + 1);
    require(bytes != NULL);
    memcpy(bytes, data, size);
    for (int corrected = 0; corrected < 2; corrected++) {
        struct range r = {bytes, bytes + size};
        if (corrected)
            correct(bytes, size);
        int rc = journal_read(bytes, size, "fuzz", &end, look, &r, &e);
        require(rc == 0 ? end <= size : rc == TUG_EDATA && e.text[0] != '\0');
    }
    mem_free(bytes);
    return 0;
}
