// Batches of sync tables whose sums are not finite, although the part of each worker is.
// The server applies the batch in the partitions before the first one with such a key,
// and changes no bit of that partition or of later ones. A worker that waits for the
// batch gets an error with the key. The result is compared with a server that gets only
// the applied partitions.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kit/loops.h"
#include "kit/test.h"

enum { MOST_BAD = 3, BEFORE = 3, SEEDS = SANITIZED ? 24 : 120, PARTS = 4 };

static const char *const configs[] = {
    "name=a;accessor=plain;dim=3;rule=sum;mode=sync",
    "name=b;accessor=plain;dim=2;rule=sgd:lr=1;mode=sync",
    "name=c;accessor=plain;dim=1;rule=sgd:lr=1;mode=sync;reduce=mean",
    "name=d;accessor=merge;dim=2;mode=sync",
    "name=e;accessor=ctr;dim=4;rule=sgd:lr=1;embedx-threshold=2;mode=sync",
    "name=f;accessor=plain;dim=2;rule=sum;init=0.1;mode=sync;deltas=yes",
};
enum { CONFIGS = sizeof(configs) / sizeof(*configs) };

// The keys of a batch that become infinite, and the smallest partition with such a key.
struct bad {
    uint64_t keys[MOST_BAD];
    uint32_t n, partition;
};

static bool is_bad(const struct bad *b, uint64_t key)
{
    bool is = false;
    for (uint32_t i = 0; i < b->n; i++)
        is |= b->keys[i] == key;
    return is;
}

static struct bad draw_bad(const struct lone *w, uint64_t seed)
{
    struct bad b = {.n = 1 + (uint32_t)random_below(1, seed, 0, MOST_BAD),
                    .partition = PARTITIONS};
    for (uint32_t i = 0; i < b.n; i++) {
        b.keys[i] = loop_key(random_below(1, seed, 1 + i, KEYS));
        uint32_t p = loop_partition(w, b.keys[i]);
        b.partition = p < b.partition ? p : b.partition;
    }
    return b;
}

// Sends the contribution of worker `part` to the partitions below `end`. For the keys in
// `bad`, each worker's values are finite, but their sum is not.
static void contribute(struct lone *w, uint64_t clock, uint32_t part, uint32_t end,
                       const struct bad *bad)
{
    static struct loop_batch b;
    const struct accessor *a = store_accessor(loop_table(w)->store);
    b.n = 0;
    b.width = a->push_width;
    for (uint32_t p = 0; p < end; p++)
        for (uint64_t i = 0; i < KEYS; i++) {
            bool large = is_bad(bad, loop_key(i));
            if (loop_partition(w, loop_key(i)) != p ||
                (random_below(2, clock * PARTS + part, i, 3) != 0 && !large))
                continue;
            float *to = b.values + (size_t)b.n * b.width;
            loop_draw_values(a, clock * PARTS + part, i, to);
            if (large)
                to[0] = FLT_MAX * 0.75f;
            b.keys[b.n++] = loop_key(i);
        }
    loop_push(w, &b, part % WORKERS, clock, part * MICROS / PARTS, MICROS / PARTS);
}

static void run_clock(struct lone *w, uint64_t seed, uint64_t clock, uint32_t end,
                      const struct bad *bad)
{
    uint32_t first = (uint32_t)random_below(3, seed, clock, PARTS);
    for (uint32_t i = 0; i < PARTS; i++)
        contribute(w, clock, (first + i) % PARTS, end, bad);
}

// Expects that a pull after the batch is refused, and that the error names a key that the
// batch would make infinite.
static void expect_key(struct lone *w, uint64_t clock, const struct bad *bad)
{
    struct msg_pull m = lone_pull_of(w, 0, T, &bad->keys[0], 1);
    m.clock = clock + 1;
    lone_send_pull(w, 0, &m);
    for (int i = 0; i < 10 && w->sent == NULL; i++)
        lone_pass_time(w, SECOND_NS / 10);
    struct parcel *p = lone_expect(w, MSG_ERROR);
    char text[ERR_TEXT_MAX];
    snprintf(text, sizeof(text), "%.*s", (int)p->m.error.what.n, p->m.error.what.data);
    const char *at = strstr(text, ": key ");
    uint64_t key = at != NULL ? strtoull(at + 6, NULL, 10) : 0;
    if (at == NULL || !is_bad(bad, key) || loop_partition(w, key) != bad->partition ||
        strstr(text, "its partition was left unchanged") == NULL ||
        p->m.error.reason != REASON_NOT_FINITE || p->m.error.about != key)
        fail_msg("%s", text);
    parcel_unpin(p);
}

static void run(const char *config, uint64_t seed)
{
    static const struct bad none = {.n = 0};
    struct lone *w = loop_open(0, 1, config), *before = loop_open(0, 1, config);
    uint64_t clock = 0;
    for (; clock < random_below(4, seed, 0, BEFORE); clock++) {
        run_clock(w, seed, clock, PARTITIONS, &none);
        run_clock(before, seed, clock, PARTITIONS, &none);
    }
    struct bad bad = draw_bad(w, seed);
    run_clock(w, seed, clock, PARTITIONS, &bad);
    run_clock(before, seed, clock, bad.partition, &bad);
    assert_int_equal(loop_table(w)->sync.clock.next, clock);
    assert_int_equal(loop_table(before)->sync.clock.next, clock + 1);
    loops_check_same(w, before);
    expect_key(w, clock, &bad);
    // Tries the batch 20 times more: no partition may apply it twice.
    for (int i = 0; i < 20; i++)
        lone_pass_time(w, SECOND_NS);
    loops_check_same(w, before);
    expect_key(w, clock, &bad);
    lone_close(w);
    lone_close(before);
}

static void test_sums_of_workers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run(configs[seed % CONFIGS], seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_of_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
