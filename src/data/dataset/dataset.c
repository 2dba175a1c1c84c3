// Reads data sets: facts, batches, and the origins of examples.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/dataset_internal.h"
#include "data/format/grow.h"

int dataset_resolve_nothing(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    (void)ctx;
    (void)keys;
    if (n > 0) // ret_ids may be NULL if n is 0
        memset(ret_ids, 0, n * sizeof(*ret_ids));
    return 0;
}

void dataset_close(struct dataset *d)
{
    if (d == NULL)
        return;
    for (size_t i = 0; i < d->regions; i++)
        mem_unmap(d->region[i].memory, d->region[i].size);
    mem_free(d->region);
    mem_free(d->finder);
    mem_free(d->block);
    mem_free(d);
}

uint64_t dataset_size(const struct dataset *d)
{
    return d->size;
}

uint64_t dataset_features(const struct dataset *d)
{
    return d->features;
}

uint64_t dataset_bytes(const struct dataset *d)
{
    uint64_t bytes = sizeof *d + d->blocks * sizeof *d->block +
                     d->regions * sizeof *d->region;
    if (d->finder != NULL)
        bytes += ((d->size >> d->finder_shift) + 1) * sizeof *d->finder;
    for (size_t i = 0; i < d->regions; i++)
        bytes += d->region[i].used;
    return bytes;
}

uint64_t dataset_positives(const struct dataset *d)
{
    return d->positives;
}

uint32_t dataset_slots(const struct dataset *d)
{
    return d->slots;
}

uint32_t dataset_first_slot(const struct dataset *d)
{
    return d->first_slot;
}

bool dataset_at_end(const struct dataset *d)
{
    return d->at_end;
}

static inline const struct block *find_block(const struct dataset *d, uint64_t example)
{
    assert(example < d->size);
    const struct block *b = &d->block[d->finder[example >> d->finder_shift]];
    while (example - b->first >= b->n)
        b++;
    return b;
}

void dataset_where(const struct dataset *d, uint64_t example, uint32_t *ret_file,
                   uint64_t *ret_line)
{
    const struct block *b = find_block(d, example);
    *ret_file = b->file;
    *ret_line = block_line(b, (uint32_t)(example - b->first));
    if (d->dealt)
        *ret_line = 0;
    if (d->pieces == NULL)
        return;
    uint64_t first;
    bool known = pieces_line(d->pieces, b->file, d->offset, &first, NULL) == 0;
    *ret_line = known ? first + *ret_line - 1 : 0;
}

const char *dataset_kept(const struct dataset *d, uint64_t example)
{
    const struct block *b = find_block(d, example);
    return b->kept + b->kept_at[example - b->first];
}

void dataset_prefetch(const struct dataset *d, uint64_t example)
{
    const struct block *b = find_block(d, example);
    uint32_t i = (uint32_t)(example - b->first);
    const unsigned char *p = b->records + block_record(b, i);
    const unsigned char *end = b->records + block_record(b, i + 1);
    // The hardware prefetches a long record after its first cache lines, because it is
    // read in order.
    for (int lines = 0; p < end && lines < 4; lines++, p += 64)
        __builtin_prefetch(p);
}

// ---------------------------------------------------------------- batches

void batch_free(struct batch *b)
{
    mem_free(b->label);
    mem_free(b->weight_memory);
    mem_free(b->start);
    mem_free(b->id);
    mem_free(b->slot);
    mem_free(b->value_memory);
    *b = (struct batch){0};
}

// Makes room for n examples. Weights and values get memory when a batch first needs them.
static int batch_room_n(struct batch *b, size_t n, bool weights)
{
    size_t cap = n > b->cap_n ? n : b->cap_n + (b->cap_n == 0);
    if (weights && (b->weight_memory == NULL || n > b->cap_n))
        if (!grow(&b->weight_memory, cap, sizeof(float)))
            return TUG_ENOMEM;
    if (n <= b->cap_n && b->start != NULL)
        return 0;
    if (!grow(&b->start, cap + 1, sizeof *b->start))
        return TUG_ENOMEM;
    if (!weights) { // the old memory may be too small for cap_n examples
        mem_free(b->weight_memory);
        b->weight_memory = NULL;
    }
    b->cap_n = cap;
    return 0;
}

static int batch_room_labels(struct batch *b, uint32_t labels)
{
    b->labels = labels;
    if (b->cap_n * labels <= b->cap_labels)
        return 0;
    if (!grow(&b->label, b->cap_n * labels, sizeof *b->label))
        return TUG_ENOMEM;
    b->cap_labels = b->cap_n * labels;
    return 0;
}

static int batch_room_nnz(struct batch *b, size_t nnz, bool values)
{
    if (nnz <= b->cap_nnz && b->id != NULL && (!values || b->value_memory != NULL))
        return 0;
    size_t cap = b->cap_nnz > 0 && nnz <= b->cap_nnz ? b->cap_nnz : nnz + nnz / 2 + 64;
    if (!grow(&b->id, cap, sizeof *b->id) || !grow(&b->slot, cap, sizeof *b->slot))
        return TUG_ENOMEM;
    if (values && !grow(&b->value_memory, cap, sizeof *b->value_memory))
        return TUG_ENOMEM;
    if (!values) {
        mem_free(b->value_memory);
        b->value_memory = NULL;
    }
    b->cap_nnz = cap;
    return 0;
}

static int gather_one(const struct dataset *d, uint64_t example, struct batch *b)
{
    const struct block *from = find_block(d, example);
    uint32_t i = (uint32_t)(example - from->first);
    uint32_t at = block_record(from, i);
    uint32_t k = block_features(from, block_record(from, i + 1) - at);
    if (b->nnz + k > b->cap_nnz)
        TRY(batch_room_nnz(b, b->nnz + k, d->has_values));
    block_unpack(from, at, k, b->id + b->nnz, b->slot + b->nnz,
                 d->has_values ? b->value_memory + b->nnz : NULL);
    for (uint32_t t = 0; t < b->labels; t++)
        b->label[b->n * b->labels + t] = block_label(from, i, t);
    if (d->has_weights)
        b->weight_memory[b->n] = from->weights != NULL ? from->weights[i] : 1;
    b->nnz += k;
    b->start[++b->n] = (uint32_t)b->nnz;
    return 0;
}

int batch_reserve(const struct dataset *d, struct batch *b, size_t n, size_t nnz)
{
    b->n = b->nnz = 0;
    TRY(batch_room_n(b, n, d->has_weights));
    TRY(batch_room_labels(b, d->labels));
    TRY(batch_room_nnz(b, nnz, d->has_values));
    b->start[0] = 0;
    b->weight = d->has_weights ? b->weight_memory : NULL;
    b->value = d->has_values ? b->value_memory : NULL;
    return 0;
}

int dataset_gather(const struct dataset *d, const uint64_t *order, size_t n,
                   struct batch *b)
{
    TRY(batch_reserve(d, b, n, b->cap_nnz));
    for (size_t i = 0; i < n; i++)
        TRY(gather_one(d, order[i], b));
    b->value = d->has_values ? b->value_memory : NULL; // batch_reserve may have moved
                                                       // value_memory
    return 0;
}
