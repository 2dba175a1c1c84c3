// Walks over all rows: scan, sorted rows, a copy of the table.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/table_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/relaxed.h"

enum { SCAN_ROWS = 1024 };

size_t table_scan(const struct table *t, uint64_t *cursor, uint32_t *ret_handles,
                  size_t max)
{
    uint64_t end = slabs_end(&t->slabs);
    size_t n = 0;
    while (*cursor < end && n < max) {
        uint64_t word = atomic_load_explicit(&t->slabs.live[*cursor >> 6],
                                             memory_order_relaxed);
        word >>= *cursor & 63;
        if (word == 0) {
            *cursor = (*cursor | 63) + 1;
            continue;
        }
        *cursor += (uint32_t)__builtin_ctzll(word);
        ret_handles[n++] = (uint32_t)(*cursor)++;
    }
    return n;
}

// The partitions [first, first + n) of a table.
struct range {
    uint32_t first, n, bits;
};

// Gets the position of a key's partition within the range. Returns false if the range
// does not have the partition.
static bool range_find(const struct range *r, uint64_t key, uint32_t *ret)
{
    *ret = table_partition(mix64(key), r->bits) - r->first;
    return *ret < r->n;
}

// Writes an entry for every live row of the range to `ret`; at[p] is the position of the
// next entry of partition p. If `ret` is NULL, only counts the rows of partition p in at[p].
static void table_walk_fill(const struct table *t, const struct range *r, uint64_t *at,
                            struct table_entry *ret)
{
    uint32_t handles[SCAN_ROWS];
    uint64_t cursor = 0;
    for (size_t n; (n = table_scan(t, &cursor, handles, SCAN_ROWS)) > 0;)
        for (size_t i = 0; i < n; i++) {
            uint64_t key = table_row_key(table_row(t->view, handles[i]));
            uint32_t p;
            if (!range_find(r, key, &p))
                continue;
            if (ret != NULL)
                ret[at[p]] = (struct table_entry){key, handles[i]};
            at[p]++;
        }
}

// Sorts entries by key, in place: by the byte of the key that begins at bit `shift`, then
// the entries with equal bytes by the next lower byte (American flag sort: McIlroy,
// Bostic, McIlroy 1993).
static void sort_keys(struct table_entry *x, size_t n, uint32_t shift);

static void sort_few(struct table_entry *x, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct table_entry v = x[i];
        size_t at = i;
        for (; at > 0 && x[at - 1].key > v.key; at--)
            x[at] = x[at - 1];
        x[at] = v;
    }
}

static void sort_bytes(struct table_entry *x, size_t n, uint32_t shift)
{
    size_t begin[257] = {0}, at[256];
    for (size_t i = 0; i < n; i++)
        begin[(x[i].key >> shift & 255) + 1]++;
    for (uint32_t b = 0; b < 256; b++) {
        begin[b + 1] += begin[b];
        at[b] = begin[b];
    }
    for (uint32_t b = 0; b < 256; b++)
        while (at[b] < begin[b + 1]) {
            struct table_entry v = x[at[b]];
            size_t from = at[b], place = at[v.key >> shift & 255]++;
            x[from] = x[place];
            x[place] = v;
        }
    for (uint32_t b = 0; b < 256 && shift > 0; b++)
        sort_keys(x + begin[b], begin[b + 1] - begin[b], shift - 8);
}

static void sort_keys(struct table_entry *x, size_t n, uint32_t shift)
{
    if (n <= 32)
        sort_few(x, n);
    else
        sort_bytes(x, n, shift);
}

// Each at[p] has the number of rows of partition p. Replaces it by the position of the
// first of these rows. Returns the number of all rows.
static uint64_t begins(uint64_t *at, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t p = 0; p < n; p++) {
        uint64_t count = at[p];
        at[p] = sum;
        sum += count;
    }
    return sum;
}

int table_sorted(const struct table *t, uint32_t first, uint32_t n,
                 struct table_entry **ret, size_t *ret_n, struct err *e)
{
    struct range r = {first, n, t->options.partition_bits};
    if (first > 1u << r.bits || n > (1u << r.bits) - first)
        return err_set(e, TUG_EUSAGE,
                       "partitions %u to %llu are not among the table's %u", first,
                       (unsigned long long)first + n, 1u << r.bits);
    struct table_entry *x = NULL;
    uint64_t *at = mem_zalloc(n * sizeof(*at));
    if (at == NULL)
        return err_nomem(e, "sorting a table");
    table_walk_fill(t, &r, at, NULL);
    size_t rows = begins(at, n);
    x = mem_array(rows, sizeof(*x));
    if (x == NULL) {
        mem_free(at);
        return err_nomem(e, "sorting a table");
    }
    table_walk_fill(t, &r, at, x); // at[p] becomes the end of the rows of partition p
    for (uint32_t p = 0; p < n; p++) {
        uint64_t begin = p > 0 ? at[p - 1] : 0;
        sort_keys(x + begin, at[p] - begin, 56);
    }
    mem_free(at);
    *ret = x;
    *ret_n = rows;
    return 0;
}

void table_sort_by_key(struct table_entry *rows, size_t n)
{
    sort_keys(rows, n, 56);
}

static int copy_rows(struct table *to, const struct table *from, const uint32_t *handles,
                     size_t n)
{
    uint64_t keys[SCAN_ROWS];
    uint32_t copies[SCAN_ROWS];
    for (size_t i = 0; i < n; i++)
        keys[i] = table_row_key(table_row(from->view, handles[i]));
    TRY(table_rows(to, keys, n, copies));
    for (size_t i = 0; i < n; i++)
        relaxed_load_n(table_row(to->view, copies[i]), table_row(from->view, handles[i]),
                       from->options.width);
    return 0;
}

int table_clone(struct table **ret, const struct table *t, struct err *e)
{
    struct table *copy;
    uint32_t handles[SCAN_ROWS];
    uint64_t cursor = 0;
    TRY(table_open(&copy, &t->options, e));
    for (size_t n; (n = table_scan(t, &cursor, handles, SCAN_ROWS)) > 0;)
        if (copy_rows(copy, t, handles, n) != 0) {
            table_close(copy);
            return err_nomem(e, "a copy of a table");
        }
    *ret = copy;
    return 0;
}
