// Scores examples with a served model; see score.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "serve/score.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/loss.h"
#include "os/log.h"
#include "serve/score_internal.h"

enum {
    PIECE = 64, // the largest number of examples that are computed together
    PIECE_WITHOUT_LAYERS = 16,
    PIECE_FEATURES = 1 << 30, // the largest number of features of these examples together
};

// ------------------------------------------------------------ memory of a scoring thread

static void close_scratch(struct scratch *x)
{
    if (x == NULL)
        return;
    view_free(&x->view);
    model_work_close(&x->work);
    score_close_text(x);
    unseen_free(&x->unseen);
    mem_free(x);
}

static int open_scratch(struct served *s, struct served_reader *r, struct err *e)
{
    struct scratch *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a thread's scratch");
    struct batch *b = &x->view.batch;
    b->labels = s->model.options.tasks;
    b->start = mem_array(PIECE + 1, sizeof(*b->start));
    b->label = mem_zalloc(PIECE * MODEL_MAX_TASKS * sizeof(*b->label));
    int rc = b->start != NULL && b->label != NULL
                 ? model_work_open(&x->work, &s->model, e)
                 : err_nomem(e, "a thread's scratch");
    if (rc == 0)
        r->scratch = x;
    else
        close_scratch(x);
    return rc;
}

int score_enter(struct served *s, struct served_reader **ret, struct err *e)
{
    struct served_reader *r = served_enter(s);
    if (r == NULL)
        return err_set(e, TUG_EUSAGE, "more than %d threads score with one model at once",
                       SERVED_READERS);
    int rc = r->scratch == NULL ? open_scratch(s, r, e) : 0;
    if (rc == 0)
        *ret = r;
    else
        served_leave(r);
    return rc;
}

void score_close(struct served *s)
{
    for (size_t i = 0; s != NULL && i < SERVED_READERS; i++) {
        close_scratch(s->readers[i].scratch);
        s->readers[i].scratch = NULL;
    }
}

static int score_reserve(struct scratch *x, size_t nnz, struct err *e)
{
    struct batch *b = &x->view.batch;
    if (nnz <= b->cap_nnz)
        return 0;
    size_t cap = nnz + nnz / 2 + KERNEL_PADDING;
    mem_free(b->id);
    mem_free(b->slot);
    b->id = mem_array(cap, sizeof(*b->id));
    b->slot = mem_zalloc(cap * sizeof(*b->slot));
    b->cap_nnz = b->id != NULL && b->slot != NULL ? cap - KERNEL_PADDING : 0;
    x->slots_zero = true;
    return b->cap_nnz > 0 ? 0 : err_nomem(e, "a thread's scratch");
}

// ---------------------------------------------------------------- input from the program

static int bad_row(const struct score_rows *rows, size_t i, struct err *e)
{
    for (uint64_t j = rows->offsets[i]; j < rows->offsets[i + 1]; j++)
        if (!isfinite(rows->values[j]))
            return err_set(e, TUG_EUSAGE,
                           "rows: a value of row %zu, of key %" PRIu64 ", is not finite",
                           i, rows->keys[j]);
    return 0;
}

static int check_offsets(const struct score_rows *rows, size_t i, size_t n, struct err *e)
{
    for (size_t k = i; k < i + n; k++)
        if (rows->offsets[k + 1] < rows->offsets[k])
            return err_set(e, TUG_EUSAGE,
                           "rows: offsets descend from row %zu to the next: %" PRIu64
                           ", %" PRIu64,
                           k, rows->offsets[k], rows->offsets[k + 1]);
    return rows->offsets[i + n] - rows->offsets[i] <= PIECE_FEATURES
               ? 0
               : err_set(e, TUG_EUSAGE, "rows: %zu to %zu have more than %d features", i,
                         i + n, PIECE_FEATURES);
}

static int check_fields(const struct served *s, const struct score_rows *rows,
                        struct err *e)
{
    const struct model_options *o = &s->model.options;
    if (!o->ops->needs_fields || rows->fields != NULL)
        return 0;
    return err_set(e, TUG_EUSAGE, "rows: a model %s needs fields, but the rows have none",
                   o->ops->name);
}

// Takes the fields of rows into the batch. Models without fields ignore them.
static int take_fields(const struct served *s, struct scratch *x,
                       const struct score_rows *rows, uint64_t from, size_t nnz,
                       struct err *e)
{
    const struct model_options *o = &s->model.options;
    uint16_t *slot = x->view.batch.slot;
    if (!o->ops->needs_fields) {
        if (!x->slots_zero)
            memset(slot, 0, x->view.batch.cap_nnz * sizeof(*slot));
        x->slots_zero = true;
        return 0;
    }
    uint32_t bound = o->fields < UINT16_MAX + 1 ? o->fields : UINT16_MAX + 1;
    x->slots_zero = false;
    for (size_t j = 0; j < nnz; j++) {
        uint32_t field = rows->fields[from + j];
        if (field >= bound)
            return err_set(e, TUG_EUSAGE,
                           "rows: field %u of key %" PRIu64
                           " is not below %u, the number of the model's fields%s",
                           field, rows->keys[from + j], bound,
                           field == bound ? READER_FIELDS_FROM_1 : "");
        slot[j] = (uint16_t)field;
    }
    return 0;
}

