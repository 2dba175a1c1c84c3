// Checks, reads and writes the files of reports.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "os/file.h"
#include "report/report_internal.h"

// Returns whether the file may be overwritten, because it is empty, a report, or not a
// regular file.
static bool is_report(const char *path, const struct stat *s)
{
    char begin[sizeof(REPORT_BEGIN) - 1];
    if (!S_ISREG(s->st_mode) || s->st_size == 0)
        return true;
    FILE *f = fopen(path, "re");
    size_t n = f != NULL ? fread(begin, 1, sizeof(begin), f) : 0;
    if (f != NULL)
        fclose(f);
    return n == sizeof(begin) && memcmp(begin, REPORT_BEGIN, n) == 0;
}

int report_check_file(const char *option, const char *path, struct err *e)
{
    struct stat s;
    struct file_writer *w;
    if (strcmp(path, "-") == 0 || path[0] == '\0')
        return err_set(e, TUG_EUSAGE,
                       "%s '%s': a report is a file for a browser: give a name such as "
                       "report.html",
                       option, path);
    bool there = stat(path, &s) == 0;
    if (there && S_ISDIR(s.st_mode))
        return err_set(e, TUG_EUSAGE, "%s: '%s' is a directory: give the name of a file",
                       option, path);
    if (there && !is_report(path, &s))
        return err_set(e, TUG_EUSAGE,
                       "%s: '%s' is not empty, and is not a report: give another file, "
                       "or remove it",
                       option, path);
    if (there && !S_ISREG(s.st_mode))
        return 0; // not tried: closing the pipe again would end its reader
    if (file_create(&w, path, e) != 0)
        return err_wrap(e, "%s", option);
    file_abort(w);
    return 0;
}

static int write_page(const struct buf *b, const char *path, struct err *e)
{
    struct file_writer *w;
    TRY(file_create(&w, path, e));
    int rc = file_write(w, b->data, b->len, e);
    if (rc == 0)
        return file_commit(w, e);
    file_abort(w);
    return rc;
}

int report_page_write(struct page *p, const char *path, struct err *e)
{
    html_end(p);
    if (json_memory_failed())
        p->rc = TUG_ENOMEM;
    int rc = p->rc == TUG_ENOMEM ? err_nomem(e, "a report")
             : p->rc != 0        ? buf_error(&p->b, "the report", e)
                                 : write_page(&p->b, path, e);
    buf_free(&p->b);
    return rc;
}

// Replaces "&lt;" and the like by their characters, in place; returns the new length.
static size_t unescape(char *text, size_t n)
{
    static const struct {
        const char *name;
        char is;
    } of[] = {
        {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}, {"&amp;", '&'}};
    size_t to = 0;
    for (size_t at = 0; at < n;) {
        size_t i = 0, len = 1;
        char is = text[at];
        for (; is == '&' && i < sizeof(of) / sizeof(*of); i++) {
            len = strlen(of[i].name);
            if (n - at >= len && memcmp(text + at, of[i].name, len) == 0) {
                is = of[i].is;
                break;
            }
            len = 1;
        }
        text[to++] = is;
        at += len;
    }
    return to;
}

// Finds the text of the JSON result: between two marks if the file is a page, else in the
// last line.
static char *find_result(struct buf *b, size_t *ret_n)
{
    char *text = b->data, *end = text + b->len;
    char *mark = memmem(text, b->len, REPORT_RESULT, strlen(REPORT_RESULT));
    bool page = b->len >= strlen(REPORT_BEGIN) &&
                memcmp(text, REPORT_BEGIN, strlen(REPORT_BEGIN)) == 0;
    if (page && mark == NULL)
        return NULL;
    if (page) {
        mark += strlen(REPORT_RESULT);
        char *stop = memmem(mark, (size_t)(end - mark), "</pre>", 6);
        *ret_n = stop != NULL ? unescape(mark, (size_t)(stop - mark)) : 0;
        return mark;
    }
    while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
        end--;
    *ret_n = (size_t)(end - text);
    char *line = memrchr(text, '\n', *ret_n);
    if (line != NULL && line[1] == '{') {
        *ret_n = (size_t)(end - line - 1);
        return line + 1;
    }
    return text;
}

int report_read(const char *path, json_t **ret, struct err *e)
{
    struct buf b = BUF_INIT(64 << 20);
    size_t n = 0;
    TRY(file_read(path, &b, e));
    json_begin();
    char *text = b.len > 0 ? find_result(&b, &n) : NULL;
    *ret = text != NULL ? json_loadb(text, n, 0, NULL) : NULL;
    buf_free(&b);
    if (json_memory_failed()) {
        json_decref(*ret);
        return err_nomem(e, "a report");
    }
    if (json_is_string(json_object_get(*ret, "command")))
        return 0;
    json_decref(*ret);
    return err_set(e, TUG_EDATA,
                   "'%s' is neither a report of one run nor the output of tug train or "
                   "tug eval with --json",
                   path);
}
