// tug bench save: compares saves of a table with the disk's rate. A full save is compared
// with writing the same bytes, a load with reading a file that is not in the page cache,
// a delta of one row in a hundred with a full save, and training during a save with
// training alone.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/store.h"
#include "os/disk.h"
#include "save/save.h"
#include "server/saves/save_writer.h"

enum {
    RUNS = 3,
    WRITE_SECONDS = 600, // the longest wait until the writer has room
    WRITE_BYTES = 1 << 20,
    BLOCK_BYTES = 256 << 10, // bytes that one call reads out during training
    SAVE_SHARE = 10,         // reading out gets 1/10 of the time of training
    PUSHES = 2000,
};

static const char settings[] = "name=bench; accessor=ctr; dim=8; embedx-threshold=1; "
                               "base-threshold=0; delta-threshold=0; deltas=yes";

struct save_bench {
    json_t *f;
    char dir[FILE_PATH_MAX];
    char path[FILE_PATH_MAX];  // the directory of the last save
    char file[FILE_PATH_MAX];  // the file with that save's rows
    char cut[FILE_PATH_MAX];   // the file that the writer's thread writes
    char plain[FILE_PATH_MAX]; // the file for plain writing and reading
    struct bench_rows t;
    sem_t gate; // posted by the writer's thread; the reader of a cut waits on it for room
};

static int save_once(struct save_bench *x, enum save_mode mode, double *ret_seconds,
                     struct err *e)
{
    char name[SAVE_FILE_MAX];
    uint64_t begin = clock_ns();
    TRY(save_stores(x->dir, mode, &x->t.s, 1, NULL, 0, 1, x->path, e));
    TRY(store_finish(x->t.s, e));
    *ret_seconds = bench_since(begin);
    save_file_name(name, store_config(x->t.s)->name, 0);
    return file_join(x->file, x->path, name, e);
}

// A save as servers make it: this thread reads the cut out, another thread writes it.

static void open_gate(void *ctx)
{
    (void)sem_post(ctx);
}

// Waits until the writer's thread opens the gate. An earlier event may have opened it, so
// callers check their condition again.
static int wait_for_writer(struct save_bench *x, struct err *e)
{
    struct timespec deadline = clock_deadline(WRITE_SECONDS);
    if (sem_clockwait(&x->gate, CLOCK_MONOTONIC, &deadline) == 0 || errno == EINTR)
        return 0;
    return err_set(e, TUG_EIO, "the disk has written nothing for %d seconds",
                   WRITE_SECONDS);
}

