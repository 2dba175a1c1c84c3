// libffm: "label field:index:value field:index:value ... # comment". The index is the
// key, and the field is the slot. A line of n bytes has at most n / 6 + 1 features.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "data/format/reader_ops.h"
#include "data/format/reader_sparse.h"

struct libffm {
    struct reader base;
    uint32_t fields; // the number of fields in the options; 0: unknown
    uint32_t bound;  // all fields must be below this number
};

static int libffm_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    if (o->fields > READER_MAX_SLOT + 1)
        return err_set(e, TUG_EUSAGE, "--fields %u is over the limit of %d", o->fields,
                       READER_MAX_SLOT + 1);
    struct libffm *f = mem_zalloc(sizeof *f);
    if (f == NULL)
        return err_nomem(e, "a reader");
    f->fields = o->fields;
    f->bound = o->fields != 0 ? o->fields : READER_MAX_SLOT + 1;
    *ret = &f->base;
    return 0;
}

static void libffm_close(struct reader *r)
{
    mem_free(r);
}

static uint32_t libffm_slots(const struct reader *r)
{
    return ((const struct libffm *)(const void *)r)->fields;
}

static int bad_field(const struct libffm *f, const char *p, const char *end,
                     struct err *e)
{
    const char *stop = sparse_token_end(p, end);
    const char *colon = find_byte(p, stop, ':');
    if (colon == stop || find_byte(colon + 1, stop, ':') == stop)
        return err_set(e, TUG_EDATA,
                       "'%s' is not a feature of the form field:index:value%s",
                       show(p, (size_t)(stop - p)).text,
                       colon == stop || f->base.given
                           ? ""
                           : "; index:value is read with --format libsvm");
    uint64_t field;
    if (!number_u64(p, (size_t)(colon - p), &field))
        return err_set(e, TUG_EDATA, "field '%s' is not a whole number from 0 on",
                       show(p, (size_t)(colon - p)).text);
    if (field >= f->bound)
        return err_set(e, TUG_EDATA, "field %s is not below %u, the number of %s%s",
                       show(p, (size_t)(colon - p)).text, f->bound,
                       f->base.given ? "the model's fields" : "fields",
                       f->base.given && field == f->bound ? READER_FIELDS_FROM_1 : "");
    const char *second = find_byte(colon + 1, stop, ':');
    return sparse_bad_index(colon + 1, (size_t)(second - colon - 1), e);
}

static int libffm_line(const struct reader *r, const struct reader_layout *layout,
                       const char *p, size_t len, struct examples *x, struct err *e)
{
    (void)layout;
    const struct libffm *f = (const void *)r;
    const char *end = p + len;
    struct example new = {.weight = 1};
    TRY(examples_reserve(x, len / 6 + 1, e));
    TRY(sparse_label(r, &p, end, new.label, e));
    if (p == NULL)
        return 0;
    size_t k = x->nnz;
    while ((p = sparse_next(p, end)) < end) {
        uint64_t field;
        const char *q = sparse_index(p, end, &field);
        if (q == NULL || field >= f->bound ||
            (q = sparse_index(q, end, &x->key[k])) == NULL)
            return bad_field(f, p, end, e);
        p = sparse_value(q, end, &x->value[k], &new.has_values);
        if (p == NULL)
            return sparse_bad_value(q, end, x->key[k], e);
        x->slot[k++] = (uint16_t)field;
    }
    new.nnz = k;
    examples_commit(x, &new);
    return 0;
}

static int libffm_row(const struct reader *r, const struct reader_layout *layout,
                      const struct rows *rows, uint64_t i, struct examples *x,
                      struct err *e)
{
    (void)layout;
    return sparse_row(r, rows, i, ((const struct libffm *)(const void *)r)->bound, x, e);
}

static int libffm_find_column(const struct reader *r, const struct reader_layout *layout,
                              const char *name, size_t len, size_t *ret, struct err *e)
{
    (void)layout, (void)e;
    const struct libffm *f = (const void *)r;
    uint64_t field;
    bool good = number_u64(name, len, &field) && field < f->bound;
    *ret = good ? (size_t)field : READER_NO_COLUMN;
    return 0;
}

// Collects the indices of a field. A label has no colon and is skipped, like other tokens
// that are not features.
static int libffm_column(const struct reader *r, const struct reader_layout *layout,
                         const char *p, const char *end, size_t column, struct buf *to)
{
    (void)r, (void)layout;
    size_t before = to->len;
    for (; (p = sparse_next(p, end)) < end; p = sparse_token_end(p, end)) {
        uint64_t field;
        const char *index = sparse_index(p, end, &field);
        if (index == NULL || field != column)
            continue;
        if (to->len > before)
            TRY(buf_add(to, "|", 1));
        TRY(buf_add(to, index, (size_t)(find_byte(index, end, ':') - index)));
    }
    return 0;
}

static int libffm_slot_name(uint32_t slot, struct buf *ret)
{
    return buf_printf(ret, "%u", slot);
}

const struct reader_ops reader_libffm = {.name = "libffm",
                                         .numbers_fields = true,
                                         .open = libffm_open,
                                         .close = libffm_close,
                                         .slots = libffm_slots,
                                         .line = libffm_line,
                                         .row = libffm_row,
                                         .find_column = libffm_find_column,
                                         .column = libffm_column,
                                         .slot_name = libffm_slot_name,
                                         .columns = "the numbers of its fields"};
