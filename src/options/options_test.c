// SPDX-License-Identifier: Apache-2.0
#include "options/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kit/test.h"

struct values {
    bool json, shuffle;
    const char *out;
    struct option_list data;
    uint64_t epochs, window;
    double lr;
    int model;
    uint64_t seed;
    const char *drop;
};

#define OPTIONS_OF struct values

static const struct option list[] = {
    {.name = "data",
     OPTION_AT(OPTION_LIST, struct option_list, data),
     .metavar = "PATH...",
     .group = "Data",
     .help = "what to read",
     .required = true},
    {.name = "out",
     OPTION_AT(OPTION_STRING, const char *, out),
     .metavar = "DIR",
     .help = "where to"},
    {.name = "epochs",
     OPTION_AT(OPTION_U64, uint64_t, epochs),
     .fallback = "10",
     .min = 1,
     .max = 1000,
     .metavar = "N",
     .group = "Training",
     .help = "passes over the data",
     .env = "OLD_EPOCHS OLDER_EPOCHS"},
    {.name = "lr",
     OPTION_AT(OPTION_F64, double, lr),
     .fallback = "0.05",
     .min = 0,
     .max = 100,
     .metavar = "X",
     .help = "step size"},
    {.name = "model",
     OPTION_AT(OPTION_CHOICE, int, model),
     .fallback = "fm",
     .choices = "lr fm ffm",
     .help = "what to train"},
    {.name = "window",
     OPTION_AT(OPTION_SIZE, uint64_t, window),
     .fallback = "64M",
     .metavar = "SIZE",
     .help = "memory of the shuffle window"},
    {.name = "shuffle",
     OPTION_AT(OPTION_FLAG, bool, shuffle),
     .fallback = "true",
     .help = "mix the examples"},
    {.name = "json",
     OPTION_AT(OPTION_FLAG, bool, json),
     .help = "one JSON object at the end"},
    {.name = "csv.seed",
     OPTION_AT(OPTION_U64, uint64_t, seed),
     .metavar = "N",
     .help = "a dotted name"},
    {.name = "drop",
     OPTION_AT(OPTION_STRING, const char *, drop),
     .metavar = "COLUMN,...",
     .help = "columns to leave out"},
};

static const struct option other_list[] = {
    {.name = "rows",
     OPTION_AT(OPTION_U64, uint64_t, epochs),
     .metavar = "N",
     .help = "rows"},
    {.name = "epoch",
     OPTION_AT(OPTION_U64, uint64_t, epochs),
     .metavar = "N",
     .help = "of another"},
};

static const struct option_table other = {
    .command = "synth", .summary = "make data", .options = other_list, .n_options = 2};

static const struct option_table table;
static const struct option_table *const family[] = {&table, &other, NULL};
static const struct option_table table = {
    .command = "train",
    .summary = "train a model",
    .usage = "--data PATH... [options]",
    .about = "Reads and learns.",
    .examples = "tug train --data a.gz   # the least",
    .options = list,
    .n_options = sizeof(list) / sizeof(*list),
};

enum { DATA, OUT, EPOCHS, LR, MODEL, WINDOW, SHUFFLE, JSON, SEED };

static struct options *o;
static struct values v;
static struct err e;

// Parses words (the last one is NULL) without requiring --data.
static int parse(char *const *words)
{
    int n = 0;
    while (words[n])
        n++;
    options_close(o);
    o = NULL;
    e = (struct err){0};
    return options_parse(&o, &table, n, words, &v, OPTIONS_INCOMPLETE, &e);
}

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})
#define REFUSED(message, ...)                                                            \
    do {                                                                                 \
        assert_int_equal(PARSE(__VA_ARGS__), TUG_EUSAGE);                                \
        assert_string_equal(e.text, message);                                            \
    } while (0)

static int teardown(void **state)
{
    (void)state;
    options_close(o);
    o = NULL;
    unsetenv("TUG_EPOCHS");
    unsetenv("TUG_DATA");
    unsetenv("TUG_CONFIG");
    unsetenv("OLD_EPOCHS");
    unsetenv("OLDER_EPOCHS");
    unsetenv("TUG_EPOHCS");
    return 0;
}

