// See names.h.
//
// File format: "tugnames", the number of words, {key, examples, length} and text of each
// word, and a checksum of all that. Bytes are in native order, as in files of rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/names.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/key_texts.h"
#include "data/dataset/dataset.h"
#include "data/format/kept.h"
#include "os/file.h"
#include "os/log.h"
#include "save/save.h"

enum {
    TEXT_BYTES = 1 << 30,
    WINDOW_CHUNKS = 16,
    WORD_MAX = 4096,
    NAME_BYTES = 2 * WORD_MAX
};
static const char magic[8] = "tugnames";

struct names {
    struct key_texts words; // the words by key
    uint64_t *examples;     // for each word: the number of examples that have it
    // For each word: the last example that had it, from 1, so that an example counts
    // once.
    uint64_t *last;
    size_t cap; // room for words in both arrays
    // `max`: the greatest number of words that are kept; `left_out`: how often
    // other words occurred.
    uint64_t max, left_out;
};

int named_columns_open(struct named_columns *c, const struct reader *r, struct err *e)
{
    struct buf name = BUF_INIT(SCHEMA_TEXT_MAX);
    uint32_t slots = reader_hashes(r) ? reader_slots(r) : 0;
    int rc = 0;
    *c = (struct named_columns){.list = BUF_INIT(1 << 20)};
    c->slot = mem_array(KEPT_COLUMNS, sizeof(*c->slot));
    if (c->slot == NULL)
        return err_nomem(e, "the names of columns");
    for (uint32_t s = 0; s < slots && c->n < KEPT_COLUMNS && rc == 0; s++) {
        buf_clear(&name);
        rc = reader_slot_name(r, s, &name);
        if (rc != 0 || !reader_slot_is_named(r, s) ||
            memchr(name.data, ',', name.len) != NULL)
            continue;
        rc = buf_printf(&c->list, "%s%.*s", c->n > 0 ? "," : "", (int)name.len,
                        name.data);
        c->slot[c->n++] = s;
    }
    buf_free(&name);
    // End the list with a NUL: a single empty name has added no bytes.
    if (rc == 0 && buf_add(&c->list, "", 1) == 0)
        return 0;
    named_columns_close(c);
    return err_nomem(e, "the names of columns");
}

void named_columns_close(struct named_columns *c)
{
    buf_free(&c->list);
    mem_free(c->slot);
    *c = (struct named_columns){0};
}

static struct names *names_new(uint64_t max)
{
    struct names *n = mem_zalloc(sizeof(*n));
    if (n != NULL) {
        n->words = KEY_TEXTS_INIT(TEXT_BYTES);
        n->max = max < KEY_TEXTS_MAX ? max : KEY_TEXTS_MAX;
    }
    return n;
}

void names_close(struct names *n)
{
    if (n == NULL)
        return;
    key_texts_fini(&n->words);
    mem_free(n->examples);
    mem_free(n->last);
    mem_free(n);
}

static int names_reserve(struct names *n)
{
    TRY(key_texts_reserve(&n->words));
    if (n->cap == n->words.cap)
        return 0;
    uint64_t *more = mem_realloc_array(n->examples, n->words.cap, sizeof(*more));
    if (more == NULL)
        return TUG_ENOMEM;
    n->examples = more;
    more = mem_realloc_array(n->last, n->words.cap, sizeof(*more));
    if (more == NULL)
        return TUG_ENOMEM;
    n->last = more;
    n->cap = n->words.cap;
    return 0;
}

// Adds a new word; counts it as left out if there is no room for it.
static int names_add(struct names *n, uint64_t key, uint64_t examples, const char *column,
                     const char *text, size_t len)
{
    struct buf *to = &n->words.text;
    size_t at = to->len;
    if (n->words.n == n->max || len > NAME_BYTES || at > TEXT_BYTES - 2 * NAME_BYTES) {
        n->left_out++;
        return 0;
    }
    TRY(names_reserve(n));
    TRY(buf_printf(to, "%s%s%.*s", column, column[0] != '\0' && len > 0 ? "=" : "",
                   (int)len, text));
    TRY(key_texts_add(&n->words, key, at));
    n->examples[n->words.n - 1] = examples;
    n->last[n->words.n - 1] = 0;
    return 0;
}

