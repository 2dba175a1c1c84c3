// Runs that begin with a save: the options that they take from it, and their errors about
// options and data that do not fit it, in one process, with --table and on a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

enum { EXAMPLES = 300, FEATURES = 30 };

// Writes examples whose features are numbered from `first` on.
static void write_numbered(const char *path, unsigned first)
{
    struct buf b = BUF_INIT(1 << 20);
    for (unsigned i = 0; i < EXAMPLES; i++) {
        buf_printf(&b, "%d", i % 3 == 0);
        for (unsigned k = 0; k < 3; k++)
            buf_printf(&b, " %u:1", first + (i * 7 + k * 11) % 10 + 10 * k);
        buf_printf(&b, "\n");
    }
    files_write(path, buf_str(&b));
    buf_free(&b);
}

static void says_not(const char *text)
{
    if (strstr(e2e_err, text) != NULL)
        cluster_fail("'%s' is in: %s", text, e2e_err);
}

static void launch(const char *words)
{
    cluster_start("run", "launch --servers 1 --workers 2 -- train %s", words);
    cluster_ends("run", 0, 2 * CLUSTER_PATIENCE);
    cluster_none_left();
}

#define NEW "train --data one.svm --out new --epochs 1 "

static void clean(void)
{
    files_remove("new");
}

// A new run takes the options that shape the model from the save. An error about an option
// that differs names only this option, with both values.
static void options_of_a_begun_run(void **state)
{
    (void)state;
    static const struct {
        const char *options, *says, *unsaid;
    } other[] = {
        {"--optimizer ftrl",
         "the model in old/save-000001 has --optimizer 'adagrad', this run has 'ftrl': "
         "give the same options, or leave them out, and the run takes them from the save",
         "--dim"},
        {"--model lr", "has --model 'deepfm', this run has 'lr': ", "--optimizer"},
        {"--dim 5", "has --dim 3, this run has 5: ", "--hidden"},
        {"--hidden 4 --dense-optimizer sgd",
         "has --hidden '6,2', this run has '4'; it has --dense-optimizer 'adam', this "
         "run "
         "has 'sgd': give the same options, or leave them out, and the run takes them "
         "from the save; or take its features alone: --init-tables sparse",
         "--dim"},
    };
    tug_ends(0,
             "train --data data.ffm --format libffm --model deepfm --optimizer adagrad "
             "--dim 3 --hidden 6,2 --pooling mean --epochs 1 --out old");
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
        clean();
        tug_ends(2, "train --data data.ffm --out new --epochs 1 --init-from old %s",
                 other[i].options);
        e2e_says(other[i].says);
        says_not(other[i].unsaid);
    }
    clean();
    tug_ends(0, "train --data data.ffm --out new --epochs 1 --init-from old "
                "--deterministic --batch 50");
    tug_ends(0,
             "train --data data.ffm --format libffm --model deepfm --optimizer adagrad "
             "--dim 3 --hidden 6,2 --pooling mean --epochs 1 --out same --init-from "
             "old --deterministic --batch 50");
    e2e_same_model("new", "same");
    clean();
    tug_ends(0, "train --data data.ffm --out new --epochs 1 --init-from old "
                "--init-tables sparse --hidden 4");
    files_remove("old");
}

static void tables_of_a_begun_run(void **state)
{
    (void)state;
    tug_ends(0, "train --data one.svm --format libsvm --model fm --table entry=count:2 "
                "--epochs 1 --out old");
    clean();
    tug_ends(0, NEW "--init-from old");
    clean();
    tug_ends(2, NEW "--init-from old --valid one.svm");
    e2e_says("--table and --valid cannot be used together");
    e2e_says(" (--table comes from the save in old/save-000001)");
    files_remove("old");
}

