// One stream of chunks out of many files: a background thread decompresses ahead and cuts
// at line ends; consumers take chunks in order.
//
// Invariants:
// 1. A chunk that begins at byte o of a file ends behind the last newline within
// chunk_bytes of o;
//    when there is none, behind the first newline after; at the end of the file, there.
//    It so depends on nothing but the file and o, and reading can begin anew at any
//    chunk.
// 2. At most queue_chunks finished chunks wait. Their buffers come from a free list and
// go back to
//    it; one that grew for a long line is freed instead.
// 3. What the thread found wrong is handed out behind the chunks that came before it, so
// that which
//    of several faults is reported does not depend on timing.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "data/decode.h"
#include "data/identity.h"
#include "data/lines.h"
#include "data/paths.h"
#include "data/reader.h"

enum { QUEUE_CHUNKS = 16, EAGER_BYTES = 64 << 10 };

// A chunk and its buffer; the chunk is the first member, so that a consumer's pointer is
// ours.
struct box {
    struct chunk chunk;
    struct box *next;
    char *text;
    size_t cap; // without the padding
};

struct source {
    struct data_files files;
    size_t chunk_bytes, max_line_bytes, queue_chunks;
    bool eager;
    const atomic_bool *interrupted;
    int wake_fd; // ends the wait for a pipe

    struct source_place from; // where the thread begins
    bool started;             // the thread exists and is not joined; consumers' side
    pthread_t thread;

    pthread_mutex_t lock; // of all below
    pthread_cond_t ready; // something to take, or the end
    pthread_cond_t room;  // the queue has room, or stop
    struct box *head, **tail;
    struct box *free;
    size_t queued, out;
    bool stop, ended, taken;
    struct source_place end; // where the thread ended
    struct err failure;      // code 0: none
};

// The thread's own state.
struct feed {
    struct source *s;
    struct decoder *d;
    struct source_place at; // where the chunk in `box` begins
    struct box *box;        // holds `len` bytes, from the place on
    size_t len;
    bool at_eof; // of the file: box holds all the rest
};

// ---------------------------------------------------------------- boxes

static void box_free(struct box *b)
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
        cap = b->cap + b->cap / 2; // a long line comes in many pieces
    char *text = mem_realloc(b->text, cap + READER_PADDING);
    if (text == NULL)
        return err_nomem(e, "a chunk of text");
    b->text = text;
    b->cap = cap;
    return 0;
}

// A recycled box, or a new one; NULL: out of memory.
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

static void boxes_free(struct box *b)
{
    while (b != NULL) {
        struct box *next = b->next;
        box_free(b);
        b = next;
    }
}

// ---------------------------------------------------------------- the thread

static const struct data_file *feed_file(const struct feed *f)
{
    return &f->s->files.file[f->at.file];
}

// Opens the file of the place and goes to its offset, which must be the beginning of a
// line.
static int feed_open(struct feed *f, struct err *e)
{
    const struct data_file *file = feed_file(f);
    TRY(data_file_open(&f->d, file, f->s->wake_fd, f->s->interrupted, e));
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
    return err_set(e, TUG_EDATA,
                   "%s:%llu: the line is longer than the limit of %zu bytes",
                   feed_file(f)->name, (unsigned long long)line, f->s->max_line_bytes);
}

// All lines that are there, once one is.
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

// Invariant 1. *ret_cut = 0: nothing is left.
static int feed_cut(struct feed *f, size_t *ret_cut, struct err *e)
{
    if (f->s->eager)
        return feed_cut_eagerly(f, ret_cut, e);
    size_t window = f->s->chunk_bytes;
    TRY(feed_read(f, window, e));
    *ret_cut = f->len;
    if (f->len < window)
        return 0; // the rest of the file
    const char *text = f->box->text;
    const char *last = memrchr(text, '\n', window);
    for (size_t seen = window; last == NULL; seen = f->len) {
        if (f->len > f->s->max_line_bytes)
            return line_too_long(f, 0, e);
        TRY(feed_read(f, f->len + window, e));
        text = f->box->text;
        if (f->len == seen)
            return 0; // a last line without a newline; *ret_cut is all
        last = memchr(text + seen, '\n', f->len - seen);
        *ret_cut = f->len;
    }
    *ret_cut = (size_t)(last - text) + 1;
    return 0;
}

// Only when a line could be too long without having made the chunk longer.
static int check_lines(const struct feed *f, size_t cut, struct err *e)
{
    size_t at = find_long_line(f->box->text, cut, f->s->max_line_bytes);
    return at == cut ? 0 : line_too_long(f, at, e);
}

