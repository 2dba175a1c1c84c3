// Tests for all short chains that the steps lead to the planned chain, without losing
// copies and without changing the order of members.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/chain_steps.h"

#include <string.h>

#include "base/random.h"
#include "cluster/chains.h"
#include "kit/test.h"

enum { MOST = CHAINS_MAX_REPLICAS + 1 };

struct chain {
    uint32_t ids[MOST], n;
};

static struct chain chain_of(const char *letters)
{
    struct chain c = {.n = (uint32_t)strlen(letters)};
    for (uint32_t i = 0; i < c.n; i++)
        c.ids[i] = (uint32_t)letters[i];
    return c;
}

static bool has(const struct chain *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ids[i] == id)
            return true;
    return false;
}

static uint32_t in_both(const struct chain *a, const struct chain *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n; i++)
        n += has(b, a->ids[i]);
    return n;
}

static void take_out(struct chain *c, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->ids[i] != id)
            c->ids[n++] = c->ids[i];
    assert_int_equal(n, c->n - 1);
    c->n = n;
}

static void order(const struct chain *present, struct chain *wanted)
{
    const struct chain was = *wanted;
    chain_steps_order(present->ids, present->n, wanted->ids, wanted->n, wanted->n);
    assert_int_equal(in_both(&was, wanted), was.n); // the same loops
}

// Makes one step. Returns false if no step is left.
static bool step(struct chain *c, const struct chain *wanted, uint32_t *fills)
{
    uint32_t leaves = chain_steps_leaves(c->ids, c->n, wanted->ids, wanted->n);
    uint32_t filled = chain_steps_fills(c->ids, c->n, wanted->ids, wanted->n);
    if (leaves != 0) {
        assert_int_equal(filled, 0);
        take_out(c, leaves);
        return true;
    }
    if (filled == 0)
        return false;
    assert_false(has(c, filled));
    assert_in_range(c->n, 1, MOST - 1);
    c->ids[c->n++] = filled;
    ++*fills;
    return true;
}

// Makes all steps from `from` to the loops of `to`. Returns the number of fills.
static uint32_t walk(const struct chain *from, const struct chain *to, struct chain *ret)
{
    struct chain c = *from, wanted = *to;
    uint32_t fills = 0, least = from->n < to->n ? from->n : to->n;
    uint32_t most = from->n > to->n ? from->n : to->n;
    order(&c, &wanted);
    for (int i = 0; step(&c, &wanted, &fills); i++) {
        assert_true(i < 4 * MOST);
        assert_in_range(c.n, least, most + 1);
        struct chain again = wanted;
        order(&c, &again);
        assert_memory_equal(&again, &wanted, sizeof(again));
    }
    assert_int_equal(c.n, wanted.n);
    assert_memory_equal(c.ids, wanted.ids, c.n * sizeof(*c.ids));
    *ret = c;
    return fills;
}

static void check(const char *from, const char *to, const char *end, uint32_t fills)
{
    struct chain a = chain_of(from), b = chain_of(to), c;
    assert_int_equal(walk(&a, &b, &c), fills);
    struct chain e = chain_of(end);
    assert_int_equal(c.n, e.n);
    assert_memory_equal(c.ids, e.ids, c.n * sizeof(*c.ids));
}

static void test_examples(void **state)
{
    (void)state;
    check("AB", "AB", "AB", 0);
    check("A", "AB", "AB", 1);
    check("AB", "AC", "AC", 1); // another backup
    check("AB", "BC", "BC", 1); // the primary leaves
    check("AB", "B", "B", 0);   // no loop takes its place
    check("AB", "CB", "CB", 2); // a new loop leads: B is filled again
    check("AB", "CD", "CD", 2);
    // The order of two members cannot be changed without losing a copy.
    check("AB", "BA", "AB", 0);
    check("B", "CB", "BC", 1);
    check("ABC", "DBC", "DBC", 3);
    check("ABC", "CBD", "CDB", 2); // C leads, as A leaves
    check("ABC", "CAB", "ABC", 0);
}

// If too few loops are left, the chain keeps its order, and needs no fill.
static void test_too_few(void **state)
{
    (void)state;
    const struct chain present = chain_of("ABC"), end = chain_of("BC");
    struct chain wanted = chain_of("CB");
    chain_steps_order(present.ids, present.n, wanted.ids, wanted.n, 3);
    assert_memory_equal(wanted.ids, end.ids, end.n * sizeof(*end.ids));
    wanted = chain_of("CB");
    chain_steps_order(present.ids, present.n, wanted.ids, wanted.n, 2);
    assert_int_equal(wanted.ids[0], 'C');
}

static void draw(uint64_t seed, uint32_t loops, uint32_t most, struct chain *ret)
{
    ret->n = 1 + (uint32_t)random_below(seed, 1, 0, most);
    for (uint32_t i = 0; i < ret->n; i++) {
        uint64_t k = 0;
        struct chain before = {.n = i};
        memcpy(before.ids, ret->ids, i * sizeof(*ret->ids));
        do
            ret->ids[i] = 1 + (uint32_t)random_below(seed, 2 + i, k++, loops);
        while (has(&before, ret->ids[i]));
    }
}

// Chains of random loops. The planned primary leads if another member leaves, or if it is
// before all other members that stay.
static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50000; seed++) {
        uint32_t most = 1 + (uint32_t)random_below(seed, 90, 0, CHAINS_MAX_REPLICAS);
        struct chain from, to, end;
        draw(2 * seed, 10, most, &from);
        draw(2 * seed + 1, 10, most, &to);
        uint32_t fills = walk(&from, &to, &end);
        uint32_t stay = in_both(&from, &to);
        if (stay < from.n || from.ids[0] == to.ids[0])
            assert_int_equal(end.ids[0], to.ids[0]);
        assert_in_range(fills, to.n - stay, to.n);
    }
}

// Members die between the steps, and a new plan follows each death.
static void test_deaths(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50000; seed++) {
        struct chain c, wanted, now;
        uint32_t fills = 0;
        draw(3 * seed, 10, 4, &c);
        draw(3 * seed + 1, 10, 4, &wanted);
        order(&c, &wanted);
        for (uint64_t i = 0; i < 60; i++) {
            const struct chain before = c;
            if (random_below(seed, 91, i, 4) == 0 && c.n > 1) {
                take_out(&c, c.ids[random_below(seed, 92, i, c.n)]);
                draw(3 * seed + 2 + 1000000 * i, 10, 4, &wanted);
                order(&c, &wanted);
            } else if (!step(&c, &wanted, &fills)) {
                break;
            }
            // The members that were there before have their order.
            uint32_t at = 0;
            now = c;
            for (uint32_t k = 0; k < before.n; k++)
                if (at < now.n && now.ids[at] == before.ids[k])
                    at++;
            assert_int_equal(at, in_both(&before, &now));
            assert_true(c.n >= 1 && c.n <= 5);
        }
        while (step(&c, &wanted, &fills))
            continue;
        assert_memory_equal(c.ids, wanted.ids, wanted.n * sizeof(*c.ids));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
