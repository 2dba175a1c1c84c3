// Code shared by libsvm and libffm lines: an optional label, tokens between blanks, and a
// comment.
//
// One bound ends the parsing of a line: line[len] is a newline, '\r' or NUL, which ends
// every token. Such a byte inside a line (binary data) ends a token, too, and is then
// refused as a token.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_READER_SPARSE_H
#define TUG_DATA_FORMAT_READER_SPARSE_H

#include "data/format/reader_ops.h"

// Returns whether a byte ends a token: a blank, the end of the line, or a control
// character.
static inline bool sparse_stops(char c)
{
    return (unsigned char)c <= ' ';
}

// Returns the next token, or `end` if there is none; a comment counts as the end.
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

// Moves *p past the label. Sets *p to NULL if the line has no example (only blanks or a
// comment). If labels are optional, a first token with ':' is a feature.
int sparse_label(const struct reader *r, const char **p, const char *end, float *ret,
                 struct err *e);

const char *sparse_index_long(const char *p, const char *end, uint64_t *ret);
const char *sparse_value_long(const char *p, const char *end, float *ret);

// Parses an index and its colon; returns what follows, or NULL if there is none. An index
// of up to 7 digits, the usual case, needs no loop.
static inline const char *sparse_index(const char *p, const char *end, uint64_t *ret)
{
    uint64_t w = load_word(p);
    unsigned digits = digits_count(w);
    if (__builtin_expect(digits - 1 > 6 || p[digits] != ':', 0))
        return sparse_index_long(p, end, ret);
    *ret = digits_value(w, digits);
    return p + digits + 1;
}

// Parses a value; returns what follows, or NULL if it is not a finite number. The usual
// value is "1".
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

// Appends row i of a matrix in memory as an example. Its fields must be below `bound`.
int sparse_row(const struct reader *r, const struct rows *rows, uint64_t i,
               uint32_t bound, struct examples *x, struct err *e);

int sparse_bad_value(const char *value, const char *end, uint64_t index, struct err *e);
int sparse_bad_index(const char *text, size_t len, struct err *e);

#endif
