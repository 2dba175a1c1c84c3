// Checks two things about each option of `tug train`. First, the processes of a cluster
// compare its value and report a difference by its name, or the list here says that it
// may differ. Second, a save has the option, and a resumed run takes it from there, or
// the list here says why the save lacks it.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "run/train_config.h"
#include "run/train_resumed.h"
#include "train/saved/run_options.h"

enum { WORDS_MAX = 16 };

#define CSV "--format=csv --model=dcn"
#define SYNC "--format=csv --model=lr --mode=sync"

enum kept {
    FIXED,  // among the options of a save that a resumed run must not change
    PLAN,   // in the plan of a save
    SCHEMA, // in the schema of a save, which describes the data
    NOT,    // not in a save: the option names a place or a command, or is about other
            // data
};

// `base`: arguments of a run. `other`: another value of the option; NULL if a cluster
// refuses the option.
static const struct option_case {
    const char *name, *base, *other;
    enum kept kept;
} cases[] = {
    {"format", "--format=libsvm", "criteo", SCHEMA},
    {"pipe-command", CSV, "zcat", NOT},
    {"valid", SYNC, "0.5", FIXED},
    {"group", CSV " --test=t --score-by=workers", "user", NOT},
    {"merge-ids", CSV, NULL, NOT},
    {"max-bad-lines", CSV, "3", PLAN},
    {"normalize", "--format=libsvm", "false", FIXED},
    {"fields", "--format=libffm --model=ffm", "9", FIXED},
    {"label", CSV, "buy", SCHEMA},
    {"drop", CSV, "id", SCHEMA},
    {"numeric", CSV, "age", SCHEMA},
    {"lists", CSV, "tags", SCHEMA},
    {"list-separator", CSV " --lists=tags", ";", SCHEMA},
    {"missing", CSV, "NA", SCHEMA},
    {"cross-columns", CSV, "a*b", SCHEMA},
    {"columns", CSV, "a,b", SCHEMA},
    {"weight-column", CSV, "w", SCHEMA},
    {"allow-missing", CSV, "true", SCHEMA},
    {"separator", CSV, "tab", SCHEMA},
    {"quote", CSV, "none", SCHEMA},
    {"decimal", CSV, ",", SCHEMA},
    {"slots", "--format=multislot --slots=y:label,a:ids,b:ids", "y:label,b:ids,a:ids",
     SCHEMA},
    {"model", CSV, "mlp", FIXED},
    {"dim", CSV, "3", FIXED},
    {"dims", CSV, "a=4", FIXED},
    {"loss", CSV, "squared", SCHEMA},
    {"init", CSV, "0.5", FIXED},
    {"hidden", CSV, "7,5", FIXED},
    {"tower", CSV " --label=a,b", "4", FIXED},
    {"task-weights", CSV " --label=a,b", "1,2", FIXED},
    {"cross", CSV, "2", FIXED},
    {"dropout", CSV, "0.5", FIXED},
    {"pooling", CSV, "mean", FIXED},
    {"data-norm", CSV, "true", FIXED},
    {"batch-norm", CSV, "true", FIXED},
    {"dense-optimizer", CSV, "sgd", FIXED},
    {"dense-lr", CSV, "0.5", FIXED},
    {"epochs", CSV, "3", PLAN},
    {"optimizer", CSV, "sgd", FIXED},
    {"lr", CSV, "0.5", FIXED},
    {"latent-lr", CSV, "0.5", FIXED},
    {"l1", CSV, "0.5", FIXED},
    {"l2", CSV, "0.5", FIXED},
    {"prior", CSV, "0.5", FIXED},
    {"schedule", CSV, "exp", FIXED},
    {"schedule-a", CSV " --schedule=exp", "0.25", FIXED},
    {"schedule-b", CSV " --schedule=exp", "0.25", FIXED},
    {"batch", CSV, "64", FIXED},
    {"seed", CSV, "7", FIXED},
    {"deterministic", CSV, "true", FIXED},
    {"mode", CSV, "ssp:3", PLAN},
    {"reduce", SYNC, "mean", FIXED},
    {"average", CSV, "3", FIXED},
    {"table", CSV, "accessor=ctr", FIXED},
    {"rules", "--format=csv --model=lr", "worker", PLAN},
    {"shuffle", CSV, "global", FIXED},
    {"shuffle-by", CSV " --shuffle=global", "user", FIXED},
    {"values", CSV, "bf16", PLAN},
    {"in-flight", CSV, "2", PLAN},
    {"dense-staleness", CSV, "2", PLAN},
    {"score-by", CSV " --test=t", "workers", NOT},
    {"publish", CSV " --out=o", "o/p", NOT},
};

