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
    SVG_DOTS, // a line with a dot at each point, and vertical intervals from low to high
    SVG_BARS, // bars from low to high on the x axis
};

enum { SVG_COLORS = 6 };

// A series of points. If y of a point is not finite, the line has a gap there.
struct svg_series {
    const char *name; // the name in the legend; NULL: not in the legend
    enum svg_mark mark;
    unsigned color;
    size_t n;
    // Low and high are NULL if the mark does not need them.
    const double *x, *y, *low, *high;
};

struct svg_chart {
    const char *title, *note; // note: a sentence below the chart; NULL: none
    const char *x, *y;        // labels of the axes
    const struct svg_series *series;
    size_t n;
    // Bounds of the axes; NAN: the bound fits the series.
    double x_from, x_to, y_from, y_to;
    bool x_whole; // x counts whole things: its ticks are whole numbers
    double mark;  // the x of a vertical line with the name `marked`; NAN: no line
    const char *marked;
};

// Initializers of a chart whose axes fit the series and that has no vertical line.
#define SVG_FITTED .x_from = NAN, .x_to = NAN, .y_from = NAN, .y_to = NAN, .mark = NAN

// Appends a chart as a <figure>.
void svg_chart(struct page *p, const struct svg_chart *c);

#endif
