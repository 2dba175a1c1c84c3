// Reads a journal's bytes, which may be damaged in any way.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/hash.h"
#include "cluster/journal/journal_internal.h"

static uint64_t head_sum(const struct journal_head *h)
{
    return hash_bytes(&h->random, sizeof(h->random), 1);
}

void journal_head_make(struct journal_head *ret, uint64_t random)
{
    *ret = (struct journal_head){.random = random};
    memcpy(ret->magic, JOURNAL_MAGIC, sizeof(ret->magic));
    ret->sum = head_sum(ret);
}

// Returns the mark with which a group at `at` begins. Peers choose some bytes of a group,
// but they do not know the random number and cannot put marks there. So a search for
// groups computes few checksums.
static uint32_t mark_of(uint64_t random, uint64_t at)
{
    return (uint32_t)hash_bytes(&at, sizeof(at), ~random);
}

static uint64_t group_sum(uint64_t random, uint64_t at, const void *bytes, size_t n)
{
    return hash_bytes(bytes, n, hash_bytes(&at, sizeof(at), random) + n);
}

void journal_group_make(struct journal_group *ret, uint64_t random, uint64_t at,
                        const void *bytes, size_t n)
{
    *ret = (struct journal_group){.mark = mark_of(random, at), .n = (uint32_t)n};
    ret->sum = group_sum(random, at, bytes, n);
}

// Returns whether a sound group begins at `at`; if so, gets its head.
static bool is_group(const char *bytes, size_t n, uint64_t at, uint64_t random,
                     struct journal_group *ret)
{
    if (at + sizeof(*ret) > n)
        return false;
    memcpy(ret, bytes + at, sizeof(*ret));
    return ret->mark == mark_of(random, at) && ret->n <= JOURNAL_GROUP_MAX &&
           ret->n <= n - at - sizeof(*ret) &&
           group_sum(random, at, bytes + at + sizeof(*ret), ret->n) == ret->sum;
}

// Returns whether a sound group lies anywhere after `at`. Groups begin at multiples of 8.
static bool has_later(const char *bytes, size_t n, uint64_t at, uint64_t random)
{
    struct journal_group g;
    for (at += JOURNAL_ALIGN; at + sizeof(g) <= n; at += JOURNAL_ALIGN)
        if (is_group(bytes, n, at, random, &g))
            return true;
    return false;
}

static int read_head(struct journal_head *ret, const char *bytes, size_t n,
                     const char *name, struct err *e)
{
    if (n < sizeof(*ret) || memcmp(bytes, JOURNAL_MAGIC, JOURNAL_MAGIC_BYTES) != 0)
        return err_set(e, TUG_EDATA,
                       "'%s' is not a journal of a scheduler of this version; move it "
                       "away, or name another directory",
                       name);
    memcpy(ret, bytes, sizeof(*ret));
    if (ret->sum == head_sum(ret))
        return 0;
    return err_set(e, TUG_EDATA,
                   "the first bytes of '%s' are damaged; put a copy of the file in its "
                   "place, or start the whole cluster again with another directory",
                   name);
}

int journal_read(const void *bytes, size_t n, const char *name, uint64_t *ret_end,
                 int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                 void *ctx, struct err *e)
{
    struct journal_head head;
    struct journal_group g;
    const char *from = bytes;
    uint64_t at = sizeof(head);
    TRY(read_head(&head, from, n, name, e));
    for (; is_group(from, n, at, head.random, &g); at += journal_group_bytes(g.n)) {
        if (at + journal_group_bytes(g.n) > n)
            break; // a crash cut the zeros at the group's end
        if (each != NULL && g.n > 0)
            TRY(each(ctx, from + at + sizeof(g), g.n, e));
    }
    *ret_end = at;
    if (at > sizeof(head) && (at == n || !has_later(from, n, at, head.random)))
        return 0;
    return err_set(
        e, TUG_EDATA,
        "'%s' is damaged at byte %llu, before its end; put a copy of the file "
        "in its place, or start the whole cluster again with another directory",
        name, (unsigned long long)at);
}
