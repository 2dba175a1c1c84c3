// SPDX-License-Identifier: Apache-2.0
#include "wire/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/random.h"
#include "kit/test.h"

enum { MOST = 3000, BUF_MOST = 1 << 20 };

static size_t round_trip(const uint64_t *keys, size_t n)
{
    struct buf b = BUF_INIT(BUF_MOST);
    struct err e = {0};
    assert_int_equal(pack_keys(keys, n, &b), 0);
    // The block is exactly as large as the bytes, so that a sanitizer catches any access
    // past their end.
    char *bytes = mem_alloc(b.len);
    uint64_t *got = mem_array(n, sizeof(*got));
    if (b.len > 0)
        memcpy(bytes, b.data, b.len);
    if (unpack_keys(bytes, b.len, n, got, &e) != 0)
        fail_msg("%s", e.text);
    if (n > 0)
        assert_memory_equal(got, keys, n * sizeof(*keys));
    size_t bytes_n = b.len;
    mem_free(bytes);
    mem_free(got);
    buf_free(&b);
    return bytes_n;
}

// Draws n ids below `space` (0: any 64-bit keys), sorted or not.
static void draw(uint64_t *keys, size_t n, uint64_t space, bool sorted, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        keys[i] = space == 0 ? random_u64(seed, 0, i) : random_below(seed, 0, i, space);
    if (sorted)
        qsort(keys, n, sizeof(*keys), compare_u64);
}

static void test_round_trip(void **state)
{
    (void)state;
    static uint64_t keys[MOST];
    for (uint64_t t = 0; t < 2000; t++) {
        size_t n = t < 300 ? t : random_below(1, 0, t, MOST + 1);
        uint64_t r = random_u64(2, 0, t);
        uint64_t space = r % 65 == 64 ? 0 : (uint64_t)1 << r % 65;
        draw(keys, n, space, r >> 20 & 1, t);
        if (r >> 21 & 1) // near 2^64, so that differences wrap around
            for (size_t i = 0; i < n; i++)
                keys[i] -= space / 2;
        round_trip(keys, n);
    }
}

// Packs and unpacks numbers of every width, in both kinds of blocks.
static void test_all_widths(void **state)
{
    (void)state;
    uint64_t keys[300];
    for (unsigned bits = 0; bits <= 64; bits++) {
        uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        for (size_t i = 0; i < 300; i++)
            keys[i] = random_u64(bits, 0, i) & mask;
        keys[7] = mask;
        round_trip(keys, 300);
        for (size_t i = 1; i < 300; i++)
            keys[i] = keys[i - 1] + (random_u64(bits, 1, i) & mask);
        round_trip(keys, 300);
    }
}

static void assert_packed(const uint64_t *keys, size_t n, const char *bytes,
                          size_t bytes_n)
{
    struct buf b = BUF_INIT(BUF_MOST);
    assert_int_equal(pack_keys(keys, n, &b), 0);
    assert_int_equal(b.len, bytes_n);
    assert_memory_equal(b.data, bytes, bytes_n);
    buf_free(&b);
}

// The expected bytes were computed by hand from the format in docs/wire.md.
static void test_golden(void **state)
{
    (void)state;
    assert_packed((uint64_t[]){7}, 1, "\x00\x07\0\0\0\0\0\0\0", 9);
    // A block of offsets 0, 2, 3 with base 10.
    assert_packed((uint64_t[]){10, 12, 13}, 3, "\x02\x0a\0\0\0\0\0\0\0\x38", 10);
    // A block of differences 0, 1, 1, 2 with base 5. Differences need two bits each;
    // offsets would need three.
    assert_packed((uint64_t[]){5, 6, 7, 9}, 4, "\x82\x05\0\0\0\0\0\0\0\x94", 10);
}

static void test_sizes(void **state)
{
    (void)state;
    enum { N = 2560 };
    static uint64_t keys[N];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = 1000 + i; // all differences are 1
    assert_int_equal(round_trip(keys, N), N / 128 * (9 + 16));
    memset(keys, 7, sizeof(keys));
    assert_int_equal(round_trip(keys, N), N / 128 * 9);
    draw(keys, N, 10000000, true, 1); // sorted, so the mean difference has 12 bits
    assert_in_range(round_trip(keys, N), N * 12 / 8, N * 17 / 8);
    draw(keys, N, 10000000, false, 1);
    assert_in_range(round_trip(keys, N), N * 24 / 8, N * 25 / 8);
    draw(keys, N, 0, false, 1);
    assert_int_equal(round_trip(keys, N), N / 128 * 9 + N * 8);
}

