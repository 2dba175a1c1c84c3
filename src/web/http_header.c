// Parses the header lines of HTTP answers (http_header_internal.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "web/http_header_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/printable.h"

// Returns the value in a line "Name: value\r\n" of n bytes; NULL if the line has another
// name.
static const char *value_of(const char *line, size_t n, const char *name, size_t *ret_len)
{
    size_t len = strlen(name);
    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    const char *p = line + len + 1, *end = line + n;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *ret_len = (size_t)(end - p);
    return p;
}

static bool http_header_take_text(char to[HTTP_TEXT_MAX], const char *line, size_t n,
                                  const char *name)
{
    size_t len;
    const char *value = value_of(line, n, name, &len);
    if (value == NULL || len >= HTTP_TEXT_MAX)
        return false;
    memcpy(to, value, len);
    to[len] = '\0';
    printable_make(to);
    return true;
}

static bool digits(const char **p, uint64_t *ret)
{
    char *end;
    if (**p < '0' || **p > '9')
        return false;
    errno = 0;
    *ret = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0;
}

// If the next byte is `byte`, skips it and returns true; never skips the NUL that ends
// the text.
static bool passes(const char **p, char byte)
{
    bool there = **p == byte;
    *p += there;
    return there;
}

// Takes a Content-Range: "bytes 5-9/100", or "bytes */100" if the range was beyond the
// end.
static void take_range(struct http_answer *a, const char *text)
{
    const char *p = text + 6;
    uint64_t last;
    if (strncasecmp(text, "bytes ", 6) != 0)
        return;
    bool known = passes(&p, '*') ||
                 (digits(&p, &a->from) && passes(&p, '-') && digits(&p, &last));
    a->has_range = known && passes(&p, '/') && digits(&p, &a->total);
}

// Returns the status in a line "HTTP/1.1 200 OK"; 0 if the line has no status.
static int status_of(const char *line, size_t n)
{
    const char *p = memchr(line, ' ', n);
    int status = 0;
    for (p = p != NULL ? p + 1 : line + n; p < line + n && *p >= '0' && *p <= '9'; p++)
        status = status < 100 ? 10 * status + (*p - '0') : 0;
    return status;
}

void http_take_header(struct http_answer *a, const char *wanted, const char *line,
                      size_t n)
{
    char text[HTTP_TEXT_MAX];
    const char *p = text;
    if (n > 9 && strncmp(line, "HTTP/", 5) == 0) {
        *a = (struct http_answer){
            .status = status_of(line, n)}; // the line begins a new answer
    }
    if (http_header_take_text(text, line, n, "Content-Length"))
        a->has_length = digits(&p, &a->length);
    else if (http_header_take_text(text, line, n, "Content-Range"))
        take_range(a, text);
    else if (http_header_take_text(text, line, n, "ETag"))
        memcpy(a->version, text, sizeof text);
    else if (a->version[0] == '\0')
        (void)http_header_take_text(a->version, line, n, "Last-Modified");
    if (wanted != NULL)
        (void)http_header_take_text(a->wanted, line, n, wanted);
}
