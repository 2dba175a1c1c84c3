// Manifests: round trips, damage, files made by somebody who knows the checksum.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/manifest.h"

#include <math.h>

#include <jansson.h>

#include "base/hash.h"
#include "kit/test.h"
#include "train/train_testing.h"

static struct manifest written, again; // large

// Everything differs from zero and from the next.
static void fill(struct manifest *m, uint32_t parts)
{
    *m = (struct manifest){
        .schema = {.format = "csv", .loss = READER_SQUARED, .separator = '\t'},
        .options = {.model = model_of("ffm"),
                    .schedule = {SCHEDULE_LINEAR, 0.1, 1e-300},
                    .batch = 77,
                    .deterministic = true,
                    .reduce_mean = true,
                    .streaming = true,
                    .window_bytes = 3 << 20,
                    .valid_fraction = 0.1},
        .rows = 12345678901234,
        .examples = 99,
        .finished = true,
        .at = {.epoch = 1,
               .window = 2,
               .batch = 3,
               .batches = 4,
               .seen = 5,
               .bad_lines = 6,
               .place = {.number = 7, .file = 8, .line = 9, .offset = 10}},
        .bad_lines = 11,
        .has_best = true,
        .best_loss = 0.1,
        .best_epoch = 12,
        .passes_since_best = 13,
        .best_valid = {.examples = 14, .auc = 0.7, .logloss = 0.1, .copc = 1.1},
        .n_parts = parts,
    };
    static const char *const names[] = {"click", "age", "w", "id,\"ü\n", "", "city"};
    static const enum schema_use uses[] = {SCHEMA_LABEL,   SCHEMA_NUMBERS, SCHEMA_WEIGHT,
                                           SCHEMA_DROPPED, SCHEMA_DROPPED, SCHEMA_WORDS};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(
            schema_add(&m->schema, uses[i], names[i], strlen(names[i]), NULL), 0);
    static const char *const paths[] = {"/data/day-1.csv", "day-2\xff.csv.gz"};
    for (uint64_t i = 0; i < 2; i++)
        identity_add(&m->data, &(struct identity_file){.name = paths[i],
                                                       .name_len = strlen(paths[i]),
                                                       .bytes = i + 1,
                                                       .hash = mix64(i)});
    m->options.model.seed = UINT64_MAX;
    m->options.model.linear.lr = 0.1f;
    m->options.model.latent.beta2 = 0.999f;
    for (uint32_t i = 0; i < parts; i++) {
        struct manifest_part *p = &m->parts[i];
        *p = (struct manifest_part){
            .role = i % 2 ? PART_TRAINING : PART_MODEL,
            .dense = i % 3 == 0,
            .first_partition = i,
            .n_partitions = i + 1,
            .info = {.rows = i, .bytes = 1000 + i, .checksum = mix64(i + 1)}};
        snprintf(p->file, sizeof(p->file), "part-%u", i);
    }
}

static void round_trip(void **state)
{
    (void)state;
    static const uint32_t parts[] = {0, 1, 5, MANIFEST_MAX_PARTS};
    for (size_t i = 0; i < 4; i++) {
        fill(&written, parts[i]);
        // The block of rules is set by the model, not saved.
        written.options.model.linear.block = written.options.model.latent.block = 1;
        assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
        memset(&again, 0xff, sizeof(again));
        struct err e = {0};
        if (manifest_read(&again, test_dir, &e) != 0)
            fail_msg("%s", e.text);
        assert_same_struct(&again, &written);
    }
}

// Numbers that JSON has no word for.
static void no_numbers(void **state)
{
    (void)state;
    fill(&written, 2);
    written.best_loss = written.best_valid.logloss = (double)NAN;
    written.best_valid.auc = (double)NAN;
    written.best_valid.copc = (double)INFINITY;
    assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
    assert_int_equal(manifest_read(&again, test_dir, NULL), 0);
    assert_true(isnan(again.best_loss) && isnan(again.best_valid.auc));
    assert_true(again.has_best);
    written.has_best = false;
    assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
    assert_int_equal(manifest_read(&again, test_dir, NULL), 0);
    assert_false(again.has_best);
}

static void refused(const char *why)
{
    struct err e = {0};
    if (manifest_read(&again, test_dir, &e) != TUG_EDATA)
        fail_msg("'%s' was not refused", why);
    if (strstr(e.text, why) == NULL || strstr(e.text, "manifest.json") == NULL)
        fail_msg("'%s' is not in: %s", why, e.text);
}

