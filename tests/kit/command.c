// Runs the command, and reads its output.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/random.h"
#include "os/file.h"
#include "os/json.h"

enum { MAX_WORDS = 96, MAX_FILES = 300 };

extern char **environ;

char *e2e_out, *e2e_err;
const char *e2e_stdin;
uint64_t e2e_file_limit;
static const char *binary;

// ---------------------------------------------------------------- the folder

// Removes the options that the user has set in the environment, so that they do not reach
// the tests.
static void clean_environment(void)
{
    static const char *const ours[] = {"TUG_BINARY", "TUG_SHARED"};
    for (char **v = environ; *v != NULL;) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*v, "="), *v);
        bool keep = strncmp(name, "TUG_", 4) != 0;
        for (size_t i = 0; i < 2; i++)
            keep |= strcmp(name, ours[i]) == 0;
        if (keep)
            v++;
        else
            unsetenv(name); // this moves the later variables up
    }
}

int e2e_begin(void **state)
{
    binary = getenv("TUG_BINARY");
    if (binary == NULL || access(binary, X_OK) != 0) {
        fprintf(stderr, "TUG_BINARY does not name the command\n");
        return -1;
    }
    clean_environment();
    return files_begin(state) == 0 && chdir(files_dir) == 0 ? 0 : -1;
}

int e2e_end(void **state)
{
    mem_free(e2e_out);
    mem_free(e2e_err);
    return chdir("/") == 0 && files_end(state) == 0 ? 0 : -1;
}

// ---------------------------------------------------------------- processes

static void open_as(int fd, const char *path, int flags)
{
    int opened = open(path, flags, 0600);
    if (opened < 0 || dup2(opened, fd) < 0)
        _exit(126);
    close(opened);
}

static pid_t start(char *words)
{
    char *argv[MAX_WORDS] = {"tug"};
    int n = 1;
    for (char *w = strsep(&words, " "); w != NULL && n < MAX_WORDS - 1;
         w = strsep(&words, " "))
        if (*w != 0)
            argv[n++] = w;
    unlink(".out");
    unlink(".err"); // so that no test reads the output of the previous command
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    open_as(0, e2e_stdin != NULL ? e2e_stdin : "/dev/null", O_RDONLY);
    open_as(1, ".out", O_WRONLY | O_CREAT | O_TRUNC);
    open_as(2, ".err", O_WRONLY | O_CREAT | O_TRUNC);
    struct rlimit limit = {e2e_file_limit, e2e_file_limit};
    if (e2e_file_limit != 0 && setrlimit(RLIMIT_FSIZE, &limit) != 0)
        _exit(126);
    execv(binary, argv);
    _exit(127);
}

static pid_t start_words(const char *words, va_list args)
{
    char line[8192];
    int n = vsnprintf(line, sizeof(line), words, args);
    assert_in_range(n, 1, sizeof(line) - 1);
    pid_t pid = start(line);
    assert_true(pid > 0);
    return pid;
}

pid_t tug_start(const char *words, ...)
{
    va_list args;
    va_start(args, words);
    pid_t pid = start_words(words, args);
    va_end(args);
    return pid;
}

void e2e_collect(char **text, const char *path)
{
    mem_free(*text);
    *text = files_read(path, NULL);
    assert_non_null(*text);
}

bool e2e_sanitizer_complains(void)
{
    return strstr(e2e_err, "Sanitizer") != NULL ||
           strstr(e2e_err, "runtime error:") != NULL;
}

int e2e_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int tug_finish(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    e2e_collect(&e2e_out, ".out");
    e2e_collect(&e2e_err, ".err");
    if (e2e_sanitizer_complains())
        fail_msg("%s", e2e_err);
    return e2e_status(status);
}

int tug(const char *words, ...)
{
    va_list args;
    va_start(args, words);
    pid_t pid = start_words(words, args);
    va_end(args);
    return tug_finish(pid);
}

