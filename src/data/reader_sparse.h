// What libsvm and libffm lines share: an optional label, tokens between blanks, a
// comment.
//
// Lines are walked with one bound: line[len] is a newline, '\r' or NUL, which stops every
// token. Such a byte inside a line (binary data) stops a token too and is then refused as
// one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_READER_SPARSE_H
#define TUG_DATA_READER_SPARSE_H

#include "data/reader_ops.h"

// Blank, end of line, or a control character that sparse_next will meet.
static inline bool sparse_stops(char c)
{
    return (unsigned char)c <= ' ';
}

// The next token, or `end` where there is none: a comment counts as the end.
static inline const char *sparse_next(const char *p, const char *end)
{
    while (is_blank(*p))
        p++;
    return p < end && *p != '#' ? p : end;
}

static inline const char *sparse_token_end(const char *p, const char *end)
{
    while (p < end && !is_blank(*p) && *p != '#')
        p++;
    return p;
}

// Moves *p behind the label. *p = NULL: the line has no example (blanks or a comment
// only). With labels optional, a first token with a ':' is a feature.
int sparse_label(const struct reader *r, const char **p, const char *end, float *ret,
                 struct err *e);

const char *sparse_index_long(const char *p, const char *end, uint64_t *ret);
const char *sparse_value_long(const char *p, const char *end, float *ret);

// An index and its colon: returns what follows, NULL when it is none. The usual one, of
// up to 7 digits, without a loop.
static inline const char *sparse_index(const char *p, const char *end, uint64_t *ret)
{
    uint64_t w = load_word(p);
    unsigned digits = digits_count(w);
    if (__builtin_expect(digits - 1 > 6 || p[digits] != ':', 0))
        return sparse_index_long(p, end, ret);
    *ret = digits_value(w, digits);
    return p + digits + 1;
}

// A value: returns what follows, NULL when it is not a finite number. The usual one is
// "1".
static inline const char *sparse_value(const char *p, const char *end, float *ret,
                                       bool *ret_has_values)
{
    *ret = 1;
    if (__builtin_expect(p[0] == '1' && sparse_stops(p[1]), 1))
        return p + 1;
    const char *stop = number_short(p, ret);
    if (stop == NULL || !sparse_stops(*stop))
        stop = sparse_value_long(p, end, ret);
    *ret_has_values |= *ret != 1;
    return stop;
}

// A row of a matrix in memory; fields are below `bound`.
int sparse_row(const struct reader *r, const struct rows *rows, uint64_t i,
               uint32_t bound, struct examples *x, struct err *e);

int sparse_bad_value(const char *value, const char *end, uint64_t index, struct err *e);
int sparse_bad_index(const char *text, size_t len, struct err *e);

#endif
