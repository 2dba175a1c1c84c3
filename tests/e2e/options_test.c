// Options: printed configuration reads back unchanged, all mistakes are reported at once,
// and the shells complete what the tables of options contain.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

// Removes the comments behind values, which tell the values' origins, and returns the
// rest.
static char *values_of(const char *yaml)
{
    size_t n = 0, size = strlen(yaml) + 1;
    char *to = mem_alloc(size);
    assert_non_null(to);
    for (const char *line = yaml; *line != '\0';) {
        size_t len = strcspn(line, "\n"), end = len;
        for (size_t i = 0; i + 1 < len; i++)
            end = line[i] == ' ' && line[i + 1] == '#' && end == len ? i : end;
        if (line[0] != '#' && len > 0)
            n += (size_t)snprintf(to + n, size - n, "%.*s\n", (int)end, line);
        line += len + (line[len] == '\n');
    }
    to[n] = '\0';
    return to;
}

static void config_round_trip(void **state)
{
    (void)state;
    static const char *const given[] = {
        "",
        "--data data.svm --format libsvm --optimizer ftrl --epochs 2 --deterministic",
        "--data data.svm --format libsvm --model lr --no-normalize --seed 7 --batch 50",
        "--data a\"b' c:d #e --label yes --drop null --separator \t",
        "--data a\001b\177c a\\b --label \xc3\xa4 --drop -x --out .",
    };
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
        tug_ends(0, "config train %s", given[i]);
        files_write("run.yaml", e2e_out);
        char *before = values_of(e2e_out);
        tug_ends(0, "config train --config run.yaml");
        char *after = values_of(e2e_out);
        assert_string_equal(after, before);
        mem_free(before);
        mem_free(after);
    }
    // A run with the printed configuration gives the same model: default values in it do
    // not count as given by the user.
    const char *run = "--data data.svm --format libsvm --optimizer ftrl --epochs 2 "
                      "--deterministic --model fm";
    tug_ends(0, "train %s --out direct", run);
    tug_ends(0, "config train %s", run);
    files_write("run.yaml", e2e_out);
    tug_ends(0, "train --config run.yaml --out by-file");
    e2e_same_model("direct", "by-file");
}

static void all_mistakes(void **state)
{
    (void)state;
    tug_ends(2, "train --epocs 3 --lr x --data data.svm");
    e2e_says("2 problems: (1) there is no option '--epocs'; did you mean '--epochs'?");
    e2e_says("(2) --lr: 'x' is not a number");
}

// Options without effect are refused.
static void options_without_effect(void **state)
{
    (void)state;
    static const char *const given[] = {"rules server",      "values bf16",
                                        "in-flight 2",       "pack-keys",
                                        "dense-staleness 1", "shuffle pieces"};
    for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++) {
        tug_ends(2, "train --data x.csv --format csv --%s", given[i]);
        e2e_says(files_path("--%.*s only works on a cluster", (int)strcspn(given[i], " "),
                            given[i]));
    }
    tug_ends(2, "train --data x.csv --format csv --reduce mean");
    e2e_says("--reduce mean needs --deterministic");
}

// Numbers after the name of an update rule are used for the rows; the error names wrong
// numbers.
static void optimizers(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"adagradd", "--optimizer: 'adagradd' is not one of: sgd"},
        {"adagradd", "did you mean 'adagrad'?"},
        {"adagrad:m0=1", "--optimizer: update rule adagrad has no parameter 'm0'"},
        {"sgd:n0=1", "--optimizer: update rule sgd has no parameter 'n0'"},
        {"adagrad:n0=x", "n0 of update rule adagrad is 'x', not a number"},
        {"adagrad:lr=1", "rates and penalties have options of their own"},
        {"adagrad:clip=1", "other numbers belong to tables"},
    };
    const char *run = "train --data data.csv --format csv --model mlp --hidden 4 --dim 2 "
                      "--epochs 1 --optimizer adagrad:n0=0,beta=1e-6 --dense-optimizer "
                      "adam:beta1=0.5";
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        tug_ends(2, "train --data data.svm --format libsvm --optimizer %s", bad[i][0]);
        e2e_says(bad[i][1]);
    }
    files_write("data.csv", "click,a\n1,x\n0,y\n");
    tug_ends(0, "%s --out with-numbers", run);
    struct buf manifest = files_buf("with-numbers/save-000001/manifest.json");
    assert_non_null(strstr(manifest.data, "rule = adagrad:prior=2,n0=0,beta=1e-06"));
    assert_non_null(strstr(manifest.data, "adam:beta1=0.5"));
    buf_free(&manifest);
    tug_ends(0, "%s --out with-numbers --resume --epochs 2", run);
    tug_ends(2, "%s --out with-numbers --resume --epochs 3 --optimizer adagrad", run);
    e2e_says("--optimizer's beta");
}