// Options that may differ between processes, and their place in a save. data-in and window
// are saved as the run used them, and tests/e2e resumes such runs.
static const struct option_case own_cases[] = {
    {"patience", SYNC " --valid=0.5", "4", PLAN},
    {"keep", CSV " --out=o", "5", PLAN},
    {"save-every", CSV " --out=o", "2", PLAN},
};
static const char *const not_saved[] = {
    "data",
    "web-any-host",
    "test",
    "cv",
    "data-in",
    "window",
    "recipe",
    "refit",
    "threads",
    "pack-keys",
    "cache-keys",
    "backup-pieces",
    "out",
    "resume",
    "init-from",
    "init-tables",
    "publish-every",
    "publish-deltas",
    "json",
    "log-every",
    "dot-every",
    "fetch",
    "dump",
    "history",
    "dump-fields",
    "fetch-every",
    "log-dir",
    "log-level",
    "log-format",
    "keep-names",
    "quiet",
    "tfevents",
    "report",
    "http",
    "http-cert",
    "http-key",
    "http-token-file",
};

// A process, given by its command line.
struct process {
    char text[256], last[128];
    char *words[WORDS_MAX];
    struct options *o;
    struct train_options values;
    struct train_setup setup;
};

static struct node *node(void)
{
    static char there; // only its address is used
    return (struct node *)(void *)&there;
}

static int start(struct process *p, const char *base, const char *name, const char *other)
{
    int n = 0;
    *p = (struct process){0};
    snprintf(p->text, sizeof(p->text), "%s", base);
    for (char *word = p->text; word != NULL && n < WORDS_MAX - 1;) {
        p->words[n++] = word;
        word = strchr(word, ' ');
        if (word != NULL)
            *word++ = '\0';
    }
    snprintf(p->last, sizeof(p->last), "--%s=%s", name, other != NULL ? other : "");
    if (other != NULL)
        p->words[n++] = p->last;
    TRY(options_parse(&p->o, &cli_train_options, n, p->words, &p->values,
                      OPTIONS_INCOMPLETE, &test_err));
    return train_configure(&p->setup, &p->values, p->o, node(), &test_err);
}

static void end(struct process *p)
{
    train_setup_close(&p->setup);
    options_close(p->o);
}

static void is_refused(const struct option_case *c)
{
    struct process p;
    assert_int_not_equal(start(&p, c->base, c->name, "3"), 0);
    assert_non_null(strstr(test_err.text, c->name));
    end(&p);
}

static void is_compared(const struct option_case *c)
{
    struct process driver, worker;
    char *text, want[64];
    if (start(&driver, c->base, c->name, NULL) != 0 ||
        run_options_print(&driver.setup.config, &text, &test_err) != 0)
        fail_msg("%s: %s", c->base, test_err.text);
    if (start(&worker, c->base, c->name, c->other) != 0)
        fail_msg("--%s %s: %s", c->name, c->other, test_err.text);
    // a difference of this option is reported under the name --shuffle
    bool by_shuffle = strcmp(c->name, "shuffle-by") == 0;
    test_err.text[0] = '\0';
    snprintf(want, sizeof(want), " --%s ", by_shuffle ? "shuffle" : c->name);
    int rc = run_options_agree(&worker.setup.config, text, strlen(text), &test_err);
    if (rc != TUG_EUSAGE || strstr(test_err.text, want) == NULL)
        fail_msg("--%s %s is not compared: '%s'", c->name, c->other, test_err.text);
    mem_free(text);
    end(&worker);
    end(&driver);
}

static size_t find(const char *name)
{
    size_t i = 0;
    while (i < sizeof(cases) / sizeof(*cases) && strcmp(cases[i].name, name) != 0)
        i++;
    return i;
}

