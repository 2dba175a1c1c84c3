// The thread of a source: reads and decompresses ahead, cuts at line ends, and queues
// chunks.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader.h"
#include "data/frame/rows.h"
#include "data/input/decode.h"
#include "data/input/lines.h"
#include "data/source/origins.h"
#include "data/source/source_internal.h"

enum { EAGER_BYTES = 64 << 10 };

// The state of the thread that reads the files.
struct feed {
    struct source *s;
    struct decoder *d;
    struct source_place at; // the begin of the chunk in `box`
    struct box *box;        // holds `len` bytes from that place on
    size_t len;
    bool at_eof; // `box` holds all bytes up to the end of the file
};

// ---------------------------------------------------------------- boxes

void box_free(struct box *b)
{
    if (b != NULL)
        mem_free(b->text);
    mem_free(b);
}

static int box_grow(struct box *b, size_t cap, struct err *e)
{
    if (cap <= b->cap)
        return 0;
    if (cap < b->cap + b->cap / 2)
        cap = b->cap + b->cap / 2; // a long line arrives in many pieces
    char *text = mem_realloc(b->text, cap + READER_PADDING);
    if (text == NULL)
        return err_nomem(e, "a chunk of text");
    b->text = text;
    b->cap = cap;
    return 0;
}

// Returns a recycled box or a new one; NULL if there is not enough memory.
static struct box *box_get(struct source *s, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    struct box *b = s->free;
    if (b != NULL)
        s->free = b->next;
    pthread_mutex_unlock(&s->lock);
    if (b == NULL)
        b = mem_zalloc(sizeof *b);
    if (b != NULL && box_grow(b, s->chunk_bytes, e) == 0)
        return b;
    err_nomem(e, "a chunk of text");
    box_free(b);
    return NULL;
}

// ---------------------------------------------------------------- the thread

static const struct data_file *feed_file(const struct feed *f)
{
    return &f->s->files.file[f->at.file];
}

// Opens the file of f->at and moves to the offset of f->at, where a line must begin.
static int feed_open(struct feed *f, struct err *e)
{
    const struct data_file *file = feed_file(f);
    const struct interrupt i = {f->s->wake_fd, f->s->interrupted};
    TRY(data_file_open(&f->d, file, &i, e));
    f->at_eof = false;
    if (f->at.offset == 0)
        return 0;
    char before = 0;
    size_t n = 0;
    TRY(decoder_skip(f->d, f->at.offset - 1, e));
    TRY(decoder_read(f->d, &before, 1, &n, e));
    if (n != 1 || before != '\n')
        return err_set(
            e, TUG_EDATA,
            "%s has no line that begins at byte %llu: it changed since the run began",
            file->name, (unsigned long long)f->at.offset);
    return 0;
}

static void feed_close(struct feed *f)
{
    decoder_close(f->d);
    f->d = NULL;
}

static int feed_read(struct feed *f, size_t want, struct err *e)
{
    if (f->at_eof || f->len >= want)
        return 0;
    size_t n = 0;
    TRY(box_grow(f->box, want, e));
    TRY(decoder_read_full(f->d, f->box->text + f->len, want - f->len, &n, e));
    f->len += n;
    f->at_eof = f->len < want;
    return 0;
}

static int line_too_long(const struct feed *f, size_t before, struct err *e)
{
    uint64_t line = f->at.line + count_lines(f->box->text, before);
    char where[ORIGIN_TEXT_MAX];
    origins_text(feed_file(f)->name, line, where);
    return err_set(e, TUG_EDATA, "%s: the line is longer than the limit of %zu bytes%s",
                   where, f->s->max_line_bytes,
                   long_line_hint(f->box->text + before, f->len - before));
}

// Waits for a whole line and returns all lines that have arrived.
static int feed_cut_eagerly(struct feed *f, size_t *ret_cut, struct err *e)
{
    for (;;) {
        const char *last = f->len > 0 ? memrchr(f->box->text, '\n', f->len) : NULL;
        *ret_cut = last != NULL ? (size_t)(last - f->box->text) + 1 : f->len;
        if (last != NULL || f->at_eof)
            return 0;
        if (f->len > f->s->max_line_bytes)
            return line_too_long(f, 0, e);
        size_t n = 0, want = f->len + EAGER_BYTES;
        TRY(box_grow(f->box, want, e));
        TRY(decoder_read(f->d, f->box->text + f->len, EAGER_BYTES, &n, e));
        f->len += n;
        f->at_eof = n == 0;
    }
}

// Finds where the chunk ends (invariant 1 in source_internal.h). Sets *ret_cut to 0 at the
// end of the file.
static int feed_cut(struct feed *f, size_t *ret_cut, struct err *e)
{
    if (f->s->eager)
        return feed_cut_eagerly(f, ret_cut, e);
    size_t window = f->s->chunk_bytes;
    TRY(feed_read(f, window, e));
    *ret_cut = f->len;
    if (f->len < window)
        return 0; // the chunk is the rest of the file
    const char *text = f->box->text;
    const char *last = memrchr(text, '\n', window);
    for (size_t seen = window; last == NULL; seen = f->len) {
        if (f->len > f->s->max_line_bytes)
            return line_too_long(f, 0, e);
        TRY(feed_read(f, f->len + window, e));
        text = f->box->text;
        if (f->len == seen)
            return 0; // the file's last line has no newline; *ret_cut includes the line
        last = memchr(text + seen, '\n', f->len - seen);
        *ret_cut = f->len;
    }
    *ret_cut = (size_t)(last - text) + 1;
    return 0;
}

