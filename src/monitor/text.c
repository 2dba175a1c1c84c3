// Numbers as texts; see text_internal.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "monitor/text_internal.h"

#include <math.h>
#include <stdio.h>

#include "base/html.h"

static const char none[] = "–";

const char *text_count(double x, char ret[TEXT_MAX])
{
    char digits[HTML_NUMBER_MAX];
    snprintf(ret, TEXT_MAX, "%s",
             isfinite(x) && fabs(x) < 1e18 ? html_count(x, digits) : none);
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
