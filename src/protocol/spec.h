// What a table is to be: its number and its settings (store/config.h), said by a client to
// every server loop, and checked there; and what follows from them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_SPEC_H
#define TUG_PROTOCOL_SPEC_H

#include "accessor/accessor.h"
#include "base/buf.h"
#include "store/config.h"
#include "wire/wire.h"

enum { SPEC_MAX_TABLES = 4096 };
#define SPEC_PAGE_BYTES ((uint64_t)4 << 20) // of rows, unless one has more

struct table_spec {
    uint32_t id; // number of the table in the cluster
    struct table_config config;
    struct accessor accessor; // this and all below follow from the config
    enum wire_space space;
    enum wire_mode mode;
};

int spec_make(struct table_spec *ret, uint32_t id, const struct table_config *c,
              struct err *e);

// Floats of a key in a push of such values.
uint32_t spec_value_width(const struct table_spec *s, enum wire_op op);

// Floats of a row in a page of ROWS_ARE: whole rows, or with a life what a pull returns.
uint32_t spec_page_width(const struct table_spec *s);
// Rows in a page that others follow, where at most `max` are wanted: never fewer, so that
// who walks knows how many questions a table takes.
uint32_t spec_page_rows(const struct table_spec *s, uint32_t max);

// To the wire: *ret points into *config.
int spec_encode(const struct table_spec *s, struct buf *config, struct msg_table *ret);

// From the wire. Everything is checked: TUG_EUSAGE saying what can't be.
int spec_decode(struct table_spec *ret, const struct msg_table *m, struct err *e);

bool spec_same(const struct table_spec *a, const struct table_spec *b);

// The setting that differs; NULL when none does. The number is not looked at.
const char *spec_difference(const struct table_spec *a, const struct table_spec *b);

#endif
