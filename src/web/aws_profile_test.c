// The files of AWS's tools: the settings of a profile, the order in which files are
// searched, and settings that no request could contain.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/aws_profile_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/files.h"
#include "kit/test.h"

static const char credentials[] = "# keys\n"
                                  "[default]\n"
                                  "aws_access_key_id = AKDEFAULT\r\n"
                                  "aws_secret_access_key=s/e+c=ret\n"
                                  "\n"
                                  "[ other ]\n"
                                  "aws_access_key_id =\tAKOTHER\n"
                                  "aws_secret_access_key = two  \n"
                                  "aws_session_token = t0ken==\n"
                                  "; aws_session_token = no\n"
                                  "region = of-credentials\n"
                                  "[profile config]\n"
                                  "aws_access_key_id = NOT";
static const char config[] = "[default]\n"
                             "region = eu-one-1\n"
                             "s3 =\n"
                             "  endpoint_url = http://nested\n"
                             "\taws_access_key_id = NESTED\n"
                             "[profile other]\n"
                             "region = eu-two-2\n"
                             "endpoint_url = http://127.0.0.1:9\n"
                             "aws_session_token = of-no-keys\n"
                             "[profile  config ]\n"
                             "aws_access_key_id = AKCONFIG\n"
                             "aws_secret_access_key = three\n"
                             "[profile sso]\n"
                             "sso_session = me\n"
                             "[named]\n"
                             "region = x\n";

static void use(const char *variable, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s", files_in("%s", file));
    if (text != NULL)
        files_write(path, text);
    assert_int_equal(setenv(variable, path, 1), 0);
}

static void read_profile(const char *name, struct aws_profile *p)
{
    struct err e;
    if (name == NULL)
        unsetenv("AWS_PROFILE");
    else
        setenv("AWS_PROFILE", name, 1);
    if (aws_profile_read(p, &e) != 0)
        fail_msg("%s", e.text);
}

static void assert_says(const char *name, bool found, const char *key, const char *secret,
                        const char *token, const char *region, const char *endpoint)
{
    struct aws_profile p;
    read_profile(name, &p);
    assert_int_equal(p.found, found);
    assert_string_equal(p.key_id, key);
    assert_string_equal(p.secret, secret);
    assert_string_equal(p.token, token);
    assert_string_equal(p.region, region);
    assert_string_equal(p.endpoint, endpoint);
}

static void test_profiles(void **state)
{
    (void)state;
    use("AWS_SHARED_CREDENTIALS_FILE", "credentials", credentials);
    use("AWS_CONFIG_FILE", "config", config);
    assert_says(NULL, true, "AKDEFAULT", "s/e+c=ret", "", "eu-one-1", "");
    assert_says("", true, "AKDEFAULT", "s/e+c=ret", "", "eu-one-1", "");
    assert_says("default", true, "AKDEFAULT", "s/e+c=ret", "", "eu-one-1", "");
    assert_says("other", true, "AKOTHER", "two", "t0ken==", "eu-two-2",
                "http://127.0.0.1:9");
    assert_says("config", true, "AKCONFIG", "three", "", "", "");
    assert_says("named", false, "", "", "", "", "");
    assert_says("oth", false, "", "", "", "", "");
    struct aws_profile p;
    read_profile("sso", &p);
    assert_true(p.found);
    assert_string_equal(p.other, "sso_session");
    assert_string_equal(p.file, getenv("AWS_CONFIG_FILE"));
}

static void test_no_files(void **state)
{
    (void)state;
    use("AWS_SHARED_CREDENTIALS_FILE", "not-there", NULL);
    use("AWS_CONFIG_FILE", "neither", NULL);
    assert_says(NULL, false, "", "", "", "", "");
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    unsetenv("AWS_CONFIG_FILE");
    setenv("HOME", files_in("nowhere"), 1);
    assert_says(NULL, false, "", "", "", "", "");
    unsetenv("HOME");
    assert_says(NULL, false, "", "", "", "", "");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"[default]\naws_secret_access_key = x y", "'aws_secret_access_key' has a blank"},
        {"[default]\naws_access_key_id = a\x01", "'aws_access_key_id' has a blank"},
        {"[default]\nregion = \xc3\xa4",
         "'region' has a blank or a character that is not"},
        {"[default]\nregion = "
         "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
         "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
         "'region' is longer than 127 bytes"},
    };
    unsetenv("AWS_PROFILE");
    use("AWS_CONFIG_FILE", "neither", NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct aws_profile p;
        struct err e = {0};
        use("AWS_SHARED_CREDENTIALS_FILE", "bad", bad[i].text);
        assert_int_equal(aws_profile_read(&p, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i].why) == NULL || strstr(e.text, "x y") != NULL)
            fail_msg("%s", e.text);
    }
    // Lines that are not sections or settings, or belong to another profile, are ignored.
    static const char *const odd[] = {"",
                                      "[",
                                      "]",
                                      "[]",
                                      "=",
                                      "[default",
                                      "region = x",
                                      "[default]\n=\n= x\nregion",
                                      "\n\n[other]\nregion = a b"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        use("AWS_SHARED_CREDENTIALS_FILE", "odd", odd[i]);
        assert_says(NULL, i == 7, "", "", "", "", "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
