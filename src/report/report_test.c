// Checks pages without a browser: texts are escaped, results with odd values give a page,
// a written page can be read, and each failed allocation is reported.
//
// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "report/svg.h"

#define ROC "\"roc\":[[0,0],[0.25,0.75],[1,1]]"
#define HISTORY                                                                          \
    "\"history\":[{\"pass\":1,\"examples\":90,\"loss\":0.5,\"auc\":null,\"valid\":null}" \
    "]"

static json_t *parse(const char *text)
{
    json_begin();
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

static const char *page_of(const char *text)
{
    static char page[1 << 17];
    struct err e;
    size_t n;
    json_t *o = parse(text);
    assert_int_equal(report_write_run(o, files_in("r.html"), &e), 0);
    json_decref(o);
    char *all = files_read(files_in("r.html"), &n);
    assert_true(all != NULL && n < sizeof(page));
    memcpy(page, all, n);
    page[n] = '\0';
    mem_free(all);
    return page;
}

static void test_texts_are_escaped(void **state)
{
    (void)state;
    const char *page = page_of(
        "{\"command\":\"train\",\"model\":\"<b>\",\"run\":{\"command\":\"a \\\"&'\\u0001"
        "\",\"warnings\":[\"<script>x</"
        "script>\"],\"options\":[]},\"curves_of\":\"test\"," ROC "}");
    assert_non_null(strstr(page, "&lt;script&gt;x&lt;/script&gt;"));
    assert_non_null(strstr(page, "a &quot;&amp;&#39; "));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<b><"));
    assert_non_null(strstr(page, "data-of=\"/roc/1/1\">0.7500</data>"));
    assert_non_null(strstr(page, "<data value=\"0.75\""));
}

static void test_odd_results(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{\"command\":\"train\"}",
        "{\"command\":\"eval\",\"auc\":null,\"logloss\":1e300,\"data\":7,\"run\":[]}",
        "{\"command\":\"train\",\"history\":[1,{}],\"course\":[{},null],\"valid\":{}}",
        "{\"command\":\"train\"," HISTORY
        ",\"course\":[{\"pass\":1}],\"importance\":[{}]}",
        "{\"command\":\"eval\",\"curves_of\":\"test\",\"roc\":[1,[],[2,\"x\"]],"
        "\"calibration\":[{\"predicted\":1e-300,\"observed\":-5}],\"scores\":[{}],"
        "\"lift\":[{\"lift\":1e300}],\"precision_recall\":[[0,null]]}"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        const char *page = page_of(odd[i]);
        assert_non_null(strstr(page, "</html>"));
        assert_null(strstr(page, "\"nan"));
        assert_null(strstr(page, " inf"));
    }
}

static void test_pages_are_read_again(void **state)
{
    (void)state;
    static const char text[] = "{\"command\":\"eval\",\"a\":\"&lt;<&amp;\\n\\\"'\"," ROC
                               "}";
    static const char *const no_result[] = {
        "",
        "x\n",
        "{}",
        "[1]",
        "{\"command\":1}",
        "<!DOCTYPE html>\n<!-- tug report -->\n",
        "<!DOCTYPE html>\n<!-- tug report -->\n<pre id=\"result\">{",
        "<!DOCTYPE html>\n<!-- tug report -->\n<pre id=\"result\">&lt;</pre>"};
    json_t *found, *o = parse(text);
    struct err e;
    (void)page_of(text);
    assert_int_equal(report_read(files_in("r.html"), &found, &e), 0);
    assert_true(json_equal(found, o));
    json_decref(found);
    files_write(files_in("lines"), "test  auc 0.5\n{\"command\":\"eval\"}\n");
    assert_int_equal(report_read(files_in("lines"), &found, &e), 0);
    json_decref(found);
    json_decref(o);
    for (size_t i = 0; i < sizeof(no_result) / sizeof(*no_result); i++) {
        files_write(files_in("lines"), no_result[i]);
        assert_int_equal(report_read(files_in("lines"), &found, &e), TUG_EDATA);
    }
}

// Damages a page at random places. Reading it either fails, or gives a result that can be
// written as a page.
static void test_damaged_pages(void **state)
{
    (void)state;
    static const char damage[] = "<>&;{}[]\"\\0-e:,x";
    char text[4096];
    struct err e;
    size_t n;
    (void)page_of("{\"command\":\"train\",\"model\":\"a<b\",\"curves_of\":\"test\"," ROC
                  "," HISTORY ",\"data\":[{\"use\":\"test\",\"files\":[\"f\"]}],"
                  "\"lift\":[{\"lift\":2}],\"run\":{\"warnings\":[\"w\"],"
                  "\"options\":[{\"name\":\"lr\",\"value\":\"1\"}]}}");
    char *page = files_read(files_in("r.html"), &n);
    char *result = memmem(page, n, "<pre id=\"result\">", 17);
    size_t len = n - (size_t)(result - page), good = 0;
    assert_true(len < sizeof(text) - 64);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        json_t *found = NULL;
        int to = snprintf(text, sizeof(text), "<!DOCTYPE html>\n<!-- tug report -->\n");
        memcpy(text + to, result, len);
        for (uint64_t k = 0; k < 1 + seed % 3; k++)
            text[to + 17 + random_below(seed, 1, k, len - 17)] =
                damage[random_below(seed, 2, k, sizeof(damage) - 1)];
        files_write_bytes(files_in("damaged"), text, (size_t)to + len);
        if (report_read(files_in("damaged"), &found, &e) != 0)
            continue;
        good++;
        struct report_run runs[] = {{"a", found}, {"b", found}};
        assert_int_equal(report_write_run(found, files_in("f.html"), &e), 0);
        assert_int_equal(report_write_runs(runs, 2, files_in("f.html"), &e), 0);
        json_decref(found);
    }
    assert_in_range(good, 100, 1900); // some damaged pages are read, others refused
    mem_free(page);
}

