// A process whose options differ from the run's is told which ones: each option is
// changed alone.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/run_options.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "train/rows/run_tables.h"

static struct train_config c;
static struct train_cluster k;
static struct table_config table;

static void fill(void)
{
    k = (struct train_cluster){.in_flight = 3, .workers_score = true};
    c = (struct train_config){
        .cluster = &k,
        .model = training_model("dcn"),
        .epochs = 2,
        .batch = 64,
        .group = "user",
        .reader = {.format = "csv", .slots = "y:label, a:ids", .label_column = "click"}};
    table = run_living_defaults(&c.model);
}

// The changes of this process's options that are made one by one, each after the
// difference that must be reported.
#define CHANGES(X)                                                                       \
    X("--model 'dcn', this process 'mlp':", c.model = training_model("mlp"))             \
    X("--dim 2, this process 3:", c.model.dim = 3)                                       \
    X("--dims nothing, this process '1:4':", c.dims = "1:4")                             \
    X("--fields 4, this process 5:", c.model.fields = 5)                                 \
    X("--init ", c.model.init = 0.5f)                                                    \
    X("--seed 1, this process 7:", c.model.seed = 7)                                     \
    X("--normalize ", c.model.normalize = !c.model.normalize)                            \
    X("--optimizer 'adagrad', this process 'adam':", c.model.linear.kind = RULE_ADAM)    \
    X("--lr 0.1, this process 0.5:", c.model.linear.lr = 0.5f)                           \
    X("--latent-lr ", c.model.latent.lr = 0.7f)                                          \
    X("--l2 0, this process 1:", c.model.linear.l2 = 1)                                  \
    X("--dense-lr 0.001, this process 1:", c.model.dense.lr = 1)                         \
    X("--dense-optimizer's beta2 0.999, this process 0.5:", c.model.dense.beta2 = 0.5f)  \
    X("--optimizer's n0 1, this process 0:", c.model.linear.n0 = 0)                      \
    X("--dense-optimizer 'adam', this process 'sgd':", c.model.dense.kind = RULE_SGD)    \
    X("--hidden '6,3', this process '6,4':", c.model.hidden[1] = 4)                      \
    X("--cross ", c.model.cross++)                                                       \
    X("--dropout 0, this process 0.5:", c.model.dropout = 0.5f)                          \
    X("--batch-norm off, this process on:", c.model.batch_norm = true)                   \
    X("--data-norm off, this process on:", c.model.data_norm = true)                     \
    X("--pooling 'sum', this process 'mean':", c.model.pooling_mean = true)              \
    X("--schedule constant, this process exp:", c.schedule.kind = SCHEDULE_EXP)          \
    X("--schedule-a 0, this process 2:", c.schedule.a = 2)                               \
    X("--schedule-b 0, this process 2:", c.schedule.b = 2)                               \
    X("--epochs 2, this process 3:", c.epochs = 3)                                       \
    X("--batch 64, this process 32:", c.batch = 32)                                      \
    X("--deterministic off, this process on:", c.deterministic = true)                   \
    X("--reduce 'sum', this process 'mean':", c.reduce_mean = true)                      \
    X("--valid 0, this process 0.5:", c.valid_part.share = 0.5)                          \
    X("--table nothing, this process '", c.table = &table)                               \
    X("--shuffle 'pieces', this process 'global':", k.shuffle = true)                    \
    X("--shuffle 'pieces', this process 'global by user':",                              \
      (k.shuffle = true, k.shuffle_by = "user"))                                         \
    X("--mode 'async', this process 'sync':", k.mode = CONFIG_SYNC)                      \
    X("--mode 'async', this process 'ssp:3':", (k.mode = CONFIG_SSP, k.staleness = 3))   \
    X("--mode 'async', this process 'half-async':", k.together = true)                   \
    X("--mode 'async', this process 'geo:8':", k.geo = 8)                                \
    X("--mode 'async', this process 'elastic:8:0.5':", (k.geo = 8, k.elastic = 0.5f))    \
    X("--rules 'auto', this process 'server':", k.rules = TRAIN_RULES_SERVER)            \
    X("--in-flight 3, this process 1:", k.in_flight = 1)                                 \
    X("--dense-staleness nothing, this process 0:", k.dense_bounded = true)              \
    X("--values 'f32', this process 'bf16':", k.bf16 = true)                             \
    X("--label 'click', this process 'buy':", c.reader.label_column = "buy")             \
    X("--drop nothing, this process 'id':", c.reader.drop = "id")                        \
    X("--numeric nothing, this process 'age':", c.reader.numeric = "age")                \
    X("--lists nothing, this process 'tags':", c.reader.lists = "tags")                  \
    X("--missing nothing, this process 'NA':", c.reader.missing = "NA")                  \
    X("--columns nothing, this process 'a,b':", c.reader.columns = "a,b")                \
    X("--cross-columns nothing, this process 'a*b':", c.reader.cross_columns = "a*b")    \
    X("--score-by 'workers', this process 'driver'; it has --group 'user',",             \
      k.workers_score = false)                                                           \
    X("--group 'user', this process 'city':", c.group = "city")                          \
    X("--format 'csv', this process 'criteo':", c.reader.format = "criteo")              \
    X("--slots 'y:label,a:ids', this process 'y:label,b:ids':",                          \
      c.reader.slots = "y:label, b:ids")                                                 \
    X("--loss 'logistic', this process 'squared':", c.reader.loss = LOSS_SQUARED)        \
    X("--weight-column nothing, this process 'w':", c.reader.weight_column = "w")        \
    X("--quote 'double', this process 'none':", c.reader.quote = "none")                 \
    X("--decimal '.', this process ',':", c.reader.decimal = ",")                        \
    X("--separator ',', this process ';':", c.reader.separator = ';')                    \
    X("--list-separator '|', this process ' ':", c.reader.list_separator = ' ')          \
    X("--allow-missing off, this process on:", c.reader.allow_missing = true)            \
    X("--max-bad-lines 0, this process 5:", c.max_bad_lines = 5)                         \
    X("--pipe-command nothing, this process 'zcat':", c.data.command = "zcat")           \
    X("--publish off, this process on:", c.publish = "served")

