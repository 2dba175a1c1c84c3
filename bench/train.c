// tug bench train: trains each model without layers on synthetic rows, with one thread
// and with several.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "synth/synth.h"
#include "train/config.h"

static int train_once(const struct bench *b, const char *path, double bytes,
                      const struct model_ops *ops, int threads, json_t **ret,
                      struct err *e)
{
    struct train_config c = {
        .data = {&path, 1},
        .reader = {.format = "libffm", .labels = true, .fields = SYNTH_SLOTS},
        .model = {.seed = 1, .fields = ops->needs_fields ? SYNTH_SLOTS : 0},
        .epochs = (uint32_t)b->o.epochs,
        .batch = 256,
        .threads = threads,
        .data_in = DATA_IN_MEMORY,
    };
    model_defaults(&c.model, ops, RULE_ADAGRAD_ROW);
    struct train_result *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, "the result");
    int rc = train_run(&c, r, e);
    *ret = bench_row(json_object_get(b->figures, "models"), ops->name);
    bench_count(*ret, "threads", (uint64_t)threads);
    bench_set(*ret, "examples_per_second",
              (double)r->trained_examples / r->train_seconds);
    bench_set(*ret, "read_bytes_per_second", bytes / r->read_seconds);
    bench_set(*ret, "memory_of_text", (double)r->data_bytes / bytes);
    mem_free(r);
    return rc;
}

static int measure_model(const struct bench *b, const char *path, double bytes,
                         const struct model_ops *ops, struct err *e)
{
    static const char rate[] = "examples_per_second";
    json_t *one, *all;
    TRY(train_once(b, path, bytes, ops, 1, &one, e));
    if (!b->o.json)
        printf("%-4s", ops->name);
    bench_print(
        b, one,
        " 1 thread: {examples_per_second:.0k} k examples/s, reads "
        "{read_bytes_per_second:.0M} MB/s, keeps {memory_of_text:.2} of the text");
    if (b->o.threads > 1) {
        TRY(train_once(b, path, bytes, ops, b->o.threads, &all, e));
        bench_set(all, "of_one", bench_get(all, rate) / bench_get(one, rate));
        bench_print(b, all,
                    "; {threads} threads: {examples_per_second:.0k} k examples/s, "
                    "{of_one:.2} times one; reads {read_bytes_per_second:.0M} MB/s");
    }
    bench_print(b, one, "\n");
    return 0;
}

static int measure(const struct bench *b, const char *dir, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_join(path, dir, "train.ffm", e));
    const struct synth_options wanted = {
        .rows = b->o.rows, .seed = 1, .format = SYNTH_LIBFFM, .out = path};
    struct synth_summary made;
    TRY(synth_write(&wanted, &made, e));
    bench_count(b->figures, "rows", b->o.rows);
    bench_count(b->figures, "epochs", b->o.epochs);
    bench_count(b->figures, "bytes", made.bytes);
    (void)bench_group(b->figures, "models");
    bench_print(b, b->figures,
                "{epochs} passes over {rows} synthetic rows of 39 features, {bytes:.0M} "
                "MB of text\n");
    const struct model_ops *ops;
    // Models with layers take minutes; bench/deep measures them.
    for (size_t i = 0; (ops = model_at(i)) != NULL; i++)
        if (ops->dense == NULL)
            TRY(measure_model(b, path, (double)made.bytes, ops, e));
    return 0;
}

int bench_train(struct bench *b, struct err *e)
{
    char dir[FILE_PATH_MAX];
    TRY(bench_make_dir(b, dir, e));
    int rc = measure(b, dir, e);
    bench_remove_dir(dir);
    return rc;
}
