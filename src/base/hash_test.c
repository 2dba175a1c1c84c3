// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include "base/random.h"
#include "kit/test.h"

// Golden values: placement, checkpoints and initial values depend on them, so they never
// change. They were computed independently, in Python.
static void test_mix64_golden(void **state)
{
    (void)state;
    const uint64_t golden[][2] = {
        {0, 0},
        {1, 0x5692161d100b05e5},
        {2, 0xdbd238973a2b148a},
        {0x8000000000000000, 0x25c26ea579cea98a},
        {UINT64_MAX, 0xb4d055fcf2cbbd7b},
        {1234567890123456789, 0xc83574ddd6ce4a52},
    };
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
        assert_int_equal(mix64(golden[i][0]), golden[i][1]);
}

// Inverts each step of mix64. Since this works for all words, mix64 is a bijection.
static uint64_t unmix64(uint64_t x)
{
    x ^= x >> 31 ^ x >> 62;
    x *= 0x319642b2d24d8ec3ull; // inverse of the second factor
    x ^= x >> 27 ^ x >> 54;
    x *= 0x96de1b173f119089ull; // inverse of the first factor
    x ^= x >> 30 ^ x >> 60;
    return x;
}

static void test_mix64_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t x = random_u64(1, 2, i);
        assert_int_equal(unmix64(mix64(x)), x);
        assert_int_equal(unmix64(mix64(i)), i);
    }
}

// Each input bit flips each output bit in about half of all cases.
static void test_mix64_avalanche(void **state)
{
    (void)state;
    enum { TRIALS = 4000 };
    for (int in = 0; in < 64; in++) {
        int flips[64] = {0};
        for (uint64_t i = 0; i < TRIALS; i++) {
            uint64_t x = random_u64(3, (uint64_t)in, i);
            uint64_t d = mix64(x) ^ mix64(x ^ 1ull << in);
            for (int out = 0; out < 64; out++)
                flips[out] += (int)(d >> out & 1);
        }
        for (int out = 0; out < 64; out++)
            assert_in_range(flips[out], TRIALS * 4 / 10, TRIALS * 6 / 10);
    }
}

static void test_bytes_golden(void **state)
{
    (void)state;
    assert_int_equal(hash_bytes("", 0, 0), 0x2d06800538d394c2);
    assert_int_equal(hash_bytes(NULL, 0, 0), 0x2d06800538d394c2);
}

// Checks one hash over data of all lengths that take different paths through XXH3,
// aligned and unaligned. Keys in saved models are such hashes, so the test must fail with
// a library that computes other values.
static void test_bytes_of_all_lengths(void **state)
{
    (void)state;
    unsigned char bytes[3000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)random_u64(4, 0, i);
    uint64_t all = 0;
    for (size_t n = 0; n < 2900; n += n < 600 ? 1 : 97) {
        uint64_t seed = n % 3 == 0 ? 0 : random_u64(5, 0, n);
        all = mix64(all ^ hash_bytes(bytes + n % 7, n, seed));
    }
    assert_int_equal(all, 0x81f88dfa81f156e2);
}

static void test_stream_equals_bytes(void **state)
{
    (void)state;
    unsigned char bytes[5000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)random_u64(6, 0, i);
    for (uint64_t trial = 0; trial < 2000; trial++) {
        size_t n = random_below(7, 0, trial, sizeof(bytes) + 1);
        uint64_t seed = trial % 2 == 0 ? 0 : random_u64(8, 0, trial);
        struct hash_stream s;
        hash_stream_begin(&s, seed);
        for (size_t at = 0, piece = 0; at < n; at += piece) {
            piece = 1 + random_below(9, trial, at, n - at);
            hash_stream_add(&s, bytes + at, piece);
            assert_int_equal(hash_stream_end(&s), hash_bytes(bytes, at + piece, seed));
        }
        assert_int_equal(hash_stream_end(&s), hash_bytes(bytes, n, seed));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mix64_golden),
        cmocka_unit_test(test_mix64_is_a_bijection),
        cmocka_unit_test(test_mix64_avalanche),
        cmocka_unit_test(test_bytes_golden),
        cmocka_unit_test(test_bytes_of_all_lengths),
        cmocka_unit_test(test_stream_equals_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