static const char *text_of(size_t i)
{
    static char text[256];
    struct buf b = BUF_INIT(200);
    assert_int_equal(options_text(o, i, &b), 0);
    snprintf(text, sizeof(text), "%s", buf_str(&b));
    buf_free(&b);
    return text;
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse((char *[]){NULL}), 0);
    assert_int_equal(v.epochs, 10);
    assert_true(v.lr == 0.05);
    assert_int_equal(v.model, 1);
    assert_int_equal(v.window, 64 << 20);
    assert_true(v.shuffle);
    assert_false(v.json);
    assert_null(v.out);
    assert_int_equal(v.data.n, 0);
    assert_int_equal(options_source(o, EPOCHS), OPTION_DEFAULT);
    assert_string_equal(options_place(o, EPOCHS), "default");
    assert_string_equal(text_of(EPOCHS), "10");
    assert_string_equal(text_of(OUT), "");
    assert_false(options_given(o, "epochs"));
    assert_null(options_given_of_group(o, "Training"));
}

// Tests the first given option of a group, and that options without a heading belong to
// the group of the option before.
static void test_groups(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--lr", "1e-3", "--out", "x", "--json"), 0);
    assert_string_equal(options_given_of_group(o, "Data"), "out");
    assert_string_equal(options_given_of_group(o, "Training"), "lr");
}

static void test_words(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--data", "a", "-", "c", "--epochs=7", "--lr", "1e-3",
                           "--model", "ffm", "--window", "2GiB", "--no-shuffle", "--json",
                           "--data=d", "--out=", "--csv.seed", "1e3"),
                     0);
    assert_int_equal(v.data.n, 4);
    assert_string_equal(v.data.items[1], "-");
    assert_string_equal(v.data.items[3], "d");
    assert_string_equal(text_of(DATA), "a - c d");
    assert_int_equal(v.epochs, 7);
    assert_true(v.lr == 1e-3);
    assert_int_equal(v.model, 2);
    assert_true(v.window == (uint64_t)2 << 30);
    assert_false(v.shuffle);
    assert_true(v.json);
    assert_string_equal(v.out, "");
    assert_int_equal(v.seed, 1000);
    assert_string_equal(options_place(o, LR), "command line");
    assert_string_equal(text_of(LR), "1e-3");
    assert_true(options_given(o, "lr"));
    assert_string_equal(options_given_of_group(o, "Data"), "data");
    assert_string_equal(options_given_of_group(o, "Training"), "epochs");
    assert_null(options_given_of_group(o, "Saving")); // no option has this heading
    assert_int_equal(
        PARSE("--set", "epochs=3", "--set=data=x", "--json=off", "--epochs", "4"), 0);
    assert_int_equal(v.epochs, 4);
    assert_string_equal(v.data.items[0], "x");
    assert_false(v.json);
}

static void test_suggestions(void **state)
{
    (void)state;
    REFUSED("there is no option '--epocs'; did you mean '--epochs'?", "--epocs", "3");
    REFUSED("there is no option '--dtaa'; did you mean '--data'?", "--dtaa");
    REFUSED("there is no option '--win'; did you mean '--window'?", "--win=1");
    REFUSED("there is no option '--cofnig'; did you mean '--config'?", "--cofnig");
    REFUSED("there is no option '--no-epochs'; did you mean '--epochs'?", "--no-epochs");
    REFUSED("there is no option '--num-epochs'; did you mean '--epochs'?",
            "--num-epochs=3");
    REFUSED("there is no option '--n_estimators'; did you mean '--epochs'?",
            "--n_estimators=3");
    REFUSED("there is no option '--num_passes'; did you mean '--epochs'?",
            "--num_passes=10");
    REFUSED("there is no option '--banana'; 'tug train --help' lists them all",
            "--banana");
    REFUSED("--set: there is no option 'epoch'; did you mean 'epochs'?", "--set",
            "epoch=3");
    REFUSED("--model: 'fmm' is not one of: lr fm ffm; did you mean 'fm'?", "--model",
            "fmm");
    REFUSED("--model: 'banana' is not one of: lr fm ffm", "--model", "banana");
    char word[OPTION_NAME_MAX];
    options_nearest("trian", "train eval predict", word);
    assert_string_equal(word, "train");
    options_nearest("EVAL", "train eval predict", word); // case differences are not edits
    assert_string_equal(word, "eval");
    options_nearest("xyzzy", "train eval predict", word);
    assert_string_equal(word, "");
    char huge[300];
    memset(huge, 'x', sizeof(huge));
    huge[299] = 0;
    options_nearest(huge, "train", word);
    assert_string_equal(word, "");
}

