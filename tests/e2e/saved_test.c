// Model directories: a damaged file is refused by its name, unfinished saves are ignored,
// a full disk keeps older saves, and no run overwrites another.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

#include <sys/stat.h>

static const char *const train =
    "train --data data.svm --format libsvm --model fm --dim 3 "
    "--epochs 2 --deterministic --batch 64";

// Trains a model that has files for eval (`model-*`) and files that only a resumed run
// needs (`training-*`).
static void make_model(const char *out)
{
    files_remove(out);
    tug_ends(0, "%s --valid 0.3 --lr 2 --epochs 6 --patience 0 --out %s", train, out);
}

static int eval(const char *from)
{
    return tug("eval --from %s --data data.svm --json", from);
}

// ---------------------------------------------------------------- damage

static void refuses(const char *file)
{
    tug_ends(3, "eval --from bad --data data.svm");
    e2e_says(file);
    tug_ends(3, "table export --from bad --table %s",
             strncmp(file, "dense", 5) == 0 ? "dense" : "sparse");
    e2e_says(file);
    tug_ends(3,
             "train --data data.svm --format libsvm --model fm --dim 3 --init-from bad");
    e2e_says(file);
}

static void damage_part(const char *good, const char *name)
{
    const char *path = files_path("bad/save-000001/%s", name);
    size_t n;
    char *text = files_read(files_path("%s/%s", good, name), &n);
    // Flips one bit: in the header, in the middle, or in the last byte.
    const size_t at[] = {0, 9, 20, n / 2, n - 1};
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        text[at[i]] = (char)(text[at[i]] ^ 4);
        files_write_bytes(path, text, n);
        text[at[i]] = (char)(text[at[i]] ^ 4);
        refuses(name);
    }
    const size_t sizes[] = {0, 1, 24, n / 2, n - 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        files_write_bytes(path, text, sizes[i]);
        refuses(name);
    }
    files_remove(path);
    refuses(name);
    files_write_bytes(path, text, n);
    assert_int_equal(eval("bad"), 0);
    mem_free(text);
}

// Damages a file that --resume needs and eval does not.
static void damage_training_part(const char *name)
{
    size_t size;
    char *text = files_read(files_path("bad/save-000001/%s", name), &size);
    files_write(files_path("bad/save-000001/%s", name), "damaged");
    assert_int_equal(eval("bad"), 0);
    tug_ends(3, "%s --valid 0.3 --lr 2 --epochs 7 --out bad --resume", train);
    e2e_says(name);
    files_write_bytes(files_path("bad/save-000001/%s", name), text, size);
    mem_free(text);
}

static void damaged_parts(void **state)
{
    (void)state;
    make_model("good");
    char names[32][64];
    const char *good = "good/save-000001";
    files_remove("bad");
    files_copy_dir("good", "bad");
    size_t n = files_list(good, names, 32), model = 0, training = 0;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], "training-", 9) == 0) {
            training++;
            damage_training_part(names[i]);
        } else if (strstr(names[i], ".rows") != NULL) {
            model++;
            damage_part(good, names[i]);
        }
    }
    assert_true(model >= 2 && training >= 2);
}

// Files of another save have other checksums, so they are refused.
static void exchanged_parts(void **state)
{
    (void)state;
    make_model("good");
    files_remove("other");
    tug_ends(0, "%s --seed 9 --out other", train);
    files_remove("bad");
    files_copy_dir("good", "bad");
    size_t n;
    char *text = files_read("other/save-000001/sparse-0.rows", &n);
    files_write_bytes("bad/save-000001/sparse-0.rows", text, n);
    mem_free(text);
    refuses("sparse-0.rows");
}

