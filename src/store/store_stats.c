// Statistics of a store, and single rows for tests and statistics.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/store_internal.h"

static uint64_t count_bits(const struct handle_bits *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->n_words; i++)
        n += (uint64_t)__builtin_popcountll(b->words[i]);
    return n;
}

uint32_t store_day_of(const struct store *s)
{
    // Leaves out partitions that this store does not own. A partition whose copy was
    // dropped may have a later day than the owned ones: its owner had already ended a day
    // when it sent the copy, and then this store ended the same day again.
    uint32_t day = 0;
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (store_leads(s, p) && s->parts[p].day > day)
            day = s->parts[p].day;
    return day;
}

struct store_stats store_counts(const struct store *s)
{
    struct store_stats x = s->stats;
    x.extra_rows = s->n_extras;
    x.step = s->step;
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct store_part *part = &s->parts[p];
        x.cold_rows += part->cold;
        x.backup_rows += part->backup ? part->live : 0;
        x.backup_cold_rows += part->backup ? part->cold : 0;
    }
    if (s->cold != NULL)
        cold_counts(s, &x);
    return x;
}

uint64_t store_bytes(const struct store *s)
{
    struct table_stats t = table_stats(s->rows);
    uint64_t bytes = t.row_bytes + t.index_bytes + s->entry_bytes, cold_rows = 0;
    if (s->accessor.extra_width > 0)
        bytes += slabs_bytes(&s->extras);
    bytes += (s->changed.n_words + s->marks.n_words) * sizeof(uint64_t);
    for (uint32_t p = 0; p < s->n_parts; p++) {
        const struct store_part *part = &s->parts[p];
        uint64_t handles = (uint64_t)part->rows.cap + part->changed.cap +
                           part->published.cap;
        bytes += handles * sizeof(uint32_t) + part->gone.cap * sizeof(uint64_t);
        cold_rows += part->cold;
    }
    return s->cold != NULL ? bytes + cold_bytes(s, cold_rows) : bytes;
}

struct store_stats store_stats(const struct store *s)
{
    struct store_stats x = store_counts(s);
    x.bytes = store_bytes(s);
    x.changed = count_bits(&s->changed);
    x.day = store_day_of(s);
    return x;
}

const float *store_row(const struct store *s, uint64_t key, const float **ret_extra)
{
    uint32_t handle;
    table_find(s->rows, &key, 1, &handle);
    const float *row = handle == TABLE_NONE ? NULL : store_row_at(s, handle);
    if (ret_extra != NULL)
        *ret_extra = row == NULL ? NULL : store_extra_of(s, row);
    return row;
}
