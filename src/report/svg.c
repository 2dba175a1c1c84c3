// See svg.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 440,
    HEIGHT = 280,
    LEFT = 56,
    RIGHT = 12,
    TOP = 12,
    BOTTOM = 46,
    TICKS = 6
};

struct axis {
    double from, to, step;
    int decimals;
};

struct drawing {
    struct page *p;
    struct axis x, y;
};

// Widens an axis to cover a value. Ignores values near the greatest double: the
// difference of two such values could be infinite.
static void cover(struct axis *a, double v)
{
    if (!(fabs(v) < 1e300))
        return;
    a->from = isnan(a->from) || v < a->from ? v : a->from;
    a->to = isnan(a->to) || v > a->to ? v : a->to;
}

// Chooses about `ticks` ticks at 1, 2 or 5 times a power of ten, and moves each end of
// the axis that is not fixed to a tick.
static void choose_ticks(struct axis *a, bool fixed_from, bool fixed_to, int ticks,
                         bool whole)
{
    if (isnan(a->from) || isnan(a->to)) // the series have no values
        a->from = 0, a->to = 1;
    if (!(a->to > a->from)) {
        double more = a->from != 0 ? fabs(a->from) * 0.1 : 1;
        a->from -= fixed_from ? 0 : more;
        a->to += fixed_to && !fixed_from ? 0 : more;
    }
    double raw = (a->to - a->from) / ticks, power = pow(10, floor(log10(raw)));
    double times = raw / power;
    a->step = power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
    if (whole)
        a->step = fmax(a->step, 1);
    if (!fixed_from)
        a->from = floor(a->from / a->step + 1e-9) * a->step;
    if (!fixed_to)
        a->to = ceil(a->to / a->step - 1e-9) * a->step;
    double digits = -floor(log10(a->step) + 1e-9);
    a->decimals = digits > 0 ? (int)fmin(digits, 9) : 0;
}

static struct axis fit(const struct svg_chart *c, bool x)
{
    double from = x ? c->x_from : c->y_from, to = x ? c->x_to : c->y_to;
    struct axis a = {.from = (double)NAN, .to = (double)NAN};
    for (size_t k = 0; k < c->n; k++) {
        const struct svg_series *s = &c->series[k];
        for (size_t i = 0; i < s->n; i++) {
            bool bars = s->mark == SVG_BARS;
            cover(&a, x ? s->x[i] : s->y[i]);
            if (s->low != NULL && s->high != NULL && x == bars) {
                cover(&a, s->low[i]);
                cover(&a, s->high[i]);
            }
            if (bars && !x)
                cover(&a, 0);
        }
    }
    a.from = isnan(from) ? a.from : from;
    a.to = isnan(to) ? a.to : to;
    choose_ticks(&a, !isnan(from), !isnan(to), TICKS - (x ? 0 : 1), x && c->x_whole);
    return a;
}

static double at_x(const struct drawing *d, double v)
{
    double share = (v - d->x.from) / (d->x.to - d->x.from);
    return LEFT + fmin(1, fmax(0, share)) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct drawing *d, double v)
{
    double share = (v - d->y.from) / (d->y.to - d->y.from);
    return HEIGHT - BOTTOM - fmin(1, fmax(0, share)) * (HEIGHT - TOP - BOTTOM);
}

