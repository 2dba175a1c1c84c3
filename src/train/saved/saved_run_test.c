// A save's description of its run: round trips, damaged texts, and texts forged so that
// the manifest's checksum is valid.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/run_options.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/hash.h"
#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"
#include "rule/rule.h"

static struct saved_run written, again; // too large for the stack

// Fills the description; each field has a value that is not 0 and is not
// that of the next field.
static void fill_of(struct saved_run *m, const char *model)
{
    *m = (struct saved_run){
        .schema = {.format = "csv", .loss = LOSS_SQUARED, .separator = '\t'},
        .options = {.model = training_model(model),
                    .schedule = {SCHEDULE_LINEAR, 0.1, 1e-300},
                    .batch = 77,
                    .deterministic = true,
                    .reduce_mean = true,
                    .streaming = true,
                    .window_bytes = 3 << 20,
                    .average = 15,
                    .valid_part.share = 0.1},
        .plan = {.epochs = 17,
                 .patience = 18,
                 .keep = 19,
                 .save_passes = 20,
                 .save_batches = 21,
                 .max_bad_lines = 22,
                 .mode = "elastic:4:0.5",
                 .rules = "worker",
                 .bf16 = true,
                 .dense_bounded = true,
                 .in_flight = 23,
                 .dense_staleness = UINT32_MAX},
        .numbers = {.last = UINT64_MAX - 1, .first_inverted = ~(uint64_t)7},
        .columns = 1234567890123,
        .first_field = 1,
        .fields_end = 65536,
        .piped = true,
        .examples = 12345678901234,
        .finished = true,
        .at = {.epoch = 1,
               .window = 2,
               .batch = 3,
               .batches = 4,
               .seen = 5,
               .bad_lines = 6,
               .place = {.number = 7, .file = 8, .line = 9, .offset = 10},
               .averaged = 16},
        .bad_lines = 11,
        .has_best = true,
        .best_loss = 0.1,
        .best_epoch = 12,
        .passes_since_best = 13,
        .best_valid = {.examples = 14,
                       .auc = 0.7,
                       .pr_auc = 0.6,
                       .logloss = 0.1,
                       .ne = 0.9,
                       .copc = 1.1,
                       .mae = 0.2,
                       .rmse = 0.3},
    };
    assert_int_equal(schema_add(&m->schema, SCHEMA_WRITTEN, "1", 1, NULL), 0);
    static const char *const names[] = {"click", "age", "w", "id,\"ü\n", "", "city"};
    static const enum schema_use uses[] = {SCHEMA_LABEL,   SCHEMA_NUMBERS, SCHEMA_WEIGHT,
                                           SCHEMA_DROPPED, SCHEMA_DROPPED, SCHEMA_WORDS};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(
            schema_add(&m->schema, uses[i], names[i], strlen(names[i]), NULL), 0);
    static const char *const paths[] = {"/data/day-1.csv", "day-2\xff.csv.gz"};
    for (uint64_t i = 0; i < 2; i++)
        identity_add(&m->data, &(struct identity_file){.name = paths[i],
                                                       .name_len = strlen(paths[i]),
                                                       .bytes = i + 1,
                                                       .hash = mix64(i)});
    m->options.model.seed = UINT64_MAX;
    m->options.model.linear.lr = 0.1f;
    m->options.model.latent.beta2 = 0.999f;
    // The model sets the block of rules, which is not saved.
    m->options.model.linear.block = m->options.model.latent.block = 1;
}

static void fill(struct saved_run *m)
{
    fill_of(m, "ffm");
}

// Prints *x and reads the text into `again`.
static int again_from(const struct saved_run *x, struct err *e)
{
    char *text;
    TRY(saved_run_print(x, &text, e));
    int rc = saved_run_parse(&again, text, "manifest.json", e);
    mem_free(text);
    return rc;
}