// Queues the first `cut` bytes as a chunk; the rest begins the next one. False: stop.
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
    full->next = NULL;
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

    pthread_mutex_lock(&s->lock);
    while (s->queued >= s->queue_chunks && !s->stop)
        pthread_cond_wait(&s->room, &s->lock);
    *ret_stop = s->stop;
    *s->tail = full;
    s->tail = &full->next;
    s->queued++;
    pthread_cond_signal(&s->ready);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static int no_text(const struct data_file *file, struct err *e)
{
    if (file->command == NULL)
        return err_set(e, TUG_EDATA, "%s is empty", file->name);
    return err_set(e, TUG_EDATA, "%s: '%s' wrote nothing", file->name, file->command);
}

static int feed_one_file(struct feed *f, bool *ret_stop, struct err *e)
{
    TRY(feed_open(f, e));
    while (!*ret_stop) {
        size_t cut = 0;
        TRY(feed_cut(f, &cut, e));
        if (cut == 0 && f->at.offset == 0)
            return no_text(feed_file(f), e);
        if (cut == 0)
            break;
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
    return 0;
}

static void *feed_thread(void *arg)
{
    struct source *s = arg;
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

static int start_thread(struct source *s)
{
    int rc = thread_start(&s->thread, feed_thread, s);
    s->started = rc == 0;
    return rc;
}

// The thread begins with the first question, so that a rewind before it costs nothing.
// Locked.
static int source_start(struct source *s, struct err *e)
{
    if (s->started)
        return 0;
    s->stop = s->ended = false;
    s->failure.code = 0;
    int rc = start_thread(s);
    return rc == 0 ? 0
                   : err_set(e, TUG_EIO, "start the thread that reads data: %s",
                             strerror(rc));
}

static void source_stop(struct source *s)
{
    if (!s->started)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->room);
    pthread_mutex_unlock(&s->lock);
    if (eventfd_write(s->wake_fd, 1) != 0)
        assert(!"an eventfd takes 1");
    pthread_join(s->thread, NULL);
    eventfd_t waste;
    (void)eventfd_read(s->wake_fd, &waste);
    s->started = false;
    boxes_free(s->head);
    s->head = NULL;
    s->tail = &s->head;
    s->queued = 0;
}

// ---------------------------------------------------------------- the consumers' side

int source_open(struct source **ret, const struct source_options *o, struct err *e)
{
    int rc = 0;
    struct problems problems = PROBLEMS_INIT;
    struct source *s = mem_zalloc(sizeof *s);
    if (s == NULL)
        return err_nomem(e, "a data source");
    s->chunk_bytes = o->chunk_bytes != 0 ? o->chunk_bytes : CHUNK_BYTES;
    s->max_line_bytes = o->max_line_bytes != 0 ? o->max_line_bytes : MAX_LINE_BYTES;
    s->eager = o->eager;
    s->queue_chunks = o->queue_chunks != 0 ? o->queue_chunks : QUEUE_CHUNKS;
    s->interrupted = o->interrupted;
    s->files.command = o->command;
    s->from = SOURCE_START;
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ready, NULL);
    pthread_cond_init(&s->room, NULL);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) {
        rc = err_sys(e, TUG_EIO, "open an event descriptor");
        goto fail;
    }
    if (o->n_paths == 0)
        rc = err_set(e, TUG_EUSAGE, "no data is named");
    if (rc == 0)
        rc = data_files_add_all(&s->files, o->paths, o->n_paths, &problems, e);
    if (rc == 0)
        rc = problems_tell(&problems, e);
    if (rc != 0)
        goto fail;
    *ret = s;
    return 0;
fail:
    problems_free(&problems);
    source_close(s);
    return rc;
}

