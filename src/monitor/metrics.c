// Renders facts as metrics. Each row of the table in metrics_table.c names a metric and
// the place of its value in the facts.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "monitor/metrics_internal.h"

enum { LABELS_MAX = 8 << 10 };

struct writer {
    const struct metric *row;
    const json_t *facts;
    bool open; // true: writes OpenMetrics; false: the text format of Prometheus
    struct buf *to;
    struct buf labels; // labels of the object that is being visited, without braces
    const json_t
        *of[METRIC_STEPS +
            1]; // the objects on the path to the visited object; of[0] has all facts
    size_t depth;
};

// ---------------------------------------------------------------- texts

// Adds a text with the escapes that it needs inside quotes. Both formats have the same
// escapes.
static int add_escaped(struct buf *to, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *put = *text == '\\'   ? "\\\\"
                          : *text == '"'  ? "\\\""
                          : *text == '\n' ? "\\n"
                                          : NULL;
        TRY(put != NULL ? buf_add(to, put, 2) : buf_add(to, text, 1));
    }
    return 0;
}

static int add_label(struct buf *to, const char *name, const json_t *value)
{
    if (value == NULL || json_is_null(value))
        return 0;
    TRY(buf_printf(to, "%s%s=\"", to->len > 0 ? "," : "", name));
    if (json_is_string(value))
        TRY(add_escaped(to, json_string_value(value)));
    else
        TRY(buf_printf(to, "%.0f", json_number_value(value)));
    return buf_printf(to, "\"");
}

static int add_number(struct buf *to, double x)
{
    if (x == trunc(x) && fabs(x) < 1e15)
        return buf_printf(to, " %.0f\n", x);
    return buf_printf(to, " %.12g\n", x);
}

// Adds a sample; `suffix` follows the name, `extra` the labels (both may be "").
static int add_sample(struct writer *w, const char *suffix, const char *extra, double x)
{
    const char *labels = buf_str(&w->labels);
    if (labels == NULL)
        return TUG_ENOMEM;
    bool both = *labels != '\0' && *extra != '\0',
         any = *labels != '\0' || *extra != '\0';
    TRY(buf_printf(w->to, "%s%s%s%s%s%s%s", w->row->name, suffix, any ? "{" : "", labels,
                   both ? "," : "", extra, any ? "}" : ""));
    return add_number(w->to, x);
}

// ---------------------------------------------------------------- values

// Returns the member of an object at a path, which is names with dots between them;
// NULL if it is missing.
static const json_t *member(const json_t *o, const char *path)
{
    char name[64];
    while (o != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        if (n >= sizeof(name))
            return NULL;
        memcpy(name, path, n);
        name[n] = '\0';
        o = json_object_get(o, name);
        path += n + (path[n] == '.');
    }
    return o;
}

static int add_histogram(struct writer *w, const json_t *o)
{
    const json_t *bounds = NULL, *counts = json_object_get(o, "buckets");
    char le[48];
    double sum = 0;
    for (size_t i = w->depth + 1; i > 0 && bounds == NULL; i--)
        bounds = json_object_get(w->of[i - 1], "bucket_seconds");
    if (bounds == NULL || json_array_size(counts) != json_array_size(bounds) + 1)
        return 0;
    for (size_t i = 0; i < json_array_size(counts); i++) {
        sum += json_number_value(json_array_get(counts, i));
        if (i < json_array_size(bounds))
            snprintf(le, sizeof(le), "le=\"%.12g\"",
                     json_number_value(json_array_get(bounds, i)));
        else
            snprintf(le, sizeof(le), "le=\"+Inf\"");
        TRY(add_sample(w, "_bucket", le, sum));
    }
    TRY(add_sample(w, "_sum", "", json_number_value(json_object_get(o, "seconds"))));
    return add_sample(w, "_count", "",
                      sum); // _count must equal the sum of the last bucket
}

static int add_value(struct writer *w, const json_t *o)
{
    const struct metric *row = w->row;
    const json_t *v = member(o, row->field);
    struct buf text = BUF_INIT(LABELS_MAX);
    if (row->type == METRIC_HISTOGRAM)
        return add_histogram(w, o);
    if (row->type != METRIC_TEXT)
        return json_is_number(v) || json_is_boolean(v)
                   ? add_sample(w, "", row->label,
                                json_is_number(v) ? json_number_value(v)
                                                  : json_is_true(v))
                   : 0;
    if (!json_is_string(v))
        return 0;
    int rc = add_label(&text, row->label, v);
    const char *extra = rc == 0 ? buf_str(&text) : NULL;
    rc = extra != NULL ? add_sample(w, "", extra, 1) : TUG_ENOMEM;
    buf_free(&text);
    return rc;
}