static int take_piece(const struct served *s, struct scratch *x,
                      const struct score_rows *rows, size_t first, size_t n,
                      struct err *e)
{
    struct batch *b = &x->view.batch;
    TRY(check_offsets(rows, first, n, e));
    uint64_t from = rows->offsets[first];
    size_t nnz = (size_t)(rows->offsets[first + n] - from);
    TRY(score_reserve(x, nnz, e));
    b->n = n;
    b->nnz = nnz;
    for (size_t i = 0; i <= n; i++)
        b->start[i] = (uint32_t)(rows->offsets[first + i] - from);
    b->value = NULL;
    if (rows->values != NULL) {
        float zero = 0; // becomes NaN if a value is not finite
        for (size_t j = 0; j < nnz; j++)
            zero += rows->values[from + j] * 0;
        for (size_t i = first; i < first + n && zero != 0; i++)
            TRY(bad_row(rows, i, e));
        b->value = (float *)(uintptr_t)(rows->values + from); // the values are only read
    }
    TRY(take_fields(s, x, rows, from, nnz, e));
    return view_values(&x->view, &s->model) == 0 ? 0 : err_nomem(e, "a batch");
}

// ---------------------------------------------------------------- scoring

// Finds the rows of known keys, and thereby loads them into the cache.
static void find_rows(struct scratch *x, const struct served_copy *c,
                      const uint64_t *keys)
{
    struct view *v = &x->view;
    size_t nnz = v->batch.nnz;
    struct table_slabs slabs = table_slabs(c->p.sparse);
    table_find(c->p.sparse, keys, nnz, v->batch.id);
    for (size_t j = 0; j < nnz; j++) {
        uint32_t id = v->batch.id[j];
        float *row = id == TABLE_NONE ? c->p.zeros : table_row(slabs, id);
        table_row_prefetch_rest(row, slabs.stride);
        v->rows[j] = row;
    }
    for (size_t j = nnz; j < nnz + KERNEL_PADDING; j++)
        v->rows[j] = c->p.zeros;
}

// Returns the number of examples that are computed together. Models with layers multiply
// matrices for many examples at once. All other models are fastest with few examples:
// their rows and lines of the index lie on few pages, whose addresses the core's TLB
// still has when it computes the scores.
static size_t piece_of(const struct served *s)
{
    return model_has_layers(&s->model) ? PIECE : PIECE_WITHOUT_LAYERS;
}

static int score_pieces(struct served *s, struct scratch *x, const struct served_copy *c,
                        const struct score_rows *rows, bool raw, float *ret,
                        struct err *e)
{
    uint32_t tasks = s->model.options.tasks;
    enum loss loss = s->run->schema.loss;
    size_t piece = piece_of(s);
    x->work.dense = c->dense;
    for (size_t at = 0, n; at < rows->n; at += n, ret += n * tasks) {
        n = rows->n - at < piece ? rows->n - at : piece;
        TRY(take_piece(s, x, rows, at, n, e));
        find_rows(x, c, rows->keys + rows->offsets[at]);
        if (x->counted != NULL)
            score_count(x, c, rows->offsets[at]);
        struct model_batch b = view_batch(&x->view);
        if (model_scores(&x->work, &b, ret) != 0)
            return err_nomem(e, "scoring examples");
        for (size_t i = 0; i < n * tasks; i++) {
            ret[i] = c->dense[i % tasks] + ret[i];
            if (!raw)
                ret[i] = (float)loss_prediction(loss, ret[i]);
        }
    }
    return 0;
}

static void add_fields(struct numbering *to, const uint32_t *fields, size_t n)
{
    uint64_t least = UINT64_MAX, end = 0;
    for (size_t j = 0; j < n; j++) {
        least = fields[j] < least ? fields[j] : least;
        end = fields[j] >= end ? (uint64_t)fields[j] + 1 : end;
    }
    numbering_add_fields(to, least, end);
}

// Compares the numbers of the data's features with those of the model's features. Once it
// has warned of a difference, it no longer compares.
static void score_compare(struct served *s, struct scratch *x,
                          const struct served_copy *c, const struct score_rows *rows)
{
    char text[NUMBERING_TEXT];
    if (!s->numbered || atomic_load_explicit(&s->differs, memory_order_relaxed))
        return;
    uint64_t first = rows->n > 0 ? rows->offsets[0] : 0;
    size_t n = rows->n > 0 ? (size_t)(rows->offsets[rows->n] - first) : 0;
    numbering_add(&x->numbering, rows->keys + first, n);
    if (s->model.options.ops->needs_fields)
        add_fields(&x->numbering, rows->fields + first, n);
    x->numbering.columns = rows->columns;
    if (!numbering_differs(&c->p.known, &x->numbering, "data", text) ||
        atomic_exchange(&s->differs, true))
        return;
    log_warn("%s", text);
}

int score_by(struct served *s, struct served_reader *r, const struct score_rows *rows,
             bool raw, float *ret, uint32_t *ret_number, struct err *e)
{
    const struct served_copy *c = served_pin(s, r);
    int rc = score_pieces(s, r->scratch, c, rows, raw, ret, e);
    if (rc == 0)
        score_compare(s, r->scratch, c, rows);
    if (ret_number != NULL)
        *ret_number = c->number;
    served_unpin(r);
    return rc;
}

int score_rows(struct served *s, const struct score_rows *rows, bool raw, float *ret,
               uint32_t *ret_number, struct err *e)
{
    struct served_reader *r;
    if (rows->n > 0 &&
        (rows->offsets == NULL ||
         (rows->keys == NULL && rows->offsets[rows->n] > rows->offsets[0])))
        return err_set(e, TUG_EUSAGE, "rows: offsets or keys are missing");
    TRY(check_fields(s, rows, e));
    TRY(score_enter(s, &r, e));
    int rc = score_by(s, r, rows, raw, ret, ret_number, e);
    served_leave(r);
    return rc;
}
