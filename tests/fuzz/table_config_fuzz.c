// Settings of tables: any text is read, or refused with a message that names the line.
// Settings that were read can be checked, and are printed as a text that is read to the
// same settings.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "store/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct table_config *c)
{
    struct buf text = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20);
    struct table_config d = table_config_defaults();
    assert(table_config_print(c, &text) == 0);
    const char *first = buf_str(&text);
    assert(first != NULL && table_config_parse(&d, first, NULL) == 0);
    assert(table_config_print(&d, &again) == 0);
    const char *second = buf_str(&again);
    assert(second != NULL && strcmp(first, second) == 0);
    buf_free(&text);
    buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct table_config c = table_config_defaults();
    struct err e = {0};
    char *text = mem_alloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    int rc = table_config_parse(&c, text, &e);
    assert(rc == 0 || *e.text != '\0');
    if (rc == 0) {
        check_round_trip(&c);
        e.text[0] = '\0';
        rc = table_config_check(&c, &e);
        assert(rc == 0 || *e.text != '\0');
    }
    mem_free(text);
    return 0;
}
