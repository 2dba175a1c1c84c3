// Lists of files as web servers send them, and addresses: which are accepted, and which
// are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kit/test.h"
#include "web/scheme_internal.h"

struct seen {
    char text[512];
};

static int take_key(void *arg, const struct s3_entry *s, struct err *e)
{
    (void)e;
    struct seen *to = arg;
    size_t n = strlen(to->text);
    snprintf(to->text + n, sizeof to->text - n, "%s %llu %s;", s->key,
             (unsigned long long)s->bytes, s->etag);
    return 0;
}

static int take_name(void *arg, const struct webhdfs_entry *w, struct err *e)
{
    (void)e;
    struct seen *to = arg;
    size_t n = strlen(to->text);
    snprintf(to->text + n, sizeof to->text - n, "%s %llu %llu%s;", w->name,
             (unsigned long long)w->bytes, (unsigned long long)w->modified,
             w->directory ? " d" : "");
    return 0;
}

#define LIST(inside) "<ListBucketResult>" inside "</ListBucketResult>"
#define END "<IsTruncated>false</IsTruncated>"

static const char whole[] = "<?xml version='1.0'?>\n" LIST(
    "<Name>b</Name><Delimiter /><Contents a='>'><Size>5</Size><Key>x &amp; &lt;&#x42;"
    "&#252;&#x1F600;</Key><ETag>&quot;e&quot;</ETag><Owner><Key>no</Key></Owner>"
    "</Contents><Contents><Key>y</Key><Size>0</Size></Contents>"
    "<CommonPrefixes><Key>z</Key></CommonPrefixes><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>1&amp;2</NextContinuationToken>") "\n";

static void s3_lists(void **state)
{
    (void)state;
    struct seen got = {""};
    struct s3_page page;
    OK(s3_parse_list(whole, strlen(whole), &page, take_key, &got, &ok_e));
    assert_string_equal(got.text, "x & <B\xc3\xbc\xf0\x9f\x98\x80 5 \"e\";y 0 ;");
    assert_true(page.truncated);
    assert_string_equal(page.next, "1&2");
    OK(s3_parse_list(LIST(END), strlen(LIST(END)), &page, take_key, &got, &ok_e));
    assert_false(page.truncated);
}

static void wrong_s3_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "no",
        "<html>" END "</html>",
        "<a/>",
        "<a b='c'/>",
        LIST(""),
        LIST("<IsTruncated>perhaps</IsTruncated>"),
        LIST("<IsTruncated>true</IsTruncated>"),
        LIST(END) "<a/>",
        LIST("<Contents><Key>k</Key></Contents>" END),
        LIST("<Contents><Size>1</Size></Contents>" END),
        LIST("<Contents><Key>k</Key><Size>-1</Size></Contents>" END),
        LIST("<Contents><Key>k</Key><Size>99999999999999999999</Size></Contents>" END),
        LIST("<Contents><Key>&b;</Key><Size>1</Size></Contents>" END),
        LIST("<Contents><Key>&#0;</Key><Size>1</Size></Contents>" END),
        LIST("<Contents><Key>&#x110000;</Key><Size>1</Size></Contents>" END),
        "<!DOCTYPE a>" LIST(END),
        LIST("<a><b></a></b>" END),
        "<ListBucketResult>" END,
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct seen got = {""};
        struct s3_page page;
        if (s3_parse_list(bad[i], strlen(bad[i]), &page, take_key, &got, NULL) !=
            TUG_EDATA)
            fail_msg("taken: %s", bad[i]);
    }
    // A list that is cut anywhere is refused.
    for (size_t n = 0; n < strlen(whole) - 1; n++) {
        struct seen got = {""};
        struct s3_page page;
        char *exact = mem_alloc(n + 1); // so that sanitizers notice reading past the end
        memcpy(exact + 1, whole, n);
        assert_int_equal(s3_parse_list(exact + 1, n, &page, take_key, &got, NULL),
                         TUG_EDATA);
        mem_free(exact);
    }
}

