// --resume in deterministic mode: a run that was interrupted, killed or lengthened ends
// with the same files, byte for byte, as a run that was not.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

// Options of runs whose saves must hold different kinds of state.
static const struct way {
    const char *name, *options;
} ways[] = {
    {"memory", "--data data.svm --format libsvm --model fm --epochs 3"},
    {"valid", "--data data.svm --format libsvm --model fm --epochs 6 --valid 0.3 --lr 1 "
              "--patience 2"},
    {"schedule", "--data data.svm --format libsvm --model lr --epochs 3 --schedule poly "
                 "--optimizer adam --lr 0.01"},
    {"ffm", "--data data.ffm --format libffm --model ffm --epochs 2 --valid valid.ffm"},
    {"stream", "--data long.svm long.svm.2 --format libsvm --model fm --epochs 2 "
               "--max-bad-lines 1 "
               "--data-in stream --window 1"},
    {"mean", "--data data.svm --format libsvm --model fm --epochs 3 --average 100"},
    {"mean valid", "--data data.svm --format libsvm --model lr --epochs 4 --valid 0.3 "
                   "--average 9 --patience 2"},
    {"mean stream",
     "--data long.svm --format libsvm --model fm --epochs 2 --data-in stream "
     "--window 1 --max-bad-lines 3 --average 300"},
    {"stream valid",
     "--data long.svm --format libsvm --model lr --epochs 4 --data-in stream "
     "--window 1 --valid 0.2 --max-bad-lines 3"},
};
enum { WAYS = sizeof(ways) / sizeof(*ways) };

static const char *command(const struct way *w, const char *out)
{
    return files_path("train %s --dim 3 --batch 20 --threads 2 --deterministic "
                      "--save-every 7batches --out %s",
                      w->options, out);
}

static const char *straight(const struct way *w)
{
    files_remove("straight");
    tug_ends(0, "%s", command(w, "straight"));
    return "straight";
}

static size_t complete_saves(const char *out)
{
    char names[64][64];
    size_t n = files_list(out, names, 64), complete = 0;
    for (size_t i = 0; i < n; i++)
        complete += files_exists(files_path("%s/%s/manifest.json", out, names[i]));
    return complete;
}

static bool is_running(pid_t pid)
{
    siginfo_t info = {0};
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0;
}

// Waits until `out` has k saves; returns false if the command ended earlier.
static bool wait_for_saves(pid_t pid, const char *out, size_t k)
{
    while (complete_saves(out) < k) {
        if (!is_running(pid))
            return false;
        poll(NULL, 0, 1);
    }
    return true;
}

static void resume_and_compare(const struct way *w, const char *threads)
{
    tug_ends(0, "%s --resume --threads %s --keep 100", command(w, "out"), threads);
    e2e_says("resuming from out/save-");
    e2e_same_model("straight", "out");
}

static void after_kill(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        straight(&ways[i]);
        size_t killed = 0;
        for (size_t k = 1; k < 12; k += 3) {
            files_remove("out");
            pid_t pid = tug_start("%s --keep 100", command(&ways[i], "out"));
            bool running = wait_for_saves(pid, "out", k);
            kill(pid, SIGKILL);
            killed += tug_finish(pid) == 128 + SIGKILL;
            if (!running)
                break;
            resume_and_compare(&ways[i], k % 2 == 1 ? "1" : "3");
        }
        assert_true(killed > 0);
    }
}

// The run is killed a second time while it resumes.
static void after_two_kills(void **state)
{
    (void)state;
    straight(&ways[0]);
    files_remove("out");
    for (int times = 0; times < 2; times++) {
        pid_t pid = tug_start("%s --keep 100 %s", command(&ways[0], "out"),
                              times > 0 ? "--resume" : "");
        wait_for_saves(pid, "out", 2 + 2 * (size_t)times);
        kill(pid, SIGKILL);
        tug_finish(pid);
    }
    resume_and_compare(&ways[0], "2");
}

