// Compares entry policies with exact counts in plain arrays. Also tests saved policies,
// texts, a program's own policy, failing allocations, and damaged saves.
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/entry.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { KEYS = 20000, PUSHES = 200000 };

// Draws a key: few keys come often, most keys once or twice. Keys 0 and UINT64_MAX are
// among them.
static uint64_t draw_key(uint64_t push)
{
    double u = random_f64(1, 0, push);
    return (uint64_t)(KEYS * u * u * u * u);
}

static uint64_t key_of(uint64_t number)
{
    return number == 0 ? 0 : number == 1 ? UINT64_MAX : mix64(number);
}

static float draw_show(uint64_t push)
{
    return (float)random_below(1, 1, push, 4) * 0.5f;
}

static float draw_click(uint64_t push)
{
    return random_below(1, 2, push, 8) == 0 ? 1 : 0;
}

static struct entry *open_text(const char *text)
{
    struct entry_options o;
    struct entry *x;
    struct err e = {0};
    if (entry_parse(text, &o, &e) != 0 || entry_open(&x, &o, &e) != 0)
        fail_msg("%s: %s", text, e.text);
    return x;
}

static struct entry *open_options(const struct entry_options *o)
{
    struct entry *x;
    assert_int_equal(entry_open(&x, o, NULL), 0);
    return x;
}

static double *open_sums(void)
{
    double *sums = mem_zalloc(KEYS * sizeof(*sums));
    assert_non_null(sums);
    return sums;
}

// Returns by how much a push counts, by the definition in entry.h.
static double worth(const struct entry_options *o, float show, float click)
{
    if (strcmp(o->policy, "show-click") == 0)
        return fmax(0, (double)o->nonclick * ((double)show - (double)click) +
                           (double)o->click * (double)click);
    return o->by_shows ? (double)show : 1;
}

// The policies count and show-click admit a key exactly when its sum reaches the
// threshold, and then start again at 0.
static void exact(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "count:3",        "count:2.5:shows", "count:0",
        "count:40:shows", "show-click:1.2",  "show-click:3:nonclick=0.5:click=0.25"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct entry_options o;
        assert_int_equal(entry_parse(texts[i], &o, NULL), 0);
        struct entry *x = open_options(&o);
        double *sums = open_sums();
        size_t before = entry_bytes(x), candidates = 0;
        for (uint64_t p = 0; p < PUSHES; p++) {
            uint64_t k = draw_key(p);
            float show = draw_show(p), click = draw_click(p);
            sums[k] += worth(&o, show, click);
            bool in = sums[k] >= (double)o.threshold;
            if (entry_admit(x, key_of(k), show, click) != in)
                fail_msg("%s: push %zu should %scome in", texts[i], (size_t)p,
                         in ? "" : "not ");
            if (in)
                sums[k] = 0;
        }
        for (size_t k = 0; k < KEYS; k++)
            candidates += sums[k] != 0;
        assert_true(o.threshold == 0 || candidates > 1000);
        assert_true(entry_bytes(x) - before <= 4096 + 43 * candidates);
        mem_free(sums);
        entry_close(x);
    }
}