// A recipe sets the options that are not given; its settings have an origin like all
// settings.
static void recipes(void **state)
{
    (void)state;
    tug_ends(0, "config --recipe avazu --dim 8");
    assert_non_null(strstr(e2e_out, "\nrecipe: avazu  "));
    assert_non_null(strstr(e2e_out, "\nmodel: deepfm  "));
    assert_non_null(strstr(e2e_out, "# recipe avazu\n"));
    assert_non_null(strstr(e2e_out, "\ndim: 8  "));
    assert_non_null(strstr(e2e_out, "\n# optimizer: "));
    files_write("again.yaml", e2e_out);
    files_write("clicks.csv", "id,click,a,b\n7,1,x,u\n8,0,y,v\n9,1,x,v\n");
    tug_ends(0, "train --recipe avazu --data clicks.csv --hidden 4 --json");
    assert_true(e2e_number("epochs") == 1);
    assert_true(e2e_number("keys") == 4); // the recipe drops the column of ids
    tug_ends(0, "train --config again.yaml --data clicks.csv --hidden 4 --json");
    assert_true(e2e_number("keys") == 4);
    tug_ends(0, "train --recipe avazu --model lr --epochs 2 --data clicks.csv --json");
    assert_true(e2e_number("epochs") == 2);
    tug_ends(2, "train --recipe avazoo --data clicks.csv");
    e2e_says("avazu");
}

static void versions(void **state)
{
    (void)state;
    tug_ends(0, "--version");
    char *first = mem_strdup(e2e_out);
    assert_non_null(first);
    assert_ptr_equal(strstr(first, "tug "), first);
    tug_ends(0, "-V");
    assert_string_equal(e2e_out, first);
    tug_ends(0, "version");
    assert_string_equal(e2e_out, first);
    tug_ends(0, "version --json");
    json_t *o = e2e_json();
    assert_true(json_is_string(json_object_get(o, "kernels")));
    json_decref(o);
    mem_free(first);
}

// The completions that the shells offer at the end of a line: sorted, one word a line;
// for "--model=fm" only the part after '='.
#define SORTED "| cut -f 1 | sed 's/^--[a-z-]*=//' | LC_ALL=C sort -u"

static const char bash_script[] =
    "source ./tug.bash\n"
    "read -ra COMP_WORDS <<<\"${1//=/ = }\"\n" // bash splits lines at blanks and at '='
    "[[ $1 != *' ' ]] || COMP_WORDS+=('')\n"
    "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
    "_tug\n"
    "printf '%s\\n' \"${COMPREPLY[@]}\" " SORTED "\n";

// A zsh with a terminal, in which a line is typed and completed.
static const char zsh_outer[] = "zmodload zsh/zpty zsh/zselect\n"
                                "rm -f offered ended ready\n"
                                ": >offered\n"
                                "zpty shell zsh -f -i\n"
                                "zpty -w shell 'source ./inner.zsh'\n"
                                "repeat 1200 { [[ -e ready ]] && break; zselect -t 5 }\n"
                                "zpty -w -n shell \"$1\"$'\\t'\n"
                                "repeat 1200 { [[ -e ended ]] && break; zselect -t 5 }\n"
                                "zpty -d shell\n"
                                "cat offered " SORTED "\n";
static const char zsh_inner[] = "PROMPT=\n"
                                "autoload -Uz compinit\n"
                                "compinit -D -u\n"
                                "source ./_tug\n"
                                "compadd() {\n"
                                "    local -a hits\n"
                                "    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then\n"
                                "        builtin compadd -O hits \"$@\"\n"
                                "        ((#hits)) && print -rl -- $hits >>offered\n"
                                "    fi\n"
                                "    builtin compadd \"$@\"\n"
                                "}\n"
                                "finish() { : >ended }\n"
                                "comppostfuncs=(finish)\n"
                                "bindkey '^I' complete-word\n"
                                ": >ready\n";

static const char fish_script[] = "source ./tug.fish\n"
                                  "complete -C $argv[1] " SORTED "\n";

static const struct shell {
    const char *name, *words, *ask;
} shells[] = {
    {"bash", "tug.bash", "bash --norc ask.bash"},
    {"zsh", "_tug", "zsh -f outer.zsh"},
    {"fish", "tug.fish", "fish --no-config ask.fish"},
};
enum { BASH, ZSH, FISH, SHELLS };