static void test_bad_values(void **state)
{
    (void)state;
    REFUSED("--epochs: 'ten' is not a whole number, 1 to 1000", "--epochs", "ten");
    REFUSED("--epochs: '0' is not a whole number, 1 to 1000", "--epochs", "0");
    REFUSED("--epochs: '1001' is not a whole number, 1 to 1000", "--epochs", "1001");
    REFUSED("--epochs: '-1' is not a whole number, 1 to 1000", "--epochs", "-1");
    REFUSED("--epochs: '1.5' is not a whole number, 1 to 1000", "--epochs", "1.5");
    REFUSED("--epochs: '' is not a whole number, 1 to 1000", "--epochs=");
    REFUSED("--epochs: '99999999999999999999' is not a whole number, 1 to 1000",
            "--epochs", "99999999999999999999");
    REFUSED("--lr: 'nan' is not a number, 0 to 100", "--lr", "nan");
    REFUSED("--lr: ' 1' is not a number, 0 to 100", "--lr", " 1");
    REFUSED("--lr: '1x' is not a number, 0 to 100", "--lr", "1x");
    REFUSED("--window: '1Q' is not a size in bytes (as 64K, 512M or 2G)", "--window",
            "1Q");
    REFUSED("--window: '99999999999G' is not a size in bytes (as 64K, 512M or 2G)",
            "--window", "99999999999G");
    REFUSED("--json: 'maybe' is not yes or no", "--json=maybe");
    REFUSED("--out needs a value, DIR: where to", "--out");
    REFUSED("--out needs a value, DIR: where to", "--out", "--json");
    REFUSED("--model needs a value, lr fm ffm: what to train", "--model");
    REFUSED("--data needs a value, PATH...: what to read", "--data");
    REFUSED("--set takes NAME=VALUE, not 'epochs'", "--set", "epochs");
    REFUSED("unexpected argument 'stray'; did you mean --data stray?", "stray");
    REFUSED("unexpected argument 'off'; write --json=off", "--json", "off");
    REFUSED("there is no option '-x'; options begin with two dashes", "-x");
    // Names of other programs' options; the word after such a name counts as its value.
    REFUSED("there is no option '-d'; did you mean '--data'?", "-d", "a");
    REFUSED("there is no option '-r'; did you mean '--lr'?", "-r", "0.2");
    REFUSED("there is no option '-epoch'; did you mean '--epochs'?", "-epoch", "3");
    REFUSED("there is no option '--learning_rate'; did you mean '--lr'?",
            "--learning_rate", "1");
    REFUSED("--model: 'linear' is not one of: lr fm ffm; did you mean 'lr'?", "--model",
            "linear");
    // A word of a dash and a letter is not taken as a value: neither of the list before
    // it, nor of an unknown option.
    REFUSED("there is no option '-r'; did you mean '--lr'?", "--data", "a", "-r", "0.2");
    REFUSED(
        "2 problems: (1) there is no option '--banana'; 'tug train --help' lists them "
        "all (2) there is no option '-r'; did you mean '--lr'?",
        "--banana", "3", "-r", "0.2");
    REFUSED(
        "there is no option '--holdout_off': no examples are held out without --valid",
        "--holdout_off");
    assert_int_equal(PARSE("--data", "a", "-", "-1"), 0);
    assert_int_equal(v.data.n, 3);
}

static void test_all_problems(void **state)
{
    (void)state;
    // The word after a wrong option counts as its value.
    REFUSED("4 problems: (1) there is no option '--epocs'; did you mean '--epochs'? (2) "
            "--lr: 'x' is not a number, 0 to 100 (3) unexpected argument 'stray'; "
            "did you mean --data stray? (4) --out needs a value, DIR: where to",
            "--epocs", "3", "--lr", "x", "--json=on", "stray", "--out");
    REFUSED("--config needs a value, FILE", "--config");
    setenv("TUG_EPOCHS", "zero", 1);
    REFUSED("2 problems: (1) TUG_EPOCHS: 'zero' is not a whole number, 1 to 1000 (2) "
            "--out needs a value, DIR: where to",
            "--out");
    unsetenv("TUG_EPOCHS");
    char *words[1000];
    for (int i = 0; i < 999; i++)
        words[i] = "--banana";
    words[999] = NULL;
    assert_int_equal(parse(words), TUG_EUSAGE);
    assert_ptr_equal(strstr(e.text, "999 problems: (1) there is no option '--banana'"),
                     e.text);
}

