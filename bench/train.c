// tug bench train: each model on synthetic rows, with one thread and with several.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "bench/bench.h"
#include "data/synth.h"
#include "train/config.h"

struct rates {
    double read;  // bytes of text a second
    double train; // examples a second
};

static int train_once(const char *path, uint64_t bytes, const struct model_ops *ops,
                      int threads, const struct bench_options *o, struct rates *ret,
                      struct err *e)
{
    struct train_config c = {
        .data = {&path, 1},
        .reader = {.format = "libffm", .labels = true, .fields = SYNTH_SLOTS},
        .model = {.seed = 1, .fields = ops->needs_fields ? SYNTH_SLOTS : 0},
        .epochs = (uint32_t)o->epochs,
        .batch = 256,
        .threads = threads,
        .data_in = DATA_IN_MEMORY,
    };
    model_defaults(&c.model, ops, RULE_ADAGRAD_ROW);
    struct train_result *result = mem_zalloc(sizeof(*result));
    if (result == NULL)
        return err_nomem(e, "the result");
    int rc = train_run(&c, result, e);
    if (rc == 0)
        *ret = (struct rates){
            .read = (double)bytes / result->read_seconds,
            .train = (double)result->trained_examples / result->train_seconds,
        };
    mem_free(result);
    return rc;
}

static void print_text(const struct model_ops *ops, const struct rates *one,
                       const struct rates *all, int threads)
{
    printf("%-4s 1 thread: %.0f k examples/s, reads %.0f MB/s", ops->name,
           one->train * 1e-3, one->read * 1e-6);
    if (threads > 1)
        printf("; %d threads: %.0f k examples/s, %.2f of one; reads %.0f MB/s", threads,
               all->train * 1e-3, all->train / one->train, all->read * 1e-6);
    putchar('\n');
    fflush(stdout);
}

static json_t *to_json(const struct rates *r, int threads)
{
    return json_pack("{s:i, s:f, s:f}", "threads", threads, "examples_per_second",
                     r->train, "read_bytes_per_second", r->read);
}

// Lines are printed as they come, JSON when all is known.
static int measure(const char *path, uint64_t bytes, const struct bench_options *o,
                   json_t *models, struct err *e)
{
    const struct model_ops *ops;
    for (size_t i = 0; (ops = model_at(i)) != NULL; i++) {
        struct rates one, all = {0};
        TRY(train_once(path, bytes, ops, 1, o, &one, e));
        if (o->threads > 1)
            TRY(train_once(path, bytes, ops, o->threads, o, &all, e));
        if (!o->json)
            print_text(ops, &one, &all, o->threads);
        json_t *runs = json_array();
        json_array_append_new(runs, to_json(&one, 1));
        if (o->threads > 1)
            json_array_append_new(runs, to_json(&all, o->threads));
        if (json_object_set_new(models, ops->name, runs) != 0)
            return err_nomem(e, "the result");
    }
    return 0;
}

static int print_json(const struct bench_options *o, json_t *models, struct err *e)
{
    json_t *j = json_pack("{s:s, s:I, s:I, s:O}", "bench", "train", "rows",
                          (json_int_t)o->rows, "epochs", (json_int_t)o->epochs, "models",
                          models);
    char *text = j != NULL ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (text == NULL)
        return err_nomem(e, "the result");
    printf("%s\n", text);
    mem_free(text);
    return 0;
}

static int measure_on(const char *path, const struct bench_options *o, struct err *e)
{
    const struct synth_options wanted = {
        .rows = o->rows, .seed = 1, .format = SYNTH_LIBFFM, .out = path};
    struct synth_summary made;
    TRY(synth_write(&wanted, &made, e));
    if (!o->json)
        printf("%llu passes over %llu synthetic rows of %d features, %.0f MB of text\n",
               (unsigned long long)o->epochs, (unsigned long long)o->rows, SYNTH_SLOTS,
               (double)made.bytes * 1e-6);
    json_t *models = json_object();
    if (models == NULL)
        return err_nomem(e, "the result");
    int rc = measure(path, made.bytes, o, models, e);
    if (rc == 0 && o->json)
        rc = print_json(o, models, e);
    json_decref(models);
    return rc;
}

int bench_train(struct bench *bench, struct err *e)
{
    const struct bench_options *o = &bench->o;
    char path[FILE_PATH_MAX], name[64];
    const char *folder = getenv("TMPDIR");
    json_set_alloc_funcs(mem_alloc, mem_free);
    log_set_level(LOG_WARN); // no progress lines between the results
    snprintf(name, sizeof(name), "tug-bench-%ld.ffm", (long)getpid());
    TRY(file_join(path, folder != NULL && *folder ? folder : "/tmp", name, e));
    int rc = measure_on(path, o, e);
    unlink(path);
    return rc;
}