// Returns an error if a line in the chunk is longer than the limit. (Lines that make the
// chunk longer were checked before.)
static int check_lines(const struct feed *f, size_t cut, struct err *e)
{
    size_t at = find_long_line(f->box->text, cut, f->s->max_line_bytes);
    return at == cut ? 0 : line_too_long(f, at, e);
}

// Queues a full box; returns true if the thread must stop.
static bool queue(struct source *s, struct box *full)
{
    size_t bytes = full->chunk.len;
    full->next = NULL;
    pthread_mutex_lock(&s->lock);
    while (s->queued >= s->queue_chunks && s->queued_bytes >= s->wanted_bytes && !s->stop)
        pthread_cond_wait(&s->room, &s->lock);
    bool stop = s->stop;
    *s->tail = full;
    s->tail = &full->next;
    s->queued++;
    s->queued_bytes += bytes;
    pthread_cond_signal(&s->ready);
    pthread_mutex_unlock(&s->lock);
    return stop;
}

// Queues the first `cut` bytes as a chunk; the rest begins the next one. *ret_stop: the
// thread must stop.
static int feed_push(struct feed *f, size_t cut, bool *ret_stop, struct err *e)
{
    struct source *s = f->s;
    struct box *full = f->box, *next = box_get(s, e);
    if (next == NULL)
        return TUG_ENOMEM;
    size_t rest = f->len - cut;
    int rc = box_grow(next, rest, e);
    if (rc != 0) {
        box_free(next);
        return rc;
    }
    memcpy(next->text, full->text + cut, rest);
    memset(full->text + cut, 0, READER_PADDING);
    full->chunk = (struct chunk){.text = full->text,
                                 .len = cut,
                                 .number = f->at.number,
                                 .file = f->at.file,
                                 .line = f->at.line,
                                 .offset = f->at.offset};
    f->box = next;
    f->len = rest;
    f->at.number++;
    f->at.offset += cut;
    f->at.line += count_lines(full->text, cut);
    *ret_stop = queue(s, full);
    return 0;
}

// Reports that no file has text.
static int no_text(const struct source *s, struct err *e)
{
    const struct data_file *file = &s->files.file[0];
    const char *others = s->files.n > 1 ? ", and so are all other files" : "";
    if (file->command == NULL)
        return err_set(e, TUG_EDATA, "%s is empty%s", file->name, others);
    return err_set(e, TUG_EDATA, "%s: '%s' wrote nothing%s", file->name, file->command,
                   s->files.n > 1 ? ", and nothing for any other file" : "");
}

// Queues chunks that refer to rows in memory.
static int feed_rows(struct feed *f, bool *ret_stop, struct err *e)
{
    const struct rows *r = feed_file(f)->rows;
    uint64_t most = rows_within(r, f->s->chunk_bytes);
    while (f->at.offset < r->n && !*ret_stop) {
        uint64_t left = r->n - f->at.offset, n = left < most ? left : most;
        struct box *full = mem_zalloc(sizeof *full);
        if (full == NULL)
            return err_nomem(e, "a chunk of rows");
        full->chunk = (struct chunk){.rows = r,
                                     .n_rows = n,
                                     .text = "",
                                     .number = f->at.number,
                                     .file = f->at.file,
                                     .line = f->at.offset,
                                     .offset = f->at.offset};
        f->at.number++;
        f->at.offset += n;
        *ret_stop = queue(f->s, full);
    }
    return 0;
}

static int feed_one_file(struct feed *f, bool *ret_stop, struct err *e)
{
    if (feed_file(f)->rows != NULL)
        return feed_rows(f, ret_stop, e);
    TRY(feed_open(f, e));
    while (!*ret_stop) {
        size_t cut = 0;
        TRY(feed_cut(f, &cut, e));
        if (cut == 0)
            break; // the end; Spark also writes files without text
        TRY(check_lines(f, cut, e));
        TRY(feed_push(f, cut, ret_stop, e));
    }
    feed_close(f);
    return 0;
}

static int feed_all(struct feed *f, struct err *e)
{
    bool stop = false;
    f->box = box_get(f->s, e);
    if (f->box == NULL)
        return TUG_ENOMEM;
    while (f->at.file < f->s->files.n && !stop) {
        TRY(feed_one_file(f, &stop, e));
        f->at = (struct source_place){
            .number = f->at.number, .file = f->at.file + 1, .line = 1, .offset = 0};
    }
    return f->at.number == 0 && !stop ? no_text(f->s, e) : 0;
}

void *source_feed(void *source)
{
    struct source *s = source;
    struct feed f = {.s = s, .at = s->from};
    struct err e = {0};
    int rc = feed_all(&f, &e);
    feed_close(&f);
    box_free(f.box);

    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->end = f.at;
    s->failure = e;
    s->failure.code = rc;
    pthread_cond_broadcast(&s->ready);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