static void every_option_is_own_or_compared(void **state)
{
    (void)state;
    size_t seen = 0;
    for (size_t i = 0; i < cli_train_options.n_options; i++) {
        const struct option *o = &cli_train_options.options[i];
        size_t c = find(o->name);
        bool has_case = c < sizeof(cases) / sizeof(*cases);
        if (has_case == o->own)
            fail_msg("--%s %s", o->name,
                     has_case ? "has a case, and is a process's own"
                              : "is neither a process's own (.own) nor has a case here");
        seen += has_case;
        if (has_case && cases[c].other == NULL)
            is_refused(&cases[c]);
        else if (has_case)
            is_compared(&cases[c]);
    }
    assert_int_equal(seen, sizeof(cases) / sizeof(*cases));
}

static void resume_takes_its_word_behind_an_equals_sign(void **state)
{
    static const struct {
        const char *word, *says;
    } guesses[] = {
        {"auto", "unexpected argument 'auto'; write --resume=auto"},
        {"true", "unexpected argument 'true'; write --resume=true"},
        {"model",
         "unexpected argument 'model'; --resume takes a value after '=', and the "
         "values are: no yes auto"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(guesses) / sizeof(*guesses); i++) {
        char word[16];
        char *const words[] = {"--data=a", "--resume", word};
        struct train_options t;
        struct options *o;
        snprintf(word, sizeof(word), "%s", guesses[i].word);
        assert_int_equal(
            options_parse(&o, &cli_train_options, 3, words, &t, 0, &test_err),
            TUG_EUSAGE);
        assert_string_equal(test_err.text, guesses[i].says);
    }
}

static struct saved_run saves[2]; // too large for the stack

// Describes the run of a process as a save does. The run has two labels, so that the
// options of tasks matter. Tasks have weight 1 if no weights were given, as in a model.
static void describe(const struct process *p, struct saved_run *ret)
{
    *ret = (struct saved_run){0};
    run_options_fill(&p->setup.config, &p->setup.config.model, &ret->options);
    struct model_options *m = &ret->options.model;
    m->tasks = m->ops->tasks ? 2 : 1;
    for (uint32_t k = 0; k < m->tasks && m->tasks > 1; k++)
        m->task_weight[k] = m->task_weight[k] > 0 ? m->task_weight[k] : 1;
    run_options_plan(&p->setup.config, &ret->plan);
    const char *format = p->setup.config.reader.format;
    snprintf(ret->schema.format, sizeof(ret->schema.format), "%s",
             format != NULL ? format : "");
}

static bool same_options(void)
{
    return run_options_same(&saves[0].options, &saves[1].options, NULL, &test_err) == 0;
}

static bool same_plan(void)
{
    json_begin();
    json_t *a = saved_plan_to_json(&saves[0].plan),
           *b = saved_plan_to_json(&saves[1].plan);
    bool same = json_equal(a, b);
    json_decref(a);
    json_decref(b);
    return same;
}

// Resumes from p's save, with no option but --resume and --out. Describes p's run in
// saves[0], and the resumed run in saves[1].
static void resume(const struct process *p, const char *name)
{
    struct process again;
    char *words[] = {(char *)(uintptr_t) "--resume", (char *)(uintptr_t) "--out=o"};
    describe(p, &saves[0]);
    again = (struct process){0};
    assert_int_equal(options_parse(&again.o, &cli_train_options, 2, words, &again.values,
                                   OPTIONS_INCOMPLETE, &test_err),
                     0);
    const struct train_options *t = &again.values;
    const struct options *o = again.o;
    if (train_take_run(&again.setup, &saves[0], "save", &t, &o, node(), &test_err) != 0 ||
        train_configure(&again.setup, t, o, node(), &test_err) != 0)
        fail_msg("--%s cannot be resumed: %s", name, test_err.text);
    describe(&again, &saves[1]);
    end(&again);
}

// Reads the JSON of saves[1] into saves[0], and compares them.
static void is_read_as_written(const char *name)
{
    struct json_fields f = {.path = "save", .e = &test_err};
    saves[0] = (struct saved_run){0};
    saves[0].options.model.tasks = saves[1].options.model.tasks;
    json_begin();
    json_t *options = saved_options_to_json(&saves[1].options),
           *plan = saved_plan_to_json(&saves[1].plan);
    saved_options_from_json(&saves[0].options, options, &f);
    saved_plan_from_json(&saves[0].plan, plan, &f);
    json_decref(options);
    json_decref(plan);
    if (f.rc != 0 || !same_options() || !same_plan())
        fail_msg("--%s is written to a save, but not read from it: %s", name,
                 test_err.text);
}

static void is_kept(const char *base, const char *name, const char *other, enum kept kept)
{
    struct process without, with;
    assert_int_equal(start(&without, base, name, NULL), 0);
    assert_int_equal(start(&with, base, name, other), 0);
    describe(&without, &saves[0]);
    describe(&with, &saves[1]);
    bool options = !same_options(), plan = !same_plan();
    if (kept == FIXED ? !options : options || plan != (kept == PLAN))
        fail_msg("--%s %s: %s", name, other,
                 kept == FIXED  ? "no option of a save"
                 : kept == PLAN ? "not in the plan of a save"
                                : "in a save, which this test does not know");
    is_read_as_written(name);
    resume(&with, name);
    if (kept == FIXED && !same_options())
        fail_msg("--%s %s is not taken from a save: %s", name, other, test_err.text);
    if (kept == PLAN && !same_plan())
        fail_msg("--%s %s is not taken from the plan of a save", name, other);
    end(&with);
    end(&without);
}

static bool is_not_saved(const char *name)
{
    for (size_t i = 0; i < sizeof(not_saved) / sizeof(*not_saved); i++)
        if (strcmp(not_saved[i], name) == 0)
            return true;
    return false;
}

// A new option fails this test until a save has it and a resumed run takes it from the
// save, or until this test lists it as an option that a save does not have.
static void every_option_is_saved_or_not(void **state)
{
    (void)state;
    size_t n = sizeof(own_cases) / sizeof(*own_cases), found = 0;
    for (size_t i = 0; i < cli_train_options.n_options; i++) {
        const struct option *o = &cli_train_options.options[i];
        size_t c = find(o->name), own = 0;
        while (own < n && strcmp(own_cases[own].name, o->name) != 0)
            own++;
        if (o->own == (own == n && !is_not_saved(o->name)))
            fail_msg("--%s: neither saved nor named as not saved", o->name);
        found += own < n;
        if (own < n)
            is_kept(own_cases[own].base, o->name, own_cases[own].other,
                    own_cases[own].kept);
        else if (!o->own && cases[c].other != NULL)
            is_kept(cases[c].base, o->name, cases[c].other, cases[c].kept);
    }
    assert_int_equal(found, n);
}

// Options of vectors have no effect on a model without vectors, but a save has them.
static void unused_options_are_taken(void **state)
{
    (void)state;
    is_kept("--format=csv --model=lr", "dim", "3", FIXED);
    is_kept("--format=csv --model=lr", "init", "0.5", FIXED);
    is_kept("--format=csv --model=lr", "latent-lr", "0.5", FIXED);
}

static void number_fits(const char *name, uint64_t most)
{
    for (size_t i = 0; i < cli_train_options.n_options; i++) {
        const struct option *o = &cli_train_options.options[i];
        if (strcmp(o->name, name) == 0 && !(o->max > 0 && o->max <= (double)most))
            fail_msg("--%s: %g can be typed, but a save may have %" PRIu64, name, o->max,
                     most);
    }
}

// A number that can be typed fits into its member of 32 bits, and a save accepts it.
static void numbers_fit_in_saves(void **state)
{
#define FITS(kind, member, name, arg, was) FITS_##kind(name, arg)
#define FITS_flag(name, none)
#define FITS_u32(name, most) number_fits(name, most);
#define FITS_u64(name, most)
#define FITS_f32(name, none)
#define FITS_hex(name, none)
#define FITS_word(name, words)
    (void)state;
    MODEL_SETTINGS(FITS)
    LAYER_SETTINGS(FITS)
    TRAINING_SETTINGS(FITS, SETTING_NOTHING)
    PLAN_SETTINGS(FITS, FITS, SETTING_NOTHING)
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_own_or_compared),
        cmocka_unit_test(every_option_is_saved_or_not),
        cmocka_unit_test(unused_options_are_taken),
        cmocka_unit_test(numbers_fit_in_saves),
        cmocka_unit_test(resume_takes_its_word_behind_an_equals_sign),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
