// Saves of a table against what the disk does: a full one against writing as many
// bytes of the same content, loading against reading a file that is in no cache, a
// delta of one row in a hundred against a full save, and training while a save goes on
// against training alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "bench/bench.h"
#include "bench/store.h"
#include "save/save.h"
#include "server/save_writer.h"

enum {
    RUNS = 3,
    WRITE_SECONDS = 600, // at most, until the writer has room
    WRITE_BYTES = 1 << 20,
    BLOCK_BYTES = 256 << 10, // read out at a time while training goes on
    SAVE_SHARE = 10,         // of the time of training, 1/10 is for reading out
    PUSHES = 2000,
};

static const char settings[] = "name=bench; accessor=ctr; dim=8; embedx-threshold=1; "
                               "base-threshold=0; delta-threshold=0; deltas=yes";

struct result {
    uint64_t rows, bytes;
    double save, serial, write, load, read; // seconds
    uint64_t delta_bytes;
    double delta_rows, delta;
    double alone, meanwhile; // keys a second
    double during;           // seconds that the save took then
    uint64_t copied, side_peak, waits;
};

// Where who reads a cut out waits for the thread that writes it.
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

struct save_bench {
    const struct bench_options *o;
    struct result r;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];  // of the last save
    char file[FILE_PATH_MAX];  // its rows
    char cut[FILE_PATH_MAX];   // what the server's thread writes
    char plain[FILE_PATH_MAX]; // what is only written
    struct store *s;
    struct bench_draw draw;
    struct gate gate;
};

static double since(uint64_t begin)
{
    return (double)(clock_ns() - begin) * 1e-9;
}

static int save_once(struct save_bench *x, enum save_mode mode, double *ret_seconds,
                     struct err *e)
{
    char name[SAVE_FILE_MAX];
    uint64_t begin = clock_ns();
    TRY(save_stores(x->dir, mode, &x->s, 1, 0, 1, x->path, e));
    TRY(store_finish(x->s, e));
    *ret_seconds = since(begin);
    save_file_name(name, store_config(x->s)->name, 0);
    return file_join(x->file, x->path, name, e);
}

// A save as servers do it: one thread reads the cut out, another writes.

static void open_gate(void *ctx)
{
    struct gate *g = ctx;
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_signal(&g->opened);
    pthread_mutex_unlock(&g->lock);
}

static int wait_for_writer(struct gate *g, struct err *e)
{
    struct timespec deadline = clock_deadline(WRITE_SECONDS);
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    while (!g->open && rc == 0)
        rc = pthread_cond_timedwait(&g->opened, &g->lock, &deadline);
    g->open = false;
    pthread_mutex_unlock(&g->lock);
    return rc == 0 ? 0
                   : err_set(e, TUG_EIO, "the disk has written nothing for %d seconds",
                             WRITE_SECONDS);
}

