// Fuzzes the csv reader: its header and its lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char separators[] = ",;\t";
    uint8_t choice = size > 0 ? data[0] : 0;
    struct reader_options o = {.format = "csv",
                               .separator = separators[(choice >> 2) % 3]};
    if (choice & 8) {
        o.lists = "l";
        o.missing = "NA,\\N";
        o.cross_columns = choice & 16 ? "l*x" : NULL;
    }
    if (choice & 16)
        o.label_column = choice & 32 ? "y,z" : "y";
    if (choice & 32)
        o.numeric = choice & 64 ? "n:bins:3" : "n";
    if (choice & 64)
        o.drop = "id";
    if (choice & 128)
        o.weight_column = "w";
    fuzz_reader(o, data, size);
    return 0;
}
