// Numbers and names as HTML; see text_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/text_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

enum { SHOWN_MAX = 1000 }; // bytes of a text from outside that a page shows

static const char none[] = "–";

const char *text_count(double x, char ret[TEXT_MAX])
{
    char digits[TEXT_MAX];
    if (!isfinite(x) || fabs(x) >= 1e18) {
        snprintf(ret, TEXT_MAX, "%s", none);
        return ret;
    }
    int n = snprintf(digits, sizeof(digits), "%.0f", fabs(x));
    size_t at = 0;
    if (x <= -.5)
        ret[at++] = '-';
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            ret[at++] = ',';
        ret[at++] = digits[i];
    }
    ret[at] = '\0';
    return ret;
}

const char *text_bytes(double x, char ret[TEXT_MAX])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    while (unit + 1 < sizeof(units) / sizeof(*units) && fabs(x) >= 999.5) {
        x /= 1000;
        unit++;
    }
    if (isnan(x))
        snprintf(ret, TEXT_MAX, "%s", none);
    else
        snprintf(ret, TEXT_MAX, "%.*f %s", unit > 0 && fabs(x) < 99.95 ? 1 : 0, x,
                 units[unit]);
    return ret;
}

const char *text_seconds(double x, char ret[TEXT_MAX])
{
    double s = fabs(x);
    if (!isfinite(x))
        snprintf(ret, TEXT_MAX, "%s", none);
    else if (s > 0 && s < .001)
        snprintf(ret, TEXT_MAX, "%.0f µs", x * 1e6);
    else if (s > 0 && s < 1)
        snprintf(ret, TEXT_MAX, "%.*f ms", s < .01, x * 1e3);
    else if (s < 100)
        snprintf(ret, TEXT_MAX, "%.*f s", s < 10 && s > 0, x);
    else if (s < 6000)
        snprintf(ret, TEXT_MAX, "%.0f min", x / 60);
    else if (s < 48 * 3600)
        snprintf(ret, TEXT_MAX, "%.1f h", x / 3600);
    else
        snprintf(ret, TEXT_MAX, "%.1f days", x / 86400);
    return ret;
}

const char *text_number(double x, char ret[TEXT_MAX])
{
    if (isnan(x))
        snprintf(ret, TEXT_MAX, "%s", none);
    else
        snprintf(ret, TEXT_MAX, "%.*g", fabs(x) < 1 ? 4 : 5, x);
    return ret;
}

const char *text_percent(double x, char ret[TEXT_MAX])
{
    if (!isfinite(x))
        snprintf(ret, TEXT_MAX, "%s", none);
    else
        snprintf(ret, TEXT_MAX, "%.*f %%", x < .9995 && x > 0, x * 100);
    return ret;
}

void markup_add(struct markup *h, const char *fmt, ...)
{
    char small[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (h->rc == 0)
        h->rc = n >= 0 && (size_t)n < sizeof(small) ? buf_add(h->to, small, (size_t)n)
                                                    : TUG_EINTERNAL;
}

void markup_text(struct markup *h, const char *text)
{
    size_t n = strnlen(text, SHOWN_MAX);
    struct buf shown = BUF_INIT(64 << 10);
    bool good = printable_add(&shown, text, n) == 0 &&
                (text[n] == '\0' || buf_printf(&shown, "...") == 0);
    const char *bytes = good ? buf_str(&shown) : NULL;
    if (bytes == NULL && h->rc == 0)
        h->rc = TUG_ENOMEM;
    for (; bytes != NULL && *bytes != '\0' && h->rc == 0; bytes++) {
        const char *put = *bytes == '<'    ? "&lt;"
                          : *bytes == '>'  ? "&gt;"
                          : *bytes == '&'  ? "&amp;"
                          : *bytes == '"'  ? "&quot;"
                          : *bytes == '\'' ? "&#39;"
                                           : NULL;
        h->rc = put != NULL ? buf_add(h->to, put, strlen(put)) : buf_add(h->to, bytes, 1);
    }
    buf_free(&shown);
}
