// Warns about a column, once, if a served model knows hardly any of the column's values.
// The scoring thread counts known and unknown values.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/frame/rows.h"
#include "os/log.h"
#include "serve/score_internal.h"

enum {
    WORDS_TOLD = 3,
    FEATURES_MIN = 20, // a column is judged after this many values
    FEW = 20, // the warning is given if the model knows fewer than one in FEW values
    ROWS_LOOKED_AT = 256,
};

int score_count_begin(struct scratch *x, struct err *e)
{
    const struct examples *a = &x->examples;
    size_t slots = 0;
    for (size_t j = 0; j < a->nnz; j++)
        slots = a->slot[j] >= slots ? (size_t)a->slot[j] + 1 : slots;
    if (unseen_reserve(&x->unseen, slots) != 0)
        return err_nomem(e, "a thread's scratch");
    x->counted = a->slot;
    return 0;
}

void score_count(struct scratch *x, const struct served_copy *c, uint64_t first)
{
    const uint16_t *slot = x->counted + first;
    for (size_t j = 0; j < x->view.batch.nnz; j++) {
        x->unseen.slot[slot[j]].features++;
        x->unseen.slot[slot[j]].known += x->view.rows[j] != c->p.zeros;
    }
}

// Some words of a column that the model does not know, for the warning.
struct words {
    const struct served_copy *copy;
    size_t column;
    uint32_t slot;
    size_t n;
    struct buf told;
};

static void look_at_line(struct words *w, const struct scratch *x, const char *line,
                         size_t len)
{
    struct buf text = BUF_INIT(1 << 16);
    struct reader_word word;
    uint32_t id;
    if (reader_columns(x->reader, x->layout, line, len, &w->column, 1, &text) == 0)
        for (const char *at = text.data;
             w->n < WORDS_TOLD && reader_next_word(x->reader, w->slot, &at, &word);) {
            table_find(w->copy->p.sparse, &word.key, 1, &id);
            if (id != TABLE_NONE || word.number || word.len == 0 || word.len > 64)
                continue;
            char quoted[80];
            int n = snprintf(quoted, sizeof(quoted), "'%.*s'", (int)word.len, word.text);
            const char *told = buf_str(&w->told);
            if (told == NULL || strstr(told, quoted) != NULL)
                continue;
            (void)buf_printf(&w->told, "%s%.*s", w->n++ > 0 ? ", " : ", such as ", n,
                             quoted);
        }
    buf_free(&text);
}

static void look_at_text(struct words *w, const struct scratch *x,
                         const struct score_given *given)
{
    const char *at = given->text, *end = at + given->bytes;
    bool header = reader_has_header(x->reader);
    for (; at < end && w->n < WORDS_TOLD; header = false) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        if (!header && !reader_skips(x->reader, at, (size_t)(stop - at)))
            look_at_line(w, x, at, (size_t)(stop - at));
        at = stop + 1;
    }
}

static void look_at_rows(struct words *w, const struct scratch *x,
                         const struct score_given *given)
{
    static const char padding[READER_PADDING] = {0};
    struct rows rows = *given->rows;
    struct buf text = BUF_INIT((size_t)1 << 30);
    rows.separator = reader_schema(x->reader)->separator;
    for (uint64_t i = 0; i < rows.n && i < ROWS_LOOKED_AT && w->n < WORDS_TOLD; i++) {
        buf_clear(&text);
        if (rows_text(&rows, i, &text, NULL) != 0)
            break;
        size_t len = text.len;
        if (buf_add(&text, padding, sizeof(padding)) != 0)
            break;
        look_at_line(w, x, text.data, len);
    }
    buf_free(&text);
}

static void score_unseen_tell(const struct served_copy *c, const struct scratch *x,
                              uint32_t slot, const struct score_given *given)
{
    const struct unseen_slot *u = &x->unseen.slot[slot];
    struct words w = {.copy = c, .slot = slot, .told = BUF_INIT(1 << 12)};
    struct buf name = BUF_INIT(SCHEMA_TEXT_MAX);
    size_t columns;
    const char *column = reader_slot_name(x->reader, slot, &name) == 0 &&
                                 reader_slot_is_named(x->reader, slot)
                             ? buf_str(&name)
                             : NULL;
    if (column != NULL && reader_find_columns(x->reader, x->layout, column, "", 1,
                                              &w.column, &columns, NULL) == 0) {
        if (given->rows != NULL)
            look_at_rows(&w, x, given);
        else
            look_at_text(&w, x, given);
    }
    const char *told = buf_str(&w.told);
    if (column != NULL)
        log_warn("the model knows %.1f %% of the values of column '%s' in the scored data"
                 "%s: were they written another way in the data that it was trained on?",
                 100 * (double)u->known / (double)u->features, column,
                 told != NULL ? told : "");
    buf_free(&w.told);
    buf_free(&name);
}

void score_count_end(struct served *s, const struct served_copy *c, struct scratch *x,
                     const struct score_given *given)
{
    x->counted = NULL;
    x->calls++;
    if ((x->calls & (x->calls - 1)) != 0) // checks only after 1, 2, 4, 8 ... calls
        return;
    for (uint32_t i = 0; i < x->unseen.n; i++) {
        const struct unseen_slot *u = &x->unseen.slot[i];
        uint64_t bit = (uint64_t)1 << (i % 64);
        if (u->features >= FEATURES_MIN && u->known * FEW < u->features &&
            (atomic_fetch_or(&s->told[i / 64 % SERVED_TOLD], bit) & bit) == 0)
            score_unseen_tell(c, x, i, given);
    }
}