static void test_pack_pays(void **state)
{
    (void)state;
    static uint64_t keys[MOST];
    unsigned yes = 0, no = 0;
    for (uint64_t t = 0; t < 1000; t++) {
        size_t n = 128 + random_below(3, 0, t, MOST - 127);
        uint64_t r = random_u64(4, 0, t);
        draw(keys, n, (uint64_t)1 << (r % 64), r >> 20 & 1, t);
        bool saved = round_trip(keys, n) <= n * 8 * 2 / 3;
        bool said = pack_pays(keys, n);
        assert_true(saved || !said); // if pack_pays says yes, packing must save bytes
        yes += saved && said;
        no += saved && !said;
    }
    assert_true(no * 10 < yes);
    assert_false(pack_pays(keys, 0));
    assert_false(pack_pays(keys, 1));
    draw(keys, MOST, 0, true, 1); // hashed keys
    assert_false(pack_pays(keys, MOST));
}

static void assert_refused(const void *bytes, size_t bytes_n, size_t n)
{
    static uint64_t got[MOST];
    struct err e = {0};
    assert_int_equal(unpack_keys(bytes, bytes_n, n, got, &e), TUG_EDATA);
    assert_true(e.text[0] != '\0');
}

static void test_wrong_lengths(void **state)
{
    (void)state;
    uint64_t keys[200];
    struct buf b = BUF_INIT(BUF_MOST);
    draw(keys, 200, 1000, true, 1);
    assert_int_equal(pack_keys(keys, 200, &b), 0);
    for (size_t n = 0; n < b.len; n++) {
        char *cut = mem_alloc(n);
        memcpy(cut, b.data, n);
        assert_refused(cut, n, 200);
        mem_free(cut);
    }
    assert_refused(b.data, b.len, 0);
    assert_refused(b.data, b.len, 100);
    assert_refused(b.data, b.len, 300);
    b.data[0] = 57; // an invalid width
    assert_refused(b.data, b.len, 200);
    b.data[0] = 65;
    assert_refused(b.data, b.len, 200);
    assert_refused(NULL, 0, 1);
    buf_free(&b);
}

// Random bytes are read or refused, without a read past their end.
static void test_random_bytes(void **state)
{
    (void)state;
    uint64_t got[400];
    unsigned read = 0;
    for (uint64_t t = 0; t < 20000; t++) {
        size_t bytes_n = random_below(5, 0, t, 600), n = random_below(6, 0, t, 400);
        unsigned char *bytes = mem_alloc(bytes_n);
        for (size_t i = 0; i < bytes_n; i++)
            bytes[i] = (unsigned char)random_u64(7, t, i);
        if (bytes_n > 0)
            bytes[0] &= 0x87; // a small width, which is valid more often
        if (t % 2 == 0 && bytes_n >= 9 && n > 0 && n <= 128)
            bytes_n = 9 + (n * (bytes[0] & 127) + 7) / 8 < bytes_n
                          ? 9 + (n * (bytes[0] & 127) + 7) / 8
                          : bytes_n;
        read += unpack_keys(bytes, bytes_n, n, got, NULL) == 0;
        mem_free(bytes);
    }
    assert_true(read > 100);
}

static void test_failures(void **state)
{
    (void)state;
    uint64_t keys[500];
    draw(keys, 500, 0, false, 1);
    struct buf small = BUF_INIT(2000);
    assert_int_equal(buf_add(&small, "before", 6), 0);
    assert_int_equal(pack_keys(keys, 500, &small), TUG_EDATA);
    assert_int_equal(small.len, 6);
    buf_free(&small);
    struct buf b = BUF_INIT(BUF_MOST);
    mem_fault_after(0);
    assert_int_equal(pack_keys(keys, 500, &b), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(b.len, 0);
    buf_free(&b);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_all_widths),
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_pack_pays),
        cmocka_unit_test(test_wrong_lengths), cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_failures),      cmocka_unit_test(test_golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
