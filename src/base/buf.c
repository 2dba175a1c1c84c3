// Growing byte arrays. One byte behind the data is always allocated, so that buf_str can
// terminate without growing.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

// Capacities double, so that adding n bytes one by one copies fewer than 2n.
static int grow(struct buf *b, size_t need)
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
    if (b->len > b->max || more > b->max - b->len)
        return TUG_EDATA;
    if (more >= PTRDIFF_MAX - b->len)
        return TUG_ENOMEM;
    size_t need = b->len + more + 1;
    return need <= b->cap ? 0 : grow(b, need);
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

const char *buf_str(struct buf *b)
{
    if (b->len == 0)
        return "";
    if (b->len == b->cap && grow(b, b->len + 1) != 0) // only if someone filled it by hand
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