static void round_trip(void **state)
{
    (void)state;
    static char readers[] = "{\"pass\":1,\"done\":[\"0f\"]}";
    for (int i = 0; i < 4; i++) {
        bool within = i % 2 != 0;
        fill_of(&written, i < 2 ? "ffm" : "dcn");
        if (i == 3) { // the vectors of field 1 have a length of their own
            written.options.model.fields = 2;
            written.options.model.dims[written.options.model.n_dims++] =
                (struct model_dim){1, 4};
            snprintf(written.options.dims, sizeof(written.options.dims), "city=4");
        }
        written.readers = within ? readers : NULL;
        memset(&again, 0xff, sizeof(again));
        struct err e = {0};
        if (again_from(&written, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(again.readers != NULL, within);
        if (within)
            assert_string_equal(again.readers, readers);
        saved_run_free(&again);
        written.readers = NULL;
        assert_same_struct(&again, &written);
    }
}

static bool has_written(const struct schema *s)
{
    const char *text;
    size_t at = 0;
    return schema_next_setting(s, SCHEMA_WRITTEN, &at, &text);
}

// Reads old saves. Their schema does not say which version of tug wrote the words of a
// data frame's cells. So the reader chooses a version by whether the training data was a
// frame.
static void words_of_old_saves(void **state)
{
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct err e = {0};
        fill(&written);
        written.schema = (struct schema){
            .format = "csv", .loss = LOSS_SQUARED, .separator = '\t'};
        assert_int_equal(schema_add(&written.schema, SCHEMA_LABEL, "y", 1, NULL), 0);
        assert_int_equal(schema_add(&written.schema, SCHEMA_WORDS, "b", 1, NULL), 0);
        written.data = (struct identity){0};
        const char *name = rows ? "data" : "data.csv";
        identity_add(&written.data,
                     &(struct identity_file){
                         .name = name, .name_len = strlen(name), .bytes = 7, .hash = 8});
        if (again_from(&written, &e) != 0)
            fail_msg("%s", e.text);
        assert_int_equal(has_written(&again.schema), !rows);
        assert_int_equal(again.schema.columns, 2);
        saved_run_free(&again);
    }
}

// Values that are not finite cannot be JSON numbers; they become null.
static void no_numbers(void **state)
{
    (void)state;
    fill(&written);
    written.best_loss = written.best_valid.logloss = (double)NAN;
    written.best_valid.auc = (double)NAN;
    written.best_valid.copc = (double)INFINITY;
    assert_int_equal(again_from(&written, NULL), 0);
    assert_true(isnan(again.best_loss) && isnan(again.best_valid.auc));
    assert_true(again.has_best);
    written.has_best = false;
    assert_int_equal(again_from(&written, NULL), 0);
    assert_false(again.has_best);
}

static void refused(const char *text, const char *why)
{
    struct err e = {0};
    if (saved_run_parse(&again, text, "manifest.json", &e) != TUG_EDATA)
        fail_msg("'%s' was not refused", why);
    if (strstr(e.text, why) == NULL || strstr(e.text, "manifest.json") == NULL)
        fail_msg("'%s' is not in: %s", why, e.text);
}

// Changes bytes and corrects the checksum: the text is either read, or refused with an
// error that names a field.
static void damaged(void **state)
{
    (void)state;
    char *text;
    fill(&written);
    assert_int_equal(saved_run_print(&written, &text, NULL), 0);
    for (size_t i = 0; text[i] != 0; i++) {
        struct err e = {0};
        text[i] = (char)(text[i] ^ 2);
        if (saved_run_parse(&again, text, "manifest.json", &e) == 0)
            saved_run_free(&again);
        else
            assert_non_null(strstr(e.text, "manifest.json"));
        text[i] = (char)(text[i] ^ 2);
    }
    for (size_t n = strlen(text); n > 0; n -= n < 7 ? n : 7) {
        text[n - 1] = 0;
        refused(text, "");
    }
    mem_free(text);
    static const char *const others[] = {"", "[]", "3", "null", "{}"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        refused(others[i], i < 4 ? "'about'" : "");
}

// ---------------------------------------------------------------- forged texts

// Replaces one value; NULL removes the value.
static char *forge(const char *object, const char *name, json_t *value)
{
    char *text;
    fill(&written);
    assert_int_equal(saved_run_print(&written, &text, NULL), 0);
    json_t *root = json_loads(text, 0, NULL);
    mem_free(text);
    json_t *at = *object ? json_object_get(root, object) : root;
    assert_true(json_is_object(at));
    if (value != NULL)
        assert_int_equal(json_object_set_new(at, name, value), 0);
    else
        assert_int_equal(json_object_del(at, name), 0);
    text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    json_decref(root);
    return text;
}

static void forged_is_refused(const char *object, const char *name, json_t *value,
                              const char *why)
{
    char *text = forge(object, name, value);
    refused(text, why);
    mem_free(text);
}

static void forged(void **state)
{
    (void)state;
    char *text = forge("", "examples", json_integer(7));
    assert_int_equal(saved_run_parse(&again, text, "manifest.json", NULL), 0);
    assert_int_equal(again.examples, 7); // a forged text without a change is read
    mem_free(text);
    forged_is_refused("schema", "format", json_stringn((char[2000]){0}, 2000), "");
    forged_is_refused("schema", "hashing", json_string("place"),
                      "'hashing' is a word that this version does not know");
    forged_is_refused("schema", "columns", json_integer(-1), "'columns'");
    forged_is_refused("data", "list", NULL, "'list'");
    forged_is_refused("schema", "columns", json_pack("[[s, s]]", "x", "feature"),
                      "'columns' holds an entry that is not a column");
    // Numbers that are out of bounds, of another type, or missing.
    static const struct {
        const char *object, *name;
    } numbers[] = {
        {"", "examples"},        {"", "finished"},        {"", "bad_lines"},
        {"options", "dim"},      {"options", "fields"},   {"options", "batch"},
        {"options", "schedule"}, {"options", "window"},   {"options", "model"},
        {"options", "linear"},   {"options", "table"},    {"schema", "loss"},
        {"schema", "format"},    {"schema", "separator"}, {"data", "hash"},
        {"data", "files"},       {"options", "reduce"},   {"options", "data-in"},
        {"options", "seed"},     {"position", "epoch"},   {"position", "line"},
        {"position", "file"},    {"position", "offset"},  {"best", "epoch"},
        {"plan", "epochs"},      {"plan", "in-flight"},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        forged_is_refused(numbers[i].object, numbers[i].name, json_integer(-1),
                          numbers[i].name);
        forged_is_refused(numbers[i].object, numbers[i].name, json_array(),
                          numbers[i].name);
        forged_is_refused(numbers[i].object, numbers[i].name, NULL, numbers[i].name);
    }
    forged_is_refused("options", "dims", json_string("elsewhere=4"), "'dims'");
    forged_is_refused("", "readers", json_array(), "'readers'");
    forged_is_refused("", "position", json_integer(1), "");
    forged_is_refused("", "options", NULL, "");
}

// The description of a model as it was written before --batch-norm, --data-norm,
// --pooling, --average, --merge-ids and --shuffle existed; ' stands for ".
static const char of_before[] =
    "{'bad_lines':0,'best':null,'data':{'files':1,'hash':'eb3d825b68058e5e',"
    "'list':['cb08be940585c3ca 5211 a.csv']},'examples':400,'finished':false,"
    "'options':{'batch':32,'data-in':'memory','deterministic':false,'dim':2,"
    "'fields':2,'init':0.009999999776482582,'latent':{'beta':0.0,'beta1':0.0,"
    "'beta2':0.0,'l1':0.0,'l2':0.00019999999494757503,'lr':0.20000000298023224,"
    "'n0':1.0,'optimizer':'adagrad-row','prior':1.0},'layers':{'cross':0,"
    "'dense':{'beta':9.99999993922529e-09,'beta1':0.8999999761581421,"
    "'beta2':0.9990000128746033,'l1':0.0,'l2':0.0,'lr':0.0010000000474974513,"
    "'n0':0.0,'optimizer':'adam','prior':0.0},'dropout':0.0,'hidden':'4'},"
    "'linear':{'beta':0.0,'beta1':0.0,'beta2':0.0,'l1':0.0,'l2':0.0,"
    "'lr':0.10000000149011612,'n0':1.0,'optimizer':'adagrad','prior':2.0},"
    "'model':'mlp','normalize':false,'reduce':'sum','schedule':0,'schedule-a':1.0,"
    "'schedule-b':0.5,'seed':'0000000000000001','table':'','valid':0.0,'window':0},"
    "'position':{'bad_lines':0,'batch':0,'batches':13,'chunk':0,'epoch':1,'file':0,"
    "'line':1,'offset':0,'seen':0,'window':0},'readers':null,"
    "'schema':{'columns':[['y','label'],['city','words'],['far','numbers']],"
    "'format':'csv','hashing':'name','loss':'logistic','separator':','}}";

// A setting that an older save lacks gets the value that its run had.
static void older_than_settings(void **state)
{
    (void)state;
    char text[sizeof(of_before)];
    memcpy(text, of_before, sizeof(text));
    for (char *at = text; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    struct err e = {0};
    memset(&again, 0xff, sizeof(again));
    if (saved_run_parse(&again, text, "manifest.json", &e) != 0)
        fail_msg("%s", e.text);
    const struct saved_options *o = &again.options;
    assert_true(!o->model.batch_norm && !o->model.data_norm && !o->model.pooling_mean);
    assert_true(o->average == 0 && again.at.averaged == 0 && again.at.batches == 13);
    assert_true(o->merge[0] == 0 && o->shuffle[0] == 0 && o->model.hidden[0] == 4);
    assert_int_equal(again.schema.columns, 3);
    char *dropout = strstr(text, "\"dropout\"");
    assert_non_null(dropout);
    // The option has another name, so "dropout" is missing.
    memcpy(dropout, "\"pooling\"", strlen("\"pooling\""));
    refused(text, "'dropout' is missing"); // every version has written this setting
}

// ---------------------------------------------------------------- options

static void same_options(void **state)
{
    (void)state;
    fill(&written);
    struct saved_options now = written.options;
    struct err e = {0};
    assert_int_equal(run_options_same(&written.options, &now, NULL, NULL), 0);
    now.model.latent.lr = 2;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--latent-lr"));
    now = written.options;
    now.model.linear.kind = RULE_FTRL;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--optimizer 'adagrad', but this run has 'ftrl'"));
    // Options are reported as they are typed, although seeds are kept in hexadecimal and
    // schedules as numbers.
    now = written.options;
    now.model.seed = 31;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "but this run has 31:"));
    now = written.options;
    now.schedule.kind = SCHEDULE_POLY;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "but this run has poly:"));
    now = written.options;
    now.window_bytes = 77 << 20;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "but this run has 77:"));
    // Change all options.
    now.batch++;
    now.model.seed = 31;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(
        strstr(e.text, ", but this run has 31; the earlier run had --batch "));
    assert_non_null(strstr(e.text, "; the earlier run had --window "));
    now.model.ops = training_model("lr").ops;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(
        e.text, "had --model 'ffm', but this run has 'lr'; the earlier run had --seed "));
    assert_non_null(strstr(e.text, "; the earlier run had --batch "));
    assert_non_null(strstr(e.text, "; the earlier run had --window "));
    assert_null(strstr(e.text, "--fields")); // the linear model has no fields
    // Options of layers:
    fill_of(&written, "dcn");
    now = written.options;
    now.model.hidden[1]++;
    now.model.dense.lr = 2;
    assert_int_equal(run_options_same(&written.options, &now, NULL, &e), TUG_EUSAGE);
    assert_non_null(strstr(
        e.text, "had --hidden '6,3', but this run has '6,4'; the earlier run had"));
    assert_non_null(strstr(e.text, "--dense-lr 0.001, but this run has 2: give"));
    fill(&written);
    // Floats are equal after writing and reading.
    assert_int_equal(again_from(&written, NULL), 0);
    assert_int_equal(run_options_same(&again.options, &written.options, NULL, NULL), 0);
}

