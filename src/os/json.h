// The JSON files of tug (jansson): memory comes from base/alloc.h, 64-bit numbers are
// texts, and the readers of fields keep their first error, so that a caller checks once
// at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_JSON_H
#define TUG_OS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

// json_begin must be called before JSON is made or read; then jansson allocates
// through base/alloc.h. jansson ignores some failed allocations and leaves a
// value out: json_memory_failed returns whether that has happened in this thread
// since its last json_begin.
void json_begin(void);
bool json_memory_failed(void);

// Returns 16 hexadecimal digits for x, because jansson's integers are signed.
json_t *json_hex(uint64_t x);

// Returns null for infinity and NaN, which JSON does not have.
json_t *json_real_or_null(double x);

// Adds a field to an object. The type of x decides the form of the field, so the compiler
// refuses a type that has no form. If the object or the value is NULL, or a text is not
// UTF-8, json_memory_failed returns true, so call it before using the object.
#define json_put(o, name, x)                                                             \
    json_put_value(o, name,                                                              \
                   _Generic((x),                                                         \
                   bool: json_flag,                                                      \
                   uint32_t: json_integer,                                               \
                   uint64_t: json_integer,                                               \
                   float: json_real,                                                     \
                   double: json_real,                                                    \
                   char *: json_string,                                                  \
                   const char *: json_string)(x))
void json_put_value(json_t *o, const char *name, json_t *value);
json_t *json_flag(bool x);

// Hashes the compact text of a value, with sorted keys. May return TUG_ENOMEM.
int json_checksum(const json_t *value, uint64_t seed, uint64_t *ret);

// Prints a line of compact text; `flags` are further flags of jansson. Takes ownership of
// `root`; returns TUG_ENOMEM if `root` is NULL.
int json_print(json_t *root, size_t flags, struct err *e);

// Writes a file under a temporary name and renames it. Takes ownership of `root`; returns
// TUG_ENOMEM if `root` is NULL.
int json_write_file(json_t *root, const char *path, struct err *e);
// Reads a file with a JSON object of at most max_bytes of text; returns TUG_EDATA, with
// an error that names the file, if the file has no such object. `below` is FILE_ANYWHERE,
// or a directory that `path` is below (os/file.h).
int json_read_file(int below, const char *path, size_t max_bytes, json_t **ret,
                   struct err *e);

struct json_fields {
    const char *path; // path of the file, for messages
    int rc;           // TUG_EDATA after the first error
    struct err *e;
};
void json_complain(struct json_fields *f, const char *name, const char *what);
uint64_t json_read_int(struct json_fields *f, const json_t *o, const char *name,
                       uint64_t max); // reads an integer from 0 to max
uint64_t json_read_hex(struct json_fields *f, const json_t *o, const char *name);
double json_read_real(struct json_fields *f, const json_t *o, const char *name);
bool json_read_flag(struct json_fields *f, const json_t *o, const char *name);
// Reads a text; "" if it is missing.
const char *json_read_text(struct json_fields *f, const json_t *o, const char *name);
const json_t *json_read_array(struct json_fields *f, const json_t *o, const char *name,
                              size_t max); // reads an array of at most `max` elements

#endif
