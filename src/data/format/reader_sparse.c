// Labels, unusual values and error messages of libsvm and libffm lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/reader_sparse.h"

#include <inttypes.h>
#include <stdio.h>

// Returns whether the line looks like csv: a single word with a separator inside. If
// labels are not read, any word may be in place of a label.
static bool is_cells(const char *token, const char *stop, const char *end)
{
    if (sparse_next(stop, end) != end)
        return false;
    for (const char *p = token; p < stop; p++)
        if (*p == ',' || *p == ';' || *p == '|')
            return true;
    return false;
}

int sparse_label(const struct reader *r, const char **p, const char *end, float *ret,
                 struct err *e)
{
    const char *token = sparse_next(*p, end);
    *p = NULL;
    if (token == end)
        return 0;
    const char *stop = sparse_token_end(token, end);
    size_t len = (size_t)(stop - token);
    bool feature = memchr(token, ':', len) != NULL;
    if (feature && r->labels)
        return err_set(e, TUG_EDATA,
                       "the label is missing: the line begins with feature '%s'",
                       show(token, len).text);
    // a token that looks like csv is not a label; reading it as a feature reports the
    // error
    feature |= !r->labels && is_cells(token, stop, end);
    *p = feature ? token : stop;
    return feature ? 0 : reader_label(r, token, len, ret, e);
}

// Parses an index of any length; a hashed index has up to 20 digits. Returns the byte
// behind its colon; NULL: not an index.
const char *sparse_index_long(const char *p, const char *end, uint64_t *ret)
{
    const char *q = number_whole(p, ret);
    return q != NULL && q < end && *q == ':' ? q + 1 : NULL;
}

const char *sparse_value_long(const char *p, const char *end, float *ret)
{
    const char *stop = sparse_token_end(p, end);
    return number_parse(p, (size_t)(stop - p), ret) == NUMBER_OK ? stop : NULL;
}

int sparse_bad_value(const char *value, const char *end, uint64_t index, struct err *e)
{
    size_t len = (size_t)(sparse_token_end(value, end) - value);
    char where[40];
    float waste;
    snprintf(where, sizeof where, " of feature %" PRIu64, index);
    (void)reader_bad_number(number_parse(value, len, &waste), "value", value, len, where,
                            e);
    return reader_explain_missing(value, len, "leave the feature out", e);
}

int sparse_bad_index(const char *text, size_t len, struct err *e)
{
    struct shown s = show(text, len);
    if (len > 0 && *text == '-')
        return err_set(e, TUG_EDATA, "index '%s' is negative; indices are 0 .. 2^64-1",
                       s.text);
    for (size_t i = 0; i < len; i++)
        if (text[i] < '0' || text[i] > '9')
            return err_set(e, TUG_EDATA, "index '%s' is not a whole number", s.text);
    return len == 0 ? err_set(e, TUG_EDATA, "a feature has no index before its ':'")
                    : err_set(e, TUG_EDATA, "index '%s' is over 2^64-1", s.text);
}
