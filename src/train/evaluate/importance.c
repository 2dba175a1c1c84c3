// See importance.h. The data is loaded once. Each column is one evaluation of the data,
// in which every example takes the column's features from another example, by a
// permutation.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/grow.h"
#include "train/evaluate/unseen.h"
#include "train/run.h"

struct measuring {
    struct evaluation_options o;
    const struct dataset *data;
    uint32_t slots;
    bool *present; // for each slot: whether an example has a feature in it
    bool *swapped; // for each slot: whether it is swapped in the current evaluation
    // The metrics of all tasks, of which only the first is used.
    struct metrics all[MODEL_MAX_TASKS];
    struct importance *lines;
    struct unseen known; // the counts of known features of the unchanged data
};

void importance_free(struct importance *m)
{
    mem_free(m->line);
    buf_free(&m->names);
    *m = (struct importance){0};
}

// ---------------------------------------------------------------- the data

// Loads the data, packed, into at most a third of the free memory.
static int importance_load(struct evaluation_options *o, struct dataset **ret,
                           struct err *e)
{
    struct numbering numbering = {0};
    if (o->numbered != NULL)
        o->numbering = &numbering;
    size_t chunks = (size_t)(mem_available() / 3 * 2 / RUN_CHUNK_BYTES) + 1;
    TRY(evaluation_load(o, chunks, ret, e));
    if (dataset_size(*ret) == 0)
        return err_set(e, TUG_EDATA, "%s: there is no example in the data",
                       source_file_name(o->source, 0));
    if (!dataset_at_end(*ret))
        return err_set(e, TUG_EUSAGE,
                       "--importance holds the data in memory, which has room for the "
                       "first %llu examples only: give a part of the data",
                       (unsigned long long)dataset_size(*ret));
    evaluation_compare(o, &numbering);
    o->numbering = NULL;
    return 0;
}

static int find_present(struct measuring *m, struct err *e)
{
    enum { AT_ONCE = 64 };
    struct batch b = {0};
    uint64_t order[AT_ONCE], size = dataset_size(m->data);
    int rc = 0;
    for (uint64_t i = 0; i < size && rc == 0; i += AT_ONCE) {
        size_t n = size - i < AT_ONCE ? (size_t)(size - i) : AT_ONCE;
        for (size_t k = 0; k < n; k++)
            order[k] = i + k;
        rc = dataset_gather(m->data, order, n, &b);
        for (size_t j = 0; rc == 0 && j < b.nnz; j++)
            m->present[b.slot[j]] = true;
    }
    batch_free(&b);
    return rc == 0 ? 0 : err_nomem(e, "a batch");
}

// ---------------------------------------------------------------- columns

// Returns the share of the swapped slots' features that the model does not know.
static double unknown_share(const struct measuring *m)
{
    uint64_t features = 0, known = 0;
    for (uint32_t s = 0; s < m->slots && s < m->known.n; s++) {
        features += m->swapped[s] ? m->known.slot[s].features : 0;
        known += m->swapped[s] ? m->known.slot[s].known : 0;
    }
    return features > 0 ? (double)(features - known) / (double)features : (double)NAN;
}

// Scores the data with the slots of `swapped` exchanged. `first` is the number of the
// first of these slots, and selects the permutation.
static int measure(struct measuring *m, uint32_t first, size_t name, struct err *e)
{
    struct importance *to = m->lines;
    struct swap s = {.slots = m->swapped,
                     .partners = shuffle_make(dataset_size(m->data), m->o.seed, first)};
    struct evaluation_options o = m->o;
    struct metrics got[MODEL_MAX_TASKS];
    o.swap = &s;
    o.what = NULL;
    o.each = NULL;
    o.calibration = NULL;
    o.curves = NULL;
    o.slots = NULL;
    TRY(evaluate(&o, got, e));
    if (!grow(&to->line, to->n + 1, sizeof(*to->line)))
        return err_nomem(e, "the importance of columns");
    to->line[to->n++] = (struct importance_line){.name = name,
                                                 .metrics = got[0],
                                                 .unknown = unknown_share(m),
                                                 .auc_drop = m->all[0].auc - got[0].auc,
                                                 .loss_rise = got[0].logloss -
                                                              m->all[0].logloss};
    return 0;
}

static int end_name(struct measuring *m, struct err *e)
{
    return buf_add(&m->lines->names, "", 1) == 0 ? 0
                                                 : err_nomem(e, "the names of columns");
}

static int measure_each(struct measuring *m, struct err *e)
{
    for (uint32_t s = 0; s < m->slots; s++) {
        if (!m->present[s])
            continue;
        size_t name = m->lines->names.len;
        reader_slot_name(m->o.reader, s, &m->lines->names);
        TRY(end_name(m, e));
        memset(m->swapped, 0, m->slots * sizeof(bool));
        m->swapped[s] = true;
        TRY(measure(m, s, name, e));
    }
    return 0;
}