static const struct offer {
    const char *line, *want; // each wanted word is followed by a space
    // What bash offers if it differs from `want`: bash itself completes names of files.
    const char *bash;
} offers[] = {
    {"tug tra", "train ", NULL},
    {"tug train --mod", "--mode --model ", NULL},
    {"tug train --model ", "dcn deepfm ffm fm lr mlp wide_deep ", NULL},
    {"tug train --model f", "ffm fm ", NULL},
    {"tug train --model=f", "ffm fm ", NULL},
    {"tug train --model=", "dcn deepfm ffm fm lr mlp wide_deep ", NULL},
    {"tug train --optimizer ad", "adagrad adagrad-row adam ", NULL},
    {"tug train --dense-optimizer f", "ftrl ", NULL},
    {"tug train --data x --sched", "--schedule --schedule-a --schedule-b ", NULL},
    {"tug train --resume=", "auto no yes ",
     NULL}, // no space is added: the next word would not be the option's value
    {"tug train --resume au", "autumn.svm ", " "},
    {"tug train --data aut", "autumn.svm ", " "},
    {"tug train --data=aut", "autumn.svm ", " "},
    {"tug launch --workers 2 -- tra", "train ", NULL},
    {"tug help predi", "predict ", NULL},
    {"tug completion ", "bash fish zsh ", NULL},
    {"tug cert ", "ca node token ", NULL},
    {"tug table s", "save settings shrink stat ", NULL},
    {"tug table get aut", "autumn.svm ", " "},
    {"tug bench table --rea", "--read-keys ", NULL},
};

// Returns whether the shell is installed and can be tested. zsh completes only at a
// terminal, which the test opens for it.
static bool can_be_asked(const struct shell *s)
{
    const char *lacks = NULL;
    if (system(files_path("command -v %s >.probe", s->name)) != 0) // NOLINT: a shell
        lacks = "a shell is not there";
    else if (s == &shells[ZSH] && !pseudo_terminals_are_there())
        lacks = NO_PSEUDO_TERMINALS;
    if (lacks != NULL)
        print_message("skipped: %s (%s)\n", lacks, s->name);
    return lacks == NULL;
}

static void check_offer(const struct shell *s, const struct offer *o)
{
    const char *want = s == &shells[BASH] && o->bash != NULL ? o->bash : o->want;
    const char *ask = files_path("%s '%s' 2>asked | tr '\\n' ' ' >answer", s->ask,
                                 o->line);
    assert_int_equal(system(ask), 0); // NOLINT: the shell is what is tested
    char *got = files_read("answer", NULL), *said = files_read("asked", NULL);
    if (got == NULL || strcmp(got, want) != 0)
        fail_msg("%s offers '%s' at '%s', not '%s': %s", s->name, got, o->line, want,
                 said);
    mem_free(got);
    mem_free(said);
}

static void completion(void **state)
{
    (void)state;
    files_write("ask.bash", bash_script);
    files_write("outer.zsh", zsh_outer);
    files_write("inner.zsh", zsh_inner);
    files_write("ask.fish", fish_script);
    files_write("autumn.svm", "1 1:1\n");
    for (const struct shell *s = shells; s < shells + SHELLS; s++) {
        tug_ends(0, "completion %s", s->name);
        files_write(s->words, e2e_out);
        bool asked = can_be_asked(s);
        for (size_t i = 0; asked && i < sizeof(offers) / sizeof(*offers); i++)
            check_offer(s, &offers[i]);
    }
    check_offer(&shells[BASH],
                &(struct offer){"tug launch -- train --epo", "--epochs ", NULL});
    tug_ends(2, "completion tcsh");
    e2e_says("'tcsh' is not one of bash, zsh, fish");
}

// Returns the completions that fish offers after a command.
static const char *offered_behind(const char *command)
{
    tug_ends(0, "completion fish");
    const char *key = files_path("__tug_is_alone %s' -f -a '", command);
    const char *at = strstr(e2e_out, key);
    assert_non_null(at);
    at += strlen(key);
    return files_path("%.*s", (int)strcspn(at, "'"), at);
}

// The completions offer exactly the actions of the commands.
static void actions(void **state)
{
    (void)state;
    const char *offered = offered_behind("table");
    tug_ends(2, "table nosuch --from none");
    e2e_says(files_path("there is no action 'nosuch'; there are: %s\n", offered));
    offered = offered_behind("cert");
    for (size_t n; (n = strcspn(offered, " ")) > 0; offered += n + (offered[n] == ' ')) {
        tug("cert %.*s --dir none", (int)n, offered);
        if (strstr(e2e_err, "the action is missing") != NULL)
            fail_msg("%s", e2e_err);
    }
    tug_ends(2, "cert nosuch --dir none");
    e2e_says("the action is missing");
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = 600, .seed = 1});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_round_trip),
        cmocka_unit_test(all_mistakes),
        cmocka_unit_test(options_without_effect),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(recipes),
        cmocka_unit_test(versions),
        cmocka_unit_test(completion),
        cmocka_unit_test(actions),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
