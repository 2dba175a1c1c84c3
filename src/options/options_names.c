// Names of options: looks them up, and guesses the option that a wrong name means.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "options/options_internal.h"

void option_words(const char *words, option_word_fn see, void *arg)
{
    while (words && *words) {
        size_t len = strcspn(words, " ");
        if (len && !see(arg, words, len))
            return;
        words += len + strspn(words + len, " ");
    }
}

void option_env_name(const char *name, char ret_env[OPTION_NAME_MAX + 8])
{
    size_t n = 4;
    memcpy(ret_env, "TUG_", n);
    for (; *name && n < OPTION_NAME_MAX + 7; name++)
        ret_env[n++] = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name)
                                                     : '_';
    ret_env[n] = 0;
}

size_t option_find(const struct option_table *t, const char *name, size_t len)
{
    for (size_t i = 0; i < t->n_options; i++)
        if (strlen(t->options[i].name) == len &&
            memcmp(t->options[i].name, name, len) == 0)
            return i;
    return OPTION_NONE;
}

const struct option_table *const *_Atomic options_family;

const struct option_table *option_family_find(const struct option_table *t,
                                              const char *command)
{
    if (strcmp(t->command, command) == 0)
        return t;
    for (const struct option_table *const *f = options_family; f && *f; f++)
        if (strcmp((*f)->command, command) == 0)
            return *f;
    return NULL;
}

static int lower(char c)
{
    return tolower((unsigned char)c);
}

// Computes the optimal string alignment distance (Damerau 1964). Ignores case.
size_t option_distance(const char *a, size_t n, const char *b, size_t m)
{
    if (n >= OPTION_NAME_MAX || m >= OPTION_NAME_MAX)
        return SIZE_MAX;
    size_t row[3][OPTION_NAME_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

struct nearest {
    const char *given;
    size_t len, distance;
    char *word;
};

static bool nearest_see(void *arg, const char *word, size_t len)
{
    struct nearest *n = arg;
    if (len >= OPTION_NAME_MAX)
        return true;
    size_t d = option_distance(n->given, n->len, word, len);
    // An abbreviation ("opt" for "optimizer") counts as one edit.
    if (d > 1 && n->len >= 3 && n->len < len && memcmp(n->given, word, n->len) == 0)
        d = 1;
    if (d >= n->distance)
        return true;
    n->distance = d;
    memcpy(n->word, word, len);
    n->word[len] = 0;
    return true;
}

// Begins a search for the nearest word. A word is near if the number of edits is at most
// about a third of its letters.
static struct nearest nearest_make(const char *given, size_t len, char *ret_word)
{
    *ret_word = 0;
    size_t limit = len < 6 ? 2 : len < 9 ? 3 : 4;
    return (struct nearest){given, len, limit, ret_word};
}

// Words that other programs use for values of options, and tug's word for each.
static const char *const meanings[][2] = {
    {"dnn", "mlp"},      {"nn", "mlp"},           {"linear", "lr"},
    {"logistic", "lr"},  {"factorization", "fm"}, {"svmlight", "libsvm"},
    {"libfm", "libsvm"}, {"tsv", "csv"},
};

struct sought {
    const char *word;
    bool found;
};

static bool sought_see(void *arg, const char *word, size_t len)
{
    struct sought *s = arg;
    s->found = strlen(s->word) == len && memcmp(s->word, word, len) == 0;
    return !s->found;
}

void options_nearest(const char *given, const char *words, char ret_word[OPTION_NAME_MAX])
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++) {
        struct sought s = {.word = meanings[i][1]};
        if (strcmp(given, meanings[i][0]) == 0)
            option_words(words, sought_see, &s);
        if (s.found) {
            snprintf(ret_word, OPTION_NAME_MAX, "%s", s.word);
            return;
        }
    }
    struct nearest n = nearest_make(given, strlen(given), ret_word);
    option_words(words, nearest_see, &n);
}

static void nearest_option(const struct option_table *t, const char *given, size_t len,
                           char ret_word[OPTION_NAME_MAX])
{
    struct nearest n = nearest_make(given, len, ret_word);
    for (size_t i = 0; i < t->n_options; i++)
        nearest_see(&n, t->options[i].name, strlen(t->options[i].name));
    option_words("config set help", nearest_see, &n);
}