// After SIGTERM and SIGINT a run saves at once, ends with exit status 130, and prints
// where the save is.
static void after_signals(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        straight(&ways[i]);
        files_remove("out");
        pid_t pid = tug_start("%s --keep 100", command(&ways[i], "out"));
        assert_true(wait_for_saves(pid, "out", 1 + i % 3));
        kill(pid, i % 2 ? SIGINT : SIGTERM);
        int code = tug_finish(pid);
        if (code != 0) { // otherwise the run ended before the signal
            assert_int_equal(code, 130);
            e2e_says("interrupted in pass");
            e2e_says("saved to out/save-");
            e2e_says("--resume");
            char said[FILES_PATH];
            snprintf(said, sizeof(said), "saved to %s:", e2e_newest("out"));
            e2e_says(said);
        }
        resume_and_compare(&ways[i], "3");
    }
}

static void without_out(void **state)
{
    (void)state;
    pid_t pid = tug_start("train --data data.svm --format libsvm --epochs 1000000 "
                          "--log-every 1");
    size_t n = 0;
    // Once the run prints its first line, it handles signals.
    while (n == 0 && is_running(pid)) {
        char *text = files_read(".err", &n); // NULL while the file does not exist
        mem_free(text);
    }
    kill(pid, SIGTERM);
    assert_int_equal(tug_finish(pid), 130);
    e2e_says("nothing was saved, because there is no --out");
}

static const int together[] = {SIGTERM, SIGHUP, SIGTERM, SIGINT};

// The signal arrives before the run has made its first save.
static void saved_at_the_signal(void **state)
{
    (void)state;
    files_remove("out");
    pid_t pid = tug_start("train --data data.svm --format libsvm --epochs 1000000 "
                          "--log-every 1 --out out");
    size_t n = 0;
    while (n == 0 && is_running(pid)) {
        char *text = files_read(".err", &n);
        mem_free(text);
    }
    assert_int_equal(complete_saves("out"), 0);
    for (int i = 0; i < 4;
         // If a process group is stopped, a process may get several signals, which count
         // as one request.
         i++)
        kill(pid, together[i]);
    assert_int_equal(tug_finish(pid), 130);
    e2e_says("saved to out/save-000001: the same command with --resume continues");
    assert_int_equal(complete_saves("out"), 1);
    tug_ends(0, "train --data data.svm --format libsvm --epochs 1 --out out --resume");
    e2e_says("resuming from out/save-000001");
    tug_ends(2, "train --data data.svm --format libsvm --out out/save-000001 --resume");
    e2e_says("--out out/save-000001 is one save of a model");
}

// A resumed run ignores an unfinished save.
static void after_half_a_save(void **state)
{
    (void)state;
    const struct way *w = &ways[0];
    straight(w);
    files_remove("out");
    tug_ends(0, "%s --epochs 1", command(w, "out"));
    size_t n = complete_saves("out");
    files_copy_dir(e2e_newest("out"), "out/save-000099");
    files_remove("out/save-000099/manifest.json");
    assert_int_equal(complete_saves("out"), n);
    resume_and_compare(w, "2");
}

// A resumed run reads the data by windows or in memory like the first run, although
// --data-in is not repeated. It reports the number of skipped lines, even if nothing is
// left to do.
static void as_it_was_read(void **state)
{
    (void)state;
    const char *run = "train --data long.svm --format libsvm --model lr --batch 20 "
                      "--deterministic --max-bad-lines 3 --window 1 --out out --json";
    files_remove("out");
    tug_ends(0, "%s --epochs 1 --data-in stream", run);
    tug_ends(0, "%s --epochs 2 --resume", run);
    e2e_says("resuming from out/save-000001");
    tug_ends(0, "%s --epochs 2 --resume", run);
    assert_true(e2e_number("skipped_lines") == 1);
    tug_ends(2, "%s --epochs 3 --resume --data-in memory", run);
    e2e_says("--data-in 'stream', but this run has 'memory'");
}

// For a pipe, a resumed run cannot compare length and contents, only the number of
// examples.
static void other_pipe(void **state)
{
    (void)state;
    const char *run =
        "train --data - --format libsvm --model lr --deterministic --out out";
    e2e_write_data(&(struct e2e_data){.path = "shorter.svm", .rows = 499, .seed = 1});
    files_remove("out");
    e2e_stdin = "data.svm";
    tug_ends(0, "%s --epochs 1", run);
    tug_ends(0, "%s --epochs 2 --resume", run);
    e2e_stdin = "shorter.svm";
    tug_ends(3, "%s --epochs 3 --resume", run);
    e2e_stdin = NULL;
    e2e_says("--data has 499 examples, but the run being resumed had 500 examples");
}

