// Writes JSON text.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/json_out.h"

#include <string.h>

#include "base/bytes.h"

enum { DIGITS = 20 }; // number of digits of the greatest uint64_t

// Writes the comma and the name before a value. Returns the place for the value, with
// room for `room` bytes; NULL after an error. The caller advances the buffer by the bytes
// that it writes.
static char *place(struct json_out *o, const char *name, size_t room)
{
    size_t n = name != NULL ? strlen(name) : 0;
    if (o->rc == 0)
        o->rc = buf_reserve(o->to, n + 4 + room); // a comma, two quotes and a colon
    if (o->rc != 0)
        return NULL;
    char *at = o->to->data + o->to->len;
    if (o->more)
        *at++ = ',';
    if (name != NULL) {
        *at++ = '"';
        memcpy(at, name, n);
        at += n;
        *at++ = '"';
        *at++ = ':';
    }
    o->more = true;
    o->to->len = (size_t)(at - o->to->data);
    return at;
}

static void put(struct json_out *o, const char *name, const char *text, size_t n)
{
    char *at = place(o, name, n);
    if (at == NULL)
        return;
    memcpy(at, text, n);
    o->to->len += n;
}

void json_out_open(struct json_out *o, const char *name, char bracket)
{
    put(o, name, &bracket, 1);
    o->more = false;
}

void json_out_close(struct json_out *o, char bracket)
{
    o->more = false;
    put(o, NULL, &bracket, 1);
}

// Writes the digits of x so that they end before `end`, and returns where they begin.
static char *digits_of(uint64_t x, char *end)
{
    do
        *--end = (char)('0' + x % 10);
    while ((x /= 10) != 0);
    return end;
}

// A number above INT64_MAX is written as INT64_MAX, because readers such as jansson
// refuse a whole document that has such a number. Peers choose some of the numbers.
void json_out_u64(struct json_out *o, const char *name, uint64_t x)
{
    char text[DIGITS];
    x = x < INT64_MAX ? x : INT64_MAX;
    char *first = digits_of(x, text + DIGITS);
    put(o, name, first, (size_t)(text + DIGITS - first));
}

void json_out_i64(struct json_out *o, const char *name, int64_t x)
{
    char text[DIGITS + 1];
    char *first = digits_of(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, text + DIGITS + 1);
    if (x < 0)
        *--first = '-';
    put(o, name, first, (size_t)(text + DIGITS + 1 - first));
}

void json_out_real(struct json_out *o, const char *name, int digits, double x)
{
    if (place(o, name, 0) != NULL)
        o->rc = buf_json_number(o->to, digits, x);
}

void json_out_flag(struct json_out *o, const char *name, bool x)
{
    put(o, name, x ? "true" : "false", x ? 4 : 5);
}

void json_out_null(struct json_out *o, const char *name)
{
    put(o, name, "null", 4);
}

void json_out_text(struct json_out *o, const char *name, const char *text)
{
    if (text == NULL)
        json_out_null(o, name);
    else if (place(o, name, 0) != NULL)
        o->rc = buf_json(o->to, text);
}

void json_out_raw(struct json_out *o, const char *name, const char *json, size_t n)
{
    put(o, name, json, n);
}
