// SPDX-License-Identifier: Apache-2.0
#include "os/team.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "kit/test.h"

enum { MAX_SIZE = 16 };

static struct team *open_team(int size)
{
    struct err e;
    struct team *t = NULL;
    assert_int_equal(team_open(&t, size, &e), 0);
    assert_int_equal(team_size(t), size);
    return t;
}

static void count_rank(void *arg, int rank)
{
    ((int *)arg)[rank]++; // not atomic, because each member has its own element
}

static void test_every_rank_once_a_run(void **state)
{
    (void)state;
    for (int size = 1; size <= MAX_SIZE; size *= 2) {
        struct team *t = open_team(size);
        int runs[MAX_SIZE] = {0};
        for (int i = 1; i <= 300; i++) {
            team_run(t, count_rank, runs);
            for (int r = 0; r < MAX_SIZE; r++)
                assert_int_equal(runs[r], r < size ? i : 0);
        }
        team_close(t);
    }
    team_close(NULL);
}

// Each round sums what neighbours wrote in the previous round, in plain memory. A barrier
// that lets a member through early gives a wrong sum (or a report of ThreadSanitizer).
struct ring {
    struct team *team;
    int size, rounds;
    uint64_t cell[2][MAX_SIZE];
};

static void ring_main(void *arg, int rank)
{
    struct ring *ring = arg;
    for (int i = 0; i < ring->rounds; i++) {
        const uint64_t *now = ring->cell[i & 1];
        uint64_t *next = ring->cell[(i & 1) ^ 1];
        next[rank] = now[rank] * 3 + now[(rank + 1) % ring->size];
        team_barrier(ring->team);
    }
}

static void test_barrier_orders_rounds(void **state)
{
    (void)state;
    const int sizes[] = {1, 2, 3, 8};
    for (int s = 0; s < 4; s++) {
        struct ring ring = {.size = sizes[s], .rounds = 500};
        struct ring naive = ring;
        for (int r = 0; r < ring.size; r++)
            naive.cell[0][r] = ring.cell[0][r] = (uint64_t)r + 1;
        for (int i = 0; i < naive.rounds; i++) {
            for (int r = 0; r < naive.size; r++)
                naive.cell[(i & 1) ^ 1][r] = naive.cell[i & 1][r] * 3 +
                                             naive.cell[i & 1][(r + 1) % naive.size];
        }
        ring.team = open_team(ring.size);
        team_run(ring.team, ring_main, &ring);
        team_close(ring.team);
        assert_memory_equal(ring.cell, naive.cell, sizeof(naive.cell));
    }
}

// Threads share floats as in Hogwild training: values may be lost but not torn, and
// ThreadSanitizer reports nothing.
enum { WIDTH = 67 };
struct hogwild {
    float row[WIDTH];
    int torn[MAX_SIZE];
};

static float value_of(int rank)
{
    return (float)(rank + 1) / 3; // all its bytes differ from rank to rank
}

static bool is_a_value(float x)
{
    return x == value_of(0) || x == value_of(1) || x == value_of(2) || x == value_of(3);
}

static void hogwild_main(void *arg, int rank)
{
    struct hogwild *h = arg;
    float mine[WIDTH], seen[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        mine[i] = value_of(rank);
    for (int round = 0; round < 2000; round++) {
        relaxed_store_n(h->row, mine, WIDTH);
        relaxed_store(h->row + round % WIDTH, mine[0]);
        relaxed_load_n(seen, h->row, WIDTH);
        seen[0] = relaxed_load(h->row);
        for (int i = 0; i < WIDTH; i++)
            h->torn[rank] += !is_a_value(seen[i]);
    }
}

static void test_shared_floats(void **state)
{
    (void)state;
    struct hogwild h = {0};
    struct team *t = open_team(4);
    team_run(t, hogwild_main, &h);
    team_close(t);
    for (int r = 0; r < MAX_SIZE; r++)
        assert_int_equal(h.torn[r], 0);
}

static void look_at_signals(void *arg, int rank)
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    ((int *)arg)[rank] = sigismember(&set, SIGTERM);
}

// A signal interrupts system calls of the caller, never those of another member.
static void test_signals_go_to_the_caller(void **state)
{
    (void)state;
    int blocked[3] = {-1, -1, -1};
    struct team *t = open_team(3);
    team_run(t, look_at_signals, blocked);
    team_close(t);
    assert_int_equal(blocked[0], 0);
    assert_int_equal(blocked[1], 1);
    assert_int_equal(blocked[2], 1);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct err e;
    struct team *t = NULL;
    mem_fault_after(0);
    assert_int_equal(team_open(&t, 4, &e), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_null(t);
    assert_int_equal(mem_live(), before);
}

// The address space has no room for a thousand stacks: the members that did start must be
// stopped again.
static void test_system_refuses_threads(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("a sanitizer, which needs the address space");
#else
    struct rlimit old, tight;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = 512 << 20;
    size_t before = mem_live();
    struct err e;
    struct team *t = NULL;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    int rc = team_open(&t, 1000, &e);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(rc, TUG_EIO);
    assert_non_null(strstr(e.text, "of 1000"));
    assert_non_null(strstr(e.text, "fewer threads"));
    assert_int_equal(mem_live(), before);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_once_a_run),
        cmocka_unit_test(test_barrier_orders_rounds),
        cmocka_unit_test(test_shared_floats),
        cmocka_unit_test(test_signals_go_to_the_caller),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_system_refuses_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
