// Prepares lines for all formats: removes byte order marks and carriage returns at line
// ends, and reports files that are not lines of UTF-8.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "data/format/reader_ops.h"

#define MARK "\xef\xbb\xbf"
enum { MARK_BYTES = 3 };

static size_t mark_bytes(const char *line, size_t len)
{
    return len >= MARK_BYTES && memcmp(line, MARK, MARK_BYTES) == 0 ? MARK_BYTES : 0;
}

void reader_text_trim(const char **line, size_t *len)
{
    // Any line may begin with byte order marks, because files that begin with one may have
    // been concatenated.
    for (size_t mark; (mark = mark_bytes(*line, *len)) > 0; *len -= mark)
        *line += mark;
    *len -= *len > 0 && (*line)[*len - 1] == '\r';
}

// Returns whether the line contains a carriage return: the writer of the file probably
// ended lines with it. In csv, a word between quotes may contain carriage returns.
static bool ends_inside(const char *line, size_t len, bool quotes)
{
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        quoted ^= quotes && line[i] == '"';
        if (line[i] == '\r' && !quoted)
            return true;
    }
    return false;
}

int reader_text(const char **line, size_t *len, bool quotes, struct err *e)
{
    reader_text_trim(line, len);
    const unsigned char *p = (const void *)*line;
    if (*len >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
        return err_set(e, TUG_EDATA,
                       "the line begins with a byte order mark of UTF-16, and tug reads "
                       "UTF-8: convert the file (iconv -f UTF-16 -t UTF-8)");
    // The text of each kept line ends with a NUL (kept.h), so a line with a NUL inside
    // would look like several lines.
    if (*len > 0 && memchr(p, '\0', *len) != NULL)
        return err_set(e, TUG_EDATA,
                       "the line has a byte 0, which no text has: is the file binary, "
                       "or UTF-16?");
    if (*len > 0 && memchr(p, '\r', *len) != NULL && ends_inside(*line, *len, quotes))
        return err_set(e, TUG_EDATA,
                       "the line has a carriage return (CR) before its end: where lines "
                       "end with CR alone, replace each with a newline (tr '\\r' '\\n')");
    return 0;
}

bool reader_is_blank(const struct reader *r, const char *text, size_t len)
{
    for (const char *p = text, *end = text + len; p < end; p++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop != NULL ? stop : end;
        if (!reader_skips(r, p, (size_t)(stop - p)))
            return false;
        p = stop;
    }
    return true;
}
