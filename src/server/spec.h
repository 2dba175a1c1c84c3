// What a table is to be: said by a client to every server loop, and checked there.
//
// Said in one of two ways: a table by groups by the columns of its rows (a trainer's), a
// table by configuration by a text (store/config.h), with all that rows live by. Servers
// keep a store of either (store/store.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SPEC_H
#define TUG_SERVER_SPEC_H

#include "accessor/accessor.h"
#include "base/buf.h"
#include "store/config.h"
#include "table/table.h"
#include "wire/wire.h"

enum { SPEC_NAME_MAX = 64, SPEC_MAX_TABLES = 4096 };
#define SPEC_PAGE_BYTES ((uint64_t)4 << 20) // of rows, unless one has more

struct table_spec {
    uint32_t id; // number of the table in the cluster
    char name[SPEC_NAME_MAX];
    enum wire_space space;
    enum wire_mode mode;
    uint32_t staleness; // WIRE_SSP
    bool mean;          // WIRE_SYNC: gradients of a clock are divided by its examples
    struct table_options options; // partition_bits: the cluster's, whatever stands here
    struct accessor accessor;
    bool by_config;
    struct table_config config; // by_config: all but the number follows from it
};

// The spec of a table by configuration.
int spec_of_config(struct table_spec *ret, uint32_t id, const struct table_config *c,
                   struct err *e);

// Floats of a key in a push of such values.
uint32_t spec_value_width(const struct table_spec *s, enum wire_op op);

// Floats of a row in a page of ROWS_ARE: whole rows, or with a life what a pull returns.
uint32_t spec_page_width(const struct table_spec *s);
// Rows in a page that others follow, where at most `max` are wanted: never fewer, so that
// who walks knows how many questions a table takes.
uint32_t spec_page_rows(const struct table_spec *s, uint32_t max);

// To the wire: *ret points into *groups and *inits, and into *groups only if it is by
// configuration.
int spec_encode(const struct table_spec *s, struct buf *groups, struct buf *inits,
                struct msg_table *ret);

// From the wire. Everything is checked: TUG_EUSAGE saying what can't be.
int spec_decode(struct table_spec *ret, const struct msg_table *m,
                uint32_t partition_bits, struct err *e);

bool spec_same(const struct table_spec *a, const struct table_spec *b);

// What differs, in a word or three; NULL when nothing does but, perhaps, the number.
const char *spec_difference(const struct table_spec *a, const struct table_spec *b);

#endif
