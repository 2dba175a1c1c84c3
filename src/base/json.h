// JSON files of our own (jansson), as they are written and believed: our memory, numbers
// of 64 bits as text, and readers that keep their first complaint, so that callers check
// once at the end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_JSON_H
#define TUG_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"

// Before any JSON is made or read. jansson allocates through base/alloc.h from then on.
// It passes over some failures, and a value is missing then: json_memory_failed says
// whether this thread had one since.
void json_begin(void);
bool json_memory_failed(void);

// JSON's integers are signed: a uint64_t travels as 16 hexadecimal digits.
json_t *json_hex(uint64_t x);

// JSON has no infinity, and nothing that is not a number: null.
json_t *json_real_or_null(double x);

// The hash of a value's compact text, keys sorted. TUG_ENOMEM.
int json_checksum(const json_t *value, uint64_t seed, uint64_t *ret);

// Prints one line of compact text, by further flags of jansson's. Takes `root` over,
// which may be NULL: TUG_ENOMEM.
int json_print(json_t *root, size_t flags, struct err *e);

// Writes a file beside and renames it. Takes `root` over, which may be NULL: TUG_ENOMEM.
int json_write_file(json_t *root, const char *path, struct err *e);
// An object of at most max_bytes of text; TUG_EDATA naming the file.
// `below`: FILE_ANYWHERE, or a directory that `path` is below (base/file.h).
int json_read_file(int below, const char *path, size_t max_bytes, json_t **ret,
                   struct err *e);

struct json_fields {
    const char *path; // of the file, for messages
    int rc;           // TUG_EDATA once something was wrong
    struct err *e;
};
void json_complain(struct json_fields *f, const char *name, const char *what);
uint64_t json_read_int(struct json_fields *f, const json_t *o, const char *name,
                       uint64_t max); // 0..max
uint64_t json_read_hex(struct json_fields *f, const json_t *o, const char *name);
const char *json_read_text(struct json_fields *f, const json_t *o,
                           const char *name); // "" when it is missing
const json_t *json_read_array(struct json_fields *f, const json_t *o, const char *name,
                              size_t max); // of at most so many elements

#endif
