// Fuzzes the libffm reader.
//
// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader((struct reader_options){.format = "libffm",
                                        .fields = size > 0 && data[0] & 4 ? 7 : 0},
                data, size);
    return 0;
}
