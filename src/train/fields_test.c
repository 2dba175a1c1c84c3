// Counts the fields of data, and sets the lengths of vectors by the names of columns.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/fields.h"

#include <string.h>

#include "kit/files.h"
#include "kit/test.h"
#include "kit/training.h"

static int count(const char *format, const char *path, uint32_t *fields)
{
    struct path_list paths = {.items = &path, .n = 1};
    struct reader_options o = {.format = format, .labels = true, .fields = *fields};
    struct team *team;
    struct reader *reader = NULL;
    struct model_options m = training_model("ffm");
    m.fields = *fields;
    int rc = team_open(&team, 1, &test_err);
    if (rc != 0)
        return rc;
    rc = reader_open(&reader, &o, &test_err);
    if (rc == 0)
        rc = fields_count(team, &paths, &o, reader, NULL, &m, &test_err);
    *fields = m.fields;
    reader_close(reader);
    team_close(team);
    return rc;
}

static uint32_t fields_of(const char *format, const char *path)
{
    uint32_t fields = 0;
    assert_int_equal(count(format, path, &fields), 0);
    return fields;
}

static void formats(void **state)
{
    (void)state;
    const char *ffm = files_write(files_in("data.ffm"),
                                  "1 0:1:1 3:7:1\nnonsense\n0 11:2:0.5\n1\n");
    assert_int_equal(fields_of("libffm", ffm), 12); // counting ignores bad lines
    const char *csv = files_write(files_in("data.csv"), "click,site,age\n1,a,3\n0,b,4\n");
    assert_int_equal(fields_of("csv", csv), 2);
    // the format gives the number; the data is not read
    assert_int_equal(fields_of("criteo", csv), 39);
    uint32_t fields = 5;
    // the number was given, so no file is read
    assert_int_equal(count("libffm", "not there", &fields), 0);
    assert_int_equal(fields, 5);
    fields = 0;
    assert_int_equal(count("libsvm", ffm, &fields), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "libffm"));
    assert_int_equal(count("libffm", "not there", &fields), TUG_EDATA);
}

// Makes the schema of a csv file, in which "c=d" is the name of a column.
static int columns(struct schema *s)
{
    *s = (struct schema){.format = "csv", .columns = 4};
    const char *const names[] = {"y", "site", "c=d", "age"};
    for (size_t i = 0; i < 4; i++)
        TRY(schema_add(s, i == 0 ? SCHEMA_LABEL : SCHEMA_WORDS, names[i],
                       strlen(names[i]), NULL));
    return 0;
}

static void dims(void **state)
{
    (void)state;
    static struct schema s;
    struct model_options m = training_model("dcn");
    char text[FIELDS_DIMS_MAX];
    assert_int_equal(columns(&s), 0);
    m.fields = 3;
    assert_int_equal(fields_dims(&s, "age=16,c=d=04", &m, NULL), 0);
    assert_int_equal(m.n_dims, 2);
    assert_true(m.dims[0].field == 1 && m.dims[0].dim == 4);
    assert_true(m.dims[1].field == 2 && m.dims[1].dim == 16);
    fields_dims_print(&s, &m, text);
    assert_string_equal(text, "c=d=4,age=16");
    assert_int_equal(fields_dims(&s, NULL, &m, NULL), 0);
    assert_int_equal(m.n_dims, 0);
    fields_dims_print(&s, &m, text);
    assert_string_equal(text, "");

    snprintf(s.format, sizeof(s.format), "criteo");
    m.fields = 39;
    assert_int_equal(fields_dims(&s, "C26=1,I2=1024", &m, NULL), 0);
    assert_true(m.dims[0].field == 1 && m.dims[1].field == 38);
    snprintf(s.format, sizeof(s.format), "libffm");
    assert_int_equal(fields_dims(&s, "17=2", &m, NULL), 0);
    assert_true(m.dims[0].field == 17 && m.dims[0].dim == 2);
}

static void bad_dims(void **state)
{
    (void)state;
    static struct schema s;
    static const char *const cases[][2] = {
        {"", "'' is not COLUMN=N"},
        {"site", "'site' is not COLUMN=N"},
        {"=4", "'=4' is not COLUMN=N"},
        {"site=", "'site=' is not COLUMN=N"},
        {"site=0", "'site=0' is not COLUMN=N"},
        {"site=-4", "'site=-4' is not COLUMN=N"},
        {"site=4x", "'site=4x' is not COLUMN=N"},
        {"site=1025", "is 1 to 1024"},
        {"site=99999999999999999999", "is 1 to 1024"},
        {"site=4,", "'' is not COLUMN=N"},
        {"sit=4", "--dims: there is no feature column 'sit'; did you mean 'site'?"},
        {"y=4", "no feature column 'y'"},
        {"site=4,age=3,site=5", "the column of 'site=5' has a length already"},
    };
    struct model_options m = training_model("dcn");
    m.fields = 3;
    assert_int_equal(columns(&s), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(fields_dims(&s, cases[i][0], &m, &test_err), TUG_EUSAGE);
        if (strstr(test_err.text, cases[i][1]) == NULL)
            fail_msg("%s: %s", cases[i][0], test_err.text);
    }
    static char text[2 * FIELDS_DIMS_MAX];
    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(fields_dims(&s, text, &m, &test_err), TUG_EUSAGE);
    snprintf(s.format, sizeof(s.format), "libffm");
    m.fields = 1000;
    for (size_t i = 0, at = 0; i <= MODEL_MAX_DIMS; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%zu=1", i > 0 ? "," : "",
                               i);
    assert_int_equal(fields_dims(&s, text, &m, &test_err), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "more than 256 columns"));
    s = (struct schema){.format = "csv"}; // with --fields given, the header was not read
    assert_int_equal(fields_dims(&s, "site=4", &m, &test_err), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "--dims and --fields cannot be used together"));
}

static int count_anew(const char *format, const char *path)
{
    uint32_t fields = 0;
    return count(format, path, &fields);
}

static void failing_allocations(void **state)
{
    (void)state;
    const char *ffm = files_write(files_in("data.ffm"), "1 0:1:1 3:7:1\n");
    const char *csv = files_write(files_in("data.csv"), "click,site,age\n1,a,3\n");
    FAIL_EACH_ALLOCATION(count_anew("libffm", ffm), );
    FAIL_EACH_ALLOCATION(count_anew("csv", csv), );
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(dims),
        cmocka_unit_test(bad_dims),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
