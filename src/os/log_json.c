// Log lines as JSON; see log_json.h. They are written without jansson, since a line must
// also be written when memory has run out.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/log_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"
#include "os/clock.h"
#include "os/json.h"

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_json_time(char to[LOG_TIME_BYTES])
{
    uint64_t now = clock_unix_ns();
    time_t seconds = (time_t)(now / 1000000000u);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(to, LOG_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(to + n, LOG_TIME_BYTES - n, ".%03uZ", (unsigned)(now / 1000000u % 1000u));
}

// A line under construction. What `put` cannot write wholly is left out.
struct json_line {
    char *at;
    size_t left;
};

static void put(struct json_line *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct json_line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(l->at, l->left, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= l->left)
        n = 0;
    l->at += n;
    l->left -= (size_t)n;
    *l->at = '\0';
}

// Puts n bytes, escaped for a JSON text; returns false if the line is full.
static bool put_text(struct json_line *l, const char *text, size_t n)
{
    char some[256];
    for (size_t at = 0; at < n;) {
        at += printable_copy(some, sizeof(some), text + at, n - at);
        for (const char *c = some; *c != '\0';) {
            // A quote or a backslash takes one more byte. No character is written in
            // part.
            bool escaped = *c == '"' || *c == '\\';
            size_t bytes = 1;
            while ((c[bytes] & 0xc0) == 0x80)
                bytes++;
            if (bytes + escaped >= l->left)
                return false;
            if (escaped)
                *l->at++ = '\\';
            memcpy(l->at, c, bytes);
            l->at += bytes;
            l->left -= bytes + escaped;
            c += bytes;
        }
    }
    *l->at = '\0';
    return true;
}

size_t log_json_line(char *to, size_t cap, enum log_level level,
                     const struct log_origin *from, const struct log_field *fields,
                     size_t n_fields, const char *text, size_t n)
{
    static const char end[] = "\"}\n";
    struct json_line l = {to, cap - (sizeof(end) - 1)};
    char time[LOG_TIME_BYTES];
    log_json_time(time);
    put(&l, "{\"time\":\"%s\",\"level\":\"%s\"", time, level_names[level]);
    if (from->role != NULL)
        put(&l, ",\"role\":\"%s\"", from->role);
    if (from->rank >= 0)
        put(&l, ",\"rank\":%d", from->rank);
    if (from->host != NULL) {
        put(&l, ",\"host\":\"");
        (void)put_text(&l, from->host, strnlen(from->host, 64));
        put(&l, "\"");
    }
    if (from->pid != 0)
        put(&l, ",\"pid\":%d", from->pid);
    for (size_t i = 0; i < n_fields; i++)
        if (isfinite(fields[i].value))
            put(&l, ",\"%s\":%.12g", fields[i].name, fields[i].value);
    put(&l, ",\"message\":\"");
    (void)put_text(&l, text, n);
    memcpy(l.at, end, sizeof(end));
    return (size_t)(l.at - to) + sizeof(end) - 1;
}

bool log_json_message(const char *line, size_t n, char *ret, size_t cap)
{
    if (n == 0 || line[0] != '{')
        return false;
    json_begin();
    json_t *o = json_loadb(line, n, 0, NULL);
    const char *text = json_string_value(json_object_get(o, "message"));
    bool is = text != NULL && json_is_string(json_object_get(o, "time")) &&
              json_is_string(json_object_get(o, "level"));
    if (is && cap > 0)
        snprintf(ret, cap, "%s", text);
    json_decref(o);
    return is;
}