static void other_options(void **state)
{
    (void)state;
    const struct way *w = &ways[0];
    straight(w);
    files_remove("out");
    tug_ends(0, "%s", command(w, "out"));
    static const struct {
        const char *option, *name;
    } other[] = {
        {"--dim 4", "dim"},
        {"--lr 0.3", "lr"},
        {"--batch 21", "batch"},
        {"--seed 2", "seed"},
        {"--l2 0.5", "l2"},
        {"--optimizer sgd", "optimizer"},
        {"--model lr", "model"},
        {"--format libffm --data data.ffm", "format"},
        {"--no-deterministic", "deterministic"},
        {"--schedule poly", "schedule"},
        {"--data-in stream", "data-in"},
        {"--valid 0.1", "valid"},
        {"--loss squared", "loss"},
        {"--reduce mean", "reduce"},
        {"--init 0.2", "init"},
        {"--no-normalize", "normalize"},
    };
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
        tug_ends(2, "%s --resume %s", command(w, "out"), other[i].option);
        e2e_says(files_path("--%s", other[i].name));
        // The loss is part of the saved schema, which --init-from cannot change either.
        e2e_says(strcmp(other[i].name, "loss") == 0 ? "train a new model"
                                                    : "--init-from");
    }
    tug_ends(2, "%s --resume --seed 2 --batch 21", command(w, "out"));
    e2e_says("--seed 1, but this run has 2; the earlier run had --batch ");
    // All options that differ are named in one error.
    tug_ends(2, "%s --resume --model lr --optimizer ftrl --lr 0.3 --seed 2",
             command(w, "out"));
    e2e_says("--model 'fm', but this run has 'lr'; the earlier run had --seed 1, but "
             "this run has 2; the earlier run had "
             "--optimizer 'adagrad', but this run has 'ftrl'; the earlier run had --lr ");
    tug_ends(2, "%s --resume --format libffm --data data.ffm --seed 2",
             command(w, "out"));
    e2e_says("--format libsvm, but this run has libffm; the earlier run had --seed 1, "
             "but this run has 2: give");
    tug_ends(2, "%s --resume --loss squared --seed 2", command(w, "out"));
    e2e_says("; besides, the run being resumed had --seed 1, but this run has 2\n");
    e2e_write_data(&(struct e2e_data){.path = "other.svm", .rows = 499, .seed = 1});
    tug_ends(3, "%s --resume --data other.svm --seed 2", command(w, "out"));
    e2e_says("; the earlier run had --seed 1, but this run has 2. Give the same data and "
             "options; or ");
    e2e_same_model("straight", "out");
}

// With --resume=auto the first run needs --format. A resumed run takes the format from
// the save.
static void auto_knows_the_format(void **state)
{
    (void)state;
    const char *run = "train --data data.svm --model lr --out auto --resume=auto";
    files_remove("auto");
    tug_ends(2, "%s --epochs 1", run);
    e2e_says("--format is missing");
    tug_ends(0, "%s --epochs 1 --format libsvm", run);
    tug_ends(0, "%s --epochs 2", run);
    e2e_says("resuming from auto/save-000001");
}