// Pushes that repeat examples do not change the state of a policy. They are admitted if
// the policy has recorded that an earlier push of the key was admitted.
static void repetitions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool remembers; // whether the policy records which keys it has admitted
    } all[] = {{"count:3", false},
               {"count:2.5:shows", false},
               {"show-click:1.2", false},
               {"bloom:3:capacity=100000:error=1e-6", true},
               {"sketch:2:shows:error=1e-5", true},
               {"probability:0.3", true}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct entry *once = open_text(all[i].text), *x = open_text(all[i].text);
        struct buf saved[2] = {BUF_INIT(1 << 24), BUF_INIT(1 << 24)};
        bool *in = mem_zalloc(KEYS * sizeof(*in));
        assert_non_null(in);
        for (uint64_t p = 0; p < PUSHES / 10; p++) {
            uint64_t k = draw_key(p), other = draw_key(p + PUSHES);
            bool admitted = entry_admit(once, key_of(k), draw_show(p), draw_click(p));
            assert_int_equal(entry_admit(x, key_of(k), draw_show(p), draw_click(p)),
                             admitted);
            in[k] = in[k] || admitted;
            if (strncmp(all[i].text, "probability", 11) != 0)
                assert_int_equal(entry_again(x, key_of(other)),
                                 in[other] && all[i].remembers);
            else if (in[other])
                assert_true(entry_again(x, key_of(other)));
        }
        assert_int_equal(entry_save(once, &saved[0]), 0);
        assert_int_equal(entry_save(x, &saved[1]), 0);
        assert_int_equal(saved[0].len, saved[1].len);
        assert_memory_equal(saved[0].data, saved[1].data, saved[0].len);
        for (int k = 0; k < 2; k++)
            buf_free(&saved[k]);
        mem_free(in);
        entry_close(once);
        entry_close(x);
    }
    struct entry *all_in = open_text("none"), *zero = open_text("count:0");
    assert_true(entry_again(all_in, 1) && entry_again(zero, 1));
    entry_close(all_in);
    entry_close(zero);
}

// Shows and clicks that are NaN or negative count as 0.
static void odd_shows(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, -1, 0};
    static const char *const texts[] = {"count:1:shows", "bloom:1:shows",
                                        "sketch:1:shows", "show-click:1"};
    for (size_t i = 0; i < 4; i++) {
        struct entry *x = open_text(texts[i]);
        for (size_t j = 0; j < 5; j++)
            assert_false(entry_admit(x, 5, odd[j], 0));
        assert_false(entry_admit(x, 5, 0.5f, 0.4f));
        assert_true(entry_admit(x, 5, 1, 1));
        entry_close(x);
    }
}

// Checks that the policy admits no key later than the exact count does. Returns how many
// keys it admits too early by more than `slack`.
static size_t early(const char *text, double slack, double *ret_sum)
{
    struct entry_options o;
    assert_int_equal(entry_parse(text, &o, NULL), 0);
    struct entry *x = open_options(&o);
    double *sums = open_sums();
    size_t n = 0;
    *ret_sum = 0;
    for (uint64_t p = 0; p < PUSHES; p++) {
        uint64_t k = draw_key(p);
        float show = draw_show(p);
        if (sums[k] < 0)
            continue; // the key was admitted already
        sums[k] += worth(&o, show, 0);
        *ret_sum += worth(&o, show, 0);
        bool in = entry_admit(x, key_of(k), show, 0);
        assert_true(in || sums[k] < (double)o.threshold);
        n += in && sums[k] + slack < (double)o.threshold;
        if (in)
            sums[k] = -1;
    }
    mem_free(sums);
    entry_close(x);
    return n;
}

static void bloom(void **state)
{
    (void)state;
    double sum;
    // With as many keys as its capacity, the policy admits no more keys too early than
    // its error allows.
    static const struct {
        const char *text;
        double share;
    } all[] = {{"bloom:4:capacity=20000:error=0.01", 0.01},
               {"bloom:3:shows:capacity=20000:error=0.05", 0.05},
               {"bloom:15:capacity=20000:error=0.001", 0.001}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = early(all[i].text, 0, &sum);
        if ((double)n > all[i].share * KEYS)
            fail_msg("%s: %zu came in too early", all[i].text, n);
    }
    // With far more keys, it admits visibly more of them too early.
    assert_true(early("bloom:4:capacity=2000:error=0.01", 0, &sum) > KEYS / 20);
    // Half shows are counted exactly if the capacity is large enough for them.
    assert_int_equal(early("bloom:2:shows:capacity=1000000:error=1e-6", 0, &sum), 0);
}

