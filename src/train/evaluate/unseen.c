// See unseen.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/unseen.h"

#include <string.h>

#include "base/alloc.h"
#include "data/format/grow.h"
#include "data/source/source.h"
#include "os/log.h"

enum {
    COLUMNS_TOLD = 4, // a warning names at most this many columns
    WORDS_TOLD = 3,   // and at most this many words of a column
    // A column is reported if the model knows fewer than one in FEW of its features.
    FEW = 20,
    LOOK_CHUNKS = 64,
    TEXT_BYTES = 1 << 12,
};

// A column that the warning names.
struct strange {
    uint32_t slot;
    size_t words; // number of words in `text`
    struct buf name, text;
};

int unseen_reserve(struct unseen *u, size_t slots)
{
    if (slots <= u->n)
        return 0;
    if (!grow(&u->slot, slots, sizeof(*u->slot)))
        return TUG_ENOMEM;
    memset(u->slot + u->n, 0, (slots - u->n) * sizeof(*u->slot));
    u->n = slots;
    return 0;
}

void unseen_add(struct unseen *to, const struct unseen *from)
{
    for (size_t s = 0; s < from->n; s++) {
        to->slot[s].features += from->slot[s].features;
        to->slot[s].known += from->slot[s].known;
    }
}

void unseen_free(struct unseen *u)
{
    mem_free(u->slot);
    *u = (struct unseen){0};
}

static bool is_strange(const struct unseen_slot *s)
{
    return s->features >= WORDS_TOLD && s->known * FEW < s->features;
}

static bool has_word(const struct buf *text, const char *word, size_t len)
{
    for (size_t at = 0; at < text->len; at += strlen(text->data + at) + 1)
        if (strlen(text->data + at) == len && memcmp(text->data + at, word, len) == 0)
            return true;
    return false;
}

static int take_word(struct strange *c, const struct evaluation_options *o,
                     const struct reader_word *w)
{
    uint32_t id = 0;
    dataset_resolve_fn resolve = o->resolve != NULL ? o->resolve
                                                    : parameters_resolve_seen;
    void *ctx = o->resolve != NULL ? o->resolve_ctx : (void *)(uintptr_t)o->parameters;
    if (w->len == 0 || w->len > 64 || w->number || has_word(&c->text, w->text, w->len))
        return 0;
    TRY(resolve(ctx, &w->key, 1, &id));
    if (id != PARAMETERS_UNSEEN)
        return 0;
    TRY(buf_add(&c->text, w->text, w->len));
    TRY(buf_add(&c->text, "", 1));
    c->words++;
    return 0;
}

// Collects words that the model does not know from an example's columns, whose texts
// stand one after the other.
static int take_example(struct strange *c, size_t n, const struct evaluation_options *o,
                        const char *kept, bool *ret_more)
{
    *ret_more = false;
    for (size_t k = 0; k < n; k++) {
        struct reader_word w;
        const char *text = kept;
        kept += strlen(kept) + 1;
        while (c[k].words < WORDS_TOLD &&
               reader_next_word(o->reader, c[k].slot, &text, &w))
            TRY(take_word(&c[k], o, &w));
        *ret_more |= c[k].words < WORDS_TOLD;
    }
    return 0;
}

// Reads the beginning of the data again to find words for the warning. After an error the
// warning has fewer words.
static int find_words(struct strange *c, size_t n, const struct evaluation_options *o)
{
    uint64_t bad = 0;
    struct buf names = BUF_INIT(SCHEMA_TEXT_MAX);
    struct evaluation_options again = *o;
    struct dataset *d = NULL;
    int rc = source_rewind(o->source, SOURCE_START, NULL);
    for (size_t k = 0; rc == 0 && k < n; k++)
        rc = buf_printf(&names, "%s%.*s", k > 0 ? "," : "", (int)c[k].name.len,
                        c[k].name.data);
    again.keep = buf_str(&names);
    again.keep_option = "";
    again.merge = NULL;
    again.max_bad_lines = UINT64_MAX;
    again.bad_lines = &bad;
    again.hold_places = false;
    if (rc == 0)
        rc = again.keep != NULL ? evaluation_load(&again, LOOK_CHUNKS, &d, NULL)
                                : TUG_ENOMEM;
    bool more = rc == 0;
    for (uint64_t i = 0; more && rc == 0 && i < dataset_size(d); i++)
        rc = take_example(c, n, o, dataset_kept(d, i), &more);
    dataset_close(d);
    buf_free(&names);
    return rc;
}

static void unseen_tell(const struct strange *c, const struct unseen_slot *s,
                        const char *what)
{
    struct buf words = BUF_INIT(TEXT_BYTES);
    size_t at = 0;
    int rc = 0;
    for (size_t i = 0; i < c->words && rc == 0; i++, at += strlen(c->text.data + at) + 1)
        rc = buf_printf(&words, "%s'%s'", i > 0 ? ", " : ", such as ", c->text.data + at);
    const char *as = buf_str(&words);
    log_warn("the model knows %.1f %% of the values of column '%.*s' in %s%s: were they "
             "written another way in the data that it was trained on?",
             100 * (double)s->known / (double)s->features, (int)c->name.len, c->name.data,
             what, as != NULL ? as : "");
    buf_free(&words);
}

void unseen_warn(const struct unseen *u, const struct evaluation_options *o,
                 const char *what)
{
    struct strange c[COLUMNS_TOLD] = {0};
    size_t n = 0, more = 0;
    struct buf name = BUF_INIT(SCHEMA_TEXT_MAX);
    for (uint32_t s = 0; s < u->n; s++) {
        buf_clear(&name);
        if (!is_strange(&u->slot[s]) || reader_slot_name(o->reader, s, &name) != 0 ||
            !reader_slot_is_named(o->reader, s))
            continue;
        if (n == COLUMNS_TOLD || memchr(name.data, ',', name.len) != NULL) {
            more++;
            continue;
        }
        c[n] = (struct strange){.slot = s, .name = name, .text = BUF_INIT(TEXT_BYTES)};
        name = BUF_INIT(SCHEMA_TEXT_MAX);
        n++;
    }
    if (n > 0 && o->source != NULL && source_can_rewind(o->source))
        (void)find_words(c, n, o);
    for (size_t k = 0; k < n; k++) {
        unseen_tell(&c[k], &u->slot[c[k].slot], what);
        buf_free(&c[k].name);
        buf_free(&c[k].text);
    }
    if (more > 0)
        log_warn("the same is true of %zu more columns", more);
    buf_free(&name);
}