static void test_required(void **state)
{
    (void)state;
    assert_int_equal(options_parse(&o, &table, 0, NULL, &v, 0, &e), TUG_EUSAGE);
    assert_string_equal(
        e.text,
        "--data PATH... is missing (what to read); 'tug train --help' tells more");
    assert_int_equal(options_parse(&o, &table, 1, (char *[]){"--help"}, &v, 0, &e), 0);
    assert_true(options_help_wanted(o));
}

static void test_environment(void **state)
{
    (void)state;
    setenv("TUG_EPOCHS", "5", 1);
    setenv("OLD_EPOCHS", "6", 1);
    setenv("TUG_DATA", "a,,b", 1);
    assert_int_equal(parse((char *[]){NULL}), 0);
    assert_int_equal(v.epochs, 5);
    assert_string_equal(options_place(o, EPOCHS), "TUG_EPOCHS");
    assert_int_equal(v.data.n, 2);
    assert_string_equal(v.data.items[1], "b");
    assert_int_equal(PARSE("--epochs", "9", "--data", "c"), 0);
    assert_int_equal(v.epochs, 9);
    assert_int_equal(v.data.n, 1); // a later source replaces the list
    unsetenv("TUG_EPOCHS");
    unsetenv("OLD_EPOCHS");
    setenv("OLDER_EPOCHS", "8", 1);
    assert_int_equal(parse((char *[]){NULL}), 0);
    assert_int_equal(v.epochs, 8);
    assert_string_equal(options_place(o, EPOCHS), "OLDER_EPOCHS");
    setenv("TUG_EPOCHS", "zero", 1);
    assert_int_equal(parse((char *[]){NULL}), TUG_EUSAGE);
    assert_string_equal(e.text, "TUG_EPOCHS: 'zero' is not a whole number, 1 to 1000");
    unsetenv("TUG_EPOCHS");
}

static void test_environment_typo(void **state)
{
    (void)state;
    setenv("TUG_EPOHCS", "5", 1);
    assert_int_equal(parse((char *[]){NULL}), TUG_EUSAGE);
    assert_string_equal(
        e.text,
        "environment: there is no option 'TUG_EPOHCS'; did you mean 'TUG_EPOCHS'?");
    unsetenv("TUG_EPOHCS");
    // An option of another command, and a variable of another program, are ignored.
    setenv("TUG_EPOCH", "5", 1);
    setenv("TUG_SERVICE_HOST", "10.0.0.1", 1);
    assert_int_equal(parse((char *[]){NULL}), 0);
    unsetenv("TUG_EPOCH");
    unsetenv("TUG_SERVICE_HOST");
}

static char path[64];

static int file_setup(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/tug_options_%d.yaml", (int)getpid());
    return 0;
}

static int file_teardown(void **state)
{
    unlink(path);
    return teardown(state);
}

static int parse_file(const char *yaml)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(yaml, 1, strlen(yaml), f), strlen(yaml));
    assert_int_equal(fclose(f), 0);
    return PARSE("--config", path);
}

static void test_file(void **state)
{
    (void)state;
    assert_int_equal(
        parse_file("# a comment\nepochs: 3\ndata: [a, b]\ntrain:\n  lr: 0.5\n"
                   "  model: lr\nsynth:\n  rows: 5\n  epoch: [1, 2]\n"
                   "csv: {seed: 4}\nout: \"null\"\njson: yes\n"),
        0);
    char place[96];
    snprintf(place, sizeof(place), "%s:2", path);
    assert_string_equal(options_place(o, EPOCHS), place);
    assert_int_equal(options_source(o, EPOCHS), OPTION_FILE);
    assert_int_equal(v.epochs, 3);
    assert_int_equal(v.data.n, 2);
    assert_true(v.lr == 0.5);
    assert_int_equal(v.model, 0);
    assert_int_equal(v.seed, 4);
    assert_string_equal(v.out, "null");
    assert_true(v.json);
    setenv("TUG_CONFIG", path, 1);
    setenv("TUG_EPOCHS", "4", 1);
    assert_int_equal(PARSE("--lr", "2"), 0);
    assert_int_equal(v.epochs, 4); // the environment wins over the file
    assert_true(v.lr == 2);        // the command line wins over both
    assert_int_equal(v.model, 0);
    unsetenv("TUG_EPOCHS");
    static const char *const lists[] = {"drop: [id, day]\n", "drop:\n- id\n- day\n",
                                        "drop: id,day\n"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(parse_file(lists[i]), 0);
        assert_string_equal(v.drop, "id,day");
    }
    assert_int_equal(parse_file(""), 0);
    assert_int_equal(parse_file("# nothing\n"), 0);
    assert_int_equal(parse_file("data: one\n"), 0);
    assert_int_equal(v.data.n, 1);
}