static void sketch(void **state)
{
    (void)state;
    double sum, error = 0.0015;
    early("sketch:300:error=0.0015", 0, &sum);
    // The error bound must be below the threshold; otherwise any count would be within
    // the bound.
    assert_true(error * sum < 300);
    size_t n = early("sketch:300:error=0.0015", error * sum, &sum);
    if ((double)n > exp(-4) * KEYS)
        fail_msg("%zu came in more than %g too early", n, error * sum);
    // With few counters and a low threshold, many keys are admitted too early; with many
    // counters, none are.
    assert_true(early("sketch:20:error=0.001", 0, &sum) > KEYS / 10);
    assert_int_equal(early("sketch:3:shows:error=1e-6", 0, &sum), 0);
}

// A single key is admitted at the first push with which its count reaches the threshold,
// for thresholds in quarters of a push.
static void thresholds(void **state)
{
    (void)state;
    static const char *const policies[] = {"count", "bloom", "sketch"};
    for (size_t i = 0; i < 3; i++) {
        for (float t = 0; t <= 15; t += 0.25f) {
            struct entry_options o = entry_defaults(policies[i]);
            o.threshold = t;
            for (int shows = 0; shows < 2; shows++) {
                o.by_shows = shows;
                struct entry *x = open_options(&o);
                int pushes = 1;
                while (!entry_admit(x, 7, 1, 0))
                    pushes++;
                assert_int_equal(pushes, t <= 1 ? 1 : (int)ceilf(t));
                entry_close(x);
            }
        }
    }
}

static void probability(void **state)
{
    (void)state;
    struct entry_options o = entry_defaults("probability");
    o.probability = 0.3f;
    struct entry *x = open_options(&o);
    o.seed = 1;
    struct entry *other = open_options(&o);
    size_t n = 0, differ = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        bool in = entry_admit(x, k, 1, 0);
        // Later pushes of a key get the same decision.
        assert_int_equal(entry_admit(x, k, 0, 5), in);
        n += in;
        differ += entry_admit(other, k, 1, 0) != in;
    }
    double sigma = sqrt(0.3 * 0.7 * KEYS);
    assert_true(fabs((double)n - 0.3 * KEYS) < 4 * sigma);
    assert_true(differ > KEYS / 4);
    entry_close(x);
    entry_close(other);
}

static const char *const one_of_each[] = {
    "none",           "count:3",       "count:2.5:shows",
    "probability:.5", "bloom:3:shows", "sketch:9:error=0.001",
    "show-click:2"};
enum { EACH = sizeof(one_of_each) / sizeof(*one_of_each) };

static void push(struct entry *x, uint64_t from, uint64_t to, uint8_t *ret)
{
    for (uint64_t p = from; p < to; p++)
        ret[p - from] = entry_admit(x, key_of(draw_key(p)), draw_show(p), draw_click(p));
}

// After a load, a policy decides as if it had never been saved, and its next save has the
// same bytes.
static void saves(void **state)
{
    (void)state;
    enum { N = 20000 };
    uint8_t *want = mem_alloc(N), *got = mem_alloc(N);
    for (size_t i = 0; i < EACH; i++) {
        struct buf a = BUF_INIT(1 << 24), b = BUF_INIT(1 << 24);
        struct entry *x = open_text(one_of_each[i]), *y = open_text(one_of_each[i]);
        push(x, 0, N, want);
        push(y, 5, N / 2, got); // the load replaces these counts
        assert_int_equal(entry_save(x, &a), 0);
        assert_int_equal(entry_load(y, a.data, a.len, NULL), 0);
        push(x, N, 2 * N, want);
        push(y, N, 2 * N, got);
        assert_memory_equal(want, got, N);
        buf_clear(&a);
        assert_int_equal(entry_save(x, &a), 0);
        assert_int_equal(entry_save(y, &b), 0);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        struct buf small = BUF_INIT(a.len - 1);
        assert_int_equal(entry_save(x, &small), TUG_EDATA);
        assert_int_equal(small.len, 0);
        buf_free(&small);
        buf_free(&a);
        buf_free(&b);
        entry_close(x);
        entry_close(y);
    }
    mem_free(want);
    mem_free(got);
}