static void write_bytes(const char *text, size_t n)
{
    FILE *f = fopen(path_of(MANIFEST_NAME), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void damaged(void **state)
{
    (void)state;
    fill(&written, 3);
    assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(file_read(path_of(MANIFEST_NAME), &b, NULL), 0);
    for (size_t i = 0; i < b.len; i++) {
        b.data[i] = (char)(b.data[i] ^ 2);
        write_bytes(b.data, b.len);
        struct err e = {0};
        // The last digit of a number can be another one of the same float.
        if (manifest_read(&again, test_dir, &e) == 0)
            assert_int_equal(manifest_same_options(&again.options, &written.options, &e),
                             0);
        else
            assert_int_equal(e.code, TUG_EDATA);
        b.data[i] = (char)(b.data[i] ^ 2);
    }
    for (size_t i = 0; i + 1 < b.len; i += 7) {
        write_bytes(b.data, i);
        refused("");
    }
    buf_free(&b);
    write_text(MANIFEST_NAME, "");
    refused("");
    write_text(MANIFEST_NAME, "[]");
    refused("not a JSON object");
    write_text(MANIFEST_NAME, "{\"format\": 3}");
    refused("not the manifest of a tug model");
    write_text(MANIFEST_NAME, "{\"format\": \"tug-model\", \"version\": 3}");
    refused("format version 3");
    assert_int_equal(remove(path_of(MANIFEST_NAME)), 0);
    struct err e;
    assert_int_not_equal(manifest_read(&again, test_dir, &e), 0);
}

// ---------------------------------------------------------------- forged files

// Replaces one value and makes the checksum right.
static void forge(const char *object, const char *name, json_t *value)
{
    fill(&written, 3);
    assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
    json_t *root = json_load_file(path_of(MANIFEST_NAME), 0, NULL);
    json_t *at = strcmp(object, "part") == 0
                     ? json_array_get(json_object_get(root, "parts"), 1)
                 : *object ? json_object_get(root, object)
                           : root;
    assert_true(json_is_object(at));
    if (value != NULL)
        assert_int_equal(json_object_set_new(at, name, value), 0);
    else
        assert_int_equal(json_object_del(at, name), 0);
    json_object_del(root, "checksum");
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS), sum[24];
    snprintf(sum, sizeof(sum), "%016llx",
             (unsigned long long)hash_bytes(text, strlen(text), MANIFEST_VERSION));
    json_object_set_new(root, "checksum", json_string(sum));
    assert_int_equal(json_dump_file(root, path_of(MANIFEST_NAME), 0), 0);
    mem_free(text);
    json_decref(root);
}

static void forged(void **state)
{
    (void)state;
    forge("", "examples", json_integer(7));
    assert_int_equal(manifest_read(&again, test_dir, NULL),
                     0); // the forging itself is right
    assert_int_equal(again.examples, 7);
    // Files elsewhere.
    static const char *const files[] = {"../x", "/etc/passwd", "a/b", ".",
                                        "..",   ".x",          ""};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        forge("part", "file", json_string(files[i]));
        refused("'file'");
    }
    char name[100];
    memset(name, 'x', sizeof(name));
    forge("part", "file", json_stringn(name, sizeof(name)));
    refused("too long");
    forge("schema", "format", json_stringn((char[2000]){0}, 2000)); // NULs
    refused("");
    forge("schema", "hashing", json_string("place"));
    refused("'hashing' is a word that this version does not know");
    forge("schema", "columns", json_integer(-1));
    refused("'columns'");
    forge("data", "list", NULL);
    refused("'list'");
    forge("schema", "columns", json_pack("[[s, s]]", "x", "feature"));
    refused("'columns' holds an entry that is not a column");
    // Numbers out of bounds, of other types, missing.
    static const struct {
        const char *object, *name;
    } numbers[] = {
        {"", "rows"},           {"", "examples"},        {"", "finished"},
        {"", "bad_lines"},      {"options", "dim"},      {"options", "fields"},
        {"options", "batch"},   {"options", "schedule"}, {"options", "window"},
        {"options", "model"},   {"options", "linear"},   {"schema", "loss"},
        {"schema", "format"},   {"schema", "separator"}, {"data", "hash"},
        {"data", "files"},      {"options", "reduce"},   {"options", "data-in"},
        {"options", "seed"},    {"position", "epoch"},   {"position", "line"},
        {"position", "file"},   {"position", "offset"},  {"best", "epoch"},
        {"part", "rows"},       {"part", "bytes"},       {"part", "checksum"},
        {"part", "partitions"}, {"part", "table"},       {"part", "role"},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        forge(numbers[i].object, numbers[i].name, json_integer(-1));
        refused(numbers[i].name);
        forge(numbers[i].object, numbers[i].name, json_array());
        refused(numbers[i].name);
        forge(numbers[i].object, numbers[i].name, NULL);
        refused(numbers[i].name);
    }
    forge("", "parts", json_object());
    refused("'parts'");
    json_t *many = json_array();
    for (int i = 0; i <= MANIFEST_MAX_PARTS; i++)
        json_array_append_new(many, json_object());
    forge("", "parts", many);
    refused("'parts'");
    forge("", "position", json_integer(1));
    refused("");
    forge("", "options", NULL);
    refused("");
}