static void file_refused(const char *yaml, int code, const char *message)
{
    char want[512];
    snprintf(want, sizeof(want), "%s:%s", path, message);
    assert_int_equal(parse_file(yaml), code);
    assert_string_equal(e.text, want);
}

static void test_bad_file(void **state)
{
    (void)state;
    file_refused("epocs: 3\n", TUG_EUSAGE,
                 "1: there is no option 'epocs'; did you mean 'epochs'?");
    file_refused("\nepochs: ten\n", TUG_EUSAGE,
                 "2: epochs: 'ten' is not a whole number, 1 to 1000");
    file_refused("synth: {row: 3}\n", TUG_EUSAGE,
                 "1: there is no option 'row'; did you mean 'rows'?");
    file_refused("epochs: 3\nepochs: 4\n", TUG_EUSAGE, "2: epochs is given twice");
    file_refused("epochs: [1, 2]\n", TUG_EUSAGE, "1: epochs takes one value, not a list");
    file_refused("epochs:\n", TUG_EUSAGE, "1: epochs has no value");
    file_refused("drop: []\n", TUG_EUSAGE, "1: drop has no value");
    file_refused("drop: [[a]]\n", TUG_EUSAGE,
                 "1: the items of a list must be plain values; a configuration consists "
                 "of lines 'name: value'");
    file_refused("lr: 1\ndrop: [id, 'a,b']\n", TUG_EUSAGE,
                 "2: drop: the item 'a,b' has a comma, which separates items");
    file_refused(
        "[1, 2]\n", TUG_EUSAGE,
        "1: this is not a mapping; a configuration consists of lines 'name: value'");
    file_refused("a: {b: {c: 1}}\n", TUG_EUSAGE,
                 "1: nested too deep; a configuration consists of lines 'name: value'");
    file_refused(
        "epochs: &x 3\nlr: *x\n", TUG_EUSAGE,
        "2: aliases are not supported; a configuration consists of lines 'name: value'");
    file_refused("epochs: 3\n---\nepochs: 4\n", TUG_EUSAGE,
                 "2: a second document; a configuration consists of lines 'name: value'");
    file_refused("data: [[1]]\n", TUG_EUSAGE,
                 "1: the items of a list must be plain values; a configuration consists "
                 "of lines 'name: value'");
    file_refused(
        "out: \"a\\0b\"\n", TUG_EUSAGE,
        "1: a zero byte in a value; a configuration consists of lines 'name: value'");
    assert_int_equal(parse_file("epocs: 3\nlr: [1]\nepochs: 5\n"), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "1: there is no option 'epocs'"));
    assert_non_null(strstr(e.text, "2: lr takes one value, not a list"));
    assert_int_equal(PARSE("--config", "trainer_config.py"), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "'trainer_config.py' is a Python file"));
    assert_int_equal(parse_file("data: [1\n"), TUG_EDATA);
    assert_int_equal(parse_file("epochs: \xff\n"), TUG_EDATA);
    assert_int_equal(PARSE("--config", "/nonexistent/x.yaml"), TUG_EDATA);
    assert_non_null(strstr(e.text, "/nonexistent/x.yaml"));
}

static void test_operands(void **state)
{
    (void)state;
    static struct option_table t; // static, because teardown closes options that use it
    t = table;
    t.operands = "data";
    assert_int_equal(
        options_parse(&o, &t, 4, (char *[]){"a", "--json", "b", "--"}, &v, 0, &e), 0);
    assert_int_equal(v.data.n, 2);
    options_close(o);
    assert_int_equal(
        options_parse(&o, &t, 3, (char *[]){"--", "--help", "-x"}, &v, 0, &e), 0);
    assert_false(options_help_wanted(o));
    assert_string_equal(v.data.items[0], "--help");
}