void tug_ends(int code, const char *words, ...)
{
    va_list args;
    va_start(args, words);
    pid_t pid = start_words(words, args);
    va_end(args);
    int ended = tug_finish(pid);
    if (ended != code)
        fail_msg("exit status %d instead of %d\ncommand: %s\nstandard error: %s", ended,
                 code, words, e2e_err);
}

void e2e_says(const char *text)
{
    if (strstr(e2e_err, text) == NULL)
        fail_msg("'%s' is not in: %s", text, e2e_err);
}

json_t *e2e_json(void)
{
    size_t n = strlen(e2e_out);
    assert_true(n > 0 && e2e_out[n - 1] == '\n');
    const char *line = e2e_out + n - 1;
    while (line > e2e_out && line[-1] != '\n')
        line--;
    json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(o))
        fail_msg("the last line is not a JSON object: %s", line);
    return o;
}

double e2e_number(const char *name)
{
    json_t *o = e2e_json();
    const json_t *v = json_object_get(o, name);
    assert_non_null(v);
    double x = json_is_number(v) ? json_number_value(v) : (double)NAN;
    json_decref(o);
    return x;
}

// ---------------------------------------------------------------- models

const char *e2e_newest(const char *out)
{
    char names[MAX_FILES][64];
    for (size_t n = files_list(out, names, MAX_FILES); n > 0; n--)
        if (files_exists(files_path("%s/%s/manifest.json", out, names[n - 1])))
            return files_path("%s/%s", out, names[n - 1]);
    fail_msg("%s holds no save", out);
    return NULL;
}

// Reads a manifest, and removes the members on which the rows do not depend: the
// names of the data's files, because data in another place may have another name,
// and the plan of the run.
static json_t *read_manifest(const char *path)
{
    json_t *root = NULL;
    json_begin();
    if (json_read_file(FILE_ANYWHERE, path, 16 << 20, &root, NULL) != 0)
        return NULL;
    json_object_del(json_object_get(root, "about"), "data");
    json_object_del(json_object_get(root, "about"), "plan");
    json_object_del(root, "checksum");
    json_object_del(root, "number"); // the save's number in its directory
    return root;
}

static bool same_manifests(const char *a, const char *b)
{
    json_t *x = read_manifest(a), *y = read_manifest(b);
    bool same = x != NULL && json_equal(x, y);
    json_decref(x);
    json_decref(y);
    return same;
}

// Returns whether both histories have the same passes with the same number of examples.
// Times may differ, and so may sums that depend on the threads.
static bool same_histories(const char *a, const char *b)
{
    const char *const paths[2] = {a, b};
    char *text[2], *at[2];
    bool same = true;
    for (int i = 0; i < 2; i++)
        at[i] = text[i] = files_read(paths[i], &(size_t){0});
    while (same && text[0] != NULL && text[1] != NULL && *at[0] != '\0') {
        size_t n = strcspn(at[0], "l"); // "pass" and "examples" stand before "loss"
        same = strncmp(at[0], at[1], n) == 0;
        for (int i = 0; i < 2 && same; i++)
            at[i] += strcspn(at[i], "\n") + 1;
    }
    same = same && text[0] != NULL && text[1] != NULL && *at[1] == '\0';
    mem_free(text[0]);
    mem_free(text[1]);
    return same;
}

static bool same_files(const char *name, const char *a, const char *b)
{
    if (strcmp(name, "run.json") == 0) // run.json has the time and place of the run
        return true;
    if (strcmp(name, "history.jsonl") == 0)
        return same_histories(a, b);
    return strcmp(name, "manifest.json") == 0 ? same_manifests(a, b) : files_same(a, b);
}

// Returns the name of the first file that differs; NULL if none does.
static const char *first_difference(const char *a, const char *b)
{
    static char names[2][MAX_FILES][64];
    char at[2][FILES_PATH]; // more paths are made below than files_path remembers
    snprintf(at[0], sizeof(at[0]), "%s", e2e_newest(a));
    snprintf(at[1], sizeof(at[1]), "%s", e2e_newest(b));
    size_t n = files_list(at[0], names[0], MAX_FILES);
    if (files_list(at[1], names[1], MAX_FILES) != n)
        return "the list of files";
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[0][i], names[1][i]) != 0 ||
            !same_files(names[0][i], files_path("%s/%s", at[0], names[0][i]),
                        files_path("%s/%s", at[1], names[1][i])))
            return names[0][i];
    return NULL;
}

