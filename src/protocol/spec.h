// The spec of a table: its number and settings (store/config.h), and values that follow
// from the settings. A client sends number and settings to every server loop, which
// checks them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_SPEC_H
#define TUG_PROTOCOL_SPEC_H

#include "accessor/accessor.h"
#include "base/buf.h"
#include "store/config.h"
#include "wire/wire.h"

enum { SPEC_MAX_TABLES = 4096 };
// The greatest size of a page of rows, unless a single row is larger.
#define SPEC_PAGE_BYTES ((uint64_t)4 << 20)

struct table_spec {
    uint32_t id; // number of the table in the cluster
    struct table_config config;
    // The config determines this member and the following ones.
    struct accessor accessor;
    enum wire_space space;
    enum wire_mode mode;
};

int spec_make(struct table_spec *ret, uint32_t id, const struct table_config *c,
              struct err *e);

// Returns how many floats each key has in a push with this op.
uint32_t spec_value_width(const struct table_spec *s, enum wire_op op);

// Returns how many floats each row has in a page of ROWS_ARE: as many as the stored row,
// or, for an accessor with a lifecycle, as many as a pull returns.
uint32_t spec_page_width(const struct table_spec *s);
// Returns the number of rows of every page except the last, if at most `max` are wanted.
// The number depends only on the spec and `max`, so that a client knows how many requests
// a walk takes.
uint32_t spec_page_rows(const struct table_spec *s, uint32_t max);

// Encodes a spec as a message; *ret points into *config.
int spec_encode(const struct table_spec *s, struct buf *config, struct msg_table *ret);

// Decodes and checks a spec. Returns TUG_EUSAGE if it is invalid; the error has the reason.
int spec_decode(struct table_spec *ret, const struct msg_table *m, struct err *e);

bool spec_same(const struct table_spec *a, const struct table_spec *b);

// Returns a setting in which the two specs differ, or NULL. Table numbers are not
// compared.
const char *spec_difference(const struct table_spec *a, const struct table_spec *b);

#endif
