// Fuzzes the multislot reader. The first line is the description of the slots, in place
// of the option --slots; if it is not valid, the rest is read with the usual slots.
//
// SPDX-License-Identifier: Apache-2.0
#include "reader_fuzz.h"

static const char usual[] =
    "y:label, a:ids, b:ids@a, p:dense[2], k:keys, j:skip, w:weight";

static struct reader *open_reader(struct reader_options *o, const char *slots)
{
    struct reader *r = NULL;
    struct err e;
    // Only texts with a colon are used as slots: a text without one is the name of a
    // file.
    o->slots = strchr(slots, ':') != NULL ? slots : usual;
    int rc = reader_open(&r, o, &e);
    require(rc == 0 || rc == TUG_EUSAGE);
    if (rc == 0)
        return r;
    o->slots = usual;
    require(reader_open(&r, o, &e) == 0);
    return r;
}

// Reads lines with these slots for a model whose slots are `usual`.
static void read_for_model(struct reader_options o, const char *text, size_t len)
{
    struct reader_options of_model = {.format = "multislot", .slots = usual};
    struct reader *model = NULL, *r = NULL;
    struct err e;
    require(reader_open(&model, &of_model, &e) == 0);
    o.schema = reader_schema(model);
    o.allow_missing = true;
    if (reader_open(&r, &o, &e) == 0)
        fuzz_text(r, text, len);
    reader_close(r);
    reader_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct reader_options o = {.format = "multislot", .labels = data[0] & 1};
    const char *text = (const char *)data + 1, *end = text + size - 1;
    const char *stop = memchr(text, '\n', size - 1);
    stop = stop != NULL ? stop : end;
    char *slots = mem_zalloc((size_t)(stop - text) + 1);
    require(slots != NULL);
    memcpy(slots, text, (size_t)(stop - text));
    for (char *c = slots; *c != '\0'; c++)
        *c = *c == ';' ? '\n' : *c;
    stop += stop < end;
    struct reader *r = open_reader(&o, slots);
    fuzz_text(r, stop, (size_t)(end - stop));
    reader_close(r);
    read_for_model(o, stop, (size_t)(end - stop));
    mem_free(slots);
    return 0;
}
