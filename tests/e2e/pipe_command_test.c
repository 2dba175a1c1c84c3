// --pipe-command on the command line: a program turns raw logs into examples, in one
// process and on a cluster, with compressed and plain logs; programs that fail, and
// Ctrl-C.
//
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kit/command.h"
#include "kit/compression.h"
#include "os/clock.h"
#include "os/file.h"

#define SLOTS "--format multislot --slots y:label,user:ids,item:ids "

static void script(const char *name, const char *text)
{
    files_write(name, text);
    assert_int_equal(chmod(name, 0700), 0);
}

// Writes raw logs with lines "y,user,item", and the MultiSlot lines that the program
// makes from them.
static void write_logs(void)
{
    struct buf raw = BUF_INIT(1 << 20), slots = BUF_INIT(1 << 20);
    for (unsigned i = 0; i < 900; i++) {
        unsigned u = i % 13, t = i % 29, y = (u + t) % 3 == 0;
        buf_printf(&raw, "%u,%u,%u\n", y, u, t);
        buf_printf(&slots, "1 %u 1 %u 1 %u\n", y, u, t);
    }
    struct buf packed = BUF_INIT(1 << 20);
    compress_to(&packed, GZIP, raw.data, raw.len);
    files_write("raw.log", buf_str(&raw));
    files_write_bytes("raw.log.gz", packed.data, packed.len);
    files_write("slots.txt", buf_str(&slots));
    script("gen", "#!/bin/sh\nexec sed 's/^/1 /; s/,/ 1 /g'\n");
    buf_free(&raw);
    buf_free(&slots);
    buf_free(&packed);
}

static void same_as_without_a_command(void **state)
{
    (void)state;
    write_logs();
    tug_ends(0, "train --data slots.txt " SLOTS
                "--model fm --epochs 2 --deterministic --out want");
    tug_ends(0, "predict --from want --data slots.txt");
    char *want = mem_strdup(e2e_out);
    static const char *const files[] = {"raw.log", "raw.log.gz"};
    for (int i = 0; i < 4; i++) {
        tug_ends(0,
                 "train --data %s --test raw.log --pipe-command ./gen " SLOTS
                 "--model fm --epochs 2 --deterministic --data-in %s --out out%d",
                 files[i % 2], i < 2 ? "memory" : "stream", i);
        if (i < 2)
            e2e_same_model("want", files_path("out%d", i));
        tug_ends(0, "predict --from want --data %s --pipe-command ./gen", files[i % 2]);
        assert_string_equal(e2e_out, want);
    }
    e2e_stdin = "raw.log";
    tug_ends(0, "predict --from want --data - --pipe-command ./gen");
    e2e_stdin = NULL;
    assert_string_equal(e2e_out, want);
    mem_free(want);
    // A command with blanks comes from a file of options. The saved model does not store
    // the command.
    files_write("run.yaml", "pipe-command: \"sed 's/^/1 /' | sed 's/,/ 1 /g'\"\n");
    tug_ends(0, "eval --from want --config run.yaml --data raw.log.gz --json");
    assert_true(e2e_number("examples") == 900);
    tug_ends(3, "eval --from want --data raw.log");
}

// If data is read without a command, the error says that the model was trained through a
// command.
static void without_the_command(void **state)
{
    (void)state;
#define ADVICE "was trained on the output of a --pipe-command"
    tug_ends(0, "train --data slots.txt " SLOTS "--model lr --epochs 1 --out plain");
    tug_ends(3, "eval --from plain --data raw.log");
    assert_null(strstr(e2e_err, ADVICE));
    tug_ends(0, "train --data raw.log --pipe-command ./gen " SLOTS
                "--model lr --epochs 1 --out piped");
    static const char *const reads[] = {"eval", "predict", "predict --explain"};
    for (size_t i = 0; i < 3; i++) {
        tug_ends(3, "%s --from piped --data raw.log", reads[i]);
        e2e_says("raw.log:1: ");
        e2e_says(ADVICE);
    }
    tug_ends(3, "eval --from piped --data slots.txt --pipe-command ./gen");
    assert_null(strstr(e2e_err, ADVICE));
    // Output of the command is read without the command.
    tug_ends(0, "eval --from piped --data slots.txt");
    tug_ends(2,
             "train --data raw.log " SLOTS "--model lr --epochs 2 --out piped --resume");
    e2e_says("--pipe-command is missing: the run in ");
    tug_ends(0, "train --data raw.log --pipe-command ./gen " SLOTS
                "--model lr --epochs 2 --out piped --resume");
    // A frame's columns are found by the header, which the command writes.
    script("head", "#!/bin/sh\necho y,user,item; cat\n");
    tug_ends(0,
             "train --data raw.log --pipe-command ./head --format csv --label y --model "
             "lr --epochs 1 --out table");
    tug_ends(3, "eval --from table --data raw.log");
    e2e_says(ADVICE);
}

