// See html_parts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "report/html_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "report/report_internal.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#dde2e9;"
    "--back:#f6f7f9;--card:#fff;--warn:#fff4d6;--c0:#2563eb;--c1:#d97706;--c2:#059669;"
    "--c3:#db2777;--c4:#7c3aed;--c5:#64748b}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#2f3947;"
    "--back:#12161c;--card:#1a2029;--warn:#3a2f12;--c0:#60a5fa;--c1:#fbbf24;--c2:#34d399;"
    "--c3:#f472b6;--c4:#a78bfa;--c5:#94a3b8}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1560px;padding:20px;background:var(--back);"
    "color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:32px 0 12px}\n"
    "p{margin:0 0 12px;max-width:75ch}.soft{color:var(--soft)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));"
    "gap:12px;margin:16px 0}\n"
    ".tile,figure,.card{background:var(--card);border:1px solid var(--line);"
    "border-radius:8px;padding:12px 14px;margin:0;min-width:0}\n"
    ".card{max-width:640px}.card table{width:100%}\n"
    ".tile b{display:block;font-size:26px;line-height:1.25}"
    ".tile span{color:var(--soft);font-size:13px}\n"
    ".grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),"
    "1fr)"
    ");"
    "gap:16px;align-items:start}\n"
    ".grid>figure{max-width:760px}\n"
    "figcaption{font-weight:600;margin-bottom:6px}"
    "figure>p{font-size:13px;margin:6px 0 0;color:var(--soft)}\n"
    "svg{display:block;width:100%;height:auto;font:12.5px system-ui,sans-serif;"
    "fill:var(--soft)}\n"
    "svg .axis{stroke:var(--line);fill:none}svg .line{fill:none;stroke-width:2}"
    "svg .thin{stroke-width:1.2;opacity:.75}"
    "svg .dash{stroke-dasharray:4 4}svg .mark{stroke:var(--soft);stroke-dasharray:3 3}\n"
    "svg .bar{stroke:none;opacity:.6}\n"
    ".k0{stroke:var(--c0);--k:var(--c0)}.k1{stroke:var(--c1);--k:var(--c1)}"
    ".k2{stroke:var(--c2);--k:var(--c2)}.k3{stroke:var(--c3);--k:var(--c3)}"
    ".k4{stroke:var(--c4);--k:var(--c4)}.k5{stroke:var(--c5);--k:var(--c5)}\n"
    "svg .bar,svg .dot{fill:var(--k)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;color:var(--soft);"
    "margin-bottom:4px}.legend i{display:inline-block;width:14px;height:4px;"
    "background:var(--k);margin-right:5px;vertical-align:middle;border-radius:2px}\n"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;"
    "font-variant-numeric:tabular-nums}data{white-space:nowrap}\n"
    "th,td{padding:3px 12px 3px 0;text-align:right;vertical-align:top;"
    "border-bottom:1px solid var(--line)}th{color:var(--soft);font-weight:500}\n"
    "th:first-child,td:first-child,.text{text-align:left}th{white-space:nowrap}\n"
    "td.text{min-width:8ch;overflow-wrap:anywhere}\n"
    ".usual{white-space:nowrap}\n"
    "td .share{display:inline-block;height:10px;background:var(--c0);border-radius:2px;"
    "vertical-align:baseline}\n"
    "details{margin:12px 0}summary{cursor:pointer;color:var(--soft)}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--card);"
    "border:1px solid var(--line);border-radius:8px;padding:10px;font-size:13px}\n"
    ".warn{background:var(--warn);border-radius:8px;padding:8px 14px;margin:12px 0}"
    ".warn p{margin:0;max-width:none;overflow-wrap:anywhere}\n"
    "@media print{*{print-color-adjust:exact}body{background:none;padding:0}"
    "figure,.tile,tr{break-inside:avoid}"
    ".grid{grid-template-columns:1fr 1fr}}\n";

