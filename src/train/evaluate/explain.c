// See explain.h. One thread does all the work, because people read explanations one by
// one.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/explain.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/loss.h"
#include "train/names.h"
#include "train/rows/dense.h"
#include "train/rows/view.h"

enum { NO_TEXT = UINT32_MAX };

// The keys of a window. A key's id in the data set is its index in this list.
struct keys {
    pthread_mutex_t lock;
    uint64_t *key;
    size_t n, cap;
};

struct explanation {
    const struct explain_options *o;
    const struct parameters *p;
    struct keys keys;
    struct numbering numbering;
    struct named_columns columns; // the columns whose texts are wanted
    struct buf names; // the names of the example's columns and words, each with a NUL
    struct view view;
    struct model_work work;
    float *dense;
    size_t cap; // number of features that the arrays below have room for
    struct explained_feature *feature;
    struct model_explained_feature *part;
    uint32_t *column_at, *word_at; // offsets in `names`
    struct model_pair *pair;
};

static int explain_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    struct keys *k = ctx;
    pthread_mutex_lock(&k->lock);
    if (k->n + n > k->cap) {
        size_t cap = k->cap + k->cap / 2 + n;
        uint64_t *more = cap < PARAMETERS_UNSEEN
                             ? mem_realloc_array(k->key, cap, sizeof(*more))
                             : NULL;
        if (more == NULL) {
            pthread_mutex_unlock(&k->lock);
            return TUG_ENOMEM;
        }
        k->key = more;
        k->cap = cap;
    }
    for (size_t i = 0; i < n; i++) {
        k->key[k->n] = keys[i];
        ret_ids[i] = (uint32_t)k->n++;
    }
    pthread_mutex_unlock(&k->lock);
    return 0;
}

static int open_all(struct explanation *x, struct err *e)
{
    const struct model *m = &x->p->model;
    pthread_mutex_init(&x->keys.lock, NULL);
    x->names = BUF_INIT(1 << 30);
    if (!x->o->nameless)
        TRY(named_columns_open(&x->columns, x->o->data.reader, e));
    TRY(model_work_open(&x->work, m, e));
    x->dense = dense_floats(m);
    x->pair = mem_array(x->o->pairs + 1, sizeof(*x->pair));
    if (x->dense == NULL || x->pair == NULL)
        return err_nomem(e, "an explanation");
    dense_read(m, x->p->blocks, x->dense);
    x->work.dense = x->dense;
    return 0;
}

static void free_features(struct explanation *x)
{
    mem_free(x->feature);
    mem_free(x->part);
    mem_free(x->column_at);
    mem_free(x->word_at);
}

static void close_all(struct explanation *x)
{
    pthread_mutex_destroy(&x->keys.lock);
    mem_free(x->keys.key);
    buf_free(&x->names);
    named_columns_close(&x->columns);
    view_free(&x->view);
    model_work_close(&x->work);
    mem_free(x->dense);
    mem_free(x->pair);
    free_features(x);
}

static int explain_reserve(struct explanation *x, size_t n)
{
    if (n <= x->cap && x->feature != NULL)
        return 0;
    free_features(x);
    size_t cap = n + n / 2 + 1;
    x->feature = mem_array(cap, sizeof(*x->feature));
    x->part = mem_array(cap, sizeof(*x->part));
    x->column_at = mem_array(cap, sizeof(*x->column_at));
    x->word_at = mem_array(cap, sizeof(*x->word_at));
    x->cap = cap;
    return x->feature != NULL && x->part != NULL && x->column_at != NULL &&
                   x->word_at != NULL
               ? 0
               : TUG_ENOMEM;
}

// Gives a word to the feature that has the word's slot and key.
static int put_word(struct explanation *x, uint32_t slot, const struct reader_word *w)
{
    const struct batch *b = &x->view.batch;
    for (size_t j = 0; j < b->nnz; j++) {
        if (b->slot[j] != slot || x->keys.key[b->id[j]] != w->key)
            continue;
        x->word_at[j] = (uint32_t)x->names.len;
        x->feature[j].place = w->number;
        TRY(buf_add(&x->names, w->text, w->len));
        TRY(buf_add(&x->names, "", 1));
    }
    return 0;
}

// Names the features of a slot of several numbers by their positions.
static int put_places(struct explanation *x, uint32_t slot)
{
    struct reader_word w;
    struct err none;
    char place[24];
    for (unsigned i = 0;; i++) {
        int len = snprintf(place, sizeof(place), "%u", i);
        if (reader_word(x->o->data.reader, slot, place, (size_t)len, &w, &none) != 0 ||
            !w.number || w.len == 0)
            return 0;
        TRY(put_word(x, slot, &w));
    }
}

static int put_index(struct explanation *x, size_t j)
{
    x->word_at[j] = (uint32_t)x->names.len;
    TRY(buf_printf(&x->names, "%llu",
                   (unsigned long long)x->keys.key[x->view.batch.id[j]]));
    return buf_add(&x->names, "", 1);
}

