// Packs and unpacks blocks. block.h describes the layout.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/block.h"
#include "base/search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MASK_SLOTS = 64, GROUP = 1 << BLOCK_GROUP_BITS };

// ---------------------------------------------------------------- planning

static uint8_t bytes_for(uint32_t max)
{
    if (max < 1u << 8)
        return 1;
    if (max < 1u << 16)
        return 2;
    return max < 1u << 24 ? 3 : 4;
}

static uint32_t max_id(const uint32_t *ids, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++)
        max = ids[i] > max ? ids[i] : max;
    return max;
}

static void find_slots(const struct examples *x, struct block *b)
{
    uint16_t max = 0, min = UINT16_MAX;
    for (size_t i = 0; i < x->nnz; i++) {
        max = x->slot[i] > max ? x->slot[i] : max;
        min = x->slot[i] < min ? x->slot[i] : min;
    }
    b->max_slot = max;
    b->min_slot = min;
}

static uint64_t slot_mask(const struct examples *x, size_t i)
{
    uint64_t mask = 0;
    for (uint32_t j = x->start[i]; j < x->start[i + 1]; j++)
        mask |= (uint64_t)1 << x->slot[j];
    return mask;
}

static bool slots_ascend(const struct examples *x)
{
    for (size_t i = 0; i < x->n; i++)
        for (uint32_t j = x->start[i] + 1; j < x->start[i + 1]; j++)
            if (x->slot[j] <= x->slot[j - 1])
                return false;
    return true;
}

static void plan_slots(struct block *b, const struct examples *x)
{
    b->slots = BLOCK_SLOTS_ZERO;
    find_slots(x, b);
    if (b->max_slot == 0)
        return;
    if (b->max_slot >= MASK_SLOTS || !slots_ascend(x)) {
        b->slots = b->max_slot < 256 ? BLOCK_SLOTS_8 : BLOCK_SLOTS_16;
        return;
    }
    b->slots = BLOCK_SLOTS_MASK;
    b->mask = slot_mask(x, 0);
    for (size_t i = 1; i < x->n && b->mask_bytes == 0; i++)
        if (slot_mask(x, i) != b->mask)
            b->mask_bytes = (uint8_t)(b->max_slot / 8 + 1);
}

// Returns the place of a value's number in the hash table, or the free place where it
// belongs.
static uint16_t *code_place(struct block_codes *c, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t i = bits * 0x9e3779b1u >> 22;
    for (;; i = (i + 1) % (4 * BLOCK_CODES)) {
        uint16_t *p = &c->place[i];
        if (*p == 0 || memcmp(&c->value[*p - 1], &value, sizeof value) == 0)
            return p;
    }
}

static void plan_values(struct block_plan *p, const struct examples *x)
{
    struct block_codes *c = &p->codes;
    p->block.has_values = x->has_values;
    for (size_t j = 0; x->has_values && j < x->nnz; j++) {
        uint16_t *place = code_place(c, x->value[j]);
        if (*place != 0)
            continue;
        if (c->n == BLOCK_CODES)
            return;
        c->value[c->n++] = x->value[j];
        *place = (uint16_t)c->n;
    }
    if (c->n * sizeof(float) < 3 * x->nnz)
        p->block.n_codes = (uint16_t)c->n;
}

static size_t value_bytes(const struct block *b)
{
    return !b->has_values ? 0 : b->n_codes > 0 ? 1 : sizeof(float);
}

static uint32_t features_of(const struct examples *x, size_t i)
{
    return x->start[i + 1] - x->start[i];
}

static uint32_t record_bytes(const struct block *b, const struct examples *x, size_t i)
{
    return b->mask_bytes + features_of(x, i) * b->feature_bytes;
}

static bool equally_long(const struct examples *x)
{
    for (size_t i = 1; i < x->n; i++)
        if (features_of(x, i) != features_of(x, 0))
            return false;
    return true;
}

// Returns whether the records of every group of examples lie within 64 KiB of the group's
// first record.
static bool offsets_fit(const struct block *b, const struct examples *x)
{
    for (size_t i = 0; i < x->n; i += GROUP) {
        size_t last = i + GROUP - 1 < x->n ? i + GROUP - 1 : x->n;
        size_t features = x->start[last] - x->start[i];
        if (features * b->feature_bytes + (last - i) * b->mask_bytes > UINT16_MAX)
            return false;
    }
    return true;
}

