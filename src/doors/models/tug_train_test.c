// Compares models of tug/train.h with those of tug train on the same data and options:
// files, metrics and predictions must be equal.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/train.h"

#include <math.h>
#include <pthread.h>

#include "base/alloc.h"
#include "kit/command.h"
#include "os/log.h"

enum { ROWS = 3000, FEATURES = 12 };

static const char *const common[] = {"model=fm", "dim=4", "deterministic",
                                     "data-in=memory", "threads=2"};
#define COMMON 5
#define FLAGS "--model fm --dim 4 --deterministic --data-in memory --threads 2"

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static void says(int rc, int wanted, const char *text)
{
    assert_int_equal(rc, wanted);
    if (strstr(tug_last_error(), text) == NULL)
        fail_msg("'%s' is not in: %s", text, tug_last_error());
}

static int begin(void **state)
{
    int rc = e2e_begin(state);
    e2e_write_data(&(struct e2e_data){.path = "train.txt", .rows = ROWS, .seed = 1});
    e2e_write_data(&(struct e2e_data){.path = "test.txt", .rows = 500, .seed = 2});
    e2e_write_data(
        &(struct e2e_data){.path = "train.ffm", .rows = ROWS, .seed = 1, .fields = true});
    return rc;
}

// Opens a model with the common options and the options `more`, a list that ends with
// NULL.
static struct tug_model *open_with(const char *const *more)
{
    const char *words[16];
    size_t n = 0;
    for (; n < COMMON; n++)
        words[n] = common[n];
    while (*more != NULL)
        words[n++] = *more++;
    struct tug_model *m;
    check(tug_model_open(&m,
                         &(struct tug_model_options){.options = words, .n_options = n}));
    return m;
}
#define OPEN(...) open_with((const char *const[]){__VA_ARGS__, NULL})
#define FILES(...)                                                                       \
    &(struct tug_data)                                                                   \
    {                                                                                    \
        .paths = (const char *const[]){__VA_ARGS__},                                     \
        .n_paths = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)           \
    }

static double result(const struct tug_model *m, const char *wanted)
{
    const char *name;
    double x;
    for (size_t i = 0; tug_model_result(m, i, &name, &x); i++)
        if (strcmp(name, wanted) == 0)
            return x;
    fail_msg("there is no result %s", wanted);
    return 0;
}

static void test_same_model_as_the_command(void **state)
{
    (void)state;
    tug_ends(0, "train --data train.txt --format libsvm --test test.txt " FLAGS
                " --epochs 2 --out command --json");
    double auc = e2e_number("auc"), loss = e2e_number("logloss");
    struct tug_model *m = OPEN("format=libsvm", "epochs=2", "test=test.txt");
    check(tug_model_train(m, FILES("train.txt"), NULL));
    assert_true(result(m, "test.auc") == auc && result(m, "test.logloss") == loss);
    assert_true(result(m, "epochs") == 2 && result(m, "examples") == ROWS);
    check(tug_model_save(m, "program"));
    e2e_same_model("command", "program");
    says(tug_model_save(m, "program"), TUG_EUSAGE, "already holds a saved model");

    check(tug_model_evaluate(m, FILES("test.txt"), NULL, 0));
    assert_true(result(m, "auc") == auc && result(m, "logloss") == loss);
    assert_true(result(m, "examples") == 500);
    assert_int_equal(tug_model_labels(m), 1);

    size_t n;
    check(tug_model_predict(m, FILES("test.txt"), NULL, 0, NULL, 0, &n));
    // Predicting does not change the results.
    assert_true(n == 500 && result(m, "auc") == auc);
    tug_model_close(m);
}

// A frame with one column of integers, in the Arrow C data interface.
struct frame {
    struct ArrowSchema column, schema, *columns[1];
    struct ArrowArray values, array, *arrays[1];
    const void *buffers[2], *none[1];
    struct tug_columns given;
};
static void release_schema(struct ArrowSchema *s)
{
    s->release = NULL;
}
static void release_array(struct ArrowArray *a)
{
    a->release = NULL;
}

