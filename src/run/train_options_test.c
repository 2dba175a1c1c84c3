// Options of `tug train` on a cluster: each may either differ between processes, or must
// be the same in all processes of a run; then a difference is reported by the option's
// name.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_options.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/files.h"
#include "kit/test.h"
#include "run/train_config.h"
#include "train/saved/run_options.h"

enum { WORDS_MAX = 16 };

#define CSV "--format=csv --model=dcn"
#define SYNC "--format=csv --model=lr --mode=sync"

// Arguments of a run, and another value of the option. NULL: refused on a cluster.
static const struct option_case {
    const char *name, *base, *other;
} cases[] = {
    {"format", "--format=libsvm", "criteo"},
    {"pipe-command", CSV, "zcat"},
    {"valid", SYNC, "0.5"},
    {"group", CSV " --test=t --score-by=workers", "user"},
    {"merge-ids", CSV, NULL},
    {"max-bad-lines", CSV, "3"},
    {"normalize", "--format=libsvm", "false"},
    {"fields", "--format=libffm --model=ffm", "9"},
    {"label", CSV, "buy"},
    {"drop", CSV, "id"},
    {"numeric", CSV, "age"},
    {"lists", CSV, "tags"},
    {"list-separator", CSV " --lists=tags", ";"},
    {"missing", CSV, "NA"},
    {"cross-columns", CSV, "a*b"},
    {"columns", CSV, "a,b"},
    {"weight-column", CSV, "w"},
    {"allow-missing", CSV, "true"},
    {"separator", CSV, "tab"},
    {"quote", CSV, "none"},
    {"decimal", CSV, ","},
    {"slots", "--format=multislot --slots=y:label,a:ids,b:ids", "y:label,b:ids,a:ids"},
    {"model", CSV, "mlp"},
    {"dim", CSV, "3"},
    {"dims", CSV, "a=4"},
    {"loss", CSV, "squared"},
    {"init", CSV, "0.5"},
    {"hidden", CSV, "7,5"},
    {"tower", CSV " --label=a,b", "4"},
    {"task-weights", CSV " --label=a,b", "1,2"},
    {"cross", CSV, "2"},
    {"dropout", CSV, "0.5"},
    {"pooling", CSV, "mean"},
    {"data-norm", CSV, "true"},
    {"batch-norm", CSV, "true"},
    {"dense-optimizer", CSV, "sgd"},
    {"dense-lr", CSV, "0.5"},
    {"epochs", CSV, "3"},
    {"optimizer", CSV, "sgd"},
    {"lr", CSV, "0.5"},
    {"latent-lr", CSV, "0.5"},
    {"l1", CSV, "0.5"},
    {"l2", CSV, "0.5"},
    {"prior", CSV, "0.5"},
    {"schedule", CSV, "exp"},
    {"schedule-a", CSV " --schedule=exp", "0.25"},
    {"schedule-b", CSV " --schedule=exp", "0.25"},
    {"batch", CSV, "64"},
    {"seed", CSV, "7"},
    {"deterministic", CSV, "true"},
    {"mode", CSV, "ssp:3"},
    {"reduce", SYNC, "mean"},
    {"average", CSV, "3"},
    {"table", CSV, "accessor=ctr"},
    {"rules", "--format=csv --model=lr", "worker"},
    {"shuffle", CSV, "global"},
    {"shuffle-by", CSV " --shuffle=global", "user"},
    {"values", CSV, "bf16"},
    {"in-flight", CSV, "2"},
    {"dense-staleness", CSV, "2"},
    {"score-by", CSV " --test=t", "workers"},
    {"publish", CSV " --out=o", "o/p"},
};

// A process, given by its command line.
struct process {
    char text[256], last[128];
    char *words[WORDS_MAX];
    struct options *o;
    struct train_options values;
    struct train_setup setup;
};

static int start(struct process *p, const char *base, const char *name, const char *other)
{
    static char node; // only its address is used
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
    return train_configure(&p->setup, &p->values, p->o, (struct node *)(void *)&node,
                           &test_err);
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
    // This option is reported together with --shuffle.
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
         "unexpected argument 'model'; --resume takes a value behind '=', and it "
         "is one of: no yes auto"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_is_own_or_compared),
        cmocka_unit_test(resume_takes_its_word_behind_an_equals_sign)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
