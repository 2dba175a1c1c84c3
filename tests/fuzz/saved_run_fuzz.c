// Descriptions of runs in saves: any text is read, or refused with a sentence that names
// the manifest.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader.h"
#include "train/saved/run_options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

// Uses a description that was read: for a model, for a reader, and for another save.
static void use(const struct saved_run *x)
{
    struct model model;
    struct err e;
    char *text;
    require(run_options_same(&x->options, &x->options, NULL, &e) == 0);
    require(saved_run_print(x, &text, &e) == 0);
    mem_free(text);
    (void)model_init(&model, &x->options.model, &e);
    struct reader_options r = {.schema = &x->schema, .fields = x->options.model.fields};
    struct reader *reader;
    const struct reader_layout *layout;
    if (reader_open(&reader, &r, &e) != 0)
        return;
    if (reader_has_header(reader))
        (void)reader_header(reader, "a,b", 3, &layout, &e);
    reader_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct saved_run x;
    struct err e = {0};
    char *text = mem_alloc(size + 1);
    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    int rc = saved_run_parse(&x, text, "manifest.json", &e);
    require(rc == 0 || strstr(e.text, "manifest.json") != NULL);
    if (rc == 0) {
        use(&x);
        saved_run_free(&x);
    }
    mem_free(text);
    return 0;
}
