// The results of training do not change: the tables of each model, update rule and mode
// have the checksums in frozen.txt.
//
// Each line of frozen.txt is `MODEL RULE MODE CHECKSUM`. The checksum is XXH3 of the
// exported rows: first the rows of all features, with the rule's state, then the row of
// the bias. The lines above the rows, which describe the columns, are left out. If
// TUG_FROZEN_WRITE is in the environment, the test writes the file anew instead of
// comparing. CONTRIBUTING.md says when writing it is allowed. All runs use the reference
// kernels, so that one file serves every CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "base/buf.h"
#include "base/hash.h"
#include "kit/processes.h"
#include "os/file.h"

static const char path[] = TUG_TESTS_FOLDER "/e2e/frozen.txt";
enum { LONGEST = 1 << 16 };

static const char *const models[] = {"lr", "fm", "ffm"};

static const struct rule {
    const char *name;
    // Whether this rule is also tested on a cluster, which takes longer and is therefore
    // done for a few rules only.
    bool on_cluster;
} rules[] = {
    {"sgd", false},     {"momentum", false}, {"adagrad", false}, {"adagrad-row", true},
    {"rmsprop", false}, {"adam", true},      {"ftrl", true},
};

static const struct mode {
    const char *name;
    unsigned servers, workers; // 0 if the run is one process
    const char *options;
} modes[] = {
    {"one-thread", 0, 0, "--deterministic --threads 1"},
    {"three-threads", 0, 0, "--deterministic --threads 3"},
    {"table", 0, 0,
     "--deterministic --threads 2 "
     "--table accessor=ctr;entry=count:3;embedx-threshold=10"},
    {"sync-1x1", 1, 1, "--mode sync"},
    {"sync-2x2", 2, 2, "--mode sync"},
    {"ssp:0-1x1", 1, 1, "--mode ssp:0 --threads 1"},
};

#define LENGTH(a) (sizeof(a) / sizeof(*(a)))

static void train(const char *model, const char *rule, const struct mode *mode)
{
    const char *format = strcmp(model, "ffm") == 0 ? "libffm" : "libsvm";
    const char *words = files_path("train --data data.%s --format %s --data-in memory "
                                   "--epochs 2 --batch 50 --model %s --optimizer %s "
                                   "--out out %s",
                                   format, format, model, rule, mode->options);
    files_remove("out");
    if (mode->servers == 0) {
        tug_ends(0, "%s", words);
        return;
    }
    cluster_start("run", "launch --servers %u --workers %u -- %s", mode->servers,
                  mode->workers, words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text != 0; text++)
        n += *text == '\n';
    return n;
}

static const char *without_head(const char *text)
{
    while (*text == '#')
        text += strcspn(text, "\n") + 1;
    return text;
}

static uint64_t checksum(void)
{
    static const char *const tables[] = {"sparse", "dense"};
    // The fewest rows of each table: the data has 96 features.
    static const size_t least[] = {90, 1};
    struct hash_stream h;
    hash_stream_begin(&h, 0);
    for (size_t i = 0; i < LENGTH(tables); i++) {
        tug_ends(0, "table export --state --from out --table %s", tables[i]);
        const char *rows = without_head(e2e_out);
        if (count_lines(rows) < least[i])
            fail_msg("table %s has too few rows to say anything: %s", tables[i], e2e_out);
        hash_stream_add(&h, rows, strlen(rows));
    }
    return hash_stream_end(&h);
}

static void train_all(struct buf *ret_lines)
{
    for (size_t m = 0; m < LENGTH(models); m++)
        for (const struct rule *r = rules; r < rules + LENGTH(rules); r++)
            for (const struct mode *mode = modes; mode < modes + LENGTH(modes); mode++) {
                if (mode->servers > 0 && !r->on_cluster)
                    continue;
                train(models[m], r->name, mode);
                assert_int_equal(buf_printf(ret_lines, "%s %s %s %016" PRIx64 "\n",
                                            models[m], r->name, mode->name, checksum()),
                                 0);
            }
}

// Prints the lines of `lines` that `in` does not have, and returns their number.
static size_t show_missing(const char *lines, const char *in, const char *what)
{
    size_t missing = 0;
    for (size_t n; *lines != 0; lines += n) {
        n = strcspn(lines, "\n") + 1;
        char line[128];
        assert_in_range(snprintf(line, sizeof(line), "%.*s", (int)n, lines), n, n);
        if (strstr(in, line) != NULL)
            continue;
        print_error("%s: %s", what, line);
        missing++;
    }
    return missing;
}

static bool write_anew;

static void tables_are_as_frozen(void **state)
{
    (void)state;
    struct buf now = BUF_INIT(LONGEST), frozen = BUF_INIT(LONGEST);
    struct err e = {0};
    train_all(&now);
    if (write_anew)
        files_write(path, buf_str(&now));
    if (file_read(path, &frozen, &e) != 0)
        fail_msg("%s", e.text);
    size_t differ = show_missing(buf_str(&frozen), buf_str(&now), "frozen") +
                    show_missing(buf_str(&now), buf_str(&frozen), "now");
    buf_free(&now);
    buf_free(&frozen);
    assert_int_equal(differ, 0);
}

static int begin(void **state)
{
    // Read before cluster_begin removes the variable.
    write_anew = getenv("TUG_FROZEN_WRITE") != NULL;
    if (cluster_begin(state) != 0)
        return -1;
    setenv("TUG_KERNELS", "ref", 1);
    e2e_write_data(&(struct e2e_data){.path = "data.libsvm", .rows = 400, .seed = 1});
    e2e_write_data(&(struct e2e_data){
        .path = "data.libffm", .rows = 400, .seed = 1, .fields = true});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cluster_test(tables_are_as_frozen)};
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