static void replace(const char *path, const char *from, const char *to)
{
    size_t n;
    char *text = files_read(path, &n), *at = strstr(text, from),
         *changed = mem_alloc(n + 100);
    assert_non_null(at);
    assert_non_null(changed);
    snprintf(changed, n + 100, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    files_write(path, changed);
    mem_free(changed);
    mem_free(text);
}

static void damaged_manifest(void **state)
{
    (void)state;
    make_model("good");
    files_remove("bad");
    files_copy_dir("good", "bad");
    const char *path = "bad/save-000001/manifest.json";
    size_t n;
    char *text = files_read(path, &n);
    // Leaves the last byte unchanged: it is a newline, without which the manifest is
    // still complete.
    for (size_t at = 0; at + 1 < n; at += n / 23) {
        text[at] = (char)(text[at] ^ 1);
        files_write_bytes(path, text, n);
        text[at] = (char)(text[at] ^ 1);
        int code = eval("bad"); // a changed byte of white space changes nothing
        if (code != 0) {
            assert_int_equal(code, 3);
            e2e_says("manifest.json");
        }
        files_write_bytes(path, text, at);
        assert_int_equal(eval("bad"), 3);
        e2e_says("manifest.json");
    }
    files_write(path, text);
    replace(path, "\"dim\": 3", "\"dim\": 4");
    refuses("checksum");
    files_write(path, text);
    replace(path, "\"version\": 3", "\"version\": 4");
    refuses("format version 4");
    files_write(path, "{\"format\": \"tug-model\", \"version\": 2}");
    refuses("format version 2; this tug reads version 3");
    files_write(path, "{\"format\": \"something\"}");
    refuses("not the manifest of a save");
    files_write(path, "[1]");
    refuses("manifest.json");
    files_remove(path);
    refuses("holds no save");
    tug_ends(3, "eval --from nothing --data data.svm");
    e2e_says("'nothing' holds no save");
    mem_free(text);
}

// ---------------------------------------------------------------- saves

static void from_an_older_save(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "%s --epochs 3 --save-every 1 --out out", train);
    assert_string_equal(e2e_newest("out"), "out/save-000003");
    assert_int_equal(eval("out"), 0);
    double newest = e2e_number("logloss");
    assert_int_equal(eval("out/save-000003"), 0);
    assert_true(e2e_number("logloss") == newest);
    assert_int_equal(eval("out/save-000001/"), 0);
    assert_true(e2e_number("logloss") != newest);
    assert_true(e2e_number("epochs") == 1);
}

static void older_saves_go(void **state)
{
    (void)state;
    char names[16][64];
    files_remove("out");
    tug_ends(0, "%s --epochs 5 --save-every 1 --keep 2 --out out", train);
    assert_int_equal(files_list("out", names, 16), 2);
    assert_string_equal(names[0], "save-000004");
    assert_string_equal(names[1], "save-000005");
    tug_ends(0, "%s --epochs 6 --keep 1 --out out --resume", train);
    assert_int_equal(files_list("out", names, 16), 1);
    assert_string_equal(names[0], "save-000006");
}

static void unfinished_saves_are_ignored(void **state)
{
    (void)state;
    files_remove("out");
    tug_ends(0, "%s --epochs 1 --out out", train);
    // Makes the state after a crash in the middle of a save.
    files_copy_dir("out/save-000001", "out/save-000002");
    files_remove("out/save-000002/manifest.json");
    files_write("out/save-000002/sparse-0.rows", "half");
    assert_int_equal(eval("out"), 0);
    tug_ends(0, "%s --out out --resume", train);
    e2e_says("resuming from out/save-000001");
    assert_string_equal(e2e_newest("out"), "out/save-000003");
    assert_false(files_exists("out/save-000002"));
}

// A save does not remove other files in the directory, whatever their names.
static void other_files_remain(void **state)
{
    (void)state;
    static const char *const strangers[] = {"save-abcdef", "save--00001", "save-+00009",
                                            "save-000000", "notes.txt"};
    files_remove("out");
    tug_ends(0, "%s --epochs 1 --out out", train);
    for (size_t i = 0; i < 5; i++)
        files_write(files_path("out/%s", strangers[i]), "mine");
    tug_ends(0, "%s --keep 1 --out out --resume", train);
    assert_true(files_exists("out/save-000002/manifest.json"));
    assert_false(files_exists("out/save-000001"));
    for (size_t i = 0; i < 5; i++)
        assert_true(files_exists(files_path("out/%s", strangers[i])));
}

// ---------------------------------------------------------------- full disk

// Resumes `words` where no file may be longer than `limit` bytes. The second save fails at
// the file `at`, and the first one stays as it is.
static void fill_disk_at(const char *words, uint64_t limit, const char *at)
{
    char before[16][64], after[16][64];
    files_remove("out");
    tug_ends(0, "%s --epochs 1 --out out", words);
    assert_int_equal(eval("out"), 0);
    double loss = e2e_number("logloss");
    size_t n = files_list("out/save-000001", before, 16);
    e2e_file_limit = limit;
    int code = tug("%s --epochs 2 --out out --resume", words);
    e2e_file_limit = 0;
    assert_int_equal(code, 4);
    char file[64];
    snprintf(file, sizeof(file), "out/save-000002/%s", at);
    e2e_says(file);
    assert_int_equal(files_list("out", after, 16), 1);
    assert_int_equal(files_list("out/save-000001", after, 16), n);
    assert_int_equal(eval("out"), 0);
    assert_true(e2e_number("logloss") == loss);
}

static void full_disk(void **state)
{
    (void)state;
    fill_disk_at(train, 512, "sparse-0.rows");
    // With two features the manifest is the only file of a save above 1,024 bytes.
    files_write("two.svm", "1 1:1\n0 2:1\n1 1:1\n0 2:1\n");
    fill_disk_at("train --data two.svm --format libsvm --model lr --deterministic", 1024,
                 "manifest.json");
    // A first save that fails leaves nothing that would disturb a second try.
    files_remove("new");
    e2e_file_limit = 512;
    int code = tug("%s --out new", train);
    e2e_file_limit = 0;
    assert_int_equal(code, 4);
    tug_ends(0, "%s --out new", train);
}

