// Identifies the data of a run by the files' base names, sizes and hashes of their ends,
// in order. It is saved with a run and compared when the run is resumed. For a pipe, the
// identity says only that it is a pipe.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_IDENTITY_H
#define TUG_DATA_SOURCE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "os/json.h"

enum { IDENTITY_TEXT_MAX = 64 << 10 };

// This struct has no pointers, so it can be copied.
struct identity {
    uint64_t hash; // hash over all files
    uint32_t files;
    uint32_t text_len;
    // For messages: "HASH BYTES NAME" of the first files, each ended by a NUL.
    char text[IDENTITY_TEXT_MAX];
};

struct identity_file {
    const char *name; // a path, or any text
    size_t name_len;
    bool pipe;
    uint64_t bytes, hash;
};

void identity_add(struct identity *id, const struct identity_file *f);

// Returns 0 if both identities are the same; else TUG_EDATA with the difference as its
// text, such as "the size of 'b' is 2, but it was 1".
int identity_same(const struct identity *then, const struct identity *now, struct err *e);

json_t *identity_to_json(const struct identity *id);
void identity_from_json(struct identity *ret, const json_t *o, struct json_fields *f);

#endif