void source_close(struct source *s)
{
    if (s == NULL)
        return;
    source_stop(s);
    assert(s->out == 0);
    boxes_free(s->free);
    data_files_free(&s->files);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_cond_destroy(&s->room);
    pthread_cond_destroy(&s->ready);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static bool is_interrupted(const struct source *s)
{
    return s->interrupted != NULL && atomic_load(s->interrupted);
}

// A signal handler cannot signal a condition, so whoever waits looks up now and then.
static void wait_ready(struct source *s)
{
    struct timespec until = clock_deadline(0.1);
    pthread_cond_timedwait(&s->ready, &s->lock, &until);
}

// Waits until there is a chunk, or the end. Locked.
static int source_wait(struct source *s, struct err *e)
{
    TRY(source_start(s, e));
    while (s->head == NULL && !s->ended && !is_interrupted(s))
        wait_ready(s);
    return is_interrupted(s)
               ? err_set(e, TUG_EINTERRUPTED, "interrupted while data was read")
               : 0;
}

static int take(struct source *s, struct chunk **ret, struct err *e)
{
    TRY(source_wait(s, e));
    struct box *b = s->head;
    *ret = NULL;
    if (b == NULL && s->failure.code != 0)
        return err_set(e, s->failure.code, "%s", s->failure.text);
    if (b == NULL)
        return 0;
    s->head = b->next;
    if (s->head == NULL)
        s->tail = &s->head;
    s->queued--;
    s->out++;
    s->taken = true;
    pthread_cond_signal(&s->room);
    *ret = &b->chunk;
    return 0;
}

int source_next(struct source *s, struct chunk **ret, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    int rc = take(s, ret, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void source_release(struct source *s, struct chunk *c)
{
    struct box *b = (struct box *)(void *)c;
    bool keep = b->cap <= s->chunk_bytes * 2;
    pthread_mutex_lock(&s->lock);
    assert(s->out > 0);
    s->out--;
    if (keep) {
        b->next = s->free;
        s->free = b;
    }
    pthread_mutex_unlock(&s->lock);
    if (!keep)
        box_free(b);
}

int source_rewind(struct source *s, struct source_place at, struct err *e)
{
    assert(s->out == 0);
    if (!source_can_rewind(s))
        return err_set(
            e, TUG_EUSAGE,
            "a pipe can be read only once: to read its data again, write it to a file");
    if (at.file > s->files.n)
        return err_set(
            e, TUG_EDATA,
            "the run stopped in data file %u, but now there are only %zu files",
            at.file + 1, s->files.n);
    source_stop(s);
    s->from = at;
    s->taken = false;
    return 0;
}

struct source_place source_place(struct source *s)
{
    struct err e;
    pthread_mutex_lock(&s->lock);
    int rc = source_wait(s, &e);
    struct source_place at = rc == 0 ? s->end : s->from;
    if (rc == 0 && s->head != NULL) {
        const struct chunk *c = &s->head->chunk;
        at = (struct source_place){
            .number = c->number, .file = c->file, .line = c->line, .offset = c->offset};
    }
    pthread_mutex_unlock(&s->lock);
    return at;
}

// ---------------------------------------------------------------- the first line

static int first_line_of_queue(struct source *s, struct buf *b, struct err *e)
{
    TRY(source_wait(s, e));
    if (s->taken || (s->head != NULL && s->head->chunk.offset != 0))
        return err_set(e, TUG_EUSAGE, "the first line of the pipe is read already");
    if (s->head == NULL)
        return s->failure.code != 0
                   ? err_set(e, s->failure.code, "%s", s->failure.text)
                   : err_set(e, TUG_EDATA, "%s: there is no data", s->files.file[0].name);
    const struct chunk *c = &s->head->chunk;
    const char *end = memchr(c->text, '\n', c->len);
    int rc = buf_add(b, c->text, end != NULL ? (size_t)(end - c->text) : c->len);
    return rc == 0 ? 0
                   : err_set(e, rc, "%s:1: the line is too long", s->files.file[0].name);
}

int source_first_line(struct source *s, uint32_t file, struct buf *b, struct err *e)
{
    assert(file < s->files.n);
    const struct data_file *f = &s->files.file[file];
    if (f->is_pipe) {
        pthread_mutex_lock(&s->lock);
        int rc = first_line_of_queue(s, b, e);
        pthread_mutex_unlock(&s->lock);
        return rc;
    }
    return data_file_first_line(f, s->interrupted, b, e);
}

// ---------------------------------------------------------------- facts

int source_head(const struct source *s, uint32_t file, size_t most, struct buf *b,
                struct err *e)
{
    struct decoder *d = NULL;
    size_t n = 0;
    if (buf_reserve(b, most) != 0)
        return err_nomem(e, "the beginning of a file");
    TRY(data_file_open(&d, &s->files.file[file], -1, s->interrupted, e));
    int rc = decoder_read_full(d, b->data + b->len, most, &n, e);
    decoder_close(d);
    b->len += rc == 0 ? n : 0;
    return rc;
}

const struct reader_layout *source_layout(const struct source *s, uint32_t file)
{
    return s->files.file[file].layout;
}

void source_set_layout(struct source *s, uint32_t file, const struct reader_layout *l)
{
    s->files.file[file].layout = l;
}

bool source_can_rewind(const struct source *s)
{
    for (size_t i = 0; i < s->files.n; i++)
        if (s->files.file[i].is_pipe)
            return false;
    return true;
}

bool source_is_pipe(const struct source *s, uint32_t file)
{
    return s->files.file[file].is_pipe;
}

size_t source_files(const struct source *s)
{
    return s->files.n;
}

int source_identity(const struct source *s, struct identity *ret, struct err *e)
{
    *ret = (struct identity){0};
    for (size_t i = 0; i < s->files.n; i++) {
        const struct data_file *file = &s->files.file[i];
        struct identity_file f = {.name = file->name,
                                  .name_len = strlen(file->name),
                                  .pipe = file->is_pipe,
                                  .bytes = file->bytes};
        if (!file->is_pipe)
            TRY(data_file_hash(file, &f.hash, e));
        identity_add(ret, &f);
    }
    return 0;
}

const char *source_file_name(const struct source *s, uint32_t file)
{
    return s->files.file[file].name;
}

uint64_t source_text_bytes(const struct source *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->files.n; i++) {
        if (s->files.file[i].is_pipe)
            return 0;
        sum += s->files.file[i].text_bytes;
    }
    return sum;
}