const char *names_find(const struct names *n, uint64_t key, uint64_t *ret_examples)
{
    size_t i = n != NULL ? key_texts_find(&n->words, key) : 0;
    if (i == 0)
        return NULL;
    *ret_examples = n->examples[i - 1];
    return key_texts_at(&n->words, i - 1);
}

// ----------------------------------------------------------- reading words from the data

// Adds the positions in a slot of numbers as words. The data does not contain them, and
// every example has all of them.
static int add_places(struct names *n, const struct reader *r, uint32_t slot,
                      const char *column)
{
    struct reader_word w;
    struct err none;
    char place[24];
    for (unsigned long i = 0; n->words.n < n->max; i++) {
        int len = snprintf(place, sizeof(place), "%lu", i);
        if (reader_word(r, slot, place, (size_t)len, &w, &none) != 0 || !w.number ||
            w.len == 0)
            break;
        if (key_texts_find(&n->words, w.key) == 0)
            TRY(names_add(n, w.key, 0, column, w.text, w.len));
    }
    return 0;
}

static void names_count(struct names *n, size_t word, uint64_t example)
{
    n->examples[word] += n->last[word] != example;
    n->last[word] = example;
}

// Adds the words of one column of an example; examples are numbered from 1.
static int names_read_text(struct names *n, const struct reader *r, uint32_t slot,
                           const char *column, const char *text, uint64_t example)
{
    struct reader_word w;
    while (reader_next_word(r, slot, &text, &w)) {
        if (w.number && w.len > 0)
            continue; // a number has no word
        if (w.len > WORD_MAX) {
            n->left_out++;
            continue;
        }
        if (key_texts_find(&n->words, w.key) == 0)
            TRY(names_add(n, w.key, 0, column, w.text, w.len));
        size_t i = key_texts_find(&n->words, w.key);
        if (i != 0)
            names_count(n, i - 1, example);
    }
    return 0;
}

// Copies the name at *at, and moves *at to the next name.
static void next_column(const char **at, char name[WORD_MAX])
{
    size_t len = strcspn(*at, ",");
    snprintf(name, WORD_MAX, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == ',');
}

// Reads the names in a window of the data. `examples` is the number of examples before
// the window.
static int read_window(struct names *n, const struct named_columns *c,
                       const struct reader *r, const struct dataset *d, uint64_t examples)
{
    char name[WORD_MAX];
    for (uint64_t i = 0; i < dataset_size(d); i++) {
        const char *text = dataset_kept(d, i), *column = c->list.data;
        for (size_t k = 0; k < c->n; k++, text += strlen(text) + 1) {
            next_column(&column, name);
            TRY(names_read_text(n, r, c->slot[k], name, text, examples + i + 1));
        }
    }
    return 0;
}