static void plan_labels(struct block_plan *p, const struct examples *x)
{
    p->label_bits = true;
    p->block.labels = (uint8_t)x->labels;
    for (size_t i = 0; i < x->n; i++)
        p->block.positives += x->label[i * x->labels] > 0;
    for (size_t i = 0; i < x->n * x->labels; i++) {
        bool missing = x->labels > 1 && isnan(x->label[i]);
        p->block.label_gaps |= missing;
        p->label_bits &= missing || x->label[i] == 0 || x->label[i] == 1;
    }
}

static uint32_t count_gaps(const struct examples *x)
{
    uint32_t lines = x->n > 0 ? x->line[x->n - 1] + 1 : 0;
    return lines - (uint32_t)x->n;
}

// ---------------------------------------------------------------- memory

// The state of lay_out, which places the parts of a block one after the other. lay_out
// runs twice; the first run, without memory, only adds up the sizes.
struct layout {
    char *memory;
    size_t at;
};

static void *lay(struct layout *l, size_t n, size_t bytes)
{
    void *p = l->memory != NULL ? l->memory + l->at : NULL;
    l->at += (n * bytes + 7) & ~(size_t)7;
    return p;
}

static size_t groups(size_t n)
{
    return n / GROUP + 1;
}

enum { STARTS_EQUAL, STARTS_GROUPED, STARTS_WIDE };

static int kind_of_starts(const struct block *b, const struct examples *x)
{
    if (b->record_bytes != 0 || x->nnz == 0)
        return STARTS_EQUAL;
    return offsets_fit(b, x) ? STARTS_GROUPED : STARTS_WIDE;
}

static size_t label_planes(const struct block *b)
{
    return (size_t)b->labels << b->label_gaps;
}

// Lays out the parts of a block in memory. One run adds up their sizes, and another sets
// the pointers to them.
static void lay_out(struct block *b, const struct block_plan *p, const struct examples *x,
                    struct layout *l)
{
    int starts = kind_of_starts(&p->block, x);
    b->records = lay(l, p->record_total + BLOCK_PADDING, 1);
    if (starts != STARTS_EQUAL)
        b->base = lay(l, starts == STARTS_WIDE ? x->n + 1 : groups(x->n),
                      sizeof *b->base);
    if (starts == STARTS_GROUPED)
        b->offset = lay(l, x->n + 1, sizeof *b->offset);
    if (p->label_bits)
        b->label_bits = lay(l, label_planes(&p->block), x->n / 8 + 1);
    else
        b->label_values = lay(l, x->n * x->labels, sizeof(float));
    if (p->weights)
        b->weights = lay(l, x->n, sizeof(float));
    if (b->n_codes > 0)
        b->codes = lay(l, b->n_codes, sizeof(float));
    b->gaps = lay(l, b->n_gaps, sizeof *b->gaps);
}

int block_plan(struct block_plan *ret, const struct examples *x, const uint32_t *ids,
               struct err *e)
{
    assert(x->n > 0);
    *ret = (struct block_plan){.weights = x->has_weights};
    struct block *b = &ret->block;
    plan_slots(b, x);
    b->n = (uint32_t)x->n;
    b->nnz = (uint32_t)x->nnz;
    b->id_bytes = bytes_for(max_id(ids, x->nnz));
    plan_values(ret, x);
    b->feature_bytes = (uint8_t)(b->id_bytes + (b->slots == BLOCK_SLOTS_8) +
                                 (b->slots == BLOCK_SLOTS_16) * 2 + value_bytes(b));
    size_t total = x->n * b->mask_bytes + x->nnz * b->feature_bytes;
    if (x->n >= UINT32_MAX || total >= UINT32_MAX - BLOCK_PADDING)
        return err_set(e, TUG_EDATA,
                       "a chunk of text has more examples than fit in a block");
    ret->record_total = (uint32_t)total;
    b->record_bytes = equally_long(x) ? record_bytes(b, x, 0) : 0;
    plan_labels(ret, x);
    b->n_gaps = count_gaps(x);
    struct layout l = {0};
    struct block measured = *b;
    lay_out(&measured, ret, x, &l);
    ret->bytes = l.at;
    return 0;
}

