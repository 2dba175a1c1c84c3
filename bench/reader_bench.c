// Measures how fast text becomes packed examples: a reader alone on text in memory, and
// whole loads (source, readers, packing) with one and two threads, with a resolver that
// does nothing and with a real table. Prints MB/s of text and the memory that the data
// takes.
//
//   bench_reader --format F FILE...
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/dataset/dataset.h"
#include "os/clock.h"
#include "synth/synth.h"
#include "table/table.h"

enum { RUNS = 3, LINE_RUNS = 200 };

static int resolve_bits(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    uint32_t mask = *(const uint32_t *)ctx;
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)keys[i] & mask;
    return 0;
}

static int resolve_table(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    return table_rows(ctx, keys, n, ret_ids);
}

struct bench {
    struct source *source;
    struct reader *reader;
    const struct reader_layout *layout; // the layout of the first file's columns
    uint64_t text_bytes;
};

static const char *end_of_line(const char *p, const char *end)
{
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    return stop != NULL ? stop : end;
}

static int parse(struct bench *b, const struct chunk *c, struct examples *x,
                 struct err *e)
{
    const char *p = c->text, *end = p + c->len;
    examples_clear(x);
    if (reader_has_header(b->reader))
        p = end_of_line(p, end) + 1;
    while (p < end) {
        const char *stop = end_of_line(p, end);
        TRY(reader_line(b->reader, b->layout, p, (size_t)(stop - p), x, e));
        p = stop + 1;
    }
    return 0;
}

// Measures one thread that parses the text of the first chunk repeatedly.
static int bench_lines(struct bench *b, struct err *e)
{
    struct examples x = {0};
    struct chunk *c;
    double best = INFINITY;
    int rc = 0;
    TRY(source_rewind(b->source, SOURCE_START, e));
    TRY(source_next(b->source, &c, e));
    for (int run = 0; rc == 0 && run < LINE_RUNS; run++) {
        double begin = clock_seconds();
        rc = parse(b, c, &x, e);
        best = fmin(best, clock_seconds() - begin);
    }
    if (rc == 0)
        printf("lines to examples, text in cache    1 thread  %7.0f MB/s\n",
               (double)c->len / best * 1e-6);
    source_release(b->source, c);
    examples_free(&x);
    return rc;
}

static int bench_source(struct bench *b, struct err *e)
{
    double begin = clock_seconds();
    struct chunk *c;
    TRY(source_rewind(b->source, SOURCE_START, e));
    TRY(source_next(b->source, &c, e));
    for (bool first = true; c != NULL; first = false) {
        if (first && reader_has_header(b->reader))
            TRY(reader_header(b->reader, c->text,
                              (size_t)(end_of_line(c->text, c->text + c->len) - c->text),
                              &b->layout, e));
        b->text_bytes += c->len;
        source_release(b->source, c);
        TRY(source_next(b->source, &c, e));
    }
    printf("reading and cutting                 1 thread  %7.0f MB/s\n",
           (double)b->text_bytes / (clock_seconds() - begin) * 1e-6);
    return 0;
}

// Loads the data with `threads` threads. Lowers *best_seconds to the time of this load if
// that is less.
static int load(struct bench *b, int threads, bool with_table, struct dataset **ret,
                double *best_seconds, struct err *e)
{
    uint32_t mask = 0xffffff;
    uint64_t bad = 0;
    struct table *table;
    struct dataset_options o = {.source = b->source,
                                .reader = b->reader,
                                .resolve = with_table ? resolve_table : resolve_bits,
                                .bad_lines = &bad};
    TRY(source_rewind(b->source, SOURCE_START, e));
    TRY(team_open(&o.team, threads, e));
    int rc = table_open(&table, &(struct table_options){.width = 4}, e);
    o.resolve_ctx = with_table ? (void *)table : &mask;
    double begin = clock_seconds();
    if (rc == 0)
        rc = dataset_load(ret, &o, e);
    *best_seconds = fmin(*best_seconds, clock_seconds() - begin);
    table_close(table);
    team_close(o.team);
    return rc;
}

static int bench_load(struct bench *b, int threads, bool with_table, struct err *e)
{
    double best = INFINITY, bytes = 0, text = (double)b->text_bytes;
    for (int run = 0; run < RUNS; run++) {
        struct dataset *d;
        TRY(load(b, threads, with_table, &d, &best, e));
        bytes = (double)dataset_bytes(d);
        dataset_close(d);
    }
    printf("load, resolver: %-8s           %d thread%c %7.0f MB/s  memory %.2f of text\n",
           with_table ? "table" : "none", threads, threads > 1 ? 's' : ' ',
           text / best * 1e-6, bytes / text);
    return 0;
}

// Measures how fast random examples are gathered one by one. Each is prefetched while the
// eighth example before it is gathered.
static int bench_gather(struct bench *b, struct err *e)
{
    struct dataset *d;
    struct batch batch = {0};
    double ignored = 0, features = 0;
    TRY(load(b, 2, false, &d, &ignored, e));
    uint64_t n = dataset_size(d);
    struct shuffle s = shuffle_make(n > 0 ? n : 1, 1, 1);
    double begin = clock_seconds();
    int rc = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        uint64_t order = shuffle_at(&s, i);
        dataset_prefetch(d, shuffle_at(&s, i + 8 < n ? i + 8 : i));
        rc = dataset_gather(d, &order, 1, &batch);
        features += (double)batch.nnz;
    }
    double ns = (clock_seconds() - begin) * 1e9;
    if (rc == 0 && n > 0)
        printf("gather random examples, one by one  1 thread  %7.1f ns each, %.2f ns a "
               "feature\n",
               ns / (double)n, ns / features);
    batch_free(&batch);
    dataset_close(d);
    return rc;
}

static int bench_all(struct bench *b, const struct reader_options *reader,
                     const struct source_options *source, struct err *e)
{
    TRY(source_open(&b->source, source, e));
    TRY(reader_open(&b->reader, reader, e));
    TRY(bench_source(b, e));
    printf("%.1f MB of %s text\n", (double)b->text_bytes * 1e-6, reader->format);
    TRY(bench_lines(b, e));
    for (int threads = 1; threads <= 2; threads++) {
        TRY(bench_load(b, threads, false, e));
        TRY(bench_load(b, threads, true, e));
    }
    return bench_gather(b, e);
}

int main(int argc, char **argv)
{
    if (argc < 4 || strcmp(argv[1], "--format") != 0) {
        fprintf(stderr, "usage: bench_reader --format F FILE...\n");
        return 2;
    }
    bool csv = strcmp(argv[2], "csv") == 0, slots = strcmp(argv[2], "multislot") == 0;
    struct reader_options reader = {.format = argv[2],
                                    .labels = true,
                                    .loss = LOSS_LOGISTIC,
                                    .label_column = csv ? "click" : NULL,
                                    .drop = csv ? "id" : NULL,
                                    .slots = slots ? synth_slots : NULL};
    struct source_options source = {.paths = (const char *const *)argv + 3,
                                    .n_paths = (size_t)argc - 3};
    struct bench b = {0};
    struct err e = {0};
    int rc = bench_all(&b, &reader, &source, &e);
    if (rc != 0)
        fprintf(stderr, "%s\n", e.text);
    reader_close(b.reader);
    source_close(b.source);
    return err_exit_code(rc);
}