// For an option that is not given, a resumed run takes the save's value, not the default.
static void options_of_the_save(void **state)
{
    (void)state;
    static const char *const options[] = {
        "--model fm --optimizer adagrad:n0=0.5 --lr 0.07 --l2 1e-6 --seed 7 --batch 100 "
        "--schedule poly --deterministic --valid 2/5 --average 20 --dim 4",
        "--model lr --optimizer ftrl --l1 0.01 --no-normalize --deterministic --reduce "
        "mean",
        "--model fm --table entry=count:2 --deterministic",
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
        const char *run = "train --data data.svm --format libsvm --epochs";
        files_remove("straight");
        files_remove("out");
        tug_ends(0, "%s 2 --save-every 1 --out straight %s", run, options[i]);
        tug_ends(0, "%s 1 --out out %s", run, options[i]);
        tug_ends(0, "train --data data.svm --epochs 2 --out out --resume");
        e2e_says("1 whole pass done, ");
        assert_non_null(strstr(e2e_out, "2 passes (1 before the run was resumed) over"));
        if (strstr(options[i], "--table") == NULL) {
            e2e_same_model("straight", "out");
            continue;
        }
        // The files differ, because the manifest of a table names the save that it
        // follows, so predictions are compared instead.
        tug_ends(0, "predict --from straight --data data.svm");
        char *straight_says = mem_strdup(e2e_out);
        tug_ends(0, "predict --from out --data data.svm");
        assert_string_equal(e2e_out, straight_says);
        mem_free(straight_says);
    }
    // A given option must equal the option in the save; a save of another model does not
    // fill in options.
    tug_ends(2, "train --data data.svm --epochs 3 --out out --resume --lr 3");
    e2e_says("but this run has 3: give");
    tug_ends(2, "train --data data.svm --epochs 3 --out out --resume --model lr");
    e2e_says("--model 'fm', but this run has 'lr'");
}

// A resumed run takes the options about its end and its saves from the save: the passes,
// the patience, --save-every and --keep.
static void plan_of_the_save(void **state)
{
    (void)state;
    const char *run = "train --data data.svm --format libsvm --model lr --deterministic",
               *again = "train --data data.svm --out out --resume";
    files_remove("out");
    tug_ends(0, "%s --epochs 2 --out out", run);
    tug_ends(0, "%s", again);
    assert_non_null(strstr(e2e_out, "there is nothing to do: the run is over, 2 passes"));
    assert_int_equal(complete_saves("out"), 1);
    tug_ends(0, "%s --epochs 1", again);
    assert_non_null(strstr(
        e2e_out,
        "there is nothing to do: the run has done 2 passes, more than --epochs 1"));
    assert_int_equal(complete_saves("out"), 1);
    // The smaller --epochs above has not changed the save, so the run can still be
    // resumed with more passes.
    tug_ends(0, "%s --epochs 4 --save-every 1 --keep 2", again);
    assert_int_equal(complete_saves("out"), 2);
    tug_ends(0, "%s --epochs 7", again);
    assert_int_equal(complete_saves("out"), 2);
    // --save-every 1 of the save still applies.
    assert_non_null(strstr(e2e_newest("out"), "save-000006"));
    files_remove("out");
    tug_ends(0, "%s --epochs 3 --valid 0.2 --lr 5 --patience 9 --out out", run);
    tug_ends(0, "%s --epochs 8", again);
    assert_non_null(strstr(e2e_out, "8 passes (3 before the run was resumed)"));
    files_remove("out");
    tug_ends(0, "%s --epochs 6 --valid 0.2 --refit --out out", run);
    tug_ends(0, "%s", again);
    assert_non_null(strstr(e2e_out, "there is nothing to do: the run is over"));
}

// A run that stopped in the middle of a pass never counts as finished, and continues up
// to the number of passes that it began with.
static void plan_within_a_pass(void **state)
{
    (void)state;
    const char *again = "train --data data.svm --out out --resume --log-every 1";
    files_remove("out");
    tug_ends(0,
             "train --data data.svm --format libsvm --model lr --deterministic --batch "
             "20 --epochs 3 --save-every 8batches --keep 100 --out out");
    char names[64][64];
    size_t n = files_list("out", names, 64);
    assert_true(n > 6);
    for (size_t i = 0; i < n; i++) // leaves only the saves of pass 2 and before
        if (strcmp(names[i], "save-000005") > 0)
            files_remove(files_path("out/%s", names[i]));
    tug_ends(0, "%s --epochs 1", again);
    assert_non_null(
        strstr(e2e_out,
               "there is nothing to do: the run has done 1 pass and a part of the "
               "next one, more than --epochs 1; its save out/save-000005 is unchanged"));
    tug_ends(0, "table stat --from out --json");
    json_t *o = e2e_json();
    assert_true(json_is_false(json_object_get(o, "finished")));
    json_decref(o);
    tug_ends(0, "%s", again);
    assert_non_null(strstr(e2e_out, "3 passes (1 before the run was resumed)"));
    // --save-every and --keep are also those of the first run.
    assert_true(complete_saves("out") > 6);
}

