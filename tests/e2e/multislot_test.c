// Paddle's MultiSlot text on the command line: it gives the same model as libsvm data
// with the same features, in one process and on a cluster; the saved model knows the
// slots; errors name the file, line and slot.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "kit/command.h"

// The ids of the slots are used unchanged as features, so both files have the same
// examples.
static void same_model_as_libsvm(void **state)
{
    (void)state;
    struct buf slots = BUF_INIT(1 << 20), sparse = BUF_INIT(1 << 20);
    for (unsigned i = 0; i < 600; i++) {
        unsigned a = i % 7, b = i % 11, y = (a * b + i % 3) % 2;
        buf_printf(&slots, "1 id%u 1 %u 2 %u %u 0 1 %u\n", i, y, a, 100 + b, i % 5);
        buf_printf(&sparse, "%u %u:1 %u:1 %u:1\n", y, a, 100 + b, i % 5);
    }
    files_write("d.txt", buf_str(&slots));
    files_write("d.svm", buf_str(&sparse));
    buf_free(&slots);
    buf_free(&sparse);
    tug_ends(0,
             "train --data d.svm --format libsvm --model fm --epochs 3 --deterministic "
             "--out of-svm");
    tug_ends(0, "train --data d.txt --format multislot --model fm --epochs 3 "
                "--deterministic --out of-txt --slots "
                "id:skip,y:label,a:keys,none:ids,b:keys");
    tug_ends(0, "predict --from of-svm --data d.svm");
    char *want = mem_strdup(e2e_out);
    tug_ends(0, "predict --from of-txt --data d.txt");
    assert_string_equal(e2e_out, want);
    tug_ends(0, "predict --from of-txt --data d.txt --keep b,id");
    assert_true(strncmp(e2e_out, "100|0\tid0\t", 9) != 0);
    assert_true(strncmp(e2e_out, "0\tid0\t", 6) == 0);
    mem_free(want);
}

// In explanations, each of several numbers in a slot is named by its position.
static void places_are_explained(void **state)
{
    (void)state;
    files_write("places.txt", "1 1 1 7 2 0.5 3\n1 0 1 8 2 2 0.25\n");
    tug_ends(0, "train --data places.txt --format multislot --slots "
                "y:label,u:ids,n:dense[2] --model lr --epochs 1 --out places");
    tug_ends(0, "predict --from places --data places.txt --explain");
    assert_non_null(strstr(e2e_out, "  u=7\n"));
    assert_non_null(strstr(e2e_out, "  n[0] (value "));
    assert_non_null(strstr(e2e_out, "  n[1] (value "));
    assert_null(strstr(e2e_out, "#"));
}

// The saved model keeps the slots; --slots describes files with another order.
static void saved_slots(void **state)
{
    (void)state;
    tug_ends(0, "synth --rows 3000 --format multislot --out s.txt.gz --test-rows 1000 "
                "--test-out t.txt --json");
    json_t *j = e2e_json();
    const char *slots = json_string_value(json_object_get(j, "slots"));
    assert_string_equal(slots, "label:label, i1..i13:ids, c1..c26:ids");
    files_write("run.yaml", "format: multislot\nslots: \"label:label, i1..i13:ids, "
                            "c1..c26:ids\"\nmodel: ffm\nepochs: 2\nout: m\n");
    json_decref(j);
    tug_ends(0, "train --config run.yaml --data s.txt.gz --test t.txt --deterministic");
    tug_ends(0, "eval --from m --data t.txt --json");
    double auc = e2e_number("auc");
    assert_true(auc > 0.55);
    tug_ends(0, "train --config run.yaml --data s.txt.gz --epochs 3 "
                "--deterministic --resume");
    // A file without labels, and a file that does not fit the model.
    files_write("slots", "i1..i13:ids # numbers\nc1..c26:ids\n");
    files_write("p.txt", "1 7 0 0 0 0 0 0 0 0 0 0 0 0 "
                         "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    tug_ends(3, "predict --from m --data p.txt");
    tug_ends(0, "predict --from m --data p.txt --slots slots");
    tug_ends(2, "eval --from m --data p.txt --slots slots");
    e2e_says("--slots: no slot is the label");
    tug_ends(2, "eval --from m --data t.txt --slots label:label,i1..i13:ids");
    e2e_says("'c5' and 21 more, which the model was trained with, are missing; "
             "--allow-missing");
    tug_ends(2, "eval --from m --data t.txt --format libsvm");
    e2e_says("--format libsvm, but the model ffm needs the fields of the features");
}

// The positions of a dense slot are named in messages and tables, although no word of the
// data names them.
static void named_places(void **state)
{
    (void)state;
    files_write("n.txt", "1 1 1 7 2 0.5 1\n1 0 1 8 2 1 0\n1 1 1 7 2 3 2\n");
    tug_ends(0,
             "train --data n.txt --format multislot --slots "
             "label:label,user:ids,n:dense[2] --model lr --keep-names 100 --out named");
    tug_ends(0, "table top n --from named --json");
    json_t *j = e2e_json(), *rows = json_object_get(j, "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "rows_without_name")), 0);
    for (size_t i = 0; i < 2; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "name"));
        assert_true(strcmp(name, "n=0") == 0 || strcmp(name, "n=1") == 0);
        assert_int_equal(json_integer_value(json_object_get(row, "examples")), 3);
    }
    json_decref(j);
}