static const struct tug_data *frame_of(struct frame *f, const int64_t *values,
                                       const float *labels, size_t n)
{
    *f = (struct frame){
        .column = {.format = "l", .name = "shop", .release = release_schema},
        .schema = {.format = "+s",
                   .name = "",
                   .n_children = 1,
                   .release = release_schema},
        .values = {.length = (int64_t)n, .n_buffers = 2, .release = release_array},
        .array = {.length = (int64_t)n,
                  .n_buffers = 1,
                  .n_children = 1,
                  .release = release_array},
        .buffers = {NULL, values},
    };
    f->columns[0] = &f->column;
    f->arrays[0] = &f->values;
    f->schema.children = f->columns;
    f->values.buffers = f->buffers;
    f->array.buffers = f->none;
    f->array.children = f->arrays;
    static const char *const words[] = {"shop"};
    f->given = (struct tug_columns){.schema = &f->schema,
                                    .array = &f->array,
                                    .labels = labels,
                                    .n_labels = n,
                                    .categorical = words,
                                    .n_categorical = 1};
    static struct tug_data data;
    data = (struct tug_data){.columns = &f->given};
    return &data;
}

// tug_model_label opens the save between two trainings. The second training closes it, so
// the training must have its own copy of the label's name.
static void test_trained_again_on_columns(void **state)
{
    (void)state;
    enum { N = 200 };
    static int64_t values[N];
    static float labels[N];
    for (size_t i = 0; i < N; i++) {
        values[i] = (int64_t)(i % 7);
        labels[i] = i % 7 < 3;
    }
    struct frame f;
    struct tug_model *m = OPEN("format=csv", "epochs=2");
    for (int i = 0; i < 3; i++) {
        check(tug_model_train(m, frame_of(&f, values, labels, N), NULL));
        assert_int_equal(tug_model_labels(m), 1); // opens the save
        assert_string_equal(tug_model_label(m, 0), "label");
    }
    check(tug_model_evaluate(m, frame_of(&f, values, labels, N), NULL, 0));
    assert_true(result(m, "auc") > 0.9);
    tug_model_close(m);
}

// With the option `out`, saves are written to its directory and nowhere else.
static void test_out(void **state)
{
    (void)state;
    struct tug_model *m = OPEN("format=libsvm", "epochs=2", "out=own");
    check(tug_model_train(m, FILES("train.txt"), NULL));
    tug_model_close(m);
    e2e_same_model("command", "own");
}

static void same_file(const char *a, const char *b)
{
    if (!files_same(a, b))
        fail_msg("%s and %s differ", a, b);
}

// Compares the rows of the newest saves of two directories. The manifests differ, because they
// have the names of the data.
static void same_rows(const char *a, const char *b)
{
    char names[16][64];
    const char *from = files_path("%s", e2e_newest(a)),
               *to = files_path("%s", e2e_newest(b));
    size_t n = files_list(from, names, 16);
    assert_true(n > 2);
    for (size_t i = 0; i < n; i++)
        if (strstr(names[i], ".rows") != NULL)
            same_file(files_path("%s/%s", from, names[i]),
                      files_path("%s/%s", to, names[i]));
}

