// Growing byte arrays. One byte more than the data is always allocated, so that buf_str
// can add a NUL without growing.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

// Doubles the capacity, so that adding n bytes one by one copies fewer than 2n.
static int buf_grow(struct buf *b, size_t need)
{
    size_t cap = b->cap < 64 ? 64 : b->cap * 2;
    if (cap > b->max)
        cap = b->max + 1;
    if (cap < need)
        cap = need;
    char *data = mem_realloc(b->data, cap);
    if (data == NULL)
        return TUG_ENOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

int buf_reserve(struct buf *b, size_t more)
{
    b->refused = b->len > b->max || more > b->max - b->len;
    if (b->refused)
        return TUG_EDATA;
    if (more >= PTRDIFF_MAX - b->len)
        return TUG_ENOMEM;
    size_t need = b->len + more + 1;
    return need <= b->cap ? 0 : buf_grow(b, need);
}

int buf_error(const struct buf *b, const char *what, struct err *e)
{
    return b->refused
               ? err_set(e, TUG_EDATA, "%s: too long, more than %zu bytes", what, b->max)
               : err_nomem(e, what);
}

int buf_add(struct buf *b, const void *bytes, size_t n)
{
    TRY(buf_reserve(b, n));
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return TUG_EDATA;
    TRY(buf_reserve(b, (size_t)n));
    va_start(args, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

static bool continues(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

// Returns the size of the UTF-8 character at `c`; 0 if it is not valid. Reads no byte
// behind a 0.
static size_t utf8_length(const unsigned char *c)
{
    if (c[0] < 0x80)
        return 1;
    if (c[0] < 0xc2 || c[0] > 0xf4 || !continues(c[1]))
        return 0;
    if (c[0] < 0xe0)
        return 2;
    bool too_long = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool no_character = (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf4 && c[1] >= 0x90);
    if (too_long || no_character || !continues(c[2]))
        return 0;
    if (c[0] < 0xf0)
        return 3;
    return continues(c[3]) ? 4 : 0;
}

static int add_character(struct buf *b, const char *c, size_t n)
{
    if (n == 0)
        return buf_printf(
            b, "\\\\x%02x",
            (unsigned)(unsigned char)*c); // the escape that printable_copy writes
    if ((unsigned char)*c < ' ' || *c == 0x7f)
        return buf_printf(b, "\\u%04x", (unsigned)*c);
    if (*c == '"' || *c == '\\')
        TRY(buf_add(b, "\\", 1));
    return buf_add(b, c, n);
}

int buf_json(struct buf *b, const char *text)
{
    size_t before = b->len;
    int rc = buf_add(b, "\"", 1);
    while (rc == 0 && *text != '\0') {
        size_t n = utf8_length((const unsigned char *)text);
        rc = add_character(b, text, n);
        text += n > 0 ? n : 1;
    }
    if (rc == 0)
        rc = buf_add(b, "\"", 1);
    if (rc != 0)
        b->len = before;
    return rc;
}

int buf_json_number(struct buf *b, int digits, double x)
{
    return isfinite(x) ? buf_printf(b, "%.*g", digits, x) : buf_printf(b, "null");
}

const char *buf_str(struct buf *b)
{
    if (b->len == 0)
        return "";
    // There is room for the NUL unless the caller filled the array itself.
    if (b->len == b->cap && buf_grow(b, b->len + 1) != 0)
        return NULL;
    b->data[b->len] = '\0';
    return b->data;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

void buf_free(struct buf *b)
{
    mem_free(b->data);
    *b = BUF_INIT(b->max);
}

void buf_wipe(struct buf *b)
{
    if (b->data != NULL)
        explicit_bzero(b->data, b->cap);
    buf_free(b);
}