static void on_a_cluster(void **state)
{
    (void)state;
    tug_ends(0, "launch --servers 1 --workers 2 -- train --data raw.log raw.log.gz "
                "--pipe-command ./gen " SLOTS "--model lr --epochs 2 --out shared");
    tug_ends(0, "eval --from shared --data raw.log --pipe-command ./gen --json");
    assert_true(e2e_number("examples") == 900);
}

static void failures(void **state)
{
    (void)state;
#define TRAIN "train --data raw.log --epochs 1 --model lr --max-bad-lines 1000 " SLOTS
    script("fails", "#!/bin/sh\nhead -n 5 | ./gen\necho 'KeyError: user' >&2\nexit 3\n");
    tug_ends(3, TRAIN "--pipe-command ./fails");
    e2e_says("raw.log: './fails' ended with status 3: KeyError: user");
    tug_ends(3, TRAIN "--pipe-command ./missing");
    e2e_says("raw.log: './missing' ended with status 127: ");
    script("rubbish", "#!/bin/sh\necho '1 1 1 7'\n");
    tug_ends(3, "train --data raw.log --epochs 1 --model lr " SLOTS
                "--pipe-command ./rubbish");
    e2e_says("raw.log:1: the line ends before slot 'item'");
    // A raw line for which the program prints nothing counts as a bad line, so it is not
    // lost silently.
    script("blank", "#!/bin/sh\n./gen | sed '7s/.*//; 9s/.*/ /'\n");
    tug_ends(3, "train --data raw.log --epochs 1 --model lr " SLOTS
                "--pipe-command ./blank");
    e2e_says("raw.log:7: the line is blank, and an example has 3 slots");
    tug_ends(0, TRAIN "--pipe-command ./blank --json");
    assert_true(e2e_number("skipped_lines") == 2);
    tug_ends(
        3, "launch --servers 1 --workers 1 -- train --data raw.log --epochs 1 --model lr "
           "--shuffle global " SLOTS "--pipe-command ./blank");
    e2e_says("raw.log:7: the line is blank, and an example has 3 slots");
    tug_ends(3, TRAIN "--pipe-command true");
    e2e_says("raw.log: 'true' wrote nothing");
    tug_ends(3, "launch --servers 1 --workers 1 -- " TRAIN "--pipe-command ./fails");
    e2e_says("raw.log: './fails' ended with status 3: KeyError: user");
}

static bool runs(const char *pid_file)
{
    struct buf b = BUF_INIT(100);
    bool there = file_read(pid_file, &b, NULL) == 0 && b.len > 0;
    pid_t pid = there ? (pid_t)strtol(buf_str(&b), NULL, 10) : 0;
    buf_free(&b);
    return there && kill(pid, 0) == 0;
}

// A signal to tug also ends the pipe command and its children, although they neither read
// nor write; tug does not wait for them to end by themselves.
static void ends_with(int signal)
{
    files_remove("slow.pid");
    files_remove("shell.pid");
    script("slow", "#!/bin/sh\n./gen\nsleep 1000 & echo $! > slow.tmp\n"
                   "echo $$ > shell.pid\nmv slow.tmp slow.pid\nwait\n");
    pid_t pid = tug_start("train --data raw.log --epochs 1 --model lr " SLOTS
                          "--pipe-command ./slow");
    double until = clock_seconds() + 60;
    while (!runs("slow.pid") && clock_seconds() < until)
        sched_yield();
    assert_true(runs("slow.pid") && runs("shell.pid"));
    double start = clock_seconds();
    assert_int_equal(kill(pid, signal), 0);
    int code = tug_finish(pid);
    assert_int_not_equal(code, 0);
    assert_true(clock_seconds() - start < 60);
    until = clock_seconds() + 60;
    while ((runs("slow.pid") || runs("shell.pid")) && clock_seconds() < until)
        sched_yield(); // waits until init has reaped them
    assert_false(runs("slow.pid"));
    assert_false(runs("shell.pid"));
}

static void ctrl_c(void **state)
{
    (void)state;
    ends_with(SIGINT);
}

static void killed(void **state)
{
    (void)state;
    ends_with(SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_without_a_command),
        cmocka_unit_test(without_the_command),
        cmocka_unit_test(on_a_cluster),
        cmocka_unit_test(failures),
        cmocka_unit_test(ctrl_c),
        cmocka_unit_test(killed),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