// Checks that a load is refused with this text, and that it changes nothing.
static void refuse(struct entry *x, const void *bytes, size_t n, const char *says)
{
    struct buf before = BUF_INIT(1 << 24), after = BUF_INIT(1 << 24);
    struct err e = {0};
    assert_int_equal(entry_save(x, &before), 0);
    assert_int_equal(entry_load(x, bytes, n, &e), TUG_EDATA);
    if (strstr(e.text, says) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, says);
    assert_int_equal(entry_save(x, &after), 0);
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.data, before.data, before.len);
    buf_free(&before);
    buf_free(&after);
}

static void cut_saves(void **state)
{
    (void)state;
    for (size_t i = 0; i < EACH; i++) {
        struct buf b = BUF_INIT(1 << 24);
        struct entry *x = open_text(one_of_each[i]);
        for (uint64_t k = 0; k < 20; k++)
            entry_admit(x, k, 1, 0);
        assert_int_equal(entry_save(x, &b), 0);
        for (size_t n = 0; n < b.len; n += 1 + b.len / 300) {
            // The memory has the exact size, so that sanitizers notice reading past its
            // end.
            char *exact_size = mem_alloc(n + 1);
            memcpy(exact_size + 1, b.data, n);
            refuse(x, exact_size + 1, n, "save");
            mem_free(exact_size);
        }
        assert_int_equal(buf_add(&b, "0123456789abcdef", 16), 0);
        refuse(x, b.data, b.len, "save");
        memcpy(b.data, "another", 8);
        refuse(x, b.data, b.len - 16, "of another entry policy");
        memset(b.data, 'x', ENTRY_NAME_MAX); // the name does not end with a NUL
        refuse(x, b.data, b.len - 16, "of another entry policy");
        buf_free(&b);
        entry_close(x);
    }
}

static void wrong_counts(void **state)
{
    (void)state;
    static const double sums[] = {0, -1, NAN, INFINITY};
    struct entry *x = open_text("count:5");
    struct buf b = BUF_INIT(1 << 20);
    for (uint64_t k = 0; k < 3; k++)
        entry_admit(x, k, 1, 0);
    assert_int_equal(entry_save(x, &b), 0);
    assert_int_equal(b.len, ENTRY_NAME_MAX + 8 + 3 * 16);
    char *second = b.data + ENTRY_NAME_MAX + 8 + 16;
    for (size_t i = 0; i < 4; i++) {
        memcpy(second + 8, &sums[i], sizeof(double));
        refuse(x, b.data, b.len, "damaged");
    }
    memcpy(second + 8, &(double){2}, sizeof(double));
    memcpy(second, &(uint64_t){0}, sizeof(uint64_t)); // the same key occurs twice
    refuse(x, b.data, b.len, "damaged");
    memcpy(second, &(uint64_t){2}, sizeof(uint64_t));
    refuse(x, b.data, b.len, "damaged");
    memcpy(second, &(uint64_t){1}, sizeof(uint64_t));
    memcpy(b.data + ENTRY_NAME_MAX, &(uint64_t){UINT64_MAX / 16 + 4}, sizeof(uint64_t));
    refuse(x, b.data, b.len, "damaged");
    memcpy(b.data + ENTRY_NAME_MAX, &(uint64_t){3}, sizeof(uint64_t));
    assert_int_equal(entry_load(x, b.data, b.len, NULL), 0);
    assert_false(entry_admit(x, 1, 1, 0));
    assert_false(entry_admit(x, 1, 1, 0));
    assert_true(entry_admit(x, 1, 1, 0)); // the save has counted two pushes of this key
    buf_free(&b);
    entry_close(x);
}