static void given(struct saved_options *o, const char *model, enum rule_kind rule,
                  float lr)
{
    const struct model_ops *ops;
    *o = (struct saved_options){.batch = 64};
    assert_int_equal(model_find(model, &ops, NULL), 0);
    model_defaults(&o->model, ops, rule);
    float ratio = o->model.latent.lr / o->model.linear.lr;
    if (lr > 0)
        o->model.linear.lr = lr;
    o->model.latent.lr = o->model.linear.lr * ratio;
}

static void assert_differ(const struct saved_options *then,
                          const struct saved_options *now, const char *wanted)
{
    char text[RUN_OPTIONS_TEXT_MAX];
    assert_int_equal(run_options_differ(then, now, NULL, text, &test_err), 0);
    assert_string_equal(text, wanted);
}

// Options that were given are named; defaults that follow from another model or optimizer
// are not.
static void given_options_are_named(void **state)
{
    (void)state;
    struct saved_options then, now;
    given(&then, "fm", RULE_ADAGRAD, 0);
    given(&now, "fm", RULE_FTRL, 0);
    assert_differ(&then, &now, " --optimizer 'adagrad', but this run has 'ftrl'");
    given(&now, "deepfm", RULE_ADAGRAD, 0);
    assert_differ(&then, &now, " --model 'fm', but this run has 'deepfm'");
    assert_differ(&now, &then, " --model 'deepfm', but this run has 'fm'");
    given(&now, "fm", RULE_FTRL, 0.5f);
    now.batch = 32;
    now.model.dim = 4;
    now.model.linear.l1 = now.model.latent.l1 = 2;
    assert_differ(&then, &now,
                  " --dim 8, but this run has 4; the earlier run had --optimizer "
                  "'adagrad', but this run has "
                  "'ftrl'; the earlier run had --lr 0.1, but this run has 0.5; the "
                  "earlier run had --l1 0, but this run has "
                  "2; the earlier run had --batch 64, but this run has 32");
    given(&then, "mlp", RULE_ADAGRAD, 0);
    given(&now, "mlp", RULE_ADAGRAD, 0);
    now.model.dense = rule_defaults(RULE_SGD);
    now.model.dense.lr = 0.5f;
    assert_differ(&then, &now,
                  " --dense-optimizer 'adam', but this run has 'sgd'; the earlier run "
                  "had --dense-lr 0.001, "
                  "but this run has 0.5");
    // Only the defaults of the vectors' rule differ, as they could if another
    // version wrote the save.
    given(&now, "mlp", RULE_ADAGRAD, 0);
    now.model.latent.n0 = 7;
    char text[RUN_OPTIONS_TEXT_MAX];
    assert_int_equal(run_options_differ(&then, &now, NULL, text, &test_err), 0);
    assert_non_null(strstr(text, "n0"));
}

