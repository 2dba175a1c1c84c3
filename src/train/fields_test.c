// Counting the fields of data.
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
    assert_int_equal(fields_of("libffm", ffm), 12); // bad lines are for the real reading
    const char *csv = files_write(files_in("data.csv"), "click,site,age\n1,a,3\n0,b,4\n");
    assert_int_equal(fields_of("csv", csv), 2);
    assert_int_equal(fields_of("criteo", csv), 39); // by the format, the data unseen
    uint32_t fields = 5;
    assert_int_equal(count("libffm", "not there", &fields), 0); // given
    assert_int_equal(fields, 5);
    fields = 0;
    assert_int_equal(count("libsvm", ffm, &fields), TUG_EUSAGE);
    assert_non_null(strstr(test_err.text, "libffm"));
    assert_int_equal(count("libffm", "not there", &fields), TUG_EDATA);
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
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
