// See journals.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/journals.h"

#include <string.h>

#include "kit/test.h"

static int replay(struct journal *j,
                  int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                  void *ctx, struct err *e)
{
    const struct memory_journal *m = (const struct memory_journal *)j;
    uint64_t n;
    for (size_t at = 0; at < m->groups.len; at += sizeof(n) + n) {
        memcpy(&n, m->groups.data + at, sizeof(n));
        if (n > 0)
            TRY(each(ctx, m->groups.data + at + sizeof(n), n, e));
    }
    return 0;
}

static int commit(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    struct memory_journal *m = (struct memory_journal *)j;
    uint64_t length = n;
    bool fails = m->commits++ >= m->fails_after;
    if (!fails || (m->keeps && m->commits == m->fails_after + 1)) {
        if (buf_reserve(&m->groups, sizeof(length) + n) != 0)
            return err_nomem(e, "the journal");
        assert_int_equal(buf_add(&m->groups, &length, sizeof(length)), 0);
        assert_int_equal(buf_add(&m->groups, bytes, n), 0);
    }
    return fails ? err_set(e, TUG_EIO, "the journal cannot be written") : 0;
}

static int replace(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    struct memory_journal *m = (struct memory_journal *)j;
    struct buf before = m->groups;
    m->groups = BUF_INIT((size_t)1 << 30);
    int rc = commit(j, bytes, n, e);
    struct buf *unused = m->groups.len > 0 ? &before : &m->groups;
    if (unused == &m->groups) {
        buf_free(&m->groups);
        m->groups = before;
    } else {
        buf_free(&before);
    }
    return rc;
}

static uint64_t bytes_of(const struct journal *j)
{
    return ((const struct memory_journal *)j)->groups.len;
}

static void close_it(struct journal *j)
{
    (void)j;
}

static int ready(struct journal *j, struct err *e)
{
    (void)e;
    const struct memory_journal *m = (const struct memory_journal *)j;
    return !m->waits && !m->slow;
}

static bool speaks(struct journal *j)
{
    return !((struct memory_journal *)j)->waits;
}

static const struct journal_ops ops = {.ready = ready,
                                       .speaks = speaks,
                                       .replay = replay,
                                       .commit = commit,
                                       .replace = replace,
                                       .bytes = bytes_of,
                                       .close = close_it};

void journals_open(struct memory_journal *j)
{
    *j = (struct memory_journal){.base.ops = &ops, .fails_after = UINT64_MAX};
    j->groups = BUF_INIT((size_t)1 << 30);
}

void journals_free(struct memory_journal *j)
{
    buf_free(&j->groups);
}

void journals_mend(struct memory_journal *j)
{
    j->fails_after = UINT64_MAX;
}

void journals_copy(struct memory_journal *to, const struct memory_journal *from)
{
    journals_open(to);
    assert_int_equal(buf_add(&to->groups, from->groups.data, from->groups.len), 0);
}