// Each entry has the name of an option in another program (Python libraries, `paddle
// train`, `paddle pserver`, dmlc's launch.py, Vowpal Wabbit, xLearn) and tug's option. If
// a name has several entries, the first entry whose option the command has is used.
static const char *const synonyms[][2] = {
    {"adaptive", "optimizer"},
    {"alpha", "l1"},
    {"audit", "explain"},
    {"auto-resume", "resume"},
    {"average-window", "average"},
    {"batch-size", "batch"},
    {"cat-features", "categorical"},
    {"categorical-feature", "categorical"},
    {"checkpoint", "from"},
    {"config-args", "set"},
    {"continue", "resume"},
    {"continue-training", "resume"},
    {"cubic", "cross-columns"},
    {"decay-learning-rate", "schedule"},
    {"delim", "separator"},
    {"delimiter", "separator"},
    {"dis-es", "patience"},
    {"dis-lock-free", "deterministic"},
    {"disk", "data-in"},
    {"dot-period", "dot-every"},
    {"early-stopping", "patience"},
    {"early-stopping-rounds", "patience"},
    {"embedding-dim", "dim"},
    {"embedding-size", "dim"},
    {"eta", "lr"},
    {"eval-set", "valid"},
    {"exclude", "drop"},
    {"factors", "dim"},
    {"final-regressor", "out"},
    {"ftrl", "optimizer"},
    {"header", "columns"},
    {"hidden-layer-sizes", "hidden"},
    {"hidden-layers", "hidden"},
    {"hidden-units", "hidden"},
    {"host-file", "hosts"},
    {"hostfile", "hosts"},
    {"ignore", "drop"},
    {"ignore-columns", "drop"},
    {"init-model-path", "init-from"},
    {"initial-regressor", "from"},
    {"initial-regressor", "init-from"},
    {"input", "data"},
    {"iterations", "epochs"},
    {"label-column", "label"},
    {"lambda", "l2"},
    {"launcher", "hosts"},
    {"layers", "hidden"},
    {"learning-rate", "lr"},
    {"learning-rate-schedule", "schedule"},
    {"load", "from"},
    {"log-period", "log-every"},
    {"loss-function", "loss"},
    {"lrq", "dim"},
    {"lrqfa", "dim"},
    {"max-depth", "dim"},
    {"max-iter", "epochs"},
    {"max-leaves", "dim"},
    {"model", "from"}, // in commands that read a saved model
    {"model-dir", "from"},
    {"model-path", "from"},
    {"n-epochs", "epochs"},
    {"n-estimators", "epochs"},
    {"n-factors", "dim"},
    {"n-iter", "epochs"},
    {"n-iter-no-change", "patience"},
    {"n-jobs", "threads"},
    {"na", "missing"},
    {"na-values", "missing"},
    {"names", "columns"},
    {"nics", "interface"},
    {"nn", "hidden"},
    {"no-header", "columns"},
    {"nthread", "threads"},
    {"null-value", "missing"},
    {"num-boost-round", "epochs"},
    {"num-epochs", "epochs"},
    {"num-factors", "dim"},
    {"num-gradient-servers", "workers"},
    {"num-iterations", "epochs"},
    {"num-leaves", "dim"},
    {"num-passes", "epochs"},
    {"num-rounds", "epochs"},
    {"num-servers", "servers"},
    {"num-threads", "threads"},
    {"num-workers", "workers"},
    {"objective", "loss"},
    {"output", "out"},
    {"passes", "epochs"},
    {"ports-num", "loops"},
    {"ports-num-for-sparse", "sparse-loops"},
    {"power-t", "schedule-b"},
    {"predictions", "out"},
    {"pservers", "scheduler"},
    {"quadratic", "cross-columns"},
    {"quotechar", "quote"},
    {"random-seed", "seed"},
    {"random-state", "seed"},
    {"reg-alpha", "l1"},
    {"reg-lambda", "l2"},
    {"restore", "resume"},
    {"resume-from", "resume"},
    {"resume-from-checkpoint", "resume"},
    {"save-dir", "out"},
    {"save-resume", "resume"},
    {"saving-period", "save-every"},
    {"server-num", "servers"},
    {"sgd", "optimizer"},
    {"solver", "optimizer"},
    {"start-pass", "resume"},
    {"step-size", "lr"},
    {"sync-dst-dir", "sync"},
    {"target", "label"},
    {"test-period", "valid"},
    {"test-size", "valid"},
    {"trainer-count", "threads"},
    {"trainer-id", "rank"},
    {"validation-fraction", "valid"},
    {"validation-split", "valid"},
    {"warm-start", "init-from"},
    {"weight-decay", "l2"},
    {"worker-num", "workers"},
};

static bool has_option(const struct option_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_options; i++)
        if (strcmp(t->options[i].name, name) == 0)
            return true;
    return false;
}

static bool is_name(const char *given, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++)
        if ((given[i] == '_' ? '-' : given[i]) != name[i])
            return false;
    return name[len] == '\0';
}