static void test_help(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    assert_int_equal(options_help(&table, 0, &b), 0);
    const char *s = buf_str(&b);
    assert_non_null(strstr(s, "usage: tug train --data PATH... [options]"));
    assert_non_null(strstr(s, "passes over the data (default 10, 1 to 1000)"));
    assert_non_null(strstr(s, "--model lr|fm|ffm"));
    assert_non_null(strstr(s, "--[no-]shuffle"));
    assert_non_null(strstr(s, "\nExamples\n  tug train --data a.gz"));
    for (const char *line = s; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 80);
    buf_clear(&b);
    assert_int_equal(options_help(&table, 48, &b), 0);
    s = buf_str(&b);
    const char *examples = strstr(s, "\nExamples\n");
    for (const char *line = s; line < examples; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 48);
    buf_clear(&b);
    assert_int_equal(options_scdoc(&table, &b), 0);
    assert_non_null(strstr(buf_str(&b), "tug-train(1)\n\n# NAME\n"));
    buf_free(&b);
}

static void test_no_memory(void **state)
{
    (void)state;
    assert_int_equal(parse_file("epochs: 3\ndata: [a, b]\n"), 0);
    options_close(o);
    o = NULL;
    size_t before = mem_live();
    for (long n = 0;; n++) {
        setenv("TUG_DATA", "x,y,z", 1);
        mem_fault_after(n);
        int rc = PARSE("--config", path, "--lr", "1", "--data", "a", "b");
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        if (rc == 0)
            assert_false(faulted);
        else
            assert_int_equal(rc, TUG_ENOMEM);
        options_close(o);
        o = NULL;
        assert_int_equal(mem_live(), before);
        if (!faulted)
            break;
    }
    for (long n = 0;; n++) {
        struct buf b = BUF_INIT(1 << 16);
        mem_fault_after(n);
        int rc = options_help(&table, 0, &b);
        rc = rc ? rc : options_scdoc(&table, &b);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        buf_free(&b);
        assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
        assert_int_equal(mem_live(), before);
        if (!faulted)
            break;
    }
}

// A copy takes values only for options that were not given, and does not change the
// original.
static void test_copy(void **state)
{
    (void)state;
    struct options *copy;
    assert_int_equal(PARSE("--data", "a", "--epochs", "3"), 0);
    struct values w = v;
    assert_int_equal(options_copy(&copy, o, &w, &e), 0);
    assert_int_equal(options_fill(copy, "epochs", "7", "a save", &e), 0);
    assert_int_equal(options_fill(copy, "model", "ffm", "a save", &e), 0);
    assert_int_equal(options_fill(copy, "model", "nosuch", "a save", &e), 0);
    assert_int_equal(options_fill(copy, "out", "dir", "a save", &e), 0);
    assert_int_equal(options_fill(copy, "window", "much", "a save", &e), TUG_EUSAGE);
    assert_int_equal(w.epochs, 3);
    assert_int_equal(w.model, 2);
    assert_string_equal(w.out, "dir");
    assert_string_equal(w.data.items[0], "a");
    assert_true(options_given(copy, "model") && !options_said(copy, "model"));
    assert_true(!options_given(o, "model") && v.model == 1 && v.out == NULL);
    options_close(copy);
    assert_string_equal(v.data.items[0], "a");
}

int main(void)
{
    options_family = family;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_defaults, teardown),
        cmocka_unit_test_teardown(test_groups, teardown),
        cmocka_unit_test_teardown(test_copy, teardown),
        cmocka_unit_test_teardown(test_words, teardown),
        cmocka_unit_test_teardown(test_suggestions, teardown),
        cmocka_unit_test_teardown(test_bad_values, teardown),
        cmocka_unit_test_teardown(test_required, teardown),
        cmocka_unit_test_teardown(test_all_problems, teardown),
        cmocka_unit_test_teardown(test_environment, teardown),
        cmocka_unit_test_teardown(test_environment_typo, teardown),
        cmocka_unit_test_setup_teardown(test_file, file_setup, file_teardown),
        cmocka_unit_test_setup_teardown(test_bad_file, file_setup, file_teardown),
        cmocka_unit_test_teardown(test_operands, teardown),
        cmocka_unit_test_teardown(test_help, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, file_setup, file_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