// Writes a tick's label: 20000 as "20k".
static const char *tick_label(const struct axis *a, double v, char ret[32])
{
    static const struct {
        double by;
        const char *name;
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    if (fabs(v) < a->step / 2)
        v = 0;
    for (size_t i = 0; i < 3 && fmax(fabs(a->from), fabs(a->to)) >= 10000; i++)
        if (fabs(v) >= units[i].by) {
            snprintf(ret, 32, "%g%s", round(v / units[i].by * 1000) / 1000,
                     units[i].name);
            return ret;
        }
    snprintf(ret, 32, "%.*f", a->decimals, v);
    return ret;
}

// Most ticks of an axis. There are more only if adding a step to a large
// double does not change it.
enum { TICKS_MAX = 50 };

static void axes(const struct drawing *d, const struct svg_chart *c)
{
    char label[32];
    const double bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT;
    double first = ceil(d->y.from / d->y.step - 1e-9) * d->y.step;
    for (int i = 0; i < TICKS_MAX && first + i * d->y.step <= d->y.to + d->y.step * 1e-6;
         i++) {
        double v = first + i * d->y.step, y = at_y(d, v);
        html_add(d->p,
                 "<path class=\"axis\" d=\"M%d %.1fH%.0f\"/><text x=\"%d\" y=\"%.1f\" "
                 "text-anchor=\"end\">%s</text>\n",
                 LEFT, y, right, LEFT - 6, y + 4, tick_label(&d->y, v, label));
    }
    first = ceil(d->x.from / d->x.step - 1e-9) * d->x.step;
    for (int i = 0; i < TICKS_MAX && first + i * d->x.step <= d->x.to + d->x.step * 1e-6;
         i++) {
        double v = first + i * d->x.step, x = at_x(d, v);
        html_add(d->p,
                 "<path class=\"axis\" d=\"M%.1f %.0fv4\"/><text x=\"%.1f\" y=\"%.0f\" "
                 "text-anchor=\"%s\">%s</text>\n",
                 x, bottom, x, bottom + 20, x > right - 10 ? "end" : "middle",
                 tick_label(&d->x, v, label));
    }
    html_add(d->p, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">",
             (LEFT + right) / 2, HEIGHT - 6);
    html_text(d->p, c->x);
    html_add(d->p,
             "</text>\n<text transform=\"translate(11 %.0f) rotate(-90)\" "
             "text-anchor=\"middle\">",
             (TOP + bottom) / 2);
    html_text(d->p, c->y);
    html_add(d->p, "</text>\n");
}

static size_t points_of(const struct svg_series *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += isfinite(s->x[i]) && isfinite(s->y[i]);
    return n;
}

static void draw_line(const struct drawing *d, const struct svg_series *s)
{
    bool down = false, any = false;
    for (size_t i = 0; i < s->n; i++) {
        bool there = isfinite(s->x[i]) && isfinite(s->y[i]);
        if (there && !any)
            html_add(d->p, "<path class=\"line k%u%s\" d=\"", s->color % SVG_COLORS,
                     s->mark == SVG_THIN   ? " thin"
                     : s->mark == SVG_DASH ? " dash"
                                           : "");
        if (there)
            html_add(d->p, "%c%.1f %.1f", down ? 'L' : 'M', at_x(d, s->x[i]),
                     at_y(d, s->y[i]));
        any |= there;
        down = there;
    }
    if (any)
        html_add(d->p, "\"/>\n");
}

static void draw_dots(const struct drawing *d, const struct svg_series *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->x[i]) || !isfinite(s->y[i]))
            continue;
        double x = at_x(d, s->x[i]);
        if (s->low != NULL && isfinite(s->low[i]) && isfinite(s->high[i]))
            html_add(d->p, "<path class=\"k%u\" d=\"M%.1f %.1fV%.1f\"/>",
                     s->color % SVG_COLORS, x, at_y(d, s->low[i]), at_y(d, s->high[i]));
        html_add(d->p, "<circle class=\"dot k%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
                 s->color % SVG_COLORS, x, at_y(d, s->y[i]));
    }
}

static void draw_bars(const struct drawing *d, const struct svg_series *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->y[i]))
            continue;
        double left = at_x(d, s->low[i]), right = at_x(d, s->high[i]),
               top = at_y(d, s->y[i]), zero = at_y(d, 0);
        double gap = right - left > 3 ? 0.5 : 0;
        html_add(d->p,
                 "<rect class=\"bar k%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                 "height=\"%.1f\"/>\n",
                 s->color % SVG_COLORS, left + gap, fmin(top, zero),
                 right - left - 2 * gap, fabs(zero - top));
    }
}

static void legend(struct page *p, const struct svg_chart *c)
{
    html_add(p, "<div class=\"legend\">");
    for (size_t k = 0; k < c->n; k++) {
        if (c->series[k].name == NULL)
            continue;
        html_add(p, "<span><i class=\"k%u\"></i>", c->series[k].color % SVG_COLORS);
        html_text(p, c->series[k].name);
        html_add(p, "</span>");
    }
    html_add(p, "</div>\n");
}

// Draws the vertical line with its name on the side that has more room.
static void draw_mark(const struct drawing *d, const struct svg_chart *c)
{
    double x = at_x(d, c->mark);
    bool left = x > (double)WIDTH / 2;
    html_add(d->p,
             "<path class=\"mark\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
             "text-anchor=\"%s\">",
             x, TOP, HEIGHT - BOTTOM, x + (left ? -5 : 5), TOP + 9,
             left ? "end" : "start");
    html_text(d->p, c->marked);
    html_add(d->p, "</text>\n");
}

void svg_chart(struct page *p, const struct svg_chart *c)
{
    struct drawing d = {.p = p, .x = fit(c, true), .y = fit(c, false)};
    html_add(p, "<figure><figcaption>");
    html_text(p, c->title);
    html_add(p, "</figcaption>\n");
    legend(p, c);
    html_add(p, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    html_text(p, c->title);
    html_add(p, "\"><title>");
    html_text(p, c->title);
    html_add(p, ": ");
    html_text(p, c->y);
    html_add(p, " over ");
    html_text(p, c->x);
    html_add(p, "</title>\n");
    axes(&d, c);
    if (isfinite(c->mark))
        draw_mark(&d, c);
    for (size_t k = 0; k < c->n; k++) {
        const struct svg_series *s = &c->series[k];
        if (s->mark == SVG_BARS)
            draw_bars(&d, s);
        else
            draw_line(&d, s);
        if (s->mark == SVG_DOTS || (s->mark != SVG_BARS && points_of(s) == 1))
            draw_dots(&d, s); // a line through one point shows nothing
    }
    html_add(p, "</svg>\n");
    if (c->note != NULL) {
        html_add(p, "<p>");
        html_text(p, c->note);
        html_add(p, "</p>");
    }
    html_add(p, "</figure>\n");
}
