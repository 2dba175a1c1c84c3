// For tests of leases: the rows that a scheduler would have in its journal, and leases that
// are made of them, as after the scheduler was killed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_KEPT_LEASES_H
#define TUG_KIT_KEPT_LEASES_H

#include <string.h>

#include "base/buf.h"
#include "cluster/leases/leases.h"
#include "kit/test.h"

struct kept_rows {
    struct buf all, row;
    leases_merge merge; // set by the test after kept_begin
};

static inline int kept_put(void *ctx, enum leases_row kind)
{
    struct kept_rows *k = ctx;
    const uint64_t head[2] = {(uint64_t)kind, k->row.len};
    assert_int_equal(buf_add(&k->all, head, sizeof(head)), 0);
    assert_int_equal(buf_add(&k->all, k->row.data, k->row.len), 0);
    return 0;
}

static inline void kept_begin(struct kept_rows *k, struct leases *l)
{
    *k = (struct kept_rows){.all = BUF_INIT(1 << 28), .row = BUF_INIT(1 << 28)};
    assert_int_equal(leases_keep(l), 0);
}

// Adds the rows that have changed.
static inline void kept_changes(struct kept_rows *k, struct leases *l)
{
    assert_int_equal(leases_rows(l, false, &k->row, kept_put, k), 0);
}

// Closes the leases, and returns new leases that have read the rows: the changes since
// kept_changes are lost.
static inline struct leases *kept_lost(struct kept_rows *k, struct leases *l)
{
    struct leases *other;
    uint64_t head[2];
    leases_close(l);
    assert_int_equal(leases_open(&other, NULL), 0);
    assert_int_equal(leases_keep(other), 0);
    leases_set_merge(other, k->merge);
    for (size_t at = 0; at < k->all.len; at += head[1]) {
        memcpy(head, k->all.data + at, sizeof(head));
        at += sizeof(head);
        assert_int_equal(
            leases_row_read(other, (enum leases_row)head[0], k->all.data + at, head[1]),
            0);
    }
    assert_int_equal(leases_restored(other), 0);
    leases_check(other);
    return other;
}

// Closes the leases, and returns new leases that have read their rows. If `anew`, the
// rows come from a journal that was written anew, which has each row once; otherwise all
// rows that were ever written are read.
static inline struct leases *kept_again(struct kept_rows *k, struct leases *l, bool anew)
{
    kept_changes(k, l);
    if (anew) {
        buf_clear(&k->all);
        assert_int_equal(leases_rows(l, true, &k->row, kept_put, k), 0);
    }
    return kept_lost(k, l);
}

static inline void kept_end(struct kept_rows *k)
{
    buf_free(&k->all);
    buf_free(&k->row);
}

#endif
