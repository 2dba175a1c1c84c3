// See explained.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/explained.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "base/printable.h"
#include "train/evaluate/guard.h"
#include "train/names.h"

static double left_out(const struct explained *x, size_t i)
{
    const struct model_explained_feature *f = &x->parts.feature[i];
    return f->linear + f->pairs + f->layers;
}

// Writes "user=17", "price", "embedding[2]", or "#123" if only the key is known.
static int put_name(struct buf *b, const struct explained_feature *f)
{
    struct buf name = BUF_INIT(1 << 20);
    bool unnamed = f->column[0] == '\0';
    int rc = buf_printf(&name, "%s", unnamed && f->in_column ? "''" : f->column);
    if (rc == 0 && f->word == NULL)
        rc = buf_printf(&name, "#%" PRIu64, f->key);
    else if (rc == 0 && f->place && f->word[0] != '\0')
        rc = buf_printf(&name, "[%s]", f->word);
    else if (rc == 0 && f->word[0] != '\0')
        rc = buf_printf(&name, "%s%s", unnamed && !f->in_column ? "" : "=", f->word);
    if (rc == 0)
        rc = printable_add(b, name.data, name.len);
    buf_free(&name);
    return rc;
}

// A feature's place in the list that is printed: features are sorted by how much the
// score changes without them, the largest change first.
struct place {
    double size;
    size_t i;
};

static int explained_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? 1 : -1;
    return x->i < y->i ? -1 : x->i > y->i;
}

// Returns by how much the score changes without feature i. NaN counts as infinite, so
// that a feature with NaN comes first.
static double size_of(const struct explained *x, size_t i)
{
    double size = fabs(left_out(x, i));
    return isnan(size) ? (double)INFINITY : size;
}

static struct place *sorted(const struct explained *x)
{
    struct place *order = mem_array(x->n + 1, sizeof(*order));
    for (size_t i = 0; i < x->n && order != NULL; i++)
        order[i] = (struct place){size_of(x, i), i};
    if (order != NULL)
        qsort(order, x->n, sizeof(*order), explained_compare);
    return order;
}

static int text_sums(struct buf *b, const struct explained *x)
{
    const struct model_explained *p = &x->parts;
    TRY(buf_printf(b, "%s:%" PRIu64 ": prediction %.7g, score %.7g\n", x->file, x->line,
                   x->prediction, p->score));
    TRY(buf_printf(b, "  %+12.6f  bias\n  %+12.6f  %zu feature%s\n", p->bias, p->linear,
                   x->n, PLURAL_S(x->n)));
    if (p->all_pairs > 0)
        TRY(buf_printf(b, "  %+12.6f  %" PRIu64 " pair%s\n", p->pairs, p->all_pairs,
                       PLURAL_S(p->all_pairs)));
    return p->layers != 0 ? buf_printf(b, "  %+12.6f  layers\n", p->layers) : 0;
}

static int text_feature(struct buf *b, const struct explained *x, size_t i)
{
    const struct model_explained_feature *p = &x->parts.feature[i];
    const struct explained_feature *f = &x->feature[i];
    TRY(buf_printf(b, "  %+12.6f %+12.6f", left_out(x, i), p->linear));
    if (x->parts.all_pairs > 0)
        TRY(buf_printf(b, " %+12.6f", p->pairs));
    if (x->parts.layers != 0)
        TRY(buf_printf(b, " %+12.6f", p->layers));
    TRY(buf_add(b, "  ", 2));
    TRY(put_name(b, f));
    if (f->value != 1)
        TRY(buf_printf(b, " (value %.7g)", (double)f->value));
    return buf_printf(b, "%s\n", f->known ? "" : " (the model does not know it)");
}

static int text_pairs(struct buf *b, const struct explained *x)
{
    const struct model_explained *p = &x->parts;
    if (p->n_pairs > 0)
        TRY(buf_printf(b, "  %12s\n", "pair"));
    for (size_t i = 0; i < p->n_pairs; i++) {
        TRY(buf_printf(b, "  %+12.6f  ", p->pair[i].adds));
        TRY(put_name(b, &x->feature[p->pair[i].a]));
        TRY(buf_add(b, " x ", 3));
        TRY(put_name(b, &x->feature[p->pair[i].b]));
        TRY(buf_add(b, "\n", 1));
    }
    return 0;
}

