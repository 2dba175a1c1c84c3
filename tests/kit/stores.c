// See stores.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/stores.h"

#include "kit/test.h"

struct store *stores_open_with(const struct table_config *c, uint32_t bits,
                               uint64_t max_bytes)
{
    struct store *s;
    struct store_options o = {
        .config = c, .id = STORES_ID, .partition_bits = bits, .max_bytes = max_bytes};
    OK(store_open(&s, &o, &ok_e));
    return s;
}

struct store *stores_open(const char *settings, uint32_t bits)
{
    struct table_config c = table_config_defaults();
    OK(table_config_parse(&c, settings, &ok_e));
    OK(table_config_check(&c, &ok_e));
    return stores_open_with(&c, bits, 0);
}

uint32_t stores_value_width(const struct store *s, enum store_op op)
{
    const struct accessor *a = store_accessor(s);
    if (op == STORE_GRADIENT)
        return a->push_width;
    return op == STORE_ASSIGN ? accessor_weights(a) : a->width;
}