static int begin_file(struct save_bench *x, struct save_writer **ret, struct err *e)
{
    struct save_writer_options o = {.threaded = true, .wake = open_gate, .ctx = &x->gate};
    struct save_writer *w;
    TRY(save_writer_open(&w, &o, e));
    int rc = cut_begin(x->t.s, &(struct cut_options){.mode = SAVE_CHECKPOINT}, e);
    if (rc == 0) {
        struct rows_shape shape = save_cut_shape(x->t.s);
        rc = save_writer_begin(w, FILE_ANYWHERE, x->cut, &shape, e);
    }
    if (rc != 0) {
        if (cut_going(x->t.s))
            (void)cut_end(x->t.s, false, NULL);
        save_writer_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

static int end_file(struct save_bench *x, struct save_writer *w, int rc, struct err *e)
{
    int ended = cut_end(x->t.s, rc == 0, rc == 0 ? e : NULL);
    save_writer_close(w);
    return rc != 0 ? rc : ended;
}

// Reads the cut out until *ns nanoseconds are used up or the writer has no room, and
// lowers *ns by the time taken. *ns may become negative; then the next call has less
// time.
static int read_out(struct save_bench *x, struct save_writer *w, int64_t *ns,
                    bool *ret_end, struct err *e)
{
    while (!*ret_end && *ns > 0 && save_writer_has_room(w)) {
        struct rows_block b;
        uint64_t begin = clock_ns();
        TRY(cut_next(x->t.s, BLOCK_BYTES, &b, e));
        *ret_end = b.kind == ROWS_END;
        if (*ret_end)
            TRY(save_writer_end(w, e));
        else if (b.n > 0)
            TRY(save_writer_add(w, &b, e));
        *ns -= (int64_t)(clock_ns() - begin);
    }
    return 0;
}

static int write_cut(struct save_bench *x, struct save_writer *w, struct err *e)
{
    struct rows_info info;
    int64_t ns = INT64_MAX;
    size_t files = 0;
    bool end = false;
    while (files == 0) {
        TRY(read_out(x, w, &ns, &end, e));
        TRY(save_writer_done(w, &info, 1, &files, e));
        if (files == 0)
            TRY(wait_for_writer(x, e));
    }
    return 0;
}

static int save_threaded(struct save_bench *x, double *ret_seconds, struct err *e)
{
    struct save_writer *w;
    uint64_t begin = clock_ns();
    TRY(begin_file(x, &w, e));
    int rc = write_cut(x, w, e);
    *ret_seconds = bench_since(begin);
    return end_file(x, w, rc, e);
}

static int write_all(int fd, const struct buf *b)
{
    for (size_t at = 0; at < b->len;) {
        size_t n = b->len - at < WRITE_BYTES ? b->len - at : WRITE_BYTES;
        ssize_t written = write(fd, b->data + at, n);
        if (written <= 0)
            return -1;
        at += (size_t)written;
    }
    return fdatasync(fd);
}

// Writes the bytes to a file and syncs it, while this thread does nothing else.
static int write_plain(const struct save_bench *x, const struct buf *b,
                       double *ret_seconds, struct err *e)
{
    (void)disk_remove(x->plain);
    uint64_t begin = clock_ns();
    int fd = disk_create_at(AT_FDCWD, x->plain, S_IRUSR | S_IWUSR), rc = 0;
    if (fd < 0 || write_all(fd, b) != 0)
        rc = err_sys(e, TUG_EIO, "can't write '%s'", x->plain);
    *ret_seconds = bench_since(begin);
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
    *ret_seconds = bench_since(begin);
    close(fd);
    return n == 0 ? 0 : err_sys(e, TUG_EIO, "can't read '%s'", path);
}

static int load_once(struct save_bench *x, double *ret_seconds, struct err *e)
{
    struct save_chain c;
    struct bench_rows t;
    drop_from_cache(x->file);
    uint64_t begin = clock_ns();
    TRY(save_chain_open(&c, x->path, e));
    int rc = bench_rows_open(&t, settings, NULL, x->t.n, e);
    if (rc == 0)
        rc = save_load(&c, store_config(t.s)->name, t.s, NULL, NULL, e);
    *ret_seconds = bench_since(begin);
    if (rc == 0 && store_stats(t.s).rows != store_stats(x->t.s).rows)
        rc = err_set(e, TUG_EINTERNAL, "a load returned a different number of rows");
    bench_rows_close(&t);
    save_chain_close(&c);
    return rc;
}

// Measures one turn: the seconds of a save, of plainly writing the same bytes, of a load,
// and of plainly reading the file.
static int disk_turn(struct save_bench *x, struct buf *content, double ret[4],
                     struct err *e)
{
    TRY(save_threaded(x, &ret[0], e));
    if (content->len == 0)
        TRY(file_read(x->cut, content, e));
    TRY(write_plain(x, content, &ret[1], e));
    TRY(load_once(x, &ret[2], e));
    return read_cold(x->plain, &ret[3], e);
}

static int measure_disk(struct save_bench *x, struct err *e)
{
    static const char *const names[4] = {"save_seconds", "write_seconds", "load_seconds",
                                         "read_seconds"};
    double seconds[4], runs[4][RUNS];
    struct buf content = BUF_INIT(SIZE_MAX / 2);
    TRY(save_once(x, SAVE_CHECKPOINT, &seconds[0], e)); // the save that load_once loads
    bench_set(x->f, "serial_seconds", seconds[0]);
    int rc = 0;
    for (uint32_t i = 0; i < RUNS && rc == 0; i++) {
        rc = disk_turn(x, &content, seconds, e);
        for (int k = 0; k < 4 && rc == 0; k++)
            runs[k][i] = seconds[k];
    }
    bench_count(x->f, "bytes", content.len);
    buf_free(&content);
    (void)disk_remove(x->plain);
    for (int k = 0; k < 4 && rc == 0; k++)
        bench_set(x->f, names[k], bench_median(runs[k], RUNS));
    bench_ratio(x->f, "save_ratio", "write_seconds", "save_seconds");
    bench_ratio(x->f, "load_ratio", "read_seconds", "load_seconds");
    return rc;
}

// Measures deltas. Between two of them, one row in a hundred is pushed to.
static int measure_delta(struct save_bench *x, struct err *e)
{
    double seconds[RUNS];
    uint64_t rows = store_stats(x->t.s).rows;
    size_t n = rows / 100 / BENCH_PUSH_KEYS + 1;
    struct bench_traffic even = {0, 1, n * RUNS, rows / 100 / n};
    struct buf file = BUF_INIT(SIZE_MAX / 2);
    TRY(save_once(x, SAVE_BASE, &seconds[0], e));
    TRY(bench_rows_draw(&x->t, &even, e));
    for (uint32_t i = 0; i < RUNS; i++) {
        TRY(bench_push_range(&x->t, i * n, (i + 1) * n, e));
        bench_set(x->f, "delta_rows", (double)store_stats(x->t.s).changed / (double)rows);
        TRY(save_once(x, SAVE_DELTA, &seconds[i], e));
    }
    TRY(file_read(x->file, &file, e));
    bench_count(x->f, "delta_bytes", file.len);
    buf_free(&file);
    bench_set(x->f, "delta_seconds", bench_median(seconds, RUNS));
    bench_ratio(x->f, "delta_bytes_share", "delta_bytes", "bytes");
    bench_ratio(x->f, "delta_time_share", "delta_seconds", "serial_seconds");
    return 0;
}

// ---------------------------------------------------------------- training

// Pushes until the save's file is written; the save gets a tenth of the pushes' time.
static int train_meanwhile(struct save_bench *x, struct save_writer *w, struct err *e)
{
    struct rows_info info;
    uint64_t begin = clock_ns(), keys = 0, waits = 0;
    int64_t ns = 0;
    size_t files = 0;
    bool end = false;
    for (size_t i = 0; files == 0; i = (i + 1) % PUSHES) {
        uint64_t pushed = clock_ns();
        size_t n = bench_push_keys(&x->t, i);
        for (; !cut_has_room(x->t.s, x->t.keys + x->t.begin[i], n); waits++) {
            ns = SECOND_NS / 1000;
            TRY(read_out(x, w, &ns, &end, e));
        }
        TRY(bench_push(&x->t, i, e));
        keys += n;
        ns += (int64_t)(clock_ns() - pushed) / SAVE_SHARE;
        TRY(read_out(x, w, &ns, &end, e));
        TRY(save_writer_done(w, &info, 1, &files, e));
    }
    double seconds = bench_since(begin);
    bench_set(x->f, "meanwhile_per_second", (double)keys / seconds);
    bench_ratio(x->f, "train_ratio", "meanwhile_per_second", "alone_per_second");
    bench_set(x->f, "during_seconds", seconds);
    bench_count(x->f, "copied", cut_stats(x->t.s).copied);
    bench_count(x->f, "side_peak", cut_stats(x->t.s).side_peak);
    bench_count(x->f, "waits", waits);
    return 0;
}

static int measure_training(struct save_bench *x, struct err *e)
{
    static const struct bench_traffic zipf = {BENCH_ZIPF, 1, PUSHES, BENCH_PUSH_KEYS};
    struct save_writer *w;
    double rate;
    TRY(bench_rows_draw(&x->t, &zipf, e));
    TRY(bench_push_all(&x->t, &rate, e)); // warms up
    TRY(bench_push_all(&x->t, &rate, e));
    bench_set(x->f, "alone_per_second", rate);
    TRY(begin_file(x, &w, e));
    return end_file(x, w, train_meanwhile(x, w, e), e);
}

static int measure(struct save_bench *x, uint64_t rows, struct err *e)
{
    TRY(file_join(x->plain, x->dir, "plain", e));
    TRY(file_join(x->cut, x->dir, "cut", e));
    TRY(bench_rows_open(&x->t, settings, NULL, rows, e));
    TRY(bench_rows_fill(&x->t, e));
    bench_count(x->f, "rows", store_stats(x->t.s).rows);
    TRY(measure_disk(x, e));
    TRY(measure_delta(x, e));
    return measure_training(x, e);
}

static const char text[] =
    "save    {rows:.1M} M rows, {bytes:.0M} MB: {bytes/save_seconds:.0M} MB/s; plain "
    "write and fdatasync {bytes/write_seconds:.0M} MB/s: ratio {save_ratio:.2} (goal "
    "0.7, or 1000 MB/s)\n"
    "load    {bytes/load_seconds:.0M} MB/s; reading the file, in no cache, "
    "{bytes/read_seconds:.0M} MB/s: ratio {load_ratio:.2} (goal 0.7, or 1000 MB/s)\n"
    "delta   {delta_rows:.2%} % of the rows: {delta_bytes_share:.2%} % of the bytes and "
    "{delta_time_share:.2%} % of the time of a full save (ceiling 3 for 1 %)\n"
    "train   {alone_per_second:.2M} M keys/s alone, {meanwhile_per_second:.2M} M while a "
    "save goes on for {during_seconds:.1} s: {train_ratio:.2} of it (floor 0.8)\n"
    "        {copied} rows copied, {side_peak:.0M} MB at most, {waits} waits for room\n";

int bench_save(struct bench *b, struct err *e)
{
    static struct save_bench x;
    x.f = b->figures;
    (void)sem_init(&x.gate, 0, 0);
    int rc = bench_make_dir(b, x.dir, e);
    if (rc == 0)
        rc = measure(&x, b->o.table_rows, e);
    if (rc == 0)
        bench_print(b, b->figures, text);
    bench_remove_dir(x.dir);
    bench_rows_close(&x.t);
    return rc;
}