static void test_passes_one_by_one(void **state)
{
    (void)state;
    tug_ends(0, "train --data train.txt --format libsvm " FLAGS
                " --epochs 3 --schedule exp --out three");
    struct tug_model *m = OPEN("format=libsvm", "epochs=1", "schedule=exp");
    for (int i = 0; i < 3; i++) {
        check(tug_model_train(m, FILES("train.txt"), NULL));
        assert_true(result(m, "epochs") == i + 1);
    }
    check(tug_model_save(m, "one_by_one"));
    same_rows("three", "one_by_one");
    // Training on other data continues from the model's weights.
    check(tug_model_train(m, FILES("test.txt"), NULL));
    assert_true(result(m, "examples") == 500 && result(m, "epochs") == 4);
    assert_true(result(m, "train.auc") > 0.7);
    tug_model_close(m);

    // Continues the training of a model that was saved after two passes and loaded.
    const char *words[] = {"model=fm",       "dim=4",    "deterministic",
                           "data-in=memory", "epochs=1", "schedule=exp"};
    struct tug_model_options o = {.options = words, .n_options = 6};
    m = OPEN("format=libsvm", "epochs=2", "schedule=exp");
    check(tug_model_train(m, FILES("train.txt"), NULL));
    check(tug_model_save(m, "two"));
    tug_model_close(m);
    check(tug_model_load(&m, "two", &o));
    check(tug_model_train(m, FILES("train.txt"), NULL));
    check(tug_model_save(m, "two_and_one"));
    tug_model_close(m);
    same_rows("three", "two_and_one");
    words[5] = "schedule=constant";
    check(tug_model_load(&m, "two", &o));
    says(tug_model_train(m, FILES("train.txt"), NULL), TUG_EUSAGE, "--schedule exp");
    tug_model_close(m);

    // tug_model_load refuses options that contradict the save.
    words[1] = "dim=5";
    says(tug_model_load(&m, "two", &o), TUG_EUSAGE, "--dim 4, here it is 5");
    words[0] = "epochs=1"; // replaces "model=fm", so dim is not compared with the save
    check(tug_model_load(&m, "two", &o));
    tug_model_close(m);
}

// A libsvm or libffm file as arrays in the form CSR.
struct csr {
    float labels[ROWS], values[ROWS * FEATURES];
    uint64_t offsets[ROWS + 1], keys[ROWS * FEATURES];
    uint32_t fields[ROWS * FEATURES];
    struct tug_rows rows;
};

static struct csr *read_csr(const char *path, bool fields)
{
    struct csr *c = mem_zalloc(sizeof(*c));
    char *text = files_read(path, NULL), *p = text;
    uint64_t n = 0;
    size_t rows = 0;
    for (; *p != '\0'; rows++) {
        c->labels[rows] = strtof(p, &p);
        while (*p != '\n' && *p != '#') {
            if (fields)
                c->fields[n] = (uint32_t)strtoul(p, &p, 10), p++;
            c->keys[n] = strtoull(p, &p, 10);
            c->values[n++] = strtof(p + 1, &p);
            while (*p == ' ')
                p++;
        }
        p += strcspn(p, "\n") + 1;
        c->offsets[rows + 1] = n;
    }
    mem_free(text);
    c->rows = (struct tug_rows){.n = rows,
                                .labels = c->labels,
                                .offsets = c->offsets,
                                .keys = c->keys,
                                .fields = fields ? c->fields : NULL,
                                .values = c->values};
    return c;
}

// Examples in memory give the same model and predictions as the same examples in a file.
static void test_rows_in_memory(void **state)
{
    (void)state;
    struct csr *c = read_csr("train.txt", false), *f = read_csr("train.ffm", true);
    for (size_t j = 0; j < c->offsets[ROWS]; j += 3)
        c->values[j] = (float)(0.1 * (double)(j % 17) + 1e-7 * (double)j);
    FILE *text = fopen("values.txt", "w");
    for (size_t i = 0; i < ROWS; i++) {
        fprintf(text, "%g", (double)c->labels[i]);
        for (size_t j = c->offsets[i]; j < c->offsets[i + 1]; j++)
            fprintf(text, " %llu:%.17g", (unsigned long long)c->keys[j],
                    (double)c->values[j]);
        fprintf(text, "\n");
    }
    fclose(text);
    tug_ends(0, "train --data values.txt --format libsvm " FLAGS
                " --epochs 2 --out values --valid test.txt");
    struct tug_model *m = OPEN("epochs=2");
    struct csr *v = read_csr("test.txt", false);
    check(tug_model_train(m, &(struct tug_data){.rows = &c->rows},
                          &(struct tug_data){.rows = &v->rows}));
    assert_true(result(m, "best_epoch") >= 1 && result(m, "valid.auc") > 0.5);
    check(tug_model_save(m, "rows"));
    same_rows("values", "rows");
    tug_model_close(m);

    tug_ends(0, "train --data train.ffm --format libffm --model ffm --dim 4 --threads 2 "
                "--deterministic --data-in memory --epochs 1 --out ffm");
    m = OPEN("model=ffm", "epochs=1");
    check(tug_model_train(m, &(struct tug_data){.rows = &f->rows}, NULL));
    check(tug_model_save(m, "ffm_rows"));
    same_rows("ffm", "ffm_rows");
    tug_model_close(m);

    m = OPEN("epochs=1");
    c->values[5] = (float)NAN;
    says(tug_model_train(m, &(struct tug_data){.rows = &c->rows}, NULL), TUG_EDATA,
         "data: row 0: the value of feature ");
    c->values[5] = 1;
    c->offsets[8] = 3;
    says(tug_model_train(m, &(struct tug_data){.rows = &c->rows}, NULL), TUG_EUSAGE,
         "offsets descend from row 7");
    c->rows.labels = NULL;
    says(tug_model_train(m, &(struct tug_data){.rows = &c->rows}, NULL), TUG_EUSAGE,
         "labels are missing");
    tug_model_close(m);
    mem_free(c);
    mem_free(f);
    mem_free(v);
}