void options_meant(const struct option_table *t, const char *given, size_t len,
                   char ret_word[OPTION_NAME_MAX])
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(*synonyms); i++)
        if (is_name(given, len, synonyms[i][0]) && has_option(t, synonyms[i][1])) {
            snprintf(ret_word, OPTION_NAME_MAX, "%s", synonyms[i][1]);
            return;
        }
    nearest_option(t, given, len, ret_word);
}

// One-letter options of dmlc's launch.py, Vowpal Wabbit and xLearn, and tug's option for
// each. (tug has no options of one letter.)
static const char *const letters[][2] = {
    {"H", "hosts"}, {"d", "data"},          {"e", "epochs"},    {"f", "out"},
    {"i", "from"},  {"i", "init-from"},     {"k", "dim"},       {"l", "lr"},
    {"m", "out"},   {"n", "workers"},       {"p", "optimizer"}, {"p", "out"},
    {"o", "out"},   {"q", "cross-columns"}, {"r", "lr"},        {"s", "servers"},
    {"s", "model"}, {"u", "init"},          {"v", "valid"},
};

int option_dash(const struct option_table *t, const char *word, struct err *e)
{
    char near[OPTION_NAME_MAX] = "";
    size_t len = strlen(word + 1);
    if (len > 1)
        options_meant(t, word + 1, len, near);
    for (size_t i = 0;
         len == 1 && near[0] == '\0' && i < sizeof(letters) / sizeof(*letters); i++)
        if (word[1] == letters[i][0][0] && has_option(t, letters[i][1]))
            snprintf(near, sizeof(near), "%s", letters[i][1]);
    if (near[0] != '\0')
        return err_set(e, TUG_EUSAGE, "there is no option '%.200s'; did you mean '--%s'?",
                       word, near);
    return err_set(e, TUG_EUSAGE,
                   "there is no option '%.200s'; options begin with two dashes", word);
}

// Options of other programs for which tug has no option, and the sentence that answers
// each. If `command` is not NULL, only that command gives the answer.
static const struct answer {
    const char *name, *command, *sentence;
} answers[] = {
    {"affix", NULL, "a program of --pipe-command can add such features"},
    {"all-roles", "launch", "tug launch runs the program in all roles without it"},
    {"bit-precision", NULL, "keys have 64 bits, so words do not collide"},
    {"cache-file", NULL, "no cache is written, and data stays in memory while it fits"},
    {"env-server", "launch", "--env K=V sets a variable in all processes"},
    {"env-worker", "launch", "--env K=V sets a variable in all processes"},
    {"heter-worker-num", NULL, "tug has servers and workers only, on CPUs"},
    {"holdout-off", NULL, "no examples are held out without --valid"},
    {"link", NULL, "tug predict prints probabilities, and scores with --raw"},
    {"ngram", NULL, "a program of --pipe-command can add such features"},
    {"no-bin", NULL, "no binary copy of the data is written"},
    {"no-norm", "train", "--no-normalize turns the normalization off"},
    {"nproc-per-node", "launch", "use --servers and --workers"},
    {"p3", "launch", "the program chooses p3 by the type of its kvstore"},
    {"sigmoid", NULL, "tug predict prints probabilities, and scores with --raw"},
    {"sign", NULL, "tug predict prints probabilities: compare them with 0.5"},
    {"skips", NULL, "a program of --pipe-command can add such features"},
    {"span-server", NULL, "tug launch --servers S --workers W -- train uses a cluster"},
};

static const char *answer_find(const struct option_table *t, const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++)
        if (is_name(name, len, answers[i].name) &&
            (answers[i].command == NULL || strcmp(answers[i].command, t->command) == 0))
            return answers[i].sentence;
    return NULL;
}

int option_unknown(const struct option_table *t, const char *prefix, const char *dashes,
                   const char *name, size_t len, struct err *e)
{
    char near[OPTION_NAME_MAX];
    int n = len < 200 ? (int)len : 200;
    const char *sentence = answer_find(t, name, len);
    if (sentence != NULL)
        return err_set(e, TUG_EUSAGE, "%sthere is no option '%s%.*s': %s", prefix, dashes,
                       n, name, sentence);
    options_meant(t, name, len, near);
    if (*near)
        return err_set(e, TUG_EUSAGE,
                       "%sthere is no option '%s%.*s'; did you mean '%s%s'?", prefix,
                       dashes, n, name, dashes, near);
    const struct option_table *train = option_family_find(t, "train");
    if (train != NULL && train != t && option_find(train, name, len) != OPTION_NONE)
        return err_set(e, TUG_EUSAGE,
                       "%s'tug %s' has no option '%s%.*s', only 'tug train' has it",
                       prefix, t->command, dashes, n, name);
    return err_set(e, TUG_EUSAGE,
                   "%sthere is no option '%s%.*s'; 'tug %s --help' lists them all",
                   prefix, dashes, n, name, t->command);
}
