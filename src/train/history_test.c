// The record of passes is written to and read from a save and the file of --history, and
// may be damaged or truncated there.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "data/source/paths.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"
#include "save/save.h"
#include "train/history.h"

static void make(struct history *h, uint32_t labels, uint32_t passes)
{
    struct err e;
    *h = (struct history){.labels = labels};
    for (uint32_t k = 0; k < labels && labels > 1; k++)
        snprintf(h->label[k], TRAIN_LABEL_MAX, "label %u", k);
    for (uint32_t i = 1; i <= passes; i++) {
        struct history_pass p = {.pass = i,
                                 .examples = 1000 + i,
                                 .seconds = 0.25 * i,
                                 .validated = i != 2,
                                 .best = i == 1};
        for (uint32_t k = 0; k < labels; k++) {
            p.seen[k] = (struct history_score){1000 + i + k, 1.0 / (i + k + 1), 0.5};
            if (p.validated)
                p.valid[k] = (struct history_score){100 + k, 0.3 * i, (double)NAN};
        }
        assert_int_equal(history_add(h, &p, &e), 0);
    }
}

static void same_score(const struct history_score *a, const struct history_score *b)
{
    assert_int_equal(a->examples, b->examples);
    assert_true(a->loss == b->loss);
    assert_true(a->auc == b->auc || (isnan(a->auc) && isnan(b->auc)));
}

static void same(const struct history *a, const struct history *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->labels, b->labels);
    for (size_t i = 0; i < a->n; i++) {
        const struct history_pass *x = &a->pass[i], *y = &b->pass[i];
        assert_int_equal(x->pass, y->pass);
        assert_int_equal(x->examples, y->examples);
        assert_true(x->seconds == y->seconds && x->validated == y->validated);
        assert_int_equal(x->best, y->best);
        for (uint32_t k = 0; k < a->labels; k++) {
            assert_string_equal(a->label[k], b->label[k]);
            same_score(&x->seen[k], &y->seen[k]);
            if (x->validated)
                same_score(&x->valid[k], &y->valid[k]);
        }
    }
}

static void test_saved_and_loaded(void **state)
{
    (void)state;
    struct err e;
    for (uint32_t labels = 1; labels <= LABELS_MAX; labels += 3) {
        struct history h, back;
        make(&h, labels, 40);
        assert_int_equal(history_write(&h, files_in("."), &e), 0);
        assert_int_equal(history_load(&back, files_in("."), &e), 0);
        same(&h, &back);
        history_cut(&back, 7);
        assert_true(back.n == 7 && back.pass[6].pass == 7);
        history_free(&back);
        history_free(&h);
    }
}

// The record of passes is not part of the model: if it is damaged, a run continues with
// one warning.
static void test_damaged(void **state)
{
    (void)state;
    static const char *const texts[] = {"{",
                                        "[]\n",
                                        "{\"pass\":0,\"examples\":1}\n",
                                        "{\"pass\":1}\n",
                                        "{\"pass\":1,\"examples\":-4}\n",
                                        "{\"pass\":2,\"examples\":1,\"valid\":null}\n"
                                        "{\"pass\":2,\"examples\":1,\"valid\":null}\n",
                                        "{\"pass\":1,\"examples\":1,\"valid\":{}}\n",
                                        "\n\n"};
    struct err e;
    struct history h;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        files_write(files_in(SAVE_HISTORY), texts[i]);
        assert_int_equal(history_load(&h, files_in("."), &e), 0);
        assert_int_equal(h.n, 0);
    }
    assert_int_equal(history_load(&h, files_in("nowhere"), &e), 0);
    assert_int_equal(h.n, 0);
}

static void test_file_of_a_run(void **state)
{
    (void)state;
    struct err e;
    struct history h, so_far;
    const char *path = files_in("h.jsonl");
    struct data_files read = {0};
    files_write(files_in("data.txt"), "1 1:1\n");
    files_write(files_in("other.txt"), "notes\n");
    assert_int_equal(data_files_add(&read, files_in("data.txt"), &e), 0);
    assert_int_equal(history_check_file(files_in("data.txt"), &read, false, &e),
                     TUG_EUSAGE);
    assert_int_equal(history_check_file(files_in("other.txt"), &read, false, &e),
                     TUG_EUSAGE);
    assert_int_equal(history_check_file(path, &read, true, &e),
                     0); // the file does not exist
    make(&h, 1, 9);
    make(&so_far, 1, 5);
    assert_int_equal(history_begin_file(&so_far, path, &e), 0);
    while (so_far.n < h.n) {
        assert_int_equal(history_add(&so_far, &h.pass[so_far.n], &e), 0);
        assert_int_equal(history_append(&so_far, path, &e), 0);
    }
    // A file that holds an older part of the record is accepted.
    assert_int_equal(history_check_file(path, &read, true, &e), 0);
    assert_int_equal(rename(path, files_in(SAVE_HISTORY)), 0);
    struct history back;
    assert_int_equal(history_load(&back, files_in("."), &e), 0);
    same(&h, &back);
    history_free(&back);
    history_free(&so_far);
    history_free(&h);
    data_files_free(&read);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct err e;
    struct history h, back;
    make(&h, 2, 20);
    assert_int_equal(history_write(&h, files_in("."), &e), 0);
    bool struck = true;
    for (long n = 0; struck; n++) {
        mem_fault_after(n);
        int rc = history_load(&back, files_in("."), &e);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        assert_true(struck || back.n == 20);
        history_free(&back);
    }
    history_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_and_loaded),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_file_of_a_run),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