static void test_predictions(void **state)
{
    (void)state;
    enum { N = 500 };
    float p[N], again[N];
    size_t n;
    struct tug_model *m;
    check(tug_model_load(&m, "command", NULL));
    check(tug_model_predict(m, FILES("test.txt"), NULL, 0, p, N, &n));
    assert_int_equal(n, N);
    tug_ends(0, "predict --from command --data test.txt");
    char line[64];
    const char *at = e2e_out;
    for (size_t i = 0; i < N; i++) {
        snprintf(line, sizeof(line), "%.7g\n", (double)p[i]);
        assert_memory_equal(at, line, strlen(line));
        at += strlen(line);
    }
    assert_int_equal(*at, 0);

    // Predicts rows without labels: into the program's array, into the model's array, and
    // as raw scores.
    struct csr *c = read_csr("test.txt", false);
    c->rows.labels = NULL;
    const struct tug_data rows = {.rows = &c->rows};
    check(tug_model_predict(m, &rows, NULL, 0, again, N, &n));
    assert_memory_equal(p, again, sizeof(p));
    check(tug_model_predict(m, &rows, NULL, 0, NULL, 0, &n));
    assert_int_equal(n, N);
    assert_memory_equal(p, tug_model_predictions(m, &n), sizeof(p));
    const char *const raw[] = {"raw"}, *const one[] = {"threads=1"};
    check(tug_model_predict(m, &rows, raw, 1, again, N, &n));
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(1 / (1 + exp(-(double)again[i])) - (double)p[i]) < 1e-6);
    check(tug_model_predict(m, &rows, one, 1, again, N, &n));
    assert_memory_equal(p, again, sizeof(p));

    says(tug_model_predict(m, &rows, NULL, 0, again, N - 1, &n), TUG_EUSAGE,
         "there are 500 predictions, and room for 499");
    assert_int_equal(n, N);
    const char *const out[] = {"out=x"}, *const odd[] = {"thread=1"};
    says(tug_model_predict(m, &rows, out, 1, again, N, &n), TUG_EUSAGE,
         "--out is not supported in a program");
    says(tug_model_predict(m, &rows, odd, 1, again, N, &n), TUG_EUSAGE,
         "did you mean '--threads'?");
    says(tug_model_train(m, FILES("train.txt"), NULL), TUG_EUSAGE, "without options");
    check(tug_model_predict(m, &rows, NULL, 0, again, N, &n)); // the model is unchanged
    assert_memory_equal(p, again, sizeof(p));
    tug_model_close(m);
    mem_free(c);
}