#define STATUS(inside) "{\"FileStatuses\":{\"FileStatus\":[" inside "]}}"
#define ENTRY(name, type, rest)                                                          \
    "{\"pathSuffix\":\"" name "\",\"type\":\"" type "\"," rest "}"
#define SIZES "\"length\":3,\"modificationTime\":4"

static void webhdfs_lists(void **state)
{
    (void)state;
    static const char good[] = STATUS(
        ENTRY("a", "FILE", SIZES) "," ENTRY("", "DIRECTORY", SIZES));
    static const char *const bad[] = {
        "",
        "[]",
        "{\"FileStatuses\":{}}",
        STATUS("1"),
        STATUS(ENTRY("a/b", "FILE", SIZES)),
        STATUS(ENTRY("..", "DIRECTORY", SIZES)),
        STATUS(ENTRY("a", "FILE", "\"length\":-1,\"modificationTime\":4")),
        STATUS(ENTRY("a", "FILE", "\"length\":\"3\",\"modificationTime\":4")),
    };
    struct seen got = {""};
    // A list with very many short values is refused before memory is allocated for them.
    static char many[1 << 20];
    for (size_t i = 0; i + 3 <= sizeof many; i += 3)
        memcpy(many + i, i == 0 ? "[{}" : ",{}", 3);
    mem_fault_after(0);
    int rc = webhdfs_parse_list(many, sizeof many, take_name, &got, NULL);
    bool allocated = mem_faulted();
    mem_fault_after(-1);
    assert_true(rc == TUG_EDATA && !allocated);
    OK(webhdfs_parse_list(good, strlen(good), take_name, &got, &ok_e));
    assert_string_equal(got.text, "a 3 4; 3 4 d;");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (webhdfs_parse_list(bad[i], strlen(bad[i]), take_name, &got, NULL) !=
            TUG_EDATA)
            fail_msg("taken: %s", bad[i]);
}

static int parse_both(void)
{
    static const char json[] = STATUS(ENTRY("a", "FILE", SIZES));
    struct seen got = {""};
    struct s3_page page;
    TRY(s3_parse_list(whole, strlen(whole), &page, take_key, &got, &test_err));
    return webhdfs_parse_list(json, strlen(json), take_name, &got, &test_err);
}

static void without_memory(void **state)
{
    (void)state;
    FAIL_EACH_ALLOCATION(parse_both(), (void)0);
}

static void addresses(void **state)
{
    (void)state;
    static const char *const paths[] = {"/a", "a", "a:b", "://a", "C:/a", "s3:/a", "-"};
    static const char *const bad[] = {"ftp://a/b",      "hdfs://a/b",    "s3:///b",
                                      "http://u:p@h/b", "http://a\"b/c", "http:///"};
    struct address a, below;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_false(web_is(paths[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e;
        assert_true(web_is(bad[i]));
        assert_int_equal(address_parse(&a, bad[i], &e), TUG_EUSAGE);
        assert_null(strstr(e.text, "u:p"));
    }
    OK(address_parse(&a, "https://h:8/a/b.csv?X-Amz-Signature=0123#x", &ok_e));
    assert_string_equal(a.name, "https://h:8/a/b.csv");
    assert_string_equal(a.host, "h:8");
    OK(address_parse(&a, "s3://bucket/a?b/c#d", &ok_e));
    assert_string_equal(a.path, "a?b/c#d");
    assert_string_equal(a.name, "s3://bucket/a?b/c#d");
    struct address secret;
    OK(address_parse(&secret, "webhdfs://h/d?delegation=SEC/RET", &ok_e));
    assert_string_equal(secret.name, "webhdfs://h/d");
    OK(address_parse(&secret, "webhdfs://h/day=?/hour=?", &ok_e));
    assert_string_equal(secret.name, "webhdfs://h/day=?/hour=?");
    OK(address_with_path(&below, &a, "x\ny", &ok_e));
    assert_string_equal(below.whole, "s3://bucket/x\ny");
    assert_string_equal(below.name, "s3://bucket/x?y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s3_lists),      cmocka_unit_test(wrong_s3_lists),
        cmocka_unit_test(webhdfs_lists), cmocka_unit_test(without_memory),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