static void each_difference_is_named(void **state)
{
    (void)state;
    char *text;
    fill();
    assert_int_equal(run_options_print(&c, &text, &test_err), 0);
    if (run_options_agree(&c, text, strlen(text), &test_err) != 0)
        fail_msg("%s", test_err.text);
#define CHANGE(want, change)                                                             \
    fill();                                                                              \
    change;                                                                              \
    test_err.text[0] = '\0';                                                             \
    if (run_options_agree(&c, text, strlen(text), &test_err) != TUG_EUSAGE ||            \
        strstr(test_err.text, "the run was started with " want) == NULL)                 \
        fail_msg("%s: '%s'", want, test_err.text);
    CHANGES(CHANGE)
    // Options that may differ between processes, and another text of the same value, do
    // not count as differences.
    fill();
    c.reader.slots = files_write("slots", "# what a line holds\ny : label\na:ids\n");
    c.reader.separator = ',';
    c.reader.list_separator = '|';
    c.threads = 7;
    c.out = "elsewhere";
    c.data_in = DATA_IN_STREAM;
    k.pack_keys = k.cache_keys = true;
    assert_int_equal(run_options_agree(&c, text, strlen(text), &test_err), 0);
    mem_free(text);
}

// If this process does not find the save from which the others take options, the error about
// options that differ says this first.
static void save_that_is_not_seen(void **state)
{
    (void)state;
    char *text;
    fill();
    assert_int_equal(run_options_print(&c, &text, &test_err), 0);
    c.model.dim = 3;
    c.out = "elsewhere";
    c.resume = TRAIN_RESUME;
    assert_int_equal(run_options_agree(&c, text, strlen(text), &test_err), TUG_EUSAGE);
    assert_string_equal(
        test_err.text,
        "this process sees no save in --out elsewhere, from which the "
        "others take options that are left out; the run was started with "
        "--dim 2, this process 3: give this process access to the save, or these "
        "options");
    c.resume = TRAIN_RESUME_AUTO;
    c.init_from = "nowhere";
    assert_int_equal(run_options_agree(&c, text, strlen(text), &test_err), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "sees no save in --init-from nowhere, from"));
    mem_free(text);
}

static void damaged(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[1]", "7", "{\"lr\":1}x"};
    fill();
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_int_equal(run_options_agree(&c, texts[i], strlen(texts[i]), &test_err),
                         TUG_EDATA);
    // Options of a completely different form, for example an object in place of a number.
    const char *odd = "{\"batch\":{\"lr\":[]},\"linear\":3,\"nosuch\":{\"a\":{\"b\":1}}}";
    assert_int_equal(run_options_agree(&c, odd, strlen(odd), &test_err), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "it has --linear 3, this process "));
    odd = "{\"a\\u001b[2J\":\"\\u001b[2J\"}";
    assert_int_equal(run_options_agree(&c, odd, strlen(odd), &test_err), TUG_EUSAGE);
    assert_null(strchr(test_err.text, '\033'));
}

static void memory_fails(void **state)
{
    (void)state;
    char *text;
    fill();
    FAIL_EACH_ALLOCATION(run_options_print(&c, &text, &test_err), mem_free(text));
    assert_int_equal(run_options_print(&c, &text, &test_err), 0);
    FAIL_EACH_ALLOCATION(run_options_agree(&c, text, strlen(text), &test_err), (void)0);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_difference_is_named),
        cmocka_unit_test(save_that_is_not_seen),
        cmocka_unit_test(damaged),
        cmocka_unit_test(memory_fails),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
