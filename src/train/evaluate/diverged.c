// See diverged.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/diverged.h"

#include <math.h>
#include <stdio.h>

#include "base/finite.h"
#include "data/source/origins.h"
#include "os/log.h"
#include "train/rows/run_rows.h"
#include "train/rows/run_tables.h"

#define ADVICE "use a smaller --lr, a larger --l2, or scale the data's values"

enum { FEATURE_TEXT = 200 };

// Returns the column of numbers that has this key.
static uint32_t find_numbers(const struct reader *r, uint64_t key)
{
    struct reader_word w;
    struct err none;
    uint32_t slots = reader_hashes(r) ? reader_slots(r) : 0;
    for (uint32_t s = 0; s < slots; s++)
        if (reader_word(r, s, "0", 1, &w, &none) == 0 && w.number && w.key == key)
            return s;
    return DIVERGED_NO_SLOT;
}

static void place_text(const struct source *s, uint32_t file, uint64_t line,
                       char ret[ORIGIN_TEXT_MAX])
{
    if (source_rows(s, file) != NULL)
        snprintf(ret, ORIGIN_TEXT_MAX, "%s: row %llu", source_file_name(s, file),
                 (unsigned long long)line);
    else
        origins_text(source_file_name(s, file), line, ret);
}

// Names a feature as the user knows it: by its column, or by its index in the data.
static const char *feature_text(const struct reader *r, uint32_t slot, uint64_t key,
                                char ret[FEATURE_TEXT])
{
    struct buf name = BUF_INIT(SCHEMA_TEXT_MAX);
    if (slot == DIVERGED_NO_SLOT && r != NULL)
        slot = find_numbers(r, key);
    bool named = r != NULL && slot != DIVERGED_NO_SLOT &&
                 reader_slot_name(r, slot, &name) == 0 && reader_slot_is_named(r, slot);
    if (r != NULL && !reader_hashes(r))
        snprintf(ret, FEATURE_TEXT, "feature %llu%s%.*s", (unsigned long long)key,
                 named ? " of field " : "", named ? (int)name.len : 0,
                 named ? name.data : "");
    else if (named)
        snprintf(ret, FEATURE_TEXT, "column '%.*s'",
                 (int)(name.len < 100 ? name.len : 100), name.data);
    else
        snprintf(ret, FEATURE_TEXT, "the feature with key %llu", (unsigned long long)key);
    buf_free(&name);
    return ret;
}

// The largest |weight * x| of an example, with its key.
struct worst {
    double product; // infinite if the weight is not finite
    uint64_t key;
    uint32_t slot;
};

static void diverged_look_at(struct worst *worst, const struct accessor_group *g,
                             const float *row, float x)
{
    for (uint32_t c = 0; c < g->n; c++) {
        double a = fabs((double)row[g->weights + c] * (double)x);
        a = isfinite(a) ? a : (double)INFINITY;
        if (a > worst->product)
            *worst = (struct worst){a, table_row_key(row), DIVERGED_NO_SLOT};
    }
}

static struct worst find_worst(const struct model *m, const struct model_batch *b)
{
    struct worst worst = {.product = -1};
    bool apart = b->latent.start != NULL;
    for (uint32_t i = b->start[0]; i < b->start[b->n]; i++)
        for (uint32_t g = 0; g < (apart ? 1 : m->accessor.n_groups); g++)
            diverged_look_at(&worst, &m->accessor.groups[g], b->rows[i], b->x[i]);
    for (uint32_t i = 0; apart && i < b->latent.start[b->n]; i++)
        diverged_look_at(&worst, &m->accessor.groups[1], b->latent.rows[i],
                         b->latent.u[i]);
    return worst;
}

// Finds the largest term of an example. It uses the first worker's view, which is free
// because no worker is running.
static int explain(struct run *r, uint64_t example, struct worst *ret)
{
    struct worker *w = &r->local.workers[0];
    TRY(r->rows->local->open_worker(w));
    int rc = r->rows->local->take(w, &example, 1, NULL);
    if (rc == 0) {
        struct model_batch b = view_batch(&w->view);
        *ret = find_worst(r->model, &b);
        for (uint32_t i = b.start[0]; ret->product >= 0 && i < b.start[b.n]; i++)
            if (table_row_key(b.rows[i]) == ret->key)
                ret->slot = w->view.batch.slot[i];
    }
    r->rows->local->close_worker(w);
    return rc;
}

// Names, for a message, the layer of the first dense parameter that is not finite; "" if
// all are finite. The bias counts as a layer.
static void name_dense(const struct model *m, float *const *blocks,
                       char ret[MODEL_LAYER_NAME_MAX])
{
    const struct accessor_group *g = &m->dense.groups[0];
    ret[0] = '\0';
    for (size_t at = model_dense(m); at-- > 0;)
        if (!isfinite(blocks[at / g->n][g->weights + at % g->n]) &&
            (at > 0 || ret[0] == '\0'))
            model_dense_name(m, at, ret);
}

