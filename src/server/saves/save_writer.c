// A queue of items of work, under a lock, and the thread that does them.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/saves/save_writer.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "os/thread.h"

// The thread is woken when this many bytes were added, or a file ends.
enum { WAKE_BYTES = 1 << 20 };

enum what { BEGIN, BLOCK, END };

struct item {
    struct item *next;
    enum what what;
    size_t bytes;
    struct rows_shape shape; // for BEGIN: the layout of the file
    int root;                // for BEGIN: the directory below which the file lies
    struct rows_block block; // for BLOCK: the block, whose payload follows in `data`
    _Alignas(8) char data[]; // the payload or the path
};

struct save_writer {
    struct save_writer_options o;
    pthread_t thread;
    bool started;
    struct rows_writer *file; // the open file, which only the writing thread uses

    pthread_mutex_t lock; // protects all fields below
    pthread_cond_t more;
    struct item *first, **last;
    size_t bytes; // bytes in the queue
    size_t fresh; // bytes that were added since the thread was last woken
    bool full;    // a caller has found no room in the queue and waits to be woken
    bool closing, abandoned;
    struct rows_info *infos;
    size_t n_infos, max_infos;
    struct err why;
};

static size_t payload_bytes(const struct rows_block *b)
{
    size_t each = sizeof(uint64_t) + b->width * sizeof(float);
    return b->kind == ROWS_PARTITION ? b->n : b->n * each;
}

// Does the work of one item. The caller does not hold the lock.
static int obey(struct save_writer *w, const struct item *x, struct rows_info *info,
                struct err *e)
{
    // If a file could not be begun, the save has failed, and the queue is dropped.
    assert((w->file == NULL) == (x->what == BEGIN));
    if (x->what == BEGIN)
        return rows_create(&w->file, x->root, x->data, &x->shape, w->o.level, e);
    if (x->what == BLOCK)
        return rows_write(w->file, &x->block, e);
    struct rows_writer *file = w->file;
    w->file = NULL;
    return rows_commit(file, info, e);
}

static int note_info(struct save_writer *w, const struct rows_info *info)
{
    TRY(mem_room(&w->infos, &w->max_infos, w->n_infos + 1));
    w->infos[w->n_infos++] = *info;
    return 0;
}

// Does an item that was taken from the queue, and records the result.
static void handle(struct save_writer *w, struct item *x)
{
    struct rows_info info;
    struct err e = {0};
    pthread_mutex_lock(&w->lock);
    bool idle = w->closing || w->why.code != 0;
    pthread_mutex_unlock(&w->lock);
    int rc = idle ? 0 : obey(w, x, &info, &e);
    pthread_mutex_lock(&w->lock);
    if (rc == 0 && !idle && x->what == END && note_info(w, &info) != 0)
        rc = err_nomem(&e, "the contents of a save's files");
    if (rc != 0)
        w->why = e;
    assert(w->bytes >= x->bytes);
    w->bytes -= x->bytes;
    bool wake = rc != 0 || x->what == END ||
                (w->full && w->bytes <= SAVE_WRITER_BYTES / 2);
    w->full = w->full && !wake;
    if (wake && w->o.threaded && !w->abandoned)
        // Called under the lock: otherwise a thread that abandons the writer could free
        // `ctx` before the call.
        w->o.wake(w->o.ctx);
    pthread_mutex_unlock(&w->lock);
    mem_free(x);
}

static struct item *save_writer_take(struct save_writer *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->first == NULL && !w->closing)
        pthread_cond_wait(&w->more, &w->lock);
    struct item *x = w->first;
    if (x != NULL) {
        w->first = x->next;
        if (w->first == NULL)
            w->last = &w->first;
    }
    pthread_mutex_unlock(&w->lock);
    return x;
}

static void writer_free(struct save_writer *w)
{
    assert(w->first == NULL); // the thread has done or dropped all items
    rows_abort(w->file);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    mem_free(w->infos);
    mem_free(w);
}