static int begin_file(struct save_bench *x, enum save_mode mode, struct save_writer **ret,
                      struct err *e)
{
    struct save_writer_options o = {.threaded = true, .wake = open_gate, .ctx = &x->gate};
    struct save_writer *w;
    TRY(save_writer_open(&w, &o, e));
    int rc = cut_begin(x->s, &(struct cut_options){.mode = mode}, e);
    if (rc == 0) {
        struct rows_shape shape = save_cut_shape(x->s);
        rc = save_writer_begin(w, FILE_ANYWHERE, x->cut, &shape, e);
    }
    if (rc != 0) {
        if (cut_going(x->s))
            (void)cut_end(x->s, false, NULL);
        save_writer_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

static int end_file(struct save_bench *x, struct save_writer *w, int rc, struct err *e)
{
    int ended = cut_end(x->s, rc == 0, rc == 0 ? e : NULL);
    save_writer_close(w);
    return rc != 0 ? rc : ended;
}

static int write_cut(struct save_bench *x, struct save_writer *w, struct err *e)
{
    struct rows_info info;
    struct rows_block b = {.kind = ROWS_ROW};
    size_t files = 0;
    while (b.kind != ROWS_END) {
        if (!save_writer_has_room(w)) {
            TRY(wait_for_writer(&x->gate, e));
            continue;
        }
        TRY(cut_next(x->s, BLOCK_BYTES, &b, e));
        if (b.n > 0)
            TRY(save_writer_add(w, &b, e));
    }
    TRY(save_writer_end(w, e));
    while (files == 0) {
        TRY(save_writer_done(w, &info, 1, &files, e));
        if (files == 0)
            TRY(wait_for_writer(&x->gate, e));
    }
    return 0;
}

static int save_threaded(struct save_bench *x, double *ret_seconds, struct err *e)
{
    struct save_writer *w;
    uint64_t begin = clock_ns();
    TRY(begin_file(x, SAVE_CHECKPOINT, &w, e));
    int rc = write_cut(x, w, e);
    *ret_seconds = since(begin);
    return end_file(x, w, rc, e);
}

// Writes as a program does that has nothing else to do.
static int write_plain(const struct save_bench *x, const struct buf *b,
                       double *ret_seconds, struct err *e)
{
    (void)unlink(x->plain);
    uint64_t begin = clock_ns();
    int fd = open(x->plain, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t at = 0;
    while (fd >= 0 && at < b->len) {
        size_t n = b->len - at < WRITE_BYTES ? b->len - at : WRITE_BYTES;
        ssize_t written = write(fd, b->data + at, n);
        if (written <= 0)
            break;
        at += (size_t)written;
    }
    int rc = fd < 0 || at < b->len || fdatasync(fd) != 0 ? -1 : 0;
    *ret_seconds = since(begin);
    if (rc != 0)
        rc = err_sys(e, TUG_EIO, "can't write '%s'", x->plain);
    if (fd >= 0)
        close(fd);
    return rc;
}

static void drop_from_cache(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static int read_cold(const char *path, double *ret_seconds, struct err *e)
{
    static char bytes[WRITE_BYTES];
    drop_from_cache(path);
    uint64_t begin = clock_ns();
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "can't read '%s'", path);
    ssize_t n = 1;
    while (n > 0)
        n = read(fd, bytes, sizeof(bytes));
    *ret_seconds = since(begin);
    close(fd);
    return n == 0 ? 0 : err_sys(e, TUG_EIO, "can't read '%s'", path);
}

static int load_once(const struct save_bench *x, double *ret_seconds, struct err *e)
{
    struct save_chain c;
    struct store *s = NULL;
    drop_from_cache(x->file);
    uint64_t begin = clock_ns();
    TRY(save_chain_open(&c, x->path, e));
    int rc = bench_store_open(&s, settings, NULL, e);
    if (rc == 0)
        rc = save_load(&c, store_config(s)->name, s, NULL, NULL, e);
    *ret_seconds = since(begin);
    if (rc == 0 && store_stats(s).rows != x->r.rows)
        rc = err_set(e, TUG_EINTERNAL, "a load gave another number of rows");
    store_close(s);
    save_chain_close(&c);
    return rc;
}

static int measure_disk(struct save_bench *x, struct err *e)
{
    double save[RUNS], write[RUNS], load[RUNS], read[RUNS];
    struct buf content = BUF_INIT(SIZE_MAX / 2);
    TRY(save_once(x, SAVE_CHECKPOINT, &x->r.serial, e)); // what loads load
    int rc = 0;
    for (uint32_t i = 0; i < RUNS && rc == 0; i++) {
        rc = save_threaded(x, &save[i], e);
        if (rc == 0 && i == 0)
            rc = file_read(x->cut, &content, e);
        if (rc == 0)
            rc = write_plain(x, &content, &write[i], e);
        if (rc == 0)
            rc = load_once(x, &load[i], e);
        if (rc == 0)
            rc = read_cold(x->plain, &read[i], e);
    }
    x->r.bytes = content.len;
    buf_free(&content);
    (void)unlink(x->plain);
    if (rc != 0)
        return rc;
    x->r.save = bench_median(save, RUNS);
    x->r.write = bench_median(write, RUNS);
    x->r.load = bench_median(load, RUNS);
    x->r.read = bench_median(read, RUNS);
    return 0;
}

// One row in a hundred is pushed to between two deltas.
static int measure_delta(struct save_bench *x, struct err *e)
{
    double seconds[RUNS], ignored;
    uint64_t changed = x->r.rows / 100, one;
    struct bench_draw even;
    struct bench_pushes p;
    TRY(save_once(x, SAVE_BASE, &ignored, e));
    TRY(bench_draw_open(&even, x->r.rows, 0, e));
    size_t n = changed / BENCH_PUSH_KEYS + 1;
    int rc = bench_pushes_make(&p, &even, n * RUNS, changed / n,
                               store_accessor(x->s)->push_width, e);
    for (uint32_t i = 0; i < RUNS && rc == 0; i++) {
        for (size_t k = 0; k < n && rc == 0; k++)
            rc = bench_push(x->s, &p, i * n + k, e);
        one = store_stats(x->s).changed;
        if (rc == 0)
            rc = save_once(x, SAVE_DELTA, &seconds[i], e);
        x->r.delta_rows = (double)one / (double)x->r.rows;
    }
    bench_pushes_free(&p);
    bench_draw_close(&even);
    if (rc != 0)
        return rc;
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    rc = file_read(x->file, &b, e);
    x->r.delta_bytes = b.len;
    x->r.delta = bench_median(seconds, RUNS);
    buf_free(&b);
    return rc;
}

// Training.

static int train_alone(struct save_bench *x, const struct bench_pushes *p, struct err *e)
{
    uint64_t begin = clock_ns();
    for (size_t i = 0; i < p->n; i++)
        TRY(bench_push(x->s, p, i, e));
    x->r.alone = (double)p->begin[p->n] / since(begin);
    return 0;
}

// Reads out until that time is used up, unless the writer has enough. A call may take
// longer than was left: the next ones have less then.
static int read_out(struct save_bench *x, struct save_writer *w, int64_t *ns,
                    bool *ret_end, struct err *e)
{
    while (!*ret_end && *ns > 0 && save_writer_has_room(w)) {
        struct rows_block b;
        uint64_t begin = clock_ns();
        TRY(cut_next(x->s, BLOCK_BYTES, &b, e));
        *ret_end = b.kind == ROWS_END;
        if (*ret_end)
            TRY(save_writer_end(w, e));
        else if (b.n > 0)
            TRY(save_writer_add(w, &b, e));
        *ns -= (int64_t)(clock_ns() - begin);
    }
    return 0;
}

// Pushes, with a tenth of their time for the save, until its file is written.
static int train_meanwhile(struct save_bench *x, const struct bench_pushes *p,
                           struct save_writer *w, struct err *e)
{
    struct rows_info info;
    uint64_t begin = clock_ns(), keys = 0;
    int64_t ns = 0;
    size_t files = 0;
    bool end = false;
    for (size_t i = 0; files == 0; i = (i + 1) % p->n) {
        uint64_t pushed = clock_ns();
        while (!cut_has_room(x->s, p->keys + p->begin[i], bench_pushes_keys(p, i))) {
            x->r.waits++;
            ns = SECOND_NS / 1000;
            TRY(read_out(x, w, &ns, &end, e));
        }
        TRY(bench_push(x->s, p, i, e));
        keys += bench_pushes_keys(p, i);
        ns += (int64_t)(clock_ns() - pushed) / SAVE_SHARE;
        TRY(read_out(x, w, &ns, &end, e));
        TRY(save_writer_done(w, &info, 1, &files, e));
    }
    x->r.during = since(begin);
    x->r.meanwhile = (double)keys / x->r.during;
    x->r.copied = cut_stats(x->s).copied;
    x->r.side_peak = cut_stats(x->s).side_peak;
    return 0;
}

static int save_meanwhile(struct save_bench *x, const struct bench_pushes *p,
                          struct err *e)
{
    struct save_writer *w;
    TRY(begin_file(x, SAVE_CHECKPOINT, &w, e));
    return end_file(x, w, train_meanwhile(x, p, w, e), e);
}

static int measure_training(struct save_bench *x, struct err *e)
{
    struct bench_pushes p;
    TRY(bench_pushes_make(&p, &x->draw, PUSHES, BENCH_PUSH_KEYS,
                          store_accessor(x->s)->push_width, e));
    int rc = train_alone(x, &p, e); // warms up
    if (rc == 0)
        rc = train_alone(x, &p, e);
    if (rc == 0)
        rc = save_meanwhile(x, &p, e);
    bench_pushes_free(&p);
    return rc;
}

// Results.

static void print_text(const struct result *r)
{
    double mb = (double)r->bytes * 1e-6;
    printf(
        "save    %.1f M rows, %.0f MB: %.0f MB/s; plain write and fdatasync %.0f MB/s: "
        "%.2f of it (floor 0.7, or 1000 MB/s)\n",
        (double)r->rows * 1e-6, mb, mb / r->save, mb / r->write, r->write / r->save);
    printf(
        "load    %.0f MB/s; reading the file, in no cache, %.0f MB/s: %.2f of it (floor "
        "0.7, or 1000 MB/s)\n",
        mb / r->load, mb / r->read, r->read / r->load);
    printf(
        "delta   %.2f %% of the rows: %.2f %% of the bytes and %.2f %% of the time of a "
        "full save (ceiling 3 for 1 %%)\n",
        r->delta_rows * 100, (double)r->delta_bytes / (double)r->bytes * 100,
        r->delta / r->serial * 100);
    printf(
        "train   %.2f M keys/s alone, %.2f M while a save goes on for %.1f s: %.2f of it "
        "(floor 0.8)\n"
        "        %llu rows copied, %.0f MB at most, %llu waits for room\n",
        r->alone * 1e-6, r->meanwhile * 1e-6, r->during, r->meanwhile / r->alone,
        (unsigned long long)r->copied, (double)r->side_peak * 1e-6,
        (unsigned long long)r->waits);
}

static void print_json(const struct result *r)
{
    printf("{\"bench\":\"save\",\"rows\":%llu,\"bytes\":%llu,\"save_seconds\":%.3f,"
           "\"serial_seconds\":%.3f,\"write_seconds\":%.3f,\"save_ratio\":%.3f,\"load_"
           "seconds\":%.3f,"
           "\"read_seconds\":%.3f,\"load_ratio\":%.3f,\"delta_rows\":%.4f,"
           "\"delta_bytes\":%llu,\"delta_seconds\":%.3f,\"delta_bytes_share\":%.4f,"
           "\"delta_time_share\":%.4f,\"alone_per_second\":%.0f,"
           "\"meanwhile_per_second\":%.0f,\"train_ratio\":%.3f,\"during_seconds\":%.3f,"
           "\"copied\":%llu,\"side_peak\":%llu,\"waits\":%llu}\n",
           (unsigned long long)r->rows, (unsigned long long)r->bytes, r->save, r->serial,
           r->write, r->write / r->save, r->load, r->read, r->read / r->load,
           r->delta_rows, (unsigned long long)r->delta_bytes, r->delta,
           (double)r->delta_bytes / (double)r->bytes, r->delta / r->serial, r->alone,
           r->meanwhile, r->meanwhile / r->alone, r->during,
           (unsigned long long)r->copied, (unsigned long long)r->side_peak,
           (unsigned long long)r->waits);
}

static int measure(struct save_bench *x, struct err *e)
{
    TRY(bench_draw_open(&x->draw, x->o->table_rows, BENCH_ZIPF, e));
    TRY(bench_store_open(&x->s, settings, NULL, e));
    TRY(bench_store_fill(x->s, x->o->table_rows, e));
    x->r.rows = store_stats(x->s).rows;
    TRY(measure_disk(x, e));
    TRY(measure_delta(x, e));
    return measure_training(x, e);
}

int bench_save(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    struct save_bench *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "a benchmark");
    x->o = o;
    pthread_mutex_init(&x->gate.lock, NULL);
    pthread_cond_init(&x->gate.opened, NULL);
    int rc = bench_make_dir(bench, x->dir, e);
    if (rc == 0)
        rc = file_join(x->plain, x->dir, "plain", e);
    if (rc == 0)
        rc = file_join(x->cut, x->dir, "cut", e);
    if (rc == 0)
        rc = measure(x, e);
    if (rc == 0)
        (o->json ? print_json : print_text)(&x->r);
    bench_remove_dir(x->dir);
    store_close(x->s);
    bench_draw_close(&x->draw);
    pthread_cond_destroy(&x->gate.opened);
    pthread_mutex_destroy(&x->gate.lock);
    mem_free(x);
    return rc;
}