// The save does not have the path of --valid, so the user must give it again for a run
// that was validated by it.
static void valid_is_given_again(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "train --data data.ffm --format libffm --model ffm --epochs 2 --out out "
                "--valid valid.ffm");
    tug_ends(0, "train --data data.ffm --out out --resume");
    assert_non_null(strstr(e2e_out, "there is nothing to do"));
    tug_ends(2, "train --data data.ffm --out out --resume --epochs 3");
    e2e_says("had a file as --valid, and was best after pass 2: give the same --valid");
    tug_ends(0, "train --data data.ffm --out out --resume --epochs 3 --valid valid.ffm");
}

// A run that has finished can be resumed with more passes.
static void more_epochs(void **state)
{
    (void)state;
    static const size_t some[] = {0, 1, 4};
    for (size_t i = 0; i < 3; i++) {
        const struct way *w = &ways[some[i]];
        files_remove("out");
        tug_ends(0, "%s --epochs 1", command(w, "out"));
        straight(w);
        resume_and_compare(w, "1");
        // If no pass is left, nothing changes.
        resume_and_compare(w, "2");
    }
}

// A run that stopped early has passes left, and continues when it is resumed with more
// patience.
static void stopped_early(void **state)
{
    (void)state;
    const char *run =
        "train --data data.svm --format libsvm --model fm --valid 0.2 --lr 1 "
        "--threads 1 --out patient";
    files_remove("patient");
    tug_ends(0, "%s --epochs 30 --patience 1", run);
    tug_ends(0, "%s --epochs 40 --patience 1 --resume", run);
    assert_non_null(strstr(e2e_out, "there is nothing to do"));
    assert_non_null(strstr(e2e_out, "(give a larger --patience, or --patience 0, because "
                                    "validation has not improved for 1 pass, to train "
                                    "longer"));
    tug_ends(0, "%s --epochs 30 --patience 3 --resume", run);
    assert_null(strstr(e2e_out, "there is nothing to do"));
}

static void passes_in(const char *path, int n)
{
    char *text = files_read(path, &(size_t){0}), *line = text;
    assert_non_null(text);
    for (int i = 1; i <= n; i++) {
        char begin[64];
        snprintf(begin, sizeof(begin), "{\"pass\":%d,\"examples\":", i);
        assert_int_equal(strncmp(line, begin, strlen(begin)), 0);
        assert_true(strtoull(line + strlen(begin), NULL, 10) < 450);
        line += strcspn(line, "\n") + 1;
    }
    assert_true(*line == '\0');
    mem_free(text);
}

// A resumed run continues its --history: no pass is in the file twice or missing, also
// where lines were written after the last save.
static void history_goes_on(void **state)
{
    (void)state;
    const char *run = "train --data data.svm --format libsvm --model lr --valid 0.2 "
                      "--patience 0 --history h.jsonl --out remembered --json";
    files_remove("remembered");
    tug_ends(0, "%s --epochs 3", run);
    passes_in("h.jsonl", 3);
    tug_ends(0, "%s --epochs 5 --resume", run);
    passes_in("h.jsonl", 5);
    json_t *o = e2e_json();
    assert_int_equal(json_array_size(json_object_get(o, "history")), 5);
    json_decref(o);
    // Simulates that the run was killed before this save.
    files_remove("remembered/save-000002");
    tug_ends(0, "%s --epochs 4 --resume", run);
    passes_in("h.jsonl", 4);
    passes_in("remembered/save-000002/history.jsonl", 4);
    tug_ends(0, "%s --epochs 4 --resume", run); // all passes are done
    passes_in("h.jsonl", 4);
    tug_ends(2, "%s --epochs 6 --resume --history data.svm", run);
    e2e_says("--history: this run reads 'data.svm'");
}