static void *save_writer_run(void *arg)
{
    struct save_writer *w = arg;
    for (struct item *x; (x = save_writer_take(w)) != NULL;)
        handle(w, x);
    pthread_mutex_lock(&w->lock);
    bool abandoned = w->abandoned;
    pthread_mutex_unlock(&w->lock);
    if (abandoned)
        writer_free(w);
    return NULL;
}

int save_writer_open(struct save_writer **ret, const struct save_writer_options *o,
                     struct err *e)
{
    struct save_writer *w = *ret = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "the writer of a save");
    w->o = *o;
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    thread_condition(&w->more);
    if (o->threaded && pthread_create(&w->thread, NULL, save_writer_run, w) != 0) {
        save_writer_close(w);
        *ret = NULL;
        return err_set(e, TUG_EIO, "cannot start the thread that writes a save");
    }
    w->started = o->threaded;
    return 0;
}

void save_writer_close(struct save_writer *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    if (w->started)
        pthread_join(w->thread, NULL);
    writer_free(w);
}

void save_writer_abandon(struct save_writer *w)
{
    if (w == NULL || !w->started) {
        save_writer_close(w);
        return;
    }
    pthread_detach(w->thread);
    pthread_mutex_lock(&w->lock);
    w->closing = w->abandoned = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

bool save_writer_has_room(struct save_writer *w)
{
    pthread_mutex_lock(&w->lock);
    bool room = w->bytes < SAVE_WRITER_BYTES;
    w->full = !room;
    pthread_mutex_unlock(&w->lock);
    return room;
}

static int writer_queue_item(struct save_writer *w, struct item *x)
{
    bool threaded = w->o.threaded;
    pthread_mutex_lock(&w->lock);
    w->bytes += x->bytes;
    if (threaded) {
        *w->last = x;
        w->last = &x->next;
        w->fresh += x->bytes;
        // The thread is not woken for each block: that would cost the loop a system call.
        if (x->what == END || w->fresh >= WAKE_BYTES) {
            w->fresh = 0;
            pthread_cond_signal(&w->more);
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (!threaded)
        handle(w, x);
    return 0;
}

static struct item *save_writer_make(enum what what, const void *data, size_t bytes,
                                     struct err *e)
{
    struct item *x = mem_alloc(sizeof(*x) + bytes);
    if (x == NULL) {
        err_nomem(e, "a block of a save");
        return NULL;
    }
    *x = (struct item){.what = what, .bytes = bytes};
    if (bytes > 0)
        memcpy(x->data, data, bytes);
    return x;
}

int save_writer_begin(struct save_writer *w, int root, const char *path,
                      const struct rows_shape *shape, struct err *e)
{
    struct item *x = save_writer_make(BEGIN, path, strlen(path) + 1, e);
    if (x == NULL)
        return TUG_ENOMEM;
    x->shape = *shape;
    x->root = root;
    return writer_queue_item(w, x);
}

int save_writer_add(struct save_writer *w, const struct rows_block *b, struct err *e)
{
    struct item *x = save_writer_make(BLOCK, b->payload, payload_bytes(b), e);
    if (x == NULL)
        return TUG_ENOMEM;
    x->block = *b;
    x->block.payload = x->data;
    return writer_queue_item(w, x);
}

int save_writer_end(struct save_writer *w, struct err *e)
{
    struct item *x = save_writer_make(END, NULL, 0, e);
    return x != NULL ? writer_queue_item(w, x) : TUG_ENOMEM;
}

int save_writer_done(struct save_writer *w, struct rows_info *ret, size_t max,
                     size_t *ret_n, struct err *e)
{
    pthread_mutex_lock(&w->lock);
    struct err why = w->why;
    *ret_n = w->n_infos;
    for (size_t i = 0; i < w->n_infos && i < max; i++)
        ret[i] = w->infos[i];
    pthread_mutex_unlock(&w->lock);
    if (why.code != 0 && e != NULL)
        *e = why;
    return why.code;
}