static void test_memory(void **state)
{
    (void)state;
    static const char text[] = "{\"command\":\"train\",\"curves_of\":\"test\"," ROC
                               "," HISTORY "}";
    struct err e;
    json_t *o = parse(text);
    struct report_run runs[] = {{"a", o}, {"b", o}};
    int rc = TUG_ENOMEM;
    for (long n = 0; rc != 0; n++) {
        json_begin();
        mem_fault_after(n);
        rc = n % 2 == 0 ? report_write_run(o, files_in("f.html"), &e)
                        : report_write_runs(runs, 2, files_in("f.html"), &e);
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
    }
    json_decref(o);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *shown;
    } cases[] = {{0, "0"},          {-1234, "-1,234"},      {1e6, "1,000,000"},
                 {0.5, "0.5000"},   {0.00012345, "0.0001"}, {0.0000123, "1.23e-05"},
                 {12.345, "12.35"}, {123.45, "123.5"},      {12345.6, "12,346"},
                 {1e15, "1e+15"},   {999, "999"},           {1e300, "1e+300"}};
    char text[HTML_NUMBER_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_string_equal(html_number(cases[i].x, text), cases[i].shown);
}

// Draws a chart from bounds and values that are hard to divide into ticks.
static void test_ticks(void **state)
{
    (void)state;
    static const double odd[][3] = {
        {0, 0, 0},          {5, 5, 5},        {1e-9, 2e-9, 3e-9},
        {-1e12, 0, 1e12},   {NAN, 1, NAN},    {NAN, NAN, NAN},
        {1e308, -1e308, 0}, {1, 1.79e308, 0}, {2, 3, 1e299}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        struct page p = {.b = BUF_INIT(1 << 20)};
        struct svg_series s = {
            .name = "n", .mark = SVG_DOTS, .n = 3, .x = odd[i], .y = odd[i]};
        struct svg_chart c = {SVG_FITTED, .title = "t", .x = "x",
                              .y = "y",   .series = &s, .n = 1};
        svg_chart(&p, &c);
        assert_int_equal(p.rc, 0);
        assert_true(p.b.len < 1 << 14);
        buf_free(&p.b);
    }
}

static const char *page_of_runs(const char *a, const char *b)
{
    static char page[1 << 16];
    struct err e;
    size_t n;
    struct report_run runs[] = {{"a", parse(a)}, {"b", parse(b)}};
    assert_int_equal(report_write_runs(runs, 2, files_in("f.html"), &e), 0);
    json_decref(runs[0].result);
    json_decref(runs[1].result);
    char *all = files_read(files_in("f.html"), &n);
    assert_true(all != NULL && n < sizeof(page));
    memcpy(page, all, n);
    page[n] = '\0';
    mem_free(all);
    return page;
}

// The axis of passes of a comparison has whole numbers, also for runs of few passes.
static void test_whole_passes(void **state)
{
    (void)state;
    static const char run[] = "{\"command\":\"train\",\"history\":[{\"pass\":1,\"loss\":"
                              "40},{\"pass\":2,\"loss\":"
                              "30},{\"pass\":3,\"loss\":20}]}";
    const char *page = page_of_runs(run, run);
    assert_non_null(strstr(page, "passes over the data"));
    assert_non_null(strstr(page, "text-anchor=\"middle\">1</text>"));
    assert_non_null(strstr(page, "text-anchor=\"middle\">2</text>"));
    assert_null(strstr(page, "text-anchor=\"middle\">0.5</text>"));
    assert_null(strstr(page, "text-anchor=\"middle\">1.5</text>"));
}