// Counters with another seed, another size or another meaning are refused.
static void other_shapes(void **state)
{
    (void)state;
    struct entry_options o = entry_defaults("bloom");
    struct buf b = BUF_INIT(1 << 24);
    struct entry *x = open_options(&o);
    assert_int_equal(entry_save(x, &b), 0);
    entry_close(x);
    for (int i = 0; i < 3; i++) {
        struct entry_options other = o;
        other.seed = i == 0;
        other.capacity -= i == 1;
        other.threshold = i == 2 ? 2 : o.threshold;
        other.by_shows = i == 2;
        x = open_options(&other);
        refuse(x, b.data, b.len, "policy with which they were saved");
        entry_close(x);
    }
    buf_free(&b);
}

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } good[] = {
        {"", "none"},
        {"none", "none"},
        {"count", "count:10"},
        {"count:3", "count:3"},
        {"count:10:shows", "count:10:shows"},
        {"count:shows:threshold=0.5", "count:0.5:shows"},
        {"probability:0.1", "probability:0.100000001"},
        {"bloom:5", "bloom:5"},
        {"bloom:5:shows:capacity=1e6:error=0.001",
         "bloom:5:shows:capacity=1000000:error=0.00100000005"},
        {"sketch:5:error=1e-4", "sketch:5"},
        {"show-click:2.5", "show-click:2.5"},
        {"show-click:nonclick=0.2:click=3", "show-click:1:nonclick=0.200000003:click=3"},
        {"count_filter_entry:10", "count:10"},
        {"probability_entry:0.5", "probability:0.5"},
        {"show_click_entry:show:click", "show-click:1"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct entry_options o, again;
        struct buf b = BUF_INIT(1 << 10);
        struct err e = {0};
        if (entry_parse(good[i].text, &o, &e) != 0)
            fail_msg("'%s': %s", good[i].text, e.text);
        assert_int_equal(entry_print(&o, &b), 0);
        assert_string_equal(buf_str(&b), good[i].printed);
        assert_int_equal(entry_parse(buf_str(&b), &again, NULL), 0);
        assert_same_struct(&o, &again);
        buf_free(&b);
    }
}

static void bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"often", "no entry policy 'often'; choose from none, count, probability, bloom"},
        {"none:3", "does not have an option '3'"},
        {"none:shows", "does not have an option 'shows'"},
        {"count:", "does not have an option ''"},
        {"count:x", "does not have an option 'x'"},
        {"count:3:4", "does not have an option '4'"},
        {"count:-3", "does not have an option '-3'"},
        {"count:nan", "does not have an option 'nan'"},
        {"count:1e99", "threshold is 1e+99; it must be 0 to"},
        {"count:capacity=3", "does not have an option 'capacity'"},
        {"count:3 ", "does not have an option '3 '"},
        {"probability:0", "probability is 0; it must be 1e-09 to 1"},
        {"probability:1.5", "probability is 1.5"},
        {"probability:0.5:shows", "does not have an option 'shows'"},
        {"bloom:16", "counts up to 15, and not to 16; use sketch or count"},
        {"bloom:capacity=0", "capacity is 0; it must be a whole number, 1 to"},
        {"bloom:capacity=1.5", "must be a whole number"},
        {"bloom:capacity=x", "capacity is not a number: 'x'"},
        {"bloom:capacity=1e12", "capacity is 1e+12"},
        {"bloom:error=0.9", "error is 0.9"},
        {"sketch:5e9", "counts up to 4294967295, and not to 5e+09; use count"},
        {"count_filter_entry", "needs one number"},
        {"count_filter_entry:", "needs one number"},
        {"count_filter_entry:1:2", "needs one number"},
        {"probability_entry:x", "needs one number"},
        {"show_click_entry:a", "names of two variables"},
        {"show_click_entry:a:", "names of two variables"},
        {"1:2:3:4:5:6:7:8:9", "too long"},
    };
    struct entry_options o;
    struct err e;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(entry_parse(bad[i].text, &o, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i].says) == NULL)
            fail_msg("'%s': '%s' does not say '%s'", bad[i].text, e.text, bad[i].says);
    }
    char endless[1000];
    memset(endless, 'a', sizeof(endless) - 1);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(entry_parse(endless, &o, &e), TUG_EUSAGE);
    o = entry_defaults("count");
    memset(o.policy, 'a', sizeof(o.policy));
    assert_int_equal(entry_check(&o, &e), TUG_EUSAGE);
    o = entry_defaults("count");
    o.threshold = NAN;
    assert_int_equal(entry_check(&o, &e), TUG_EUSAGE);
    assert_int_equal(entry_check(&(struct entry_options){0}, &e), 0); // no policy is set
}