int diverged_score(struct run *r, uint64_t example, struct err *e)
{
    uint32_t file;
    uint64_t line;
    char where[ORIGIN_TEXT_MAX];
    dataset_where(r->data, example, &file, &line);
    place_text(r->source, file, line, where);
    struct worst worst;
    if (explain(r, example, &worst) != 0)
        return err_nomem(e, "explaining a score");
    char layer[MODEL_LAYER_NAME_MAX] = "", feature[FEATURE_TEXT];
    if (r->local.blocks != NULL)
        name_dense(r->model, r->local.blocks, layer);
    return err_because(
        e, TUG_EDATA, REASON_DIVERGED, 0,
        "training diverged: the score of %s is not finite (largest weight * value %g, of "
        "%s%s%s%s) in pass %u, batch %llu: " ADVICE,
        where, worst.product, feature_text(r->reader, worst.slot, worst.key, feature),
        layer[0] != '\0' ? "; in table " RUN_DENSE ", the weights of " : "", layer,
        layer[0] != '\0' ? " are not finite" : "", r->at.epoch + 1,
        (unsigned long long)r->at.batch);
}

// Returns the first row with a float that is not finite; NULL if all are finite.
static const float *find_bad_row(const struct table *t)
{
    uint32_t handles[256], width = table_options(t)->width;
    struct table_slabs slabs = table_slabs(t);
    uint64_t cursor = 0;
    for (size_t n; (n = table_scan(t, &cursor, handles, 256)) > 0;)
        for (size_t i = 0; i < n; i++)
            if (!finite_floats(table_row(slabs, handles[i]), width))
                return table_row(slabs, handles[i]);
    return NULL;
}

// Finds the first example of the data in memory that has this row's key. Returns false if
// there is none.
static bool find_example(const struct run *r, const float *row, uint64_t *ret_example,
                         uint32_t *ret_slot)
{
    struct view v = {0};
    uint64_t size = r->data != NULL ? dataset_size(r->data) : 0;
    bool found = false;
    for (uint64_t i = 0; i < size && !found; i++) {
        if (view_take(&v, r->data, &i, 1, &r->parameters, NULL) != 0)
            break; // then the message names the key but no example
        for (size_t j = 0; j < v.batch.nnz && !found; j++) {
            found = v.rows[j] == row;
            *ret_slot = v.batch.slot[j];
        }
        *ret_example = i;
    }
    view_free(&v);
    return found;
}

int diverged_key(uint64_t key, const struct reader *r, struct err *e)
{
    char feature[FEATURE_TEXT];
    return err_because(e, TUG_EDATA, REASON_DIVERGED, 0,
                       "training diverged: the weights of %s are not finite: " ADVICE,
                       feature_text(r, DIVERGED_NO_SLOT, key, feature));
}

int diverged_update(const struct reader *r, uint32_t slot, uint64_t key, const char *what,
                    const char *where, struct err *e)
{
    char feature[FEATURE_TEXT];
    return err_because(e, TUG_EDATA, REASON_DIVERGED, 0,
                       "training diverged: %s %s%s%s): " ADVICE, what,
                       feature_text(r, slot, key, feature),
                       where[0] != '\0' ? ", first in " : "", where);
}

void diverged_left_out(const struct reader *r, uint32_t slot, uint64_t key,
                       const char *where)
{
    char feature[FEATURE_TEXT];
    log_warn(
        "an update of %s%s%s%s was left out, because a state of its rule would become "
        "infinite: " ADVICE,
        feature_text(r, slot, key, feature), where[0] != '\0' ? " (first in " : "", where,
        where[0] != '\0' ? ")" : "");
}

int diverged_dense(const struct model *m, float *const *blocks, struct err *e)
{
    char layer[MODEL_LAYER_NAME_MAX] = "";
    if (blocks != NULL)
        name_dense(m, blocks, layer);
    // No layer is known if only a rule's state is not finite, or if the rows
    // are in another process.
    if (layer[0] == '\0')
        snprintf(layer, sizeof(layer), "%s",
                 model_has_layers(m) ? "the layers" : "the bias");
    return err_because(e, TUG_EDATA, REASON_DIVERGED, 0,
                       "training diverged: weights of %s, in table " RUN_DENSE
                       ", are not finite: " ADVICE,
                       layer);
}

int diverged_check_table(const struct table *t, const struct reader *r, struct err *e)
{
    const float *row = find_bad_row(t);
    return row == NULL ? 0 : diverged_key(table_row_key(row), r, e);
}

int diverged_check(const struct run *r, struct err *e)
{
    const float *row = find_bad_row(r->parameters.sparse);
    uint64_t example, line;
    uint32_t file, slot = DIVERGED_NO_SLOT;
    if (row == NULL)
        return find_bad_row(r->parameters.dense) == NULL
                   ? 0
                   : diverged_dense(&r->parameters.model, r->parameters.blocks, e);
    if (!find_example(r, row, &example, &slot))
        return diverged_key(table_row_key(row), r->reader, e);
    char where[ORIGIN_TEXT_MAX], feature[FEATURE_TEXT];
    dataset_where(r->data, example, &file, &line);
    place_text(r->source, file, line, where);
    return err_because(
        e, TUG_EDATA, REASON_DIVERGED, 0,
        "training diverged: the weights of %s are not finite (first in %s): " ADVICE,
        feature_text(r->reader, slot, table_row_key(row), feature), where);
}