void html_begin(struct page *p, const char *title)
{
    html_open(p, PAGE_MAX);
    html_add(p, REPORT_BEGIN "<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                             "<meta name=\"viewport\" content=\"width=device-width\">\n"
                             "<meta http-equiv=\"Content-Security-Policy\" "
                             "content=\"default-src 'none'; style-src 'unsafe-inline'; "
                             "img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n"
                             "<title>");
    html_text(p, title);
    html_add(p, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
}

void html_end(struct page *p)
{
    html_add(p, "</body>\n</html>\n");
    html_close(p);
}

const char *html_number(double x, char ret[HTML_NUMBER_MAX])
{
    double a = fabs(x);
    if (a < 1e15 && (x == floor(x) || a >= 10000))
        return html_count(x, ret);
    snprintf(ret, HTML_NUMBER_MAX,
             a >= 1e15 || a < 0.0001 ? "%.3g"
             : a >= 100              ? "%.1f"
             : a >= 10               ? "%.2f"
                                     : "%.4f",
             x);
    return ret;
}

// Appends a number as the text `shown`, with its exact value and its place in the
// result as attributes.
static void add_data(struct page *p, const json_t *value, const char *place,
                     const char *shown)
{
    char *exact = json_dumps(value, JSON_ENCODE_ANY);
    if (exact == NULL && p->rc == 0)
        p->rc = TUG_ENOMEM;
    html_add(p, "<data value=\"%s\" data-of=\"", exact != NULL ? exact : "");
    html_text(p, place);
    html_add(p, "\">%s</data>", shown);
    mem_free(exact);
}

void html_value(struct page *p, const json_t *value, const char *place, ...)
{
    char number[HTML_NUMBER_MAX], where[256];
    if (json_is_string(value)) {
        html_text(p, json_string_value(value));
        return;
    }
    if (!json_is_number(value)) {
        html_add(p, "%s",
                 json_is_true(value)    ? "yes"
                 : json_is_false(value) ? "no"
                                        : "none");
        return;
    }
    va_list args;
    va_start(args, place);
    (void)vsnprintf(where, sizeof(where), place, args);
    va_end(args);
    add_data(p, value, where, html_number(json_number_value(value), number));
}

void html_bytes(struct page *p, const json_t *value, const char *place)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    char shown[HTML_NUMBER_MAX + 8];
    double x = json_number_value(value);
    size_t unit = 0;
    if (!json_is_number(value)) {
        html_value(p, value, "%s", place);
        return;
    }
    for (; unit + 1 < sizeof(units) / sizeof(*units) && fabs(x) >= 999.5; unit++)
        x /= 1000;
    snprintf(shown, sizeof(shown), "%.*f %s", unit > 0 && fabs(x) < 99.95 ? 1 : 0, x,
             units[unit]);
    add_data(p, value, place, shown);
}

void html_seconds(struct page *p, const json_t *value, const char *place)
{
    if (json_is_number(value) && fabs(json_number_value(value)) < 5e-5)
        add_data(p, value, place, "0");
    else
        html_value(p, value, "%s", place);
}

// Copies the part of a list up to the next separator into ret; returns false at the end
// of the list.
static bool next_part(const char **list, char between, char ret[64])
{
    if (**list == '\0')
        return false;
    const char *end = strchrnul(*list, between);
    snprintf(ret, 64, "%.*s", (int)(end - *list), *list);
    *list = *end != '\0' ? end + 1 : end;
    return true;
}

enum { COLUMNS_MAX = 16 };

struct column {
    char name[64];
    bool there; // at least one row has a value in this column
    bool text;
};

// Returns a row's value in column k. A column name such as "valid/loss" means a member of
// a member. If the row is a list, returns its element k.
static const json_t *value_at(const json_t *row, const struct column *c, size_t k)
{
    char name[64];
    if (json_is_array(row))
        return json_array_get(row, k);
    snprintf(name, sizeof(name), "%.63s", c->name);
    char *slash = strchr(name, '/');
    if (slash == NULL)
        return json_object_get(row, name);
    *slash = '\0';
    return json_object_get(json_object_get(row, name), slash + 1);
}

// Splits the names of columns, and finds which columns have values.
static size_t find_columns(const json_t *rows, const char *names,
                           struct column ret[COLUMNS_MAX])
{
    size_t n = 0;
    while (n < COLUMNS_MAX && next_part(&names, ' ', ret[n].name))
        n++;
    for (size_t k = 0; k < n; k++) {
        ret[k].there = ret[k].text = false;
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *v = value_at(json_array_get(rows, i), &ret[k], k);
            ret[k].there |= v != NULL && !json_is_null(v);
            ret[k].text |= json_is_string(v) || json_is_array(v);
        }
    }
    return n;
}

// Appends a cell. If the value is a list of texts, each text is a line of the cell.
static void cell(struct page *p, const json_t *v, const char *place, size_t i,
                 const struct column *c)
{
    html_add(p, c->text ? "<td class=\"text\">" : "<td>");
    for (size_t k = 0; k < json_array_size(v); k++) {
        html_text(p, json_string_value(json_array_get(v, k)));
        html_add(p, "<br>");
    }
    if (!json_is_array(v))
        html_value(p, v, "%s/%zu/%s", place, i, c->name);
    html_add(p, "</td>");
}

void html_table(struct page *p, const json_t *rows, const char *place,
                const struct html_table *t)
{
    char part[64];
    const char *headings = t->headings;
    struct column c[COLUMNS_MAX];
    size_t n = find_columns(rows, t->names, c);
    if (json_array_size(rows) == 0)
        return;
    html_add(p, "<details%s><summary>", t->open ? " open" : "");
    html_text(p, t->title);
    html_add(p, "</summary><div class=\"scroll\"><table><thead><tr>");
    for (size_t k = 0; k < n && next_part(&headings, '|', part); k++) {
        if (!c[k].there)
            continue;
        html_add(p, "<th scope=\"col\"%s>", c[k].text ? " class=\"text\"" : "");
        html_text(p, part);
        html_add(p, "</th>");
    }
    html_add(p, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        html_add(p, "<tr>");
        for (size_t k = 0; k < n; k++)
            if (c[k].there)
                cell(p, value_at(json_array_get(rows, i), &c[k], k), place, i, &c[k]);
        html_add(p, "</tr>\n");
    }
    html_add(p, "</tbody></table></div></details>\n");
}