static void predictions_on_a_full_disk(void **state)
{
    (void)state;
    make_model("good");
    files_write("p.txt", "from before\n");
    e2e_file_limit = 1024;
    int code = tug("predict --from good --data data.svm --out p.txt");
    e2e_file_limit = 0;
    assert_int_equal(code, 4);
    e2e_says("p.txt");
    char *text = files_read("p.txt", NULL);
    assert_string_equal(text, "from before\n");
    mem_free(text);
    files_nothing_beside(".");
}

static void places_that_cannot_be(void **state)
{
    (void)state;
    files_write("file", "");
    // The error comes before training, not after it.
    tug_ends(4, "%s --epochs 1 --out file/model", train);
    e2e_says("file/model");
    tug_ends(4, "%s --epochs 1 --out file", train);
    e2e_says("file");
    assert_null(strstr(e2e_err, "pass 1"));
    make_model("good");
    tug_ends(4, "predict --from good --data data.svm --out missing/p.txt");
    e2e_says("missing/p.txt");
    tug_ends(4, "table export --from good --out missing/t.txt");
    e2e_says("missing/t.txt");
}

// A symbolic link that the user names is followed, and pipes and devices are written to
// directly.
static void links_and_devices(void **state)
{
    (void)state;
    struct stat st;
    files_remove("real");
    assert_int_equal(mkdir("real", 0755), 0);
    assert_int_equal(symlink("real", "door"), 0);
    tug_ends(0, "%s --epochs 1 --out door", train);
    assert_true(files_exists("real/save-000001/manifest.json"));
    tug_ends(0, "%s --epochs 2 --out door --resume", train);
    assert_int_equal(lstat("door", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    files_nothing_beside("real");

    files_write("real/p.txt", "from before\n");
    assert_int_equal(chmod("real/p.txt", 0600), 0);
    assert_int_equal(symlink("real/p.txt", "p-link"), 0);
    files_write("victim", "mine");
    // An attacker could put a link at the name of a temporary file.
    assert_int_equal(symlink("victim", "real/p.txt.tmp"), 0);
    tug_ends(0, "predict --from door --data data.svm --out p-link");
    assert_int_equal(lstat("p-link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    char *text = files_read("real/p.txt", NULL);
    assert_non_null(strstr(text, "0."));
    mem_free(text);
    assert_int_equal(stat("real/p.txt", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    text = files_read("victim", NULL);
    assert_string_equal(text, "mine");
    mem_free(text);
    files_remove("real/p.txt.tmp");
    files_remove("p-link");

    tug_ends(0, "predict --from door --data data.svm --out /dev/null");
    tug_ends(0, "table export --from door --out /dev/null");
    tug_ends(0, "synth --rows 10 --out /dev/null");
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    tug_ends(0, "predict --from door --data data.svm --out /dev/stdout");
    assert_non_null(strstr(e2e_out, "0."));
    files_remove("door");
}

// ---------------------------------------------------------------- --out

static void out_in_use(void **state)
{
    (void)state;
    files_remove("out");
    assert_int_equal(mkdir("out", 0700), 0);
    assert_int_equal(mkdir("out/save-000001", 0700), 0);
    files_write("out/save-000001/sparse-0", "killed in the middle of the first save");
    // A directory that has only an unfinished save can be used.
    tug_ends(0, "%s --epochs 1 --out out", train);
    files_remove("out");
    assert_int_equal(mkdir("out", 0700), 0);
    tug_ends(0, "%s --epochs 1 --out out", train); // an empty directory can be used
    tug_ends(2, "%s --epochs 1 --out out", train);
    e2e_says("out already holds a saved model");
    e2e_says("--resume");
    files_remove("out");
    assert_int_equal(mkdir("out", 0700), 0);
    files_write("out/thesis.txt", "do not touch");
    tug_ends(2, "%s --epochs 1 --out out", train);
    e2e_says("not an empty directory");
    assert_true(files_exists("out/thesis.txt"));
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    struct e2e_data d = {.path = "data.svm", .rows = 300, .seed = 1};
    e2e_write_data(&d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_parts),
        cmocka_unit_test(exchanged_parts),
        cmocka_unit_test(damaged_manifest),
        cmocka_unit_test(from_an_older_save),
        cmocka_unit_test(older_saves_go),
        cmocka_unit_test(unfinished_saves_are_ignored),
        cmocka_unit_test(other_files_remain),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(predictions_on_a_full_disk),
        cmocka_unit_test(links_and_devices),
        cmocka_unit_test(places_that_cannot_be),
        cmocka_unit_test(out_in_use),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
