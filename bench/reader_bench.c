// How fast text becomes packed examples: each reader alone over text in memory, and whole
// loads (source, readers, packing) with one and two threads, with a resolver that does
// nothing and with a real table. Prints MB/s of text and the memory that the data takes.
//
//   bench_reader --format F FILE...      reader_bench without arguments makes libsvm text
//   itself
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/random.h"
#include "data/dataset.h"
#include "table/table.h"

enum { RUNS = 3, SELF_MADE_LINES = 400000 };

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
    const struct reader_layout *layout; // of the first file
    uint64_t text_bytes;
};

// The text of the first chunks, parsed again and again by one thread.
static int bench_lines(struct bench *b, struct err *e)
{
    struct examples x = {0};
    double best = 0;
    int rc = source_rewind(b->source, SOURCE_START, e);
    struct chunk *c = NULL;
    if (rc == 0)
        rc = source_next(b->source, &c, e);
    for (int run = 0; rc == 0 && run < 200; run++) {
        double begin = clock_seconds();
        const char *p = c->text, *end = p + c->len;
        examples_clear(&x);
        for (bool first = true; p < end && rc == 0; first = false) {
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            stop = stop != NULL ? stop : end;
            if (!first || !reader_has_header(b->reader))
                rc = reader_line(b->reader, b->layout, p, (size_t)(stop - p), &x, e);
            p = stop + 1;
        }
        double rate = (double)c->len / (clock_seconds() - begin);
        best = rate > best ? rate : best;
    }
    if (rc == 0)
        printf("lines to examples, text in cache    1 thread  %7.0f MB/s\n", best * 1e-6);
    if (c != NULL)
        source_release(b->source, c);
    examples_free(&x);
    return rc;
}

static int bench_source(struct bench *b, struct err *e)
{
    double begin = clock_seconds();
    TRY(source_rewind(b->source, SOURCE_START, e));
    for (b->text_bytes = 0;;) {
        struct chunk *c;
        TRY(source_next(b->source, &c, e));
        if (c == NULL)
            break;
        if (c->number == 0 && reader_has_header(b->reader))
            TRY(reader_header(b->reader, c->text,
                              (size_t)((char *)memchr(c->text, '\n', c->len) - c->text),
                              &b->layout, e));
        b->text_bytes += c->len;
        source_release(b->source, c);
    }
    double seconds = clock_seconds() - begin;
    printf("reading and cutting                 1 thread  %7.0f MB/s\n",
           (double)b->text_bytes / seconds * 1e-6);
    return 0;
}

static int load_once(struct bench *b, struct team *team, bool with_table,
                     double *ret_seconds, struct dataset **ret, struct err *e)
{
    uint32_t mask = 0xffffff;
    uint64_t bad = 0;
    struct table *table = NULL;
    struct dataset_options o = {.source = b->source,
                                .reader = b->reader,
                                .team = team,
                                .resolve = with_table ? resolve_table : resolve_bits,
                                .resolve_ctx = &mask,
                                .bad_lines = &bad};
    if (with_table) {
        TRY(table_open(&table, &(struct table_options){.width = 4}, e));
        o.resolve_ctx = table;
    }
    int rc = source_rewind(b->source, SOURCE_START, e);
    double begin = clock_seconds();
    if (rc == 0)
        rc = dataset_load(ret, &o, e);
    *ret_seconds = clock_seconds() - begin;
    table_close(table);
    return rc;
}

static int bench_load(struct bench *b, int threads, bool with_table, struct err *e)
{
    struct team *team = NULL;
    TRY(team_open(&team, threads, e));
    double best = 1e9;
    int rc = 0;
    struct dataset *d = NULL;
    for (int run = 0; run < RUNS && rc == 0; run++) {
        double seconds = 0;
        dataset_close(d);
        d = NULL;
        rc = load_once(b, team, with_table, &seconds, &d, e);
        best = seconds < best ? seconds : best;
    }
    if (rc == 0)
        printf("load, resolver: %-8s           %d thread%c %7.0f MB/s  memory %.2f of "
               "text\n",
               with_table ? "table" : "none", threads, threads > 1 ? 's' : ' ',
               (double)b->text_bytes / best * 1e-6,
               (double)dataset_bytes(d) / (double)b->text_bytes);
    dataset_close(d);
    team_close(team);
    return rc;
}

// Random examples, one by one, prefetched eight ahead.
static int bench_gather(struct bench *b, struct err *e)
{
    struct team *team = NULL;
    struct dataset *d = NULL;
    struct batch batch = {0};
    double seconds = 0;
    TRY(team_open(&team, 2, e));
    int rc = load_once(b, team, false, &seconds, &d, e);
    uint64_t n = rc == 0 ? dataset_size(d) : 0;
    struct shuffle s = shuffle_make(n > 0 ? n : 1, 1, 1);
    double begin = clock_seconds();
    uint64_t features = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        uint64_t order = shuffle_at(&s, i);
        dataset_prefetch(d, shuffle_at(&s, i + 8 < n ? i + 8 : i));
        rc = dataset_gather(d, &order, 1, &batch);
        features += batch.nnz;
    }
    seconds = clock_seconds() - begin;
    if (rc == 0 && n > 0)
        printf("gather random examples, one by one  1 thread  %7.1f ns each, %.2f ns a "
               "feature\n",
               seconds / (double)n * 1e9, seconds / (double)features * 1e9);
    batch_free(&batch);
    dataset_close(d);
    team_close(team);
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

static int make_text(const char *path)
{
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return -1;
    for (uint64_t i = 0; i < SELF_MADE_LINES; i++) {
        fprintf(f, "%d", (int)random_below(1, 0, i, 2));
        for (uint64_t j = 1; j <= 10; j++)
            fprintf(f, " %d:1", (int)(j * 1000 + random_below(1, j, i, 1000)));
        fputc('\n', f);
    }
    return fclose(f);
}

int main(int argc, char **argv)
{
    const char *made = "reader_bench.libsvm";
    struct reader_options reader = {
        .format = "libsvm", .labels = true, .loss = READER_LOGISTIC};
    struct source_options source = {.paths = &made, .n_paths = 1};
    bool self_made = argc < 4 || strcmp(argv[1], "--format") != 0;
    if (self_made && (argc > 1 || make_text(made) != 0)) {
        fprintf(stderr, "usage: bench_reader --format F FILE...\n");
        return 2;
    }
    if (!self_made) {
        reader.format = argv[2];
        reader.label_column = strcmp(argv[2], "csv") == 0 ? "click" : NULL;
        reader.drop = reader.label_column != NULL ? "id" : NULL;
        source.paths = (const char *const *)argv + 3;
        source.n_paths = (size_t)argc - 3;
    }
    struct bench b = {0};
    struct err e = {0};
    int rc = bench_all(&b, &reader, &source, &e);
    if (rc != 0)
        fprintf(stderr, "%s\n", e.text);
    reader_close(b.reader);
    source_close(b.source);
    if (self_made)
        remove(made);
    return err_exit_code(rc);
}