// ---------------------------------------------------------------- packing

// A block has const pointers for its readers; only packing writes through them.
#define WRITABLE(type, p) ((type *)(p))

static void pack_starts(const struct block *b, const struct examples *x)
{
    uint32_t *base = WRITABLE(uint32_t, b->base);
    uint16_t *offset = WRITABLE(uint16_t, b->offset);
    uint32_t at = 0;
    for (size_t i = 0; base != NULL && i <= x->n; i++) {
        if (offset == NULL)
            base[i] = at;
        else if (i % GROUP == 0)
            base[i / GROUP] = at;
        if (offset != NULL)
            offset[i] = (uint16_t)(at - base[i / GROUP]);
        if (i < x->n)
            at += record_bytes(b, x, i);
    }
}

// Writes each id as four bytes. The next id overwrites the bytes that the id does not
// need; after the last id, padding does.
static unsigned char *pack_ids(unsigned char *to, const uint32_t *ids, uint32_t k,
                               uint8_t bytes)
{
    for (uint32_t j = 0; j < k; j++, to += bytes)
        memcpy(to, &ids[j], sizeof ids[j]);
    return to;
}

static unsigned char *pack_slots(const struct block *b, unsigned char *to,
                                 const uint16_t *slot, uint32_t k)
{
    if (b->slots == BLOCK_SLOTS_16) {
        memcpy(to, slot, k * sizeof *slot);
        return to + k * sizeof *slot;
    }
    for (uint32_t j = 0; b->slots == BLOCK_SLOTS_8 && j < k; j++)
        *to++ = (unsigned char)slot[j];
    return to;
}

static unsigned char *pack_values(const struct block *b, struct block_codes *codes,
                                  unsigned char *to, const float *value, uint32_t k)
{
    if (b->n_codes == 0) {
        memcpy(to, value, k * sizeof *value);
        return to + k * sizeof *value;
    }
    for (uint32_t j = 0; j < k; j++)
        *to++ = (unsigned char)(*code_place(codes, value[j]) - 1);
    return to;
}

static void pack_records(const struct block *b, struct block_codes *codes,
                         const struct examples *x, const uint32_t *ids)
{
    unsigned char *to = WRITABLE(unsigned char, b->records);
    for (size_t i = 0; i < x->n; i++) {
        uint32_t at = x->start[i], k = features_of(x, i);
        if (b->mask_bytes > 0) {
            uint64_t mask = slot_mask(x, i);
            memcpy(to, &mask, b->mask_bytes);
            to += b->mask_bytes;
        }
        to = pack_ids(to, ids + at, k, b->id_bytes);
        to = pack_slots(b, to, x->slot + at, k);
        if (b->has_values)
            to = pack_values(b, codes, to, x->value + at, k);
    }
    memset(to, 0, BLOCK_PADDING);
}

// Writes label t as one bit per example: whether it is above 0. If labels may be missing,
// also writes one bit per example: whether the label is missing.
static void pack_plane(const struct block *b, const struct examples *x, uint32_t t,
                       uint8_t *bits)
{
    uint8_t *gaps = bits + b->labels * block_plane(b);
    for (size_t i = 0; i < x->n; i++) {
        float label = x->label[i * x->labels + t];
        bits[i / 8] |= (uint8_t)((label > 0) << (i % 8));
        if (b->label_gaps)
            gaps[i / 8] |= (uint8_t)(isnan(label) << (i % 8));
    }
}

static void pack_labels(const struct block *b, const struct examples *x)
{
    uint8_t *bits = WRITABLE(uint8_t, b->label_bits);
    if (bits == NULL) {
        memcpy(WRITABLE(float, b->label_values), x->label,
               x->n * x->labels * sizeof *x->label);
    } else {
        memset(bits, 0, label_planes(b) * block_plane(b));
        for (uint32_t t = 0; t < x->labels; t++, bits += block_plane(b))
            pack_plane(b, x, t, bits);
    }
    if (b->weights != NULL)
        memcpy(WRITABLE(float, b->weights), x->weight, x->n * sizeof *x->weight);
}

