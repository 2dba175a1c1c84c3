// A stream of chunks out of many files, for its consumers: they take chunks, in order,
// from the queue that a thread fills (source_feed.c).
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/frame/rows.h"
#include "data/input/decode.h"
#include "data/input/first_lines.h"
#include "data/input/lines.h"
#include "data/source/identity.h"
#include "data/source/source_internal.h"
#include "os/clock.h"
#include "os/thread.h"

enum { QUEUE_CHUNKS = 16 };

static void boxes_free(struct box *b)
{
    while (b != NULL) {
        struct box *next = b->next;
        box_free(b);
        b = next;
    }
}

static int start_thread(struct source *s)
{
    int rc = thread_start(&s->thread, source_feed, s);
    s->started = rc == 0;
    return rc;
}

// Starts the thread if it does not run yet. Called when a consumer first needs a chunk, so
// that a rewind before that does not have to stop a thread. The caller holds the lock.
static int source_start(struct source *s, struct err *e)
{
    if (s->started)
        return 0;
    s->stop = s->ended = false;
    s->failure.code = 0;
    int rc = start_thread(s);
    errno = rc;
    return rc == 0 ? 0 : err_sys(e, TUG_EIO, "cannot start the thread that reads data");
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
    s->queued = s->queued_bytes = 0;
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
    s->asked = o->interrupted;
    s->grace_ns = o->interrupted != NULL ? clock_ns_of(o->grace_seconds) : 0;
    s->interrupted = s->grace_ns != 0 ? &s->gave_up : o->interrupted;
    s->files.command = o->command;
    s->files.interrupted = s->interrupted;
    s->from = SOURCE_START;
    s->tail = &s->head;
    pthread_mutex_init(&s->lock, NULL);
    thread_condition(&s->ready);
    thread_condition(&s->room);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) {
        rc = err_sys(e, TUG_EIO, "cannot open an event descriptor");
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

// Waits for the condition, but only for a short time: a signal handler cannot signal the
// condition, so waiters must check for signals regularly.
static void wait_ready(struct source *s)
{
    struct timespec until = clock_deadline(0.1);
    pthread_cond_timedwait(&s->ready, &s->lock, &until);
    if (s->grace_ns == 0 || !atomic_load(s->asked))
        return;
    if (s->waited_from == 0)
        s->waited_from = clock_ns();
    if (clock_ns() - s->waited_from >= s->grace_ns)
        atomic_store(&s->gave_up, true);
}

static int interrupted(const struct source *s, struct err *e)
{
    if (s->grace_ns == 0)
        return err_set(e, TUG_EINTERRUPTED, "interrupted while data was read");
    return err_set(e, TUG_EIO, "%s: no more data came within %.3g s after the interrupt",
                   s->files.file[0].name, (double)s->grace_ns / 1e9);
}

// Waits until the queue has a chunk or the pass has ended. The caller holds the lock.
static int source_wait(struct source *s, struct err *e)
{
    TRY(source_start(s, e));
    s->waited_from = 0;
    while (s->head == NULL && !s->ended && !is_interrupted(s))
        wait_ready(s);
    return is_interrupted(s) ? interrupted(s, e) : 0;
}

static int source_take(struct source *s, struct chunk **ret, struct err *e)
{
    TRY(source_wait(s, e));
    struct box *b = s->head;
    *ret = NULL;
    if (b == NULL && s->failure.code != 0)
        return err_copy(e, &s->failure);
    if (b == NULL)
        return 0;
    s->head = b->next;
    if (s->head == NULL)
        s->tail = &s->head;
    s->queued--;
    s->queued_bytes -= b->chunk.len;
    s->out++;
    s->taken = true;
    pthread_cond_signal(&s->room);
    *ret = &b->chunk;
    return 0;
}

int source_next(struct source *s, struct chunk **ret, struct err *e)
{
    pthread_mutex_lock(&s->lock);
    int rc = source_take(s, ret, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void source_release(struct source *s, struct chunk *c)
{
    struct box *b = (struct box *)(void *)c;
    bool keep = b->cap > 0 && b->cap <= s->chunk_bytes * 2;
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

// Returns the error for a pipe without any chunk.
static int no_first_line(const struct source *s, struct err *e)
{
    if (s->failure.code != 0)
        return err_copy(e, &s->failure);
    return err_set(e, TUG_EDATA, "%s: there is no data", s->files.file[0].name);
}

// Returns the chunk after `last` (or the first chunk) of the first file; NULL at the
// file's end. The caller holds the lock.
static int chunk_behind(struct source *s, const struct box *last, const struct box **ret,
                        struct err *e)
{
    struct box *const *next = last != NULL ? &last->next : &s->head;
    s->waited_from = 0;
    while (*next == NULL && !s->ended && !is_interrupted(s))
        wait_ready(s);
    if (is_interrupted(s))
        return interrupted(s, e);
    *ret = *next != NULL && (*next)->chunk.file == 0 ? *next : NULL;
    if (*next == NULL && s->failure.code != 0)
        return no_first_line(s, e);
    return 0;
}

// Reads lines from chunks that wait in the queue. The caller holds the lock.
static int look_at_queue(struct source *s, struct first_lines *f, struct err *e)
{
    const struct box *at = NULL;
    TRY(source_wait(s, e));
    if (s->taken || (s->head != NULL && s->head->chunk.offset != 0))
        return err_set(e, TUG_EUSAGE, "the first line of the pipe was already read");
    if (s->head == NULL)
        return no_first_line(s, e);
    for (bool more = true; more;) {
        TRY(chunk_behind(s, at, &at, e));
        int rc = first_lines_add(f, at != NULL ? at->chunk.text : NULL,
                                 at != NULL ? at->chunk.len : 0, &more);
        if (rc != 0)
            return err_set(e, rc, "%s:1: the line is too long", s->files.file[0].name);
    }
    return 0;
}

int source_first_lines(struct source *s, uint32_t file, size_t lines, size_t most,
                       struct buf *b, struct err *e)
{
    assert(file < s->files.n);
    const struct data_file *d = &s->files.file[file];
    struct first_lines f = {.lines = lines, .most = most, .to = b};
    if (!d->is_pipe)
        return data_file_first_lines(d, s->interrupted, lines, most, b, e);
    pthread_mutex_lock(&s->lock);
    s->wanted_bytes = lines > 1 ? most : 0;
    pthread_cond_signal(&s->room);
    int rc = look_at_queue(s, &f, e);
    s->wanted_bytes = 0;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int source_first_line(struct source *s, uint32_t file, struct buf *b, struct err *e)
{
    return source_first_lines(s, file, 1, MAX_LINE_BYTES, b, e);
}

// ---------------------------------------------------------------- facts

// Appends the first whole lines, with their newlines, that fit into `most` bytes.
static int rows_head(const struct rows *r, size_t most, struct buf *b, struct err *e)
{
    struct buf lines = BUF_INIT((size_t)1 << 40);
    int rc = rows_first_lines(r, 2, most, &lines, e);
    if (rc == 0 && lines.len < most &&
        (buf_add(b, lines.data, lines.len) != 0 || buf_add(b, "\n", 1) != 0))
        rc = err_nomem(e, "the beginning of the rows");
    buf_free(&lines);
    return rc;
}

int source_head(const struct source *s, uint32_t file, size_t most, struct buf *b,
                struct err *e)
{
    struct decoder *d = NULL;
    size_t n = 0;
    if (s->files.file[file].rows != NULL)
        return rows_head(s->files.file[file].rows, most, b, e);
    if (buf_reserve(b, most) != 0)
        return err_nomem(e, "the beginning of a file");
    const struct interrupt i = {-1, s->interrupted};
    TRY(data_file_open(&d, &s->files.file[file], &i, e));
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
    return data_files_pipe(&s->files) == NULL;
}

bool source_is_pipe(const struct source *s, uint32_t file)
{
    return s->files.file[file].is_pipe;
}

const struct data_files *source_data_files(const struct source *s)
{
    return &s->files;
}

size_t source_files(const struct source *s)
{
    return s->files.n;
}

const struct rows *source_rows(const struct source *s, uint32_t file)
{
    return s->files.file[file].rows;
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