// Options beyond the room of the text are counted.
static void very_many_differ(void **state)
{
    (void)state;
    struct saved_options then, now;
    struct err e = {0};
    given(&then, "deepfm", RULE_ADAGRAD, 0);
    given(&now, "deepfm", RULE_ADAM, 0.5f);
    memset(then.table, 'a', 90);
    memset(then.merge, 'a', 90);
    memset(then.shuffle, 'a', 90);
    memset(then.dims, 'a', 90);
    now.model.dim = now.batch = 3;
    now.model.seed = 3;
    now.model.hidden[0] = now.model.hidden[1] = 77;
    now.model.init = now.model.dropout = now.model.linear.l2 = 0.25f;
    now.model.latent.lr = now.model.dense.lr = 0.125f;
    now.model.batch_norm = now.model.data_norm = now.model.pooling_mean = true;
    now.schedule = (struct schedule){.kind = SCHEDULE_EXP, .a = 1, .b = 2};
    now.deterministic = now.reduce_mean = now.streaming = true;
    now.average = 12345;
    assert_int_equal(run_options_same(&then, &now, NULL, &e), TUG_EUSAGE);
    const char *more = strstr(e.text, "; and ");
    assert_non_null(more);
    assert_non_null(
        strstr(more, " more: give the same options, or leave them out, and the run takes "
                     "them from the save; or use --init-from to start a new run from the "
                     "saved model"));
}

// ---------------------------------------------------------------- memory

static void failing_allocations(void **state)
{
    (void)state;
    fill(&written);
    char *text;
    FAIL_EACH_ALLOCATION(saved_run_print(&written, &text, &test_err), mem_free(text));
    assert_int_equal(saved_run_print(&written, &text, &test_err), 0);
    FAIL_EACH_ALLOCATION(saved_run_parse(&again, text, "manifest.json", &test_err),
                         saved_run_free(&again));
    mem_free(text);
    struct saved_options other = written.options;
    FAIL_EACH_ALLOCATION(run_options_same(&written.options, &other, NULL, &test_err), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_of_old_saves),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(no_numbers),
        cmocka_unit_test(damaged),
        cmocka_unit_test(forged),
        cmocka_unit_test(older_than_settings),
        cmocka_unit_test(same_options),
        cmocka_unit_test(given_options_are_named),
        cmocka_unit_test(very_many_differ),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