// If the history cannot be written, an error names --history: before training if the
// failure can be detected then, otherwise at the end. Pipes, devices and links are
// written to directly.
static void history_of_other_kinds(void **state)
{
    (void)state;
    const char *run = "train --data data.svm --format libsvm --model lr --valid 0.2 "
                      "--epochs 3 --out kinds";
    files_remove("kinds");
    tug_ends(2, "%s --history .", run);
    e2e_says("--history: '.' is neither a file, nor a pipe, nor a terminal");
    assert_int_equal(mkfifo(files_path("pipe"), S_IRUSR | S_IWUSR), 0);
    tug_ends(4, "%s --history pipe", run);
    e2e_says("--history: no process reads the pipe 'pipe'");
    files_remove("kinds");
    tug_ends(4, "%s --history /dev/full", run);
    e2e_says("--history: cannot write '/dev/full'");
    e2e_says("--history lacks passes");
    tug_ends(0, "eval --from kinds --data data.svm");
    files_remove("kinds");
    int reader = open(files_path("pipe"), O_RDONLY | O_NONBLOCK);
    char lines[4096];
    tug_ends(0, "%s --history pipe", run);
    ssize_t n = read(reader, lines, sizeof(lines) - 1);
    assert_true(n > 0);
    lines[n] = '\0';
    close(reader);
    files_write("lines", lines);
    passes_in("lines", 3);
    assert_int_equal(symlink("target", files_path("link")), 0);
    files_remove("kinds");
    tug_ends(0, "%s --history link", run);
    passes_in("target", 3);
    // The history of another run is not overwritten.
    files_remove("kinds");
    tug_ends(2, "%s --history link", run);
    e2e_says("--history: 'link' already holds the history of another run");
    passes_in("target", 3);
    tug_ends(0, "%s --resume=auto --history link", run);
    passes_in("target", 3);
}

static void nothing_to_resume(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(2, "train --data data.svm --format libsvm --resume");
    e2e_says("--resume needs --out");
    tug_ends(3, "%s --resume", command(&ways[0], "out"));
    e2e_says("'out' holds no save");
}

// Data that shrank between the runs is an error.
static void other_data(void **state)
{
    (void)state;
    const struct way w = {"", "--data other.svm --format libsvm --model lr --epochs 3"};
    struct e2e_data d = {.path = "other.svm", .rows = 300, .seed = 1};
    e2e_write_data(&d);
    files_remove("out");
    tug_ends(0, "%s", command(&w, "out"));
    d.rows = 100;
    e2e_write_data(&d);
    tug_ends(3, "%s --resume --epochs 4", command(&w, "out"));
    e2e_says("the size of 'other.svm' is ");
    e2e_says("--init-from out");
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    const struct e2e_data data[] = {
        {.path = "data.svm", .rows = 500, .seed = 1},
        {.path = "data.ffm", .fields = true, .rows = 500, .seed = 1},
        {.path = "valid.ffm", .fields = true, .rows = 100, .seed = 3},
        {.path = "long.svm", .rows = 300, .seed = 2, .padding = 9000},
        {.path = "long.svm.2", .rows = 200, .seed = 4, .padding = 6000},
    };
    for (size_t i = 0; i < sizeof(data) / sizeof(*data); i++)
        e2e_write_data(&data[i]);
    // Makes a line of the first window bad, so that it is skipped.
    size_t n;
    char *text = files_read("long.svm", &n);
    memcpy(text, "?", 1);
    files_write_bytes("long.svm", text, n);
    mem_free(text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_kill),           cmocka_unit_test(after_two_kills),
        cmocka_unit_test(after_signals),        cmocka_unit_test(without_out),
        cmocka_unit_test(other_options),        cmocka_unit_test(options_of_the_save),
        cmocka_unit_test(plan_of_the_save),     cmocka_unit_test(plan_within_a_pass),
        cmocka_unit_test(valid_is_given_again), cmocka_unit_test(more_epochs),
        cmocka_unit_test(stopped_early),        cmocka_unit_test(nothing_to_resume),
        cmocka_unit_test(history_goes_on),      cmocka_unit_test(history_of_other_kinds),
        cmocka_unit_test(other_data),           cmocka_unit_test(saved_at_the_signal),
        cmocka_unit_test(after_half_a_save),    cmocka_unit_test(as_it_was_read),
        cmocka_unit_test(other_pipe),           cmocka_unit_test(auto_knows_the_format),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
