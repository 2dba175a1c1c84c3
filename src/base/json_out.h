// Writes JSON text into a buffer, fast enough for a server's loop: a document of a
// thousand tables has tens of thousands of numbers, and printf would take milliseconds.
//
// The first error is kept in `rc`, so that a caller checks once, at the end.
//
//   struct json_out o = JSON_OUT(&buf);
//   json_out_open(&o, NULL, '{');
//   json_out_u64(&o, "rows", 7);
//   json_out_close(&o, '}');
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_JSON_OUT_H
#define TUG_BASE_JSON_OUT_H

#include "base/buf.h"

struct json_out {
    struct buf *to;
    bool more; // a value was written before, so that the next one needs a comma
    int rc;    // the first error: TUG_ENOMEM, or TUG_EDATA if the text is too long
};

#define JSON_OUT(buf) ((struct json_out){.to = (buf)})

// In these functions, `name` is the name of a member, without characters that need
// escapes. It is NULL for an element of an array and for the document itself.
void json_out_open(struct json_out *o, const char *name, char bracket); // '{' or '['
void json_out_close(struct json_out *o, char bracket);                  // '}' or ']'
void json_out_u64(struct json_out *o, const char *name,
                  uint64_t x); // at most INT64_MAX is written
void json_out_i64(struct json_out *o, const char *name, int64_t x);
// Writes null if x is not finite.
void json_out_real(struct json_out *o, const char *name, int digits, double x);
void json_out_flag(struct json_out *o, const char *name, bool x);
void json_out_null(struct json_out *o, const char *name);
// Writes any text as a JSON string (buf_json); null if `text` is NULL.
void json_out_text(struct json_out *o, const char *name, const char *text);
// Writes n bytes that are JSON already.
void json_out_raw(struct json_out *o, const char *name, const char *json, size_t n);

#endif