static int put_text(struct buf *b, const struct explained *x, const struct place *order)
{
    if (x->skipped)
        return buf_printf(b, "%s:%" PRIu64 ": could not be read\n", x->file, x->line);
    TRY(text_sums(b, x));
    TRY(buf_printf(b, "  %12s %12s", "left out", "linear"));
    if (x->parts.all_pairs > 0)
        TRY(buf_printf(b, " %12s", "pairs"));
    if (x->parts.layers != 0)
        TRY(buf_printf(b, " %12s", "layers"));
    TRY(buf_add(b, "\n", 1));
    for (size_t i = 0; i < x->n; i++)
        TRY(text_feature(b, x, order[i].i));
    return text_pairs(b, x);
}

static int json_text(struct buf *b, const char *name, const char *text)
{
    TRY(buf_printf(b, "\"%s\":", name));
    return text != NULL ? buf_json(b, text) : buf_printf(b, "null");
}

// Writes a comma, and then a member with a number.
static int json_number(struct buf *b, const char *name, double x)
{
    TRY(buf_printf(b, ",\"%s\":", name));
    return buf_json_number(b, 9, x);
}

static int json_feature(struct buf *b, const struct explained *x, size_t i)
{
    const struct model_explained_feature *p = &x->parts.feature[i];
    const struct explained_feature *f = &x->feature[i];
    TRY(buf_add(b, "{", 1));
    TRY(json_text(b, "column", f->in_column ? f->column : NULL));
    TRY(buf_add(b, ",", 1));
    TRY(json_text(b, "word", f->word));
    TRY(buf_printf(b, ",\"key\":\"%" PRIu64 "\"", f->key));
    TRY(json_number(b, "value", (double)f->value));
    TRY(buf_printf(b, ",\"known\":%s", f->known ? "true" : "false"));
    TRY(json_number(b, "left_out", left_out(x, i)));
    TRY(json_number(b, "linear", p->linear));
    TRY(json_number(b, "pairs", p->pairs));
    TRY(json_number(b, "layers", p->layers));
    return buf_add(b, "}", 1);
}

static int json_pairs(struct buf *b, const struct explained *x, const struct place *order)
{
    const struct model_explained *p = &x->parts;
    for (size_t i = 0; i < p->n_pairs; i++) {
        size_t first = 0, second = 0; // indices in the list of features
        for (size_t k = 0; k < x->n; k++) {
            first = order[k].i == p->pair[i].a ? k : first;
            second = order[k].i == p->pair[i].b ? k : second;
        }
        TRY(buf_printf(b, "%s{\"features\":[%zu,%zu]", i > 0 ? "," : "", first, second));
        TRY(json_number(b, "adds", p->pair[i].adds));
        TRY(buf_add(b, "}", 1));
    }
    return 0;
}

static int put_json(struct buf *b, const struct explained *x, const struct place *order)
{
    const struct model_explained *p = &x->parts;
    TRY(buf_add(b, "{", 1));
    TRY(json_text(b, "file", x->file));
    TRY(buf_printf(b, ",\"line\":%" PRIu64, x->line));
    if (x->skipped)
        return buf_printf(b, ",\"prediction\":null}\n");
    TRY(buf_printf(b, ",\"prediction\":"));
    TRY(buf_json_number(b, 7, x->prediction));
    TRY(json_number(b, "score", p->score));
    TRY(json_number(b, "bias", p->bias));
    TRY(json_number(b, "linear", p->linear));
    TRY(json_number(b, "pairs", p->pairs));
    TRY(json_number(b, "layers", p->layers));
    TRY(buf_printf(b, ",\"features\":["));
    for (size_t i = 0; i < x->n; i++) {
        if (i > 0)
            TRY(buf_add(b, ",", 1));
        TRY(json_feature(b, x, order[i].i));
    }
    TRY(buf_printf(b, "],\"largest_pairs\":["));
    TRY(json_pairs(b, x, order));
    return buf_printf(b, "]}\n");
}

int explained_put(struct buf *b, const struct explained *x, bool json)
{
    struct place *order = sorted(x);
    if (order == NULL)
        return TUG_ENOMEM;
    int rc = (json ? put_json : put_text)(b, x, order);
    mem_free(order);
    return rc;
}

int explained_run(struct opened_model *m, const struct predict_values *v,
                  int (*each)(void *ctx, const struct explained *x, struct err *e),
                  void *ctx, struct err *e)
{
    struct explain_options o = {.data = model_evaluation(m, &v->model),
                                .pairs = (size_t)v->top,
                                .nameless = v->model.allow_missing,
                                .each = each,
                                .ctx = ctx};
    o.data.eager = v->stream;
    o.data.hold_places = true;
    struct names *names;
    TRY(names_load(&names, m->dir, e));
    o.stored = names;
    int rc = explain(&o, e);
    names_close(names);
    TRY(rc);
    guard_columns(m->reader);
    return 0;
}
