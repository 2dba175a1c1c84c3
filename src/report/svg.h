// Writes charts as SVG: lines, steps, points with intervals, bars, axes with round ticks,
// a legend, a title for screen readers. Colours are classes of the page's style, so that
// a chart is readable in light and dark and prints.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REPORT_SVG_H
#define TUG_REPORT_SVG_H

#include "report/html_parts.h"

enum svg_mark {
    SVG_LINE,
    SVG_THIN, // a thin line
    SVG_DASH, // a dashed line
    SVG_DOTS, // a line with a point at each place, and intervals low to high
    SVG_BARS, // bars from x = low to high
};

enum { SVG_COLORS = 6 };

// A y that is not finite leaves a gap.
struct svg_series {
    const char *name; // the name in the legend; NULL: the legend does not have it
    enum svg_mark mark;
    unsigned color;
    size_t n;
    const double *x, *y, *low, *high; // low, high: NULL if the mark needs none
};

struct svg_chart {
    const char *title, *note; // note: one sentence below, or NULL
    const char *x, *y;        // labels of the axes
    const struct svg_series *series;
    size_t n;
    double x_from, x_to, y_from, y_to; // NAN: fitted to the series
    double mark; // a vertical line here, which `marked` names; NAN: none
    const char *marked;
};

// A chart with all bounds fitted.
#define SVG_FITTED .x_from = NAN, .x_to = NAN, .y_from = NAN, .y_to = NAN, .mark = NAN

// Appends a chart as a <figure>.
void svg_chart(struct page *p, const struct svg_chart *c);

#endif