// Marks the columns that `word` names, "a" or "a+b", as swapped.
static int swap_word(struct measuring *m, const char *word, size_t len,
                     uint32_t *ret_first, struct err *e)
{
    memset(m->swapped, 0, m->slots * sizeof(bool));
    const char *end = word + len;
    for (const char *name = word; name <= end;) {
        const char *plus = memchr(name, '+', (size_t)(end - name));
        const char *stop = plus != NULL ? plus : end;
        uint32_t slot;
        if (reader_find_slot(m->o.reader, name, (size_t)(stop - name), m->slots, &slot,
                             e) != 0)
            return err_wrap(e, "--only");
        if (name == word)
            *ret_first = slot;
        m->swapped[slot] = true;
        name = stop + 1;
    }
    return 0;
}

static int measure_words(struct measuring *m, const char *columns, struct err *e)
{
    const char *word;
    size_t len;
    while (reader_next_name(&columns, &word, &len)) {
        uint32_t first = 0;
        TRY(swap_word(m, word, len, &first, e));
        size_t name = m->lines->names.len;
        if (buf_add(&m->lines->names, word, len) != 0)
            return err_nomem(e, "the names of columns");
        TRY(end_name(m, e));
        TRY(measure(m, first, name, e));
    }
    return 0;
}

// ---------------------------------------------------------------- measuring all columns

// Orders lines by the drop in AUC, or by the rise of the loss if there is no AUC; equal
// lines keep the order of slots.
static int compare_lines(const void *a, const void *b)
{
    const struct importance_line *x = a, *y = b;
    double p = isnan(x->auc_drop) ? x->loss_rise : x->auc_drop;
    double q = isnan(y->auc_drop) ? y->loss_rise : y->auc_drop;
    if (p != q)
        return p > q ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

static int measure_all(struct measuring *m, const char *columns, struct err *e)
{
    m->slots = dataset_slots(m->data);
    if (m->slots < reader_slots(m->o.reader))
        m->slots = reader_slots(m->o.reader);
    m->present = mem_zalloc((m->slots + 1) * sizeof(bool));
    m->swapped = mem_zalloc((m->slots + 1) * sizeof(bool));
    if (m->present == NULL || m->swapped == NULL)
        return err_nomem(e, "the importance of columns");
    TRY(find_present(m, e));
    m->o.slots = &m->known;
    TRY(evaluate(&m->o, m->all, e));
    TRY(columns != NULL ? measure_words(m, columns, e) : measure_each(m, e));
    qsort(m->lines->line, m->lines->n, sizeof(*m->lines->line), compare_lines);
    return 0;
}

int importance(const struct evaluation_options *o, const char *columns,
               struct importance *ret_lines, struct metrics *ret, struct err *e)
{
    size_t none;
    struct dataset *d = NULL;
    struct measuring m = {.o = *o, .lines = ret_lines};
    ret_lines->names = BUF_INIT(1 << 30);
    // Check that the format has columns.
    TRY(reader_find_columns(o->reader, NULL, NULL, "--importance", 0, NULL, &none, e));
    int rc = importance_load(&m.o, &d, e);
    if (rc == 0) {
        m.data = m.o.data = d;
        rc = measure_all(&m, columns, e);
    }
    dataset_close(d);
    mem_free(m.present);
    mem_free(m.swapped);
    unseen_free(&m.known);
    memcpy(ret, m.all, o->parameters->model.options.tasks * sizeof(*ret));
    return rc;
}

static bool is_possible(const struct evaluation_options *o)
{
    enum { COLUMNS_MOST = 256 };
    size_t none;
    return o->source != NULL && o->group == NULL && o->by == NULL &&
           source_can_rewind(o->source) &&
           source_text_bytes(o->source) / 2 < mem_available() / 3 &&
           reader_slots(o->reader) <= COLUMNS_MOST &&
           reader_find_columns(o->reader, NULL, NULL, "", 0, NULL, &none, NULL) == 0;
}

int importance_if_possible(const struct evaluation_options *o,
                           struct importance *ret_lines, bool *ret_measured,
                           struct metrics *ret, struct err *e)
{
    *ret_measured = is_possible(o);
    if (!*ret_measured)
        return evaluate(o, ret, e);
    int rc = importance(o, NULL, ret_lines, ret, e);
    if (rc != TUG_EUSAGE)
        return rc;
    // The data needed more memory than its size had suggested, so it is only evaluated.
    *ret_measured = false;
    TRY(source_rewind(o->source, SOURCE_START, e));
    return evaluate(o, ret, e);
}