// ---------------------------------------------------------------- the walk

static int visit(struct writer *w, const json_t *o);

static int enter(struct writer *w, const struct metric_step *s, const char *key,
                 const json_t *o)
{
    size_t before = w->labels.len;
    if (!json_is_object(o) ||
        (s->only != NULL && strcmp(fact_text(o, "role"), s->only) != 0))
        return 0;
    int rc = 0;
    if (s->key_label != NULL && key != NULL) {
        json_t *name = json_string(key);
        rc = name != NULL ? add_label(&w->labels, s->key_label, name) : TUG_ENOMEM;
        json_decref(name);
    }
    for (size_t i = 0; i < METRIC_LABELS && s->labels[i][0] != NULL && rc == 0; i++)
        rc = add_label(&w->labels, s->labels[i][0], json_object_get(o, s->labels[i][1]));
    w->depth++;
    w->of[w->depth] = o;
    if (rc == 0)
        rc = visit(w, o);
    w->depth--;
    w->labels.len = before;
    return rc;
}

// Visits all objects at the end of the path of the row's scope.
static int visit(struct writer *w, const json_t *o)
{
    const struct metric_scope *s = &metric_scopes[w->row->scope];
    const struct metric_step *step = &s->steps[w->depth];
    if (w->depth == METRIC_STEPS || step->name == NULL)
        return add_value(w, o);
    json_t *next = json_object_get(o, step->name), *one;
    bool nodes = strcmp(step->name, "nodes") == 0;
    const char *key;
    size_t i;
    if (json_is_array(next)) {
        json_array_foreach(next, i, one) {
            // A replaced node would give a second sample with the labels of its successor.
            if (!nodes || !fact_is_replaced(next, one))
                TRY(enter(w, step, NULL, one));
        }
    } else if (step->key_label != NULL) {
        json_object_foreach(next, key, one)
            TRY(enter(w, step, key, one));
    } else if (next != NULL) {
        return enter(w, step, NULL, next);
    }
    return 0;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n > k && memcmp(text + n - k, end, k) == 0;
}

static int add_head(struct writer *w)
{
    static const char *const types[] = {[METRIC_GAUGE] = "gauge",
                                        [METRIC_COUNTER] = "counter",
                                        [METRIC_HISTOGRAM] = "histogram",
                                        [METRIC_TEXT] = "gauge"};
    const struct metric *row = w->row;
    size_t n = strlen(row->name);
    // OpenMetrics names the family of a counter without the suffix "_total" of its
    // samples.
    if (w->open && row->type == METRIC_COUNTER)
        n -= strlen("_total");
    TRY(buf_printf(w->to, "# HELP %.*s %s\n# TYPE %.*s %s\n", (int)n, row->name,
                   row->help, (int)n, row->name, types[row->type]));
    if (w->open &&
        (ends_with(row->name, n, "_seconds") || ends_with(row->name, n, "_bytes")))
        return buf_printf(w->to, "# UNIT %.*s %s\n", (int)n, row->name,
                          ends_with(row->name, n, "_bytes") ? "bytes" : "seconds");
    return 0;
}

static int add_row(struct writer *w, bool first)
{
    const char *only = metric_scopes[w->row->scope].role;
    const char *role = fact_text(w->facts, "role");
    if (only != NULL && strstr(only, role) == NULL)
        return 0;
    size_t before = w->to->len;
    if (first)
        TRY(add_head(w));
    size_t head = w->to->len;
    w->depth = 0;
    w->of[0] = w->facts;
    buf_clear(&w->labels);
    TRY(add_label(&w->labels, "role", json_object_get(w->facts, "role")));
    TRY(add_label(&w->labels, "rank", json_object_get(w->facts, "rank")));
    TRY(visit(w, w->facts));
    if (w->to->len == head && first)
        // No object has a value: removes the lines HELP and TYPE again.
        w->to->len = before;
    return 0;
}

int render_metrics(const json_t *facts, bool open_metrics, struct buf *to)
{
    struct writer w = {
        .facts = facts, .open = open_metrics, .to = to, .labels = BUF_INIT(LABELS_MAX)};
    int rc = 0;
    const char *begun = ""; // the metric whose HELP and TYPE lines were written last
    for (size_t i = 0; i < metrics_n && rc == 0; i++) {
        w.row = &metrics[i];
        size_t before = to->len;
        rc = add_row(&w, strcmp(begun, w.row->name) != 0);
        if (to->len > before)
            begun = w.row->name;
    }
    if (rc == 0 && open_metrics)
        rc = buf_printf(to, "# EOF\n");
    buf_free(&w.labels);
    return rc;
}
