// Options as scripts and people give them: configuration that is printed reads back as the
// same, all mistakes are told at once, the shells complete what the tables know.
//
// SPDX-License-Identifier: Apache-2.0
#include "e2e.h"

// Comments behind values tell where they came from; what remains are the values.
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
        e2e_write("run.yaml", e2e_out);
        char *before = values_of(e2e_out);
        tug_ends(0, "config train --config run.yaml");
        char *after = values_of(e2e_out);
        assert_string_equal(after, before);
        mem_free(before);
        mem_free(after);
    }
    // The same run, too: what is a default in it stays one.
    const char *run = "--data data.svm --format libsvm --optimizer ftrl --epochs 2 "
                      "--deterministic --model fm";
    tug_ends(0, "train %s --out direct", run);
    tug_ends(0, "config train %s", run);
    e2e_write("run.yaml", e2e_out);
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

// What bash offers for words, the last of which is being typed.
static void completes(const char *words, const char *want)
{
    const char *script = e2e_path(
        "bash --norc -c 'source ./tug.bash; set -- %s; COMP_WORDS=(\"$@\"); "
        "COMP_CWORD=$(($# - 1)); _tug; echo \"${COMPREPLY[@]}\"' >offered",
        words);
    assert_int_equal(system(script), 0); // NOLINT: the shell is what is tested
    char *got = e2e_read("offered", NULL);
    assert_non_null(got);
    got[strcspn(got, "\n")] = '\0';
    assert_string_equal(got, want);
    mem_free(got);
}

static void completion(void **state)
{
    (void)state;
    tug_ends(0, "completion bash");
    e2e_write("tug.bash", e2e_out);
    completes("tug tra", "train");
    completes("tug train --mod", "--model --mode");
    completes("tug train --model f", "fm ffm");
    completes("tug train --data x --sched", "--schedule --schedule-a --schedule-b");
    completes("tug launch --workers 2 -- tra", "train");
    completes("tug launch -- train --epo", "--epochs");
    completes("tug help predi", "predict");
    tug_ends(0, "completion zsh");
    assert_ptr_equal(strstr(e2e_out, "#compdef tug"), e2e_out);
    e2e_write("_tug", e2e_out);
    tug_ends(0, "completion fish");
    e2e_write("tug.fish", e2e_out);
    static const struct {
        const char *shell, *file;
    } others[] = {{"zsh", "_tug"}, {"fish", "tug.fish"}};
    for (size_t i = 0; i < 2; i++) {
        const char *probe = e2e_path("command -v %s >.probe", others[i].shell);
        if (system(probe) != 0) // NOLINT
            print_message("skipped: %s is not installed\n", others[i].shell);
        else // parsed, not run
            assert_int_equal(
                system(e2e_path("%s -n %s", others[i].shell, others[i].file)),
                0); // NOLINT
    }
    tug_ends(2, "completion tcsh");
    e2e_says("'tcsh' is not one of bash, zsh, fish");
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
        cmocka_unit_test(versions),
        cmocka_unit_test(completion),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