// Workers get the slots from the driver, and the cluster's model is that of one process.
static void on_a_cluster(void **state)
{
    (void)state;
#define RUN                                                                              \
    "train --data s.txt.gz --format multislot --model lr --epochs 2 --slots "            \
    "label:label,i1..i13:ids,c1..c26:ids --mode sync --batch 64 --out "
    tug_ends(0, RUN "alone");
    tug_ends(0, "launch --servers 1 --workers 1 -- " RUN "shared");
    tug_ends(0, "eval --from alone --data t.txt --json");
    double auc = e2e_number("auc");
    tug_ends(0, "eval --from shared --data t.txt --json");
    assert_true(fabs(auc - e2e_number("auc")) < 0.02);
}

static void mistakes(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1 1 2 5\n",
         "bad.txt:2: slot 'user' should have 2 values, and the line ends after 1"},
        {"1 1 2 5 0\n", "bad.txt:2: the line ends before slot 'p'"},
        {"1 1 1 5 1 3\n", "bad.txt:2: slot 'p', dense, has 1 value; it must have 2"},
        {"1 1 1 5 2 3 4 7\n", "bad.txt:2: '7' follows the last slot, 'p'"},
        {"1 1 1 x 2 3 4\n", "bad.txt:2: 'x' in slot 'user' is not an id"},
    };
#define TRAIN "train --data bad.txt --model lr --epochs 1 "
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "1 0 2 0 0 2 1 2\n%s", bad[i][0]);
        files_write("bad.txt", text);
        tug_ends(3, TRAIN "--format multislot --slots y:label,user:ids,p:dense[2]");
        e2e_says(bad[i][1]);
        tug_ends(0, TRAIN "--format multislot --slots y:label,user:ids,p:dense[2] "
                          "--max-bad-lines 1");
    }
    tug_ends(2, TRAIN "--format multislot");
    e2e_says("multislot data needs --slots");
    tug_ends(2, TRAIN "--format libsvm --slots y:label,a:ids");
    e2e_says("--slots works only with --format multislot");
    tug_ends(2, TRAIN "--format multislot --slots y:label,a:idz");
    e2e_says("--slots: 'a:idz': there is no type 'idz'; the types are label, ids");
}

// --merge-by joins separate lines of a user's actions and of the shown items: only
// together they predict the click. eval merges lines as training did.
static void merged(void **state)
{
    (void)state;
    const char *how = "train --data apart.txt --format multislot --model ffm --epochs 8 "
                      "--slots id:skip,label:label,user:ids,ad:ids";
    FILE *f = fopen("apart.txt", "w");
    assert_non_null(f);
    for (int half = 0; half < 2; half++)
        for (int i = 0; i < 4000; i++) {
            int user = i * 7 % 11, ad = i * 5 % 13, label = (user + ad) % 2;
            fprintf(f, "1 q%d 1 %d ", i, label);
            fprintf(f, half == 0 ? "1 %d 0\n" : "0 1 %d\n", half == 0 ? user : ad);
        }
    fprintf(f, "1 alone 1 0 1 3 0\n1 both 1 1 1 3 0\n1 both 1 1 1 4 0\n");
    assert_int_equal(fclose(f), 0);
    tug_ends(0, "%s --merge-ids id:2 --out merged", how);
    e2e_says("merged by 'id': 8003 lines are 4000 examples");
    e2e_says("1 id was left out because it has more or fewer lines than 2: 1 line");
    e2e_says("first apart.txt:8002 and apart.txt:8003 (slot user)");
    tug_ends(0, "eval --from merged --data apart.txt --json");
    assert_true(e2e_number("examples") == 4000 && e2e_number("auc") > 0.9);
    tug_ends(0, "eval --from merged --data apart.txt --importance");
    assert_non_null(strstr(e2e_out, "  user\n"));
    tug_ends(2, "eval --from merged --data apart.txt --by id");
    e2e_says("--group and --by need one");
    tug_ends(2, "%s --merge-ids id:2 --data-in stream", how);
    e2e_says("--merge-ids needs the data in memory");
    tug_ends(2, "%s --merge-ids id:2 --table entry=count:1 --deterministic", how);
    e2e_says("--merge-ids needs all of the data in memory at once");
    tug_ends(2, "%s --merge-ids id", how);
    e2e_says("--merge-ids: 'id' is not COLUMN:N");
    tug_ends(3, "%s --merge-ids id:3", how);
    e2e_says("no id of column 'id' has 3 lines that can be merged");
    tug_ends(2, "%s --out merged --resume --merge-ids user:2", how);
    e2e_says("had --merge-ids 'id:2', but this run has 'user:2'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_model_as_libsvm),
        cmocka_unit_test(saved_slots),
        cmocka_unit_test(places_are_explained),
        cmocka_unit_test(named_places),
        cmocka_unit_test(on_a_cluster),
        cmocka_unit_test(merged),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