static void refused(const char *sentence, const char *const *options, size_t n)
{
    struct tug_model *m;
    says(tug_model_open(&m,
                        &(struct tug_model_options){.options = options, .n_options = n}),
         TUG_EUSAGE, sentence);
}
#define REFUSED(sentence, ...)                                                           \
    refused(sentence, (const char *const[]){__VA_ARGS__},                                \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_errors(void **state)
{
    (void)state;
    struct tug_model *m;
    REFUSED("did you mean '--epochs'?", "epoch=3");
    REFUSED("--lr", "lr=fast");
    REFUSED("--hidden: an fm model has no layers", "model=fm", "hidden=8");
    REFUSED("--mode: on one machine", "mode=ssp:2");
    REFUSED("--save-every needs --out", "save-every=1");
    REFUSED("--json is not supported in a program", "json");
    REFUSED("--data is not supported in a program", "data=train.txt");
    says(tug_model_load(&m, "nowhere", NULL), TUG_EDATA, "nowhere");
    setenv("DMLC_ROLE", "server", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", "9100", 1);
    setenv("DMLC_NUM_WORKER", "1", 1);
    setenv("DMLC_NUM_SERVER", "1", 1);
    REFUSED("the server of a cluster (DMLC_ROLE)", "model=lr");
    check(tug_model_open(&m, &(struct tug_model_options){.alone = true}));
    tug_model_close(m);
    unsetenv("DMLC_ROLE");

    m = OPEN("format=libsvm");
    says(tug_model_save(m, "none"), TUG_EUSAGE, "is not trained yet");
    says(tug_model_evaluate(m, FILES("test.txt"), NULL, 0), TUG_EUSAGE,
         "is not trained yet");
    says(tug_model_train(m, FILES("missing.txt"), NULL), TUG_EDATA, "missing.txt");
    assert_int_equal(tug_model_labels(m), 0);
    struct csr *c = read_csr("train.ffm", true);
    says(tug_model_train(m, &(struct tug_data){.rows = &c->rows}, NULL), TUG_EUSAGE,
         "rows in memory are of format libffm, but --format is libsvm");
    check(tug_model_train(m, FILES("train.txt"), NULL)); // the errors changed nothing
    tug_model_close(m);
    mem_free(c);
}

struct heard {
    struct tug_model *model;
    pthread_t thread;
    unsigned calls, passes, ended;
    uint32_t stop_at; // number of the pass in which the program interrupts the training
    double auc;
};

static void hear(void *ctx, const struct tug_progress *p)
{
    struct heard *h = ctx;
    assert_true(pthread_equal(h->thread, pthread_self()));
    assert_true(p->pass >= 1 && p->pass <= p->passes && p->share <= 1);
    h->calls++;
    h->passes += p->done;
    h->auc = p->auc;
    if (p->pass >= h->stop_at)
        tug_model_interrupt(h->model);
}

static void hear_of_pass(void *ctx, const struct tug_pass *p)
{
    struct heard *h = ctx;
    assert_true(pthread_equal(h->thread, pthread_self()));
    // on_pass is called after the last progress of the same pass.
    assert_int_equal(p->pass, ++h->ended);
    assert_int_equal(h->passes, h->ended);
    assert_true(p->auc == h->auc && p->valid_examples == 0 && isnan(p->valid_loss));
}

// Each pass is reported once, and in order, even if many passes end between two calls of
// the program's functions.
static void test_every_pass_is_told(void **state)
{
    (void)state;
    enum { PASSES = 200 };
    struct heard h = {.thread = pthread_self(), .stop_at = UINT32_MAX};
    const char *words[] = {"model=lr", "format=libsvm", "epochs=200", "threads=1"};
    struct tug_model_options o = {.options = words,
                                  .n_options = 4,
                                  .progress = hear,
                                  .ctx = &h,
                                  .on_pass = hear_of_pass};
    struct tug_pass p;
    check(tug_model_open(&h.model, &o));
    assert_false(tug_model_pass(h.model, 0, 0, &p));
    check(tug_model_train(h.model, FILES("train.txt"), NULL));
    assert_true(h.passes == PASSES && h.ended == PASSES);
    for (uint32_t i = 0; i < PASSES; i++) {
        assert_true(tug_model_pass(h.model, i, 0, &p));
        assert_int_equal(p.pass, i + 1);
        assert_true((double)p.examples == result(h.model, "examples"));
    }
    assert_false(tug_model_pass(h.model, PASSES, 0, &p));
    assert_false(tug_model_pass(h.model, 0, 1, &p));
    tug_model_close(h.model);
}

// A thread that trains a model at the same time as another thread, with the results of
// its passes.
enum { THREAD_PASSES = 12 };
struct one_of_two {
    const char *seed;
    // Both threads begin together; NULL: the thread trains alone.
    pthread_barrier_t *begin;
    double auc[THREAD_PASSES], loss[THREAD_PASSES], trained, test;
};

static void hear_nothing(void *ctx, const struct tug_progress *p)
{
    (void)ctx, (void)p;
}

static void *train_one(void *ctx)
{
    struct one_of_two *o = ctx;
    const char *const words[] = {
        "model=lr",  o->seed,     "deterministic", "batch=32",       "log-every=1",
        "threads=1", "epochs=12", "format=libsvm", "data-in=memory", "test=test.txt"};
    struct tug_model *m;
    struct tug_model_options options = {.options = words,
                                        .n_options = sizeof(words) / sizeof(*words),
                                        .progress = hear_nothing};
    int rc = tug_model_open(&m, &options);
    if (o->begin != NULL)
        pthread_barrier_wait(o->begin);
    if (rc != 0 || tug_model_train(m, FILES("train.txt"), NULL) != 0)
        return (void *)"failed";
    for (uint32_t i = 0; i < THREAD_PASSES; i++) {
        struct tug_pass p = {0};
        if (!tug_model_pass(m, i, 0, &p))
            return (void *)"a pass is missing";
        o->auc[i] = p.auc;
        o->loss[i] = p.loss;
    }
    o->trained = result(m, "train.auc");
    o->test = result(m, "test.auc");
    tug_model_close(m);
    return NULL;
}

static void test_two_threads_train(void **state)
{
    (void)state;
    enum { TWO = 2 };
    struct one_of_two one[TWO] = {{.seed = "seed=1"}, {.seed = "seed=2"}}, both[TWO];
    pthread_barrier_t begin_together;
    pthread_t threads[TWO];
    void *failed;
    assert_int_equal(pthread_barrier_init(&begin_together, NULL, TWO), 0);
    for (int i = 0; i < TWO; i++) {
        assert_null(train_one(&one[i]));
        both[i] = (struct one_of_two){.seed = one[i].seed, .begin = &begin_together};
    }
    for (int i = 0; i < TWO; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_one, &both[i]), 0);
    for (int i = 0; i < TWO; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    pthread_barrier_destroy(&begin_together);
    for (int i = 0; i < TWO; i++) {
        for (int k = 0; k < THREAD_PASSES; k++)
            assert_true(both[i].auc[k] == one[i].auc[k] &&
                        both[i].loss[k] == one[i].loss[k]);
        assert_true(both[i].trained == one[i].trained && both[i].test == one[i].test &&
                    one[i].trained > 0.5);
    }
}

static bool interrupts(void *ctx)
{
    return ctx != NULL;
}

static void test_progress_and_interrupt(void **state)
{
    (void)state;
    struct heard h = {.thread = pthread_self(), .stop_at = UINT32_MAX};
    const char *words[] = {"model=fm", "format=libsvm", "epochs=1", "threads=1"};
    struct tug_model_options o = {
        .options = words, .n_options = 4, .progress = hear, .ctx = &h};
    check(tug_model_open(&h.model, &o));
    check(tug_model_train(h.model, FILES("train.txt"), NULL));
    assert_true(h.passes == 1 && h.auc > 0.5);
    check(tug_model_evaluate(h.model, FILES("test.txt"), NULL, 0));
    double before = result(h.model, "auc");
    tug_model_close(h.model);

    words[2] = "epochs=1000000";
    check(tug_model_open(&h.model, &o));
    h.stop_at = 2;
    says(tug_model_train(h.model, FILES("train.txt"), NULL), TUG_EINTERRUPTED,
         "the model is as it was before");
    says(tug_model_save(h.model, "interrupted"), TUG_EUSAGE, "is not trained yet");
    tug_model_close(h.model);
    assert_false(files_exists("interrupted"));

    // The program's interrupt function can end the training of a loaded model. The model
    // stays unchanged.
    tug_interrupt_by(interrupts, &h);
    h.stop_at = UINT32_MAX;
    const char *const again[] = {"model=fm",       "dim=4",         "deterministic",
                                 "data-in=memory", "format=libsvm", "epochs=1000000"};
    o.options = again;
    o.n_options = 6;
    check(tug_model_load(&h.model, "command", &o));
    says(tug_model_train(h.model, FILES("train.txt"), NULL), TUG_EINTERRUPTED,
         "interrupted");
    tug_interrupt_by(NULL, NULL);
    check(tug_model_save(h.model, "still"));
    e2e_same_model("command", "still");
    tug_model_close(h.model);
    assert_true(before > 0.5);
}

static void test_options_are_listed(void **state)
{
    (void)state;
    struct tug_option o;
    unsigned found = 0;
    for (size_t i = 0; tug_model_option("train", i, &o); i++) {
        found += strcmp(o.name, "epochs") == 0 && o.default_text != NULL && !o.is_switch;
        found += strcmp(o.name, "deterministic") == 0 && o.is_switch;
        found += strcmp(o.name, "test") == 0 && o.is_list;
    }
    assert_int_equal(found, 3);
    assert_true(tug_model_option("predict", 0, &o));
    assert_false(tug_model_option("trian", 0, &o));
}

static bool page_has(const char *path, const char *text)
{
    size_t n;
    char *page = files_read(path, &n);
    assert_true(page != NULL && n > 0);
    page[n - 1] = '\0';
    bool has = strstr(page, text) != NULL;
    mem_free(page);
    return has;
}

static void test_reports(void **state)
{
    (void)state;
    struct tug_model *m = OPEN("format=libsvm", "epochs=2");
    says(tug_model_report(m, "r.html"), TUG_EUSAGE, "is not trained yet");
    check(tug_model_train(m, FILES("train.txt"), NULL));
    says(tug_model_report(m, "train.txt"), TUG_EUSAGE, "is not a report");
    says(tug_model_report(m, "nowhere/r.html"), TUG_EIO, "nowhere");
    check(tug_model_report(m, "r.html"));
    assert_true(page_has("r.html", "data-of=\"/history/1/loss\""));
    assert_false(page_has("r.html", "data-of=\"/auc\""));
    const char *into[] = {"report=r.html"}, *onto[] = {"report=test.txt"};
    says(tug_model_evaluate(m, FILES("test.txt"), onto, 1), TUG_EUSAGE, "this run reads");
    check(tug_model_evaluate(m, FILES("test.txt"), into, 1));
    assert_true(page_has("r.html", "data-of=\"/auc\""));
    assert_true(page_has("r.html", "data-of=\"/roc/"));
    struct csr *c = read_csr("test.txt", false);
    check(tug_model_evaluate(m, &(struct tug_data){.rows = &c->rows}, into, 1));
    assert_true(page_has("r.html", "(in memory)"));
    mem_free(c);
    tug_model_close(m);
    REFUSED("call tug_model_report", "report=r.html");
}

// Models leave no files in the directory of temporary files.
static void test_nothing_is_left(void **state)
{
    (void)state;
    char names[4][64];
    if (files_list("tmp", names, 4) > 0)
        fail_msg("tmp/%s is left", names[0]);
}

static int begin_with_tmp(void **state)
{
    int rc = begin(state);
    char here[FILE_PATH_MAX];
    assert_int_equal(file_make_dir("tmp", NULL), 0);
    setenv("TMPDIR", realpath("tmp", here), 1);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_model_as_the_command),
        cmocka_unit_test(test_trained_again_on_columns),
        cmocka_unit_test(test_out),
        cmocka_unit_test(test_passes_one_by_one),
        cmocka_unit_test(test_every_pass_is_told),
        cmocka_unit_test(test_rows_in_memory),
        cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_two_threads_train),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_progress_and_interrupt),
        cmocka_unit_test(test_options_are_listed),
        cmocka_unit_test(test_reports),
        cmocka_unit_test(test_nothing_is_left),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, begin_with_tmp, e2e_end);
}