// An evaluation has neither the data nor the options of a training; a training that does
// not name an option has its default.
static void test_runs_of_two_commands(void **state)
{
    (void)state;
    static const char fm[] = "{\"command\":\"train\",\"model\":\"fm\",\"peak_rss_bytes\":"
                             "32202752,\"data\":[{\"use\":"
                             "\"train\",\"files\":[\"d\"],\"examples\":7,\"positives\":"
                             "null}],\"run\":{\"options\":"
                             "[]}}";
    static const char lr[] =
        "{\"command\":\"train\",\"model\":\"lr\",\"run\":{\"options\":[{\"name\":"
        "\"model\","
        "\"value\":\"lr\",\"default\":\"fm\",\"from\":\"option\"}]}}";
    static const char eval[] = "{\"command\":\"eval\",\"run\":{\"options\":[{\"name\":"
                               "\"from\",\"value\":\"m\"}]}}";
    const char *page = page_of_runs(fm, lr);
    assert_non_null(
        strstr(page, "<td class=\"text\">fm <span class=\"usual\">(default)"));
    assert_non_null(strstr(page, ">32.2 MB</data></td>"));
    assert_non_null(
        strstr(page, "<th>b</th>")); // numbers and their heads are to the right
    assert_non_null(strstr(page, ">7</data> examples</td><td class=\"text\">–</td>"));
    assert_null(strstr(page, "none examples"));
    page = page_of_runs(lr, eval);
    assert_null(strstr(page, "(default)"));
    assert_non_null(strstr(page, "None, as far as the results tell."));
}

// A line of one point is drawn as a dot, because such a line is not visible.
static void test_one_point(void **state)
{
    (void)state;
    static const double x[] = {1, 2, NAN}, y[] = {1, NAN, 3};
    for (size_t n = 1; n <= 3; n++) {
        struct page p = {.b = BUF_INIT(1 << 20)};
        struct svg_series s = {.name = "n", .mark = SVG_LINE, .n = n, .x = x, .y = y};
        struct svg_chart c = {SVG_FITTED, .title = "t", .x = "x",
                              .y = "y",   .series = &s, .n = 1};
        svg_chart(&p, &c);
        assert_int_equal(p.rc, 0);
        assert_non_null(memmem(p.b.data, p.b.len, "<circle", 7));
        buf_free(&p.b);
    }
}

// The page names units, and shows the command that repeats the run.
static void test_the_run(void **state)
{
    (void)state;
    const char *page = page_of("{\"command\":\"train\",\"servers\":1,\"workers\":2,"
                               "\"data_bytes\":1500,\"seconds\":{"
                               "\"save\":1.91e-07,\"train\":0.25},\"run\":{\"command\":"
                               "\"tug train\",\"directory\":"
                               "\"/a<b\"}}");
    assert_non_null(strstr(page, "<data value=\"1500\" data-of=\"/data_bytes\">1.5 kB<"));
    assert_non_null(strstr(page, "data-of=\"/seconds/save\">0</data>"));
    assert_non_null(strstr(page, "data-of=\"/seconds/train\">0.2500</data>"));
    assert_non_null(strstr(page,
                           "in the directory <b>/a&lt;b</b>, repeats it, on a cluster "
                           "behind 'tug launch --servers 1 --workers 2 --'"));
    page = page_of("{\"command\":\"train\",\"servers\":0,\"workers\":0,\"out\":\"m\","
                   "\"run\":{\"command\":\"tug train\"}}");
    assert_non_null(strstr(page, "repeats it, with another directory for --out:</p>"));
    assert_null(strstr(page, "<td>workers</td>"));
    page = page_of(
        "{\"command\":\"eval\",\"keys\":3,\"run\":{\"command\":\"tug eval\"}}");
    assert_non_null(strstr(page, "<p>This command repeats it:</p>"));
    assert_non_null(strstr(page, "features of the saved model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_escaped),
        cmocka_unit_test(test_odd_results),
        cmocka_unit_test(test_pages_are_read_again),
        cmocka_unit_test(test_damaged_pages),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_ticks),
        cmocka_unit_test(test_whole_passes),
        cmocka_unit_test(test_runs_of_two_commands),
        cmocka_unit_test(test_one_point),
        cmocka_unit_test(test_the_run),
    };
    return cmocka_run_group_tests(tests, files_begin_in_memory, files_end);
}