// ---------------------------------------------------------------- options

static void same_options(void **state)
{
    (void)state;
    fill(&written, 0);
    struct manifest_options now = written.options;
    struct err e = {0};
    assert_int_equal(manifest_same_options(&written.options, &now, NULL), 0);
    now.model.latent.lr = 2;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--latent-lr"));
    now = written.options;
    now.model.linear.kind = RULE_FTRL;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--optimizer 'adagrad', this one has 'ftrl'"));
    // As they are typed: seeds are kept in hexadecimal, schedules as numbers.
    now = written.options;
    now.model.seed = 31;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "this one has 31:"));
    now = written.options;
    now.schedule.kind = SCHEDULE_POLY;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "this one has poly:"));
    now = written.options;
    now.window_bytes = 77 << 20;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "this one has 77:"));
    // All of them, but for those that follow from another one.
    now.batch++;
    now.model.seed = 31;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, ", this one has 31; it had --batch "));
    assert_non_null(strstr(e.text, "; it had --window "));
    now.model.ops = model_of("lr").ops;
    now.model.dim = 1;
    assert_int_equal(manifest_same_options(&written.options, &now, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "had --model 'ffm', this one has 'lr': give"));
    // Floats as they were written and read.
    assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
    assert_int_equal(manifest_read(&again, test_dir, NULL), 0);
    assert_int_equal(manifest_same_options(&again.options, &written.options, NULL), 0);
}

// As versions without a schema wrote it: their csv models know no column by its name.
static void old_version(void **state)
{
    (void)state;
    static const char *const formats[] = {"criteo", "csv"};
    for (int i = 0; i < 2; i++) {
        fill(&written, 2);
        assert_int_equal(manifest_write(&written, test_dir, NULL), 0);
        json_t *root = json_load_file(path_of(MANIFEST_NAME), 0, NULL);
        json_t *options = json_object_get(root, "options");
        json_object_set_new(root, "version", json_integer(1));
        json_object_del(root, "schema");
        json_object_del(root, "data");
        json_object_del(root, "checksum");
        json_object_set_new(options, "format", json_string(formats[i]));
        json_object_set_new(options, "loss", json_string("squared"));
        char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS), sum[24];
        snprintf(sum, sizeof(sum), "%016llx",
                 (unsigned long long)hash_bytes(text, strlen(text), 1));
        json_object_set_new(root, "checksum", json_string(sum));
        assert_int_equal(json_dump_file(root, path_of(MANIFEST_NAME), 0), 0);
        mem_free(text);
        json_decref(root);
        struct err e = {0};
        if (manifest_read(&again, test_dir, &e) != 0)
            fail_msg("%s", e.text);
        assert_string_equal(again.schema.format, formats[i]);
        assert_int_equal(again.schema.loss, READER_SQUARED);
        assert_int_equal(again.data.files, 0);
        assert_int_equal(manifest_knows_data(&again, test_dir, &e),
                         i == 0 ? 0 : TUG_EDATA);
    }
    assert_int_equal(manifest_knows_data(&written, test_dir, NULL), 0);
}

// ---------------------------------------------------------------- memory

static void failing_allocations(void **state)
{
    (void)state;
    fill(&written, 3);
    FAIL_EACH_ALLOCATION(manifest_write(&written, test_dir, &test_err), );
    FAIL_EACH_ALLOCATION(manifest_read(&again, test_dir, &test_err), );
    struct manifest_options other = written.options;
    FAIL_EACH_ALLOCATION(manifest_same_options(&written.options, &other, &test_err), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(no_numbers),
        cmocka_unit_test(damaged),
        cmocka_unit_test(forged),
        cmocka_unit_test(same_options),
        cmocka_unit_test(old_version),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
