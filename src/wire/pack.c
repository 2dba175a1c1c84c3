// Packed keys are blocks of 128 keys (the last block has the remaining keys). A block has
// this form:
//
//     0       1         9
//     +-------+---------+--------------------------------+
//     | kind  |  base   | 128 numbers of `bits` bits     |
//     +-------+---------+--------------------------------+
//
// kind is `bits`, plus 128 if the numbers are differences; otherwise they are offsets.
// With offsets, a key is base + its number, and base is the smallest key. With
// differences, a key is the previous key + its number, modulo 2^64, and the first key is
// base + 0. The writer chooses the kind with fewer bits.
//
// Numbers have 0 to 56 bits, so that one 8-byte load reads any of them, or 64 bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "wire/pack.h"

#include <string.h>

enum {
    BLOCK = 128,
    HEAD = 9,
    DIFFERENCES = 128,
    MOST_BITS = 56, // the largest width of a packed number in bits, except 64
};

static unsigned bits_of(uint64_t x)
{
    unsigned bits = x == 0 ? 0 : 64 - (unsigned)__builtin_clzll(x);
    return bits <= MOST_BITS ? bits : 64;
}

static size_t pack_bytes_of(size_t n, unsigned bits)
{
    return (n * bits + 7) / 8;
}

bool pack_pays(const uint64_t *keys, size_t n)
{
    // WORTH: packing saves a third of the bytes if a key needs at most this many bits.
    // SPREAD: the largest difference needs this many bits more than the mean difference.
    enum { WORTH = 64 * 2 / 3 - 1, SPREAD = 3 };
    if (n < BLOCK)
        return false;
    uint64_t least = keys[0], most = keys[0];
    size_t descents = 0;
    for (size_t i = 1; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
        descents += keys[i] < keys[i - 1];
    }
    if (descents > 0)
        return bits_of(most - least) <= WORTH;
    // The largest of 128 random differences is about 5 times their mean, so it needs up
    // to SPREAD bits more.
    return bits_of((most - least) / n) + SPREAD <= WORTH;
}

// How a block is packed.
struct block {
    bool differences;
    unsigned bits;
    uint64_t base;
};

static struct block measure(const uint64_t *keys, size_t n)
{
    uint64_t least = keys[0], most = keys[0], differences = 0;
    for (size_t i = 1; i < n; i++) {
        least = keys[i] < least ? keys[i] : least;
        most = keys[i] > most ? keys[i] : most;
        differences |= keys[i] - keys[i - 1];
    }
    if (bits_of(differences) < bits_of(most - least))
        return (struct block){true, bits_of(differences), keys[0]};
    return (struct block){false, bits_of(most - least), least};
}

// Packs the numbers of a block: collects their bits in a word, and stores each full word.
static void put_bits(const uint64_t *keys, size_t n, const struct block *b, uint64_t *to)
{
    uint64_t word = 0, before = b->base;
    unsigned full = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t number = keys[i] - before;
        if (b->differences)
            before = keys[i];
        word |= number << full;
        if (full + b->bits >= 64) {
            *to++ = word;
            word = full > 0 ? number >> (64 - full) : 0;
            full += b->bits - 64;
        } else {
            full += b->bits;
        }
    }
    *to = word;
}

int pack_keys(const uint64_t *keys, size_t n, struct buf *ret)
{
    size_t before = ret->len;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t count = n - at < BLOCK ? n - at : BLOCK;
        struct block b = measure(keys + at, count);
        uint64_t packed[BLOCK + 1];
        size_t bytes = pack_bytes_of(count, b.bits);
        int rc = buf_reserve(ret, HEAD + bytes);
        if (rc != 0) {
            ret->len = before;
            return rc;
        }
        if (b.bits > 0)
            put_bits(keys + at, count, &b, packed);
        char *to = ret->data + ret->len;
        to[0] = (char)(b.bits | (b.differences ? DIFFERENCES : 0));
        memcpy(to + 1, &b.base, sizeof(b.base));
        memcpy(to + HEAD, packed, bytes);
        ret->len += HEAD + bytes;
    }
    return 0;
}

// Unpacks the bits of n numbers. `from` must have 8 readable bytes after the numbers.
static void take_bits(const unsigned char *from, size_t n, const struct block *b,
                      uint64_t *ret)
{
    uint64_t mask = b->bits == 64 ? UINT64_MAX : ((uint64_t)1 << b->bits) - 1;
    size_t bit = 0;
    for (size_t i = 0; i < n; i++, bit += b->bits) {
        uint64_t word;
        memcpy(&word, from + bit / 8, sizeof(word));
        ret[i] = b->base + (word >> bit % 8 & mask);
    }
    if (!b->differences)
        return;
    for (size_t i = 1; i < n; i++) // each earlier key already includes the base
        ret[i] += ret[i - 1] - b->base;
}

static int pack_bad(struct err *e, const char *what)
{
    return err_set(e, TUG_EDATA, "the packed keys %s", what);
}

// Unpacks the first block, which has n keys. Returns its size in bytes, or 0 if the block
// is not valid.
static size_t read_block(const unsigned char *bytes, size_t bytes_n, size_t n,
                         uint64_t *ret)
{
    if (bytes_n < HEAD)
        return 0;
    struct block b = {.differences = bytes[0] & DIFFERENCES,
                      .bits = bytes[0] & (DIFFERENCES - 1)};
    memcpy(&b.base, bytes + 1, sizeof(b.base));
    size_t packed_n = pack_bytes_of(n, b.bits);
    if ((b.bits > MOST_BITS && b.bits != 64) || packed_n > bytes_n - HEAD)
        return 0;
    // The array has 8 more bytes, because numbers are loaded 8 bytes at a time.
    unsigned char packed[BLOCK * 8 + 8];
    memcpy(packed, bytes + HEAD, packed_n);
    memset(packed + packed_n, 0, 8);
    take_bits(packed, n, &b, ret);
    return HEAD + packed_n;
}

int unpack_keys(const void *bytes, size_t bytes_n, size_t n, uint64_t *ret, struct err *e)
{
    const unsigned char *at = bytes;
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        size_t used = read_block(at, bytes_n, count, ret + done);
        if (used == 0)
            return pack_bad(e, "end too early or are damaged");
        at += used;
        bytes_n -= used;
    }
    return bytes_n == 0 ? 0 : pack_bad(e, "are followed by more bytes than announced");
}