static int name_features(struct explanation *x, const char *texts)
{
    const struct reader *r = x->o->data.reader;
    const struct batch *b = &x->view.batch;
    buf_clear(&x->names);
    for (size_t j = 0; j < b->nnz; j++) {
        x->word_at[j] = NO_TEXT;
        x->feature[j].place = false;
        x->column_at[j] = (uint32_t)x->names.len;
        TRY(reader_slot_name(r, b->slot[j], &x->names));
        TRY(buf_add(&x->names, "", 1));
        if (!reader_hashes(r))
            TRY(put_index(x, j));
    }
    for (size_t k = 0; k < x->columns.n; k++) {
        const char *text = texts;
        texts += strlen(texts) + 1;
        TRY(put_places(x, x->columns.slot[k]));
        for (struct reader_word w; reader_next_word(r, x->columns.slot[k], &text, &w);)
            TRY(put_word(x, x->columns.slot[k], &w));
    }
    return 0;
}

// Returns the word that training has kept for a key (--keep-names).
static const char *stored_word(const struct explanation *x, uint64_t key, size_t j)
{
    uint64_t examples;
    const char *name = names_find(x->o->stored, key, &examples);
    size_t column = strlen(x->names.data + x->column_at[j]);
    return name == NULL || strlen(name) < column ? NULL
                                                 : name + column + (name[column] == '=');
}

static void fill_feature(struct explanation *x, size_t j)
{
    struct view *v = &x->view;
    uint64_t key = x->keys.key[v->batch.id[j]];
    uint32_t id;
    // The cast removes const; parameters_resolve_seen only reads the parameters.
    (void)parameters_resolve_seen((void *)(uintptr_t)x->p, &key, 1, &id);
    v->rows[j] = parameters_row(x->p, table_slabs(x->p->sparse), id);
    x->feature[j] = (struct explained_feature){
        .key = key,
        .known = id != PARAMETERS_UNSEEN,
        .value = v->x[j],
        .column = x->names.data + x->column_at[j],
        .in_column = reader_slot_is_named(x->o->data.reader, v->batch.slot[j]),
        .word = x->word_at[j] != NO_TEXT ? x->names.data + x->word_at[j]
                                         : stored_word(x, key, j),
        .place = x->feature[j].place,
    };
}

static int explain_read(struct explanation *x, const struct dataset *d, uint64_t i,
                        struct explained *ret, struct err *e)
{
    struct view *v = &x->view;
    const struct model *m = &x->p->model;
    size_t n = v->batch.nnz;
    if (view_values(v, m) != 0 || explain_reserve(x, n) != 0 ||
        name_features(x, x->columns.n > 0 ? dataset_kept(d, i) : NULL) != 0)
        return err_nomem(e, "an explanation");
    for (size_t j = 0; j < n; j++)
        fill_feature(x, j);
    for (size_t j = n; j < n + KERNEL_PADDING; j++)
        v->rows[j] = x->p->zeros;
    ret->n = n;
    ret->feature = x->feature;
    ret->parts = (struct model_explained){
        .feature = x->part, .pair = x->pair, .max_pairs = x->o->pairs};
    struct model_batch b = view_batch(v);
    TRY(model_explain(&x->work, &b, &ret->parts, e));
    ret->prediction = loss_prediction(x->o->data.loss, (float)ret->parts.score);
    return 0;
}

static int explain_one(struct explanation *x, const struct dataset *d, uint64_t i,
                       struct err *e)
{
    struct explained it = {0};
    uint32_t file;
    dataset_where(d, i, &file, &it.line);
    it.file = source_file_name(x->o->data.source, file);
    if (dataset_gather(d, &i, 1, &x->view.batch) != 0)
        return err_nomem(e, "an explanation");
    it.skipped = x->o->data.hold_places && isnan(x->view.batch.label[0]);
    int rc = it.skipped ? 0 : explain_read(x, d, i, &it, e);
    if (rc != 0) {
        err_wrap(e, "%s:%llu", it.file, (unsigned long long)it.line);
        return rc;
    }
    return x->o->each(x->o->ctx, &it, e);
}

static int explain_window(struct explanation *x, bool *ret_more, struct err *e)
{
    struct evaluation_options o = x->o->data;
    o.resolve = explain_resolve;
    o.resolve_ctx = &x->keys;
    o.numbering = &x->numbering;
    o.keep = x->columns.n > 0 ? x->columns.list.data : NULL;
    o.keep_option = "the model";
    struct dataset *d = NULL;
    x->keys.n = 0;
    TRY(evaluation_load(&o, 1, &d, e));
    *ret_more = !dataset_at_end(d);
    int rc = 0;
    for (uint64_t i = 0; i < dataset_size(d) && rc == 0; i++)
        rc = o.interrupted != NULL && atomic_load(o.interrupted)
                 ? err_set(e, TUG_EINTERRUPTED, "interrupted while examples were scored")
                 : explain_one(x, d, i, e);
    dataset_close(d);
    return rc;
}

int explain(const struct explain_options *o, struct err *e)
{
    struct explanation x = {.o = o, .p = o->data.parameters};
    int rc = open_all(&x, e);
    for (bool more = true; rc == 0 && more;)
        rc = explain_window(&x, &more, e);
    if (rc == 0)
        evaluation_compare(&o->data, &x.numbering);
    close_all(&x);
    return rc;
}