void e2e_same_model(const char *a, const char *b)
{
    const char *file = first_difference(a, b);
    if (file != NULL)
        fail_msg("%s differs between the newest saves of %s and %s", file, a, b);
}

bool e2e_models_differ(const char *a, const char *b)
{
    return first_difference(a, b) != NULL;
}

// ---------------------------------------------------------------- data

enum { FEATURES = 90, FIELDS = 12 };

// Returns the score of a row: odd features raise it, and the product of the first two
// fields matters.
static double planted_score(const unsigned feature[FIELDS], uint64_t seed, size_t row)
{
    double score = -0.5;
    for (int f = 0; f < FIELDS; f++)
        score += (random_f64(7, 1, feature[f]) - 0.5) * 2;
    score += feature[0] % 2 == feature[1] % 2 ? 1.5 : -1.5;
    return score + (random_f64(seed, 2, row) - 0.5) * 2;
}

static void write_row(FILE *f, const struct e2e_data *d, size_t row)
{
    unsigned feature[FIELDS];
    for (unsigned i = 0; i < FIELDS; i++) {
        uint64_t at = random_below(d->seed, 3, row * FIELDS + i, FEATURES / FIELDS + 1);
        feature[i] = 1 + i * (FEATURES / FIELDS + 1) + (unsigned)at;
    }
    bool label = planted_score(feature, d->seed, row) > 0;
    if (d->flip != NULL && d->flip(row))
        label = !label;
    fputs(label ? "1" : "0", f);
    for (unsigned i = 0; i < FIELDS; i++) {
        double value = i % 3 == 0 ? 0.5 + random_f64(d->seed, 4, row * FIELDS + i) : 1;
        if (d->fields)
            fprintf(f, " %u:%u:%.4g", i, feature[i], value);
        else
            fprintf(f, " %u:%.4g", feature[i], value);
    }
    if (d->padding > 0)
        fprintf(f, " #%*s", (int)d->padding, "");
    fputc('\n', f);
}

void e2e_write_data(const struct e2e_data *d)
{
    FILE *f = fopen(d->path, "w");
    assert_non_null(f);
    for (size_t row = 0; row < d->rows; row++)
        write_row(f, d, row);
    assert_int_equal(fclose(f), 0);
}

// ---------------------------------------------------------------- AUC

struct scored_label {
    double score;
    bool label;
};

static int by_score(const void *a, const void *b)
{
    double x = ((const struct scored_label *)a)->score;
    double y = ((const struct scored_label *)b)->score;
    return (x > y) - (x < y);
}

static double auc_of(struct scored_label *s, size_t n)
{
    qsort(s, n, sizeof(*s), by_score);
    double pairs = 0, positives = 0, negatives = 0;
    for (size_t i = 0, j; i < n; i = j) {
        double p = 0, q = 0;
        for (j = i; j < n && s[j].score == s[i].score; j++)
            *(s[j].label ? &p : &q) += 1;
        pairs += p * (negatives + q / 2);
        positives += p;
        negatives += q;
    }
    return pairs / (positives * negatives);
}

double e2e_auc(const char *data)
{
    char *text = files_read(data, NULL);
    assert_non_null(text);
    size_t cap = strlen(text) / 2 + 1, n = 0;
    struct scored_label *s = mem_array(cap, sizeof(*s));
    assert_non_null(s);
    const char *line = text, *number = e2e_out;
    for (; *line != 0 && *number != 0; n++) {
        char *end;
        s[n].label = strtod(line, &end) > 0;
        s[n].score = strtod(number, &end);
        assert_int_equal(*end, '\n');
        number = end + 1;
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    assert_int_equal(*line, 0); // one prediction for each line, and no more
    assert_int_equal(*number, 0);
    double auc = auc_of(s, n);
    mem_free(s);
    mem_free(text);
    return auc;
}
