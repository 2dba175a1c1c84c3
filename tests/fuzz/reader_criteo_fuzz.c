// Fuzzes the criteo reader. Opening a reader computes tables, so one reader is kept for
// each of the two variants.
//
// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct reader *readers[2];
    struct reader_options o = {.format = "criteo", .labels = size > 0 && data[0] & 1};
    struct reader **r = &readers[o.labels];
    if (*r == NULL)
        require(reader_open(r, &o, NULL) == 0);
    if (size > 0)
        fuzz_text(*r, (const char *)data + 1, size - 1);
    return 0;
}
