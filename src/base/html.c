// See html.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

void html_open(struct page *p, size_t max)
{
    p->b = BUF_INIT(max);
    p->points = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    p->callers = p->points != (locale_t)0 ? uselocale(p->points) : (locale_t)0;
    p->rc = p->points != (locale_t)0 ? 0 : TUG_ENOMEM;
}

void html_close(struct page *p)
{
    if (p->points == (locale_t)0)
        return;
    uselocale(p->callers);
    freelocale(p->points);
    p->points = (locale_t)0;
}

void html_add(struct page *p, const char *fmt, ...)
{
    char some[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(some, sizeof(some), fmt, args);
    va_end(args);
    char *all = n >= (int)sizeof(some) ? mem_alloc((size_t)n + 1) : some;
    if (p->rc == 0 && (n < 0 || all == NULL))
        p->rc = TUG_ENOMEM;
    if (all != NULL && all != some) {
        va_start(args, fmt);
        (void)vsnprintf(all, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    if (p->rc == 0)
        p->rc = buf_add(&p->b, all, (size_t)n);
    if (all != some)
        mem_free(all);
}

// Control characters, which HTML does not allow, become blanks.
void html_text(struct page *p, const char *text)
{
    for (const char *at = text != NULL ? text : ""; *at != '\0' && p->rc == 0;) {
        size_t n = strcspn(at, "&<>\"'\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f"
                               "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c"
                               "\x1d\x1e\x1f\x7f");
        p->rc = buf_add(&p->b, at, n);
        at += n;
        if (*at == '\0')
            return;
        html_add(p, "%s",
                 *at == '&'    ? "&amp;"
                 : *at == '<'  ? "&lt;"
                 : *at == '>'  ? "&gt;"
                 : *at == '"'  ? "&quot;"
                 : *at == '\'' ? "&#39;"
                               : " ");
        at++;
    }
}

const char *html_count(double x, char ret[HTML_NUMBER_MAX])
{
    char digits[HTML_NUMBER_MAX];
    int n = snprintf(digits, sizeof(digits), "%.0f", fabs(x)), to = 0;
    if (x <= -.5)
        ret[to++] = '-';
    for (int i = 0; i < n && digits[i] != 0 && to < HTML_NUMBER_MAX - 2; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            ret[to++] = ',';
        ret[to++] = digits[i];
    }
    ret[to] = '\0';
    return ret;
}