static void pack_gaps(const struct block *b, const struct examples *x)
{
    uint32_t *gaps = WRITABLE(uint32_t, b->gaps);
    uint32_t line = 0;
    for (size_t i = 0; i < x->n; i++, line++)
        for (; line < x->line[i]; line++)
            *gaps++ = (uint32_t)i;
}

void block_pack(struct block *ret, struct block_plan *plan, const struct examples *x,
                const uint32_t *ids, void *memory)
{
    *ret = plan->block;
    struct layout l = {.memory = memory};
    lay_out(ret, plan, x, &l);
    assert(l.at == plan->bytes);
    pack_starts(ret, x);
    if (ret->codes != NULL)
        memcpy(WRITABLE(float, ret->codes), plan->codes.value,
               ret->n_codes * sizeof(float));
    pack_records(ret, &plan->codes, x, ids);
    pack_labels(ret, x);
    pack_gaps(ret, x);
}

// ---------------------------------------------------------------- unpacking

static const unsigned char *unpack_ids(const unsigned char *p, uint32_t k, uint8_t bytes,
                                       uint32_t *ret)
{
    switch (bytes) {
    case 1:
        for (uint32_t j = 0; j < k; j++)
            ret[j] = p[j];
        break;
    case 2:
        for (uint32_t j = 0; j < k; j++) {
            uint16_t id;
            memcpy(&id, p + 2 * j, sizeof id);
            ret[j] = id;
        }
        break;
    case 3:
        for (uint32_t j = 0; j < k; j++) {
            uint32_t id;
            memcpy(&id, p + 3 * j, sizeof id);
            ret[j] = id & 0xffffff;
        }
        break;
    default:
        memcpy(ret, p, k * sizeof *ret);
    }
    return p + (size_t)k * bytes;
}

// Lists the slots of a mask. A mask usually has all slots from 0 on, for which no bits
// need to be searched.
static void unpack_mask(uint64_t mask, uint32_t k, uint16_t *ret)
{
    if ((mask & (mask + 1)) == 0) {
        for (uint32_t j = 0; j < k; j++)
            ret[j] = (uint16_t)j;
        return;
    }
    for (uint32_t j = 0; j < k; j++, mask &= mask - 1)
        ret[j] = (uint16_t)__builtin_ctzll(mask);
}

static const unsigned char *unpack_slots(const struct block *b, const unsigned char *p,
                                         uint32_t k, uint64_t mask, uint16_t *ret)
{
    switch ((enum block_slots)b->slots) {
    case BLOCK_SLOTS_ZERO:
        memset(ret, 0, k * sizeof *ret);
        return p;
    case BLOCK_SLOTS_MASK:
        unpack_mask(mask, k, ret);
        return p;
    case BLOCK_SLOTS_8:
        for (uint32_t j = 0; j < k; j++)
            ret[j] = p[j];
        return p + k;
    case BLOCK_SLOTS_16:
        break;
    }
    memcpy(ret, p, k * sizeof *ret);
    return p + k * sizeof *ret;
}

void block_unpack(const struct block *b, uint32_t at, uint32_t k, uint32_t *ret_id,
                  uint16_t *ret_slot, float *ret_value)
{
    const unsigned char *p = b->records + at;
    uint64_t mask = b->mask;
    if (b->mask_bytes > 0) {
        unsigned unused = 64 - 8 * (unsigned)b->mask_bytes;
        memcpy(&mask, p, sizeof mask);
        mask = mask << unused >> unused;
        p += b->mask_bytes;
    }
    p = unpack_ids(p, k, b->id_bytes, ret_id);
    p = unpack_slots(b, p, k, mask, ret_slot);
    if (b->codes != NULL)
        for (uint32_t j = 0; j < k; j++)
            ret_value[j] = b->codes[p[j]];
    else if (b->has_values)
        memcpy(ret_value, p, k * sizeof *ret_value);
    else if (ret_value != NULL)
        for (uint32_t j = 0; j < k; j++)
            ret_value[j] = 1;
}

uint64_t block_line(const struct block *b, uint32_t i)
{
    return b->line + i + search_first(0, b->n_gaps, k, b->gaps[k] > i);
}