// A program's own policy, which admits even keys with shows above a threshold.
static bool even_admit(void *state, const struct entry_options *o, uint64_t key,
                       float show, float click)
{
    (void)show, (void)click;
    assert_null(state);
    return key % 2 == 0 && (float)key >= o->threshold;
}

static void own_policy(void **state)
{
    (void)state;
    static const struct entry_class even = {.name = "even", .admit = even_admit};
    struct entry_class bad = even;
    struct err e;
    assert_int_equal(entry_register(&even, &e), 0);
    assert_ptr_equal(entry_find("even"), &even);
    assert_non_null(strstr(entry_names(), "show-click, even"));
    struct entry *x = open_text("even:4");
    assert_false(entry_admit(x, 2, 1, 0));
    assert_false(entry_admit(x, 5, 1, 0));
    assert_true(entry_admit(x, 6, 1, 0));
    entry_close(x);
    entry_close(open_text("even:4:shows:capacity=3:click=2"));
    assert_int_equal(entry_register(&even, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "'even' already"));
    bad.name = "a name that is longer than policies' names may be";
    assert_int_equal(entry_register(&bad, &e), TUG_EUSAGE);
    static const char *const no_names[] = {NULL, "", "a:b", "a b", "none"};
    for (size_t i = 0; i < 5; i++) {
        bad.name = no_names[i];
        assert_int_equal(entry_register(&bad, &e), TUG_EUSAGE);
    }
    bad = (struct entry_class){.name = "without"};
    assert_int_equal(entry_register(&bad, &e), TUG_EUSAGE);
}

// Each allocation fails once: opening and loading return the error, and a push without
// memory is not admitted.
static void memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < EACH; i++) {
        struct buf b = BUF_INIT(1 << 24);
        struct entry *x = open_text(one_of_each[i]), *y;
        struct entry_options o;
        for (uint64_t k = 0; k < 1000; k++)
            entry_admit(x, k, 0.5f, 0);
        assert_int_equal(entry_save(x, &b), 0);
        assert_int_equal(entry_parse(one_of_each[i], &o, NULL), 0);
        size_t live = mem_live();
        bool struck = true;
        for (long n = 0; struck; n++) {
            mem_fault_after(n);
            int rc = entry_open(&y, &o, NULL);
            if (rc == 0)
                rc = entry_load(y, b.data, b.len, NULL);
            struck = mem_faulted();
            mem_fault_after(-1);
            assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
            entry_close(y);
            assert_int_equal(mem_live(), live);
        }
        buf_free(&b);
        entry_close(x);
    }
    struct entry *x = open_text("count:2");
    uint64_t key = 0;
    mem_fault_after(0);
    while (!mem_faulted())
        assert_false(entry_admit(x, key++, 1, 0));
    mem_fault_after(-1);
    key--; // the push of this key failed, so it was not counted
    assert_false(entry_admit(x, key, 1, 0));
    assert_true(entry_admit(x, key, 1, 0));
    assert_true(entry_admit(x, key - 1, 1, 0)); // earlier keys were counted
    entry_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),        cmocka_unit_test(repetitions),
        cmocka_unit_test(odd_shows),    cmocka_unit_test(bloom),
        cmocka_unit_test(sketch),       cmocka_unit_test(thresholds),
        cmocka_unit_test(probability),  cmocka_unit_test(saves),
        cmocka_unit_test(cut_saves),    cmocka_unit_test(wrong_counts),
        cmocka_unit_test(other_shapes), cmocka_unit_test(texts),
        cmocka_unit_test(bad_texts),    cmocka_unit_test(own_policy),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