static int read_all(struct names *n, const struct named_columns *c,
                    const struct names_options *o, struct err *e)
{
    uint64_t bad = 0, examples = 0;
    char name[WORD_MAX];
    const char *column = c->list.data;
    for (size_t k = 0; k < c->n; k++) {
        next_column(&column, name);
        if (add_places(n, o->reader, c->slot[k], name) != 0)
            return err_nomem(e, "the words of the data");
    }
    size_t places = n->words.n;
    struct dataset_options options = {.source = o->source,
                                      .reader = o->reader,
                                      .team = o->team,
                                      .resolve = dataset_resolve_nothing,
                                      .max_chunks = WINDOW_CHUNKS,
                                      .max_bad_lines = o->max_bad_lines,
                                      .bad_lines = &bad,
                                      .keep = c->n > 0 ? c->list.data : NULL,
                                      .keep_option = "--keep-names"};
    for (bool more = true; more;) {
        struct dataset *d = NULL;
        TRY(dataset_load(&d, &options, e));
        more = !dataset_at_end(d);
        int rc = read_window(n, c, o->reader, d, examples);
        examples += dataset_size(d);
        dataset_close(d);
        if (rc != 0)
            return err_nomem(e, "the words of the data");
        if (o->interrupted != NULL && atomic_load(o->interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted while words were read");
    }
    for (size_t i = 0; i < places; i++)
        n->examples[i] = examples;
    return 0;
}

int names_read(struct names **ret, const struct names_options *o, struct err *e)
{
    struct named_columns c;
    struct names *n = names_new(o->max);
    if (n == NULL)
        return err_nomem(e, "the words of the data");
    int rc = named_columns_open(&c, o->reader, e);
    if (rc == 0 && c.n == 0)
        rc = err_set(e, TUG_EUSAGE,
                     "--keep-names: keys of %s data are indices and have no words",
                     reader_schema(o->reader)->format);
    if (rc == 0)
        rc = read_all(n, &c, o, e);
    named_columns_close(&c);
    if (rc == 0 && n->left_out > 0)
        log_warn("--keep-names %llu: there was no room for more words; words that were "
                 "not kept occurred %llu times",
                 (unsigned long long)n->max, (unsigned long long)n->left_out);
    if (rc == 0)
        *ret = n;
    else
        names_close(n);
    return rc;
}

// ------------------------------------------------- writing and reading the file of words

struct record {
    uint64_t key, examples, len;
};

struct output {
    struct file_writer *file;
    struct hash_stream hash;
};

static int names_put(struct output *o, const void *bytes, size_t n, struct err *e)
{
    hash_stream_add(&o->hash, bytes, n);
    return file_write(o->file, bytes, n, e);
}

static int write_all(const struct names *n, struct output *o, struct err *e)
{
    uint64_t count = n->words.n;
    TRY(names_put(o, magic, sizeof(magic), e));
    TRY(names_put(o, &count, sizeof(count), e));
    for (size_t i = 0; i < n->words.n; i++) {
        const char *text = key_texts_at(&n->words, i);
        struct record r = {n->words.key[i], n->examples[i], strlen(text)};
        TRY(names_put(o, &r, sizeof(r), e));
        TRY(names_put(o, text, r.len, e));
    }
    uint64_t sum = hash_stream_end(&o->hash);
    return file_write(o->file, &sum, sizeof(sum), e);
}

int names_write(const struct names *n, const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    struct output o;
    hash_stream_begin(&o.hash, 0);
    TRY(file_join(path, dir, SAVE_NAMES, e));
    TRY(file_create_in(&o.file, FILE_OWN, path, e));
    int rc = write_all(n, &o, e);
    if (rc == 0)
        return file_commit(o.file, e);
    file_abort(o.file);
    return rc;
}

static bool names_take(const char **at, const char *end, void *ret, size_t n)
{
    if ((size_t)(end - *at) < n)
        return false;
    if (ret != NULL)
        memcpy(ret, *at, n);
    *at += n;
    return true;
}

static int names_damaged(const char *path, struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "%s is damaged, or is not a file with the words of a save", path);
}

static int names_parse(struct names *n, const struct buf *b, const char *path,
                       struct err *e)
{
    const char *at = b->data, *end = at + b->len;
    char head[sizeof(magic)];
    uint64_t count = 0, sum;
    if (b->len < sizeof(sum))
        return names_damaged(path, e);
    end -= sizeof(sum);
    memcpy(&sum, end, sizeof(sum));
    if (!names_take(&at, end, head, sizeof(head)) ||
        !names_take(&at, end, &count, sizeof(count)) ||
        memcmp(head, magic, sizeof(head)) != 0 ||
        hash_bytes(b->data, (size_t)(end - b->data), 0) != sum)
        return names_damaged(path, e);
    for (uint64_t i = 0; i < count; i++) {
        struct record r;
        if (!names_take(&at, end, &r, sizeof(r)) || r.len > NAME_BYTES ||
            !names_take(&at, end, NULL, r.len) || key_texts_find(&n->words, r.key) != 0)
            return names_damaged(path, e);
        if (names_add(n, r.key, r.examples, "", at - r.len, r.len) != 0)
            return err_nomem(e, "the words of a save");
    }
    return at == end ? 0 : names_damaged(path, e);
}

int names_load(struct names **ret, const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    struct buf b = BUF_INIT((size_t)4 << 30);
    *ret = NULL;
    TRY(file_join(path, dir, SAVE_NAMES, e));
    if (!file_exists(path))
        return 0;
    struct names *n = names_new(KEY_TEXTS_MAX);
    int rc = n != NULL ? file_read(path, &b, e) : err_nomem(e, "the words of a save");
    if (rc == 0)
        rc = names_parse(n, &b, path, e);
    buf_free(&b);
    if (rc == 0)
        *ret = n;
    else
        names_close(n);
    return rc;
}
