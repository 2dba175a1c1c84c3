// libsvm: "label index:value index:value ... # comment". The index is the key; all slots
// are 0.
//
// A line of n bytes has at most n / 4 + 1 features, so room is reserved once per line.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "data/format/reader_ops.h"
#include "data/format/reader_sparse.h"

static int libsvm_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    (void)o;
    *ret = mem_zalloc(sizeof **ret);
    return *ret != NULL ? 0 : err_nomem(e, "a reader");
}

static void libsvm_close(struct reader *r)
{
    mem_free(r);
}

static uint32_t libsvm_slots(const struct reader *r)
{
    (void)r;
    return 1;
}

// Explains why a token is not a feature.
static int bad_feature(const struct reader *r, const char *p, const char *end,
                       struct err *e)
{
    const char *stop = sparse_token_end(p, end);
    size_t len = (size_t)(stop - p);
    const char *colon = find_byte(p, stop, ':');
    struct shown token = show(p, len);
    if (len > 4 && memcmp(p, "qid:", 4) == 0)
        return err_set(
            e, TUG_EDATA,
            "'%s' is a query of ranking data, which is not supported; remove it",
            token.text);
    if (colon == stop)
        return err_set(e, TUG_EDATA, "'%s' is not a feature of the form index:value",
                       token.text);
    if (find_byte(colon + 1, stop, ':') != stop)
        return err_set(e, TUG_EDATA, "'%s' has a field, as in libffm data%s", token.text,
                       r->given ? ", and the model was trained on libsvm data"
                                : "; read it with --format libffm");
    return sparse_bad_index(p, (size_t)(colon - p), e);
}

static int bad_value(const struct reader *r, const char *token, const char *value,
                     const char *end, uint64_t index, struct err *e)
{
    if (find_byte(value, sparse_token_end(value, end), ':') <
        sparse_token_end(value, end))
        return bad_feature(r, token, end, e);
    return sparse_bad_value(value, end, index, e);
}

static int libsvm_line(const struct reader *r, const struct reader_layout *layout,
                       const char *p, size_t len, struct examples *x, struct err *e)
{
    (void)layout;
    const char *end = p + len;
    struct example new = {.weight = 1};
    TRY(examples_reserve(x, len / 4 + 1, e));
    TRY(sparse_label(r, &p, end, new.label, e));
    if (p == NULL)
        return 0;
    size_t k = x->nnz;
    while ((p = sparse_next(p, end)) < end) {
        const char *value = sparse_index(p, end, &x->key[k]);
        if (value == NULL)
            return bad_feature(r, p, end, e);
        const char *next = sparse_value(value, end, &x->value[k], &new.has_values);
        if (next == NULL)
            return bad_value(r, p, value, end, x->key[k], e);
        x->slot[k++] = 0;
        p = next;
    }
    new.nnz = k;
    examples_commit(x, &new);
    return 0;
}

static int libsvm_row(const struct reader *r, const struct reader_layout *layout,
                      const struct rows *rows, uint64_t i, struct examples *x,
                      struct err *e)
{
    (void)layout;
    return sparse_row(r, rows, i, READER_MAX_SLOT + 1, x, e);
}

const struct reader_ops reader_libsvm = {.name = "libsvm",
                                         .no_fields = true,
                                         .open = libsvm_open,
                                         .close = libsvm_close,
                                         .slots = libsvm_slots,
                                         .line = libsvm_line,
                                         .row = libsvm_row};