// Errors of a resumed run name only options that the user gave, and mark options that
// come from the save.
static void options_of_a_resumed_run(void **state)
{
    (void)state;
    static const struct {
        const char *options, *says;
    } other[] = {
        {"--optimizer ftrl",
         "had --optimizer 'adagrad', but this run has 'ftrl': give the "
         "same options, or leave them out, and the run takes them "
         "from the save (--init-from needs the same model, "},
        {"--model lr", "had --model 'fm', but this run has 'lr': give"},
        {"--model lr --batch 33", "had --model 'fm', but this run has 'lr'; the earlier "
                                  "run had --batch 50, but this run has 33: "},
        {"--optimizer ftrl --l1 2 --valid 0.5",
         "had --optimizer 'adagrad', but this run has 'ftrl'; the earlier run had --l1 "
         "0, but this run has 2; "
         "the earlier run had --valid 0.2, but this run has 0.5: give"},
        {"--lr 0.5",
         "had --lr 0.07, but this run has 0.5: give the same options, or leave "
         "them out, and the run takes them from the save; or use --init-from "
         "to start a new run from the saved model"},
        {"--hidden 4", "--hidden: an fm model has no layers (--model comes from the save "
                       "in old/save-000001)"},
        {"--publish old/pub", "a share of the data needs --mode sync; give a file "
                              "(--valid comes from the save "
                              "in old/save-000001)"},
    };
    tug_ends(0, "train --data one.svm --format libsvm --model fm --optimizer adagrad "
                "--dim 3 --lr 0.07 --l2 0.01 --batch 50 --seed 5 --valid 0.2 --epochs 1 "
                "--out old");
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
        tug_ends(2, "train --data one.svm --out old --resume --epochs 2 %s",
                 other[i].options);
        e2e_says(other[i].says);
    }
    files_remove("old");
}

// Options without effect are taken from the save like all other options.
static void options_without_effect(void **state)
{
    (void)state;
    files_remove("old");
    tug_ends(0, "train --data one.svm --format libsvm --model lr --dim 4 --init 0.5 "
                "--latent-lr 0.5 --fields 7 --epochs 1 --out old");
    tug_ends(0, "train --data one.svm --out old --resume --epochs 2");
    says_not("no effect");
    files_remove("old");
}

// tug launch also reports an option that comes from the save, before it starts processes.
static void options_of_a_launched_run(void **state)
{
    (void)state;
    tug_ends(0, "train --data one.svm --format libsvm --model lr --valid 0.2 --epochs 1 "
                "--out old");
    tug_ends(2, "launch --servers 1 --workers 1 -- train --data one.svm --out old "
                "--resume --epochs 2");
    e2e_says("(--valid comes from the save in old/save-000001)");
    files_remove("old");
}

// --init-from compares the numbering of the data with that of the model's data, whichever
// processes have the rows.
static void numbering_of_a_begun_run(void **state)
{
    (void)state;
#define SHIFTED_DOWN                                                                     \
    "--data: its features are numbered from 0 to 29, and the model knows "
#define SHIFTED_UP "--data: its features are numbered from 1 to 30, and the model knows "
    static const struct {
        const char *old, *begun;
        bool cluster;
    } ways[] = {
        {"--model fm", "", false},
        {"--model fm", "", true},
        {"--model lr", "--mode sync", true},
        {"--model fm --table entry=count:2", "", false},
        {"--model fm --table entry=count:2", "", true},
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        bool up = i % 2 != 0;
        const char *then = up ? "zero.svm" : "one.svm",
                   *now = up ? "one.svm" : "zero.svm";
        files_remove("old");
        clean();
        tug_ends(0, "train --data %s --format libsvm --epochs 1 --out old %s", then,
                 ways[i].old);
        char words[200];
        snprintf(words, sizeof(words),
                 "--data %s --epochs 1 --init-from old --out new %s", now, ways[i].begun);
        if (ways[i].cluster)
            launch(words);
        else
            tug_ends(0, "train %s", words);
        e2e_says(up ? SHIFTED_UP : SHIFTED_DOWN);
        // The new save knows the feature numbers of both data sets, so data numbered from
        // 0 fits it.
        files_remove("newer");
        tug_ends(0, "train --data zero.svm --epochs 1 --init-from new --out newer");
        says_not("its features are numbered");
    }
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    write_numbered("zero.svm", 0);
    write_numbered("one.svm", 1);
    e2e_write_data(
        &(struct e2e_data){.path = "data.ffm", .fields = true, .rows = 300, .seed = 1});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(options_of_a_begun_run),   cluster_test(tables_of_a_begun_run),
        cluster_test(options_of_a_resumed_run), cluster_test(options_of_a_launched_run),
        cluster_test(numbering_of_a_begun_run), cluster_test(options_without_effect),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
