// Identifies the data of a run: the files' base names, sizes and hashes of their ends, in
// order. Saved with the run, and compared when it goes on. A pipe is known by being one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_IDENTITY_H
#define TUG_DATA_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum { IDENTITY_TEXT_MAX = 64 << 10 };

// Flat: it can be copied.
struct identity {
    uint64_t hash; // of all
    uint32_t files;
    uint32_t text_len;
    // For messages, of the first files: "HASH BYTES NAME" and a NUL each.
    char text[IDENTITY_TEXT_MAX];
};

struct identity_file {
    const char *name; // a path, or any text
    size_t name_len;
    bool pipe;
    uint64_t bytes, hash;
};

void identity_add(struct identity *id, const struct identity_file *f);

// 0 when they are the same; else TUG_EDATA saying how they differ, as "'b' has 2 bytes, it
// had 1".
int identity_same(const struct identity *then, const struct identity *now, struct err *e);

json_t *identity_to_json(const struct identity *id);
void identity_from_json(struct identity *ret, const json_t *o, struct json_fields *f);

#endif
