// Headers of an HTTP answer, one per line: values stay valid texts, and only numbers are
// read as numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "web/http_header_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_answer a = {0};
    const char *p = (const char *)data, *end = p + size;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop != NULL ? stop + 1 : end) - p);
        http_take_header(&a, "x-amz-bucket-region", p, n);
        p += n;
    }
    assert(memchr(a.version, 0, sizeof a.version) != NULL);
    assert(memchr(a.wanted, 0, sizeof a.wanted) != NULL);
    assert(a.status >= 0 && a.status < 1000);
    return 0;
}
