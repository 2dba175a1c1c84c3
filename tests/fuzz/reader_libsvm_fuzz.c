// Fuzzes the libsvm reader.
//
// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader((struct reader_options){.format = "libsvm"}, data, size);
    return 0;
}
