// Used by the fuzz targets of all readers: the input is a text; each of its lines is
// read, and the example is checked.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TESTS_FUZZ_READER_FUZZ_H
#define TUG_TESTS_FUZZ_READER_FUZZ_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool ok)
{
    if (!ok)
        abort();
}

// Checks a line that was read: a NUL must stand behind each text.
static inline void check_columns(const struct reader *r,
                                 const struct reader_layout *layout, const char *line,
                                 size_t len)
{
    static const char *const names[] = {"y", "n", "I1,I13,C1,C26", "0,6,7", "l*x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        size_t column[8], n, found = 0;
        struct buf text = BUF_INIT(1 << 30);
        if (reader_find_columns(r, layout, names[i], "--keep", 8, column, &n, NULL) != 0)
            continue;
        require(reader_columns(r, layout, line, len, column, n, &text) == 0);
        for (size_t k = 0; k < text.len; k++)
            found += text.data[k] == '\0';
        require(found >= n && text.data[text.len - 1] == '\0');
        buf_free(&text);
    }
}

static inline void check_examples(const struct reader *r, const struct examples *x,
                                  size_t n, size_t nnz)
{
    require(x->n <= n + 1 && x->n <= x->cap_n && x->nnz <= x->cap_nnz);
    if (x->n == n) {
        require(x->nnz == nnz);
        return;
    }
    require(x->start[n] == nnz && x->start[n + 1] == x->nnz);
    require(x->labels == reader_label_count(r) && (n + 1) * x->labels <= x->cap_labels);
    for (uint32_t t = 0; t < x->labels; t++) {
        float label = x->label[n * x->labels + t];
        require(isfinite(label) || (isnan(label) && x->labels > 1));
    }
    require(x->weight[n] >= 0 && isfinite(x->weight[n]));
    for (size_t i = nnz; i < x->nnz; i++) {
        require(isfinite(x->value[i]));
        require(reader_slots(r) == 0 || x->slot[i] < reader_slots(r));
    }
}

// Reads a line, in memory of its own, so that sanitizers notice reading beyond the
// padding.
static inline void fuzz_line(struct reader *r, const struct reader_layout **layout,
                             const char *line, size_t len, bool header,
                             struct examples *x)
{
    struct err e;
    size_t n = x->n, nnz = x->nnz;
    char *copy = mem_alloc(len + READER_PADDING);
    require(copy != NULL);
    memcpy(copy, line, len);
    memset(copy + len, '1', READER_PADDING);
    copy[len] = '\n';
    int rc = header ? reader_header(r, copy, len, layout, &e)
                    : reader_line(r, *layout, copy, len, x, &e);
    require(rc == 0 || rc == TUG_EDATA || rc == TUG_EUSAGE);
    check_examples(r, x, n, nnz);
    if (rc == 0 && x->n > n)
        check_columns(r, *layout, copy, len);
    mem_free(copy);
}

static inline void fuzz_text(struct reader *r, const char *text, size_t len)
{
    struct examples x = {0};
    const struct reader_layout *layout = NULL;
    const char *p = text, *end = p + len;
    for (bool first = true; p < end; first = false) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop != NULL ? stop : end;
        fuzz_line(r, &layout, p, (size_t)(stop - p), first && reader_has_header(r), &x);
        p = stop + 1;
    }
    examples_free(&x);
}

// Gives the reader the whole text if it needs more than a header to decide how lines are
// read. Returns false if the text cannot be read.
static inline bool decide(struct reader *r, const char *text, size_t len)
{
    struct buf lines = BUF_INIT(1 << 30);
    struct err e;
    if (reader_wants(r) <= 1)
        return true;
    require(buf_add(&lines, text, len) == 0);
    int rc = reader_decide(r, "f", &lines, &e);
    buf_free(&lines);
    require(rc == 0 || rc == TUG_EDATA || rc == TUG_EUSAGE);
    return rc == 0;
}

// Fuzzes a reader: the first byte of `data` chooses options, and the rest is the text.
static inline void fuzz_reader(struct reader_options o, const uint8_t *data, size_t size)
{
    struct reader *r = NULL;
    if (size == 0)
        return;
    o.labels = data[0] & 1;
    o.loss = data[0] & 2 ? LOSS_SQUARED : LOSS_LOGISTIC;
    require(reader_open(&r, &o, NULL) == 0);
    if (decide(r, (const char *)data + 1, size - 1))
        fuzz_text(r, (const char *)data + 1, size - 1);
    reader_close(r);
}

#endif
