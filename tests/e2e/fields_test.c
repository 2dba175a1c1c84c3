// Fields of libffm data: files that number them from 0 or from 1, and options that name a
// field that no example has.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

static void silent(const char *text)
{
    if (strstr(e2e_err, text) != NULL)
        fail_msg("'%s' is in: %s", text, e2e_err);
}

// Writes examples with three fields, numbered from `base` on. The indices of the features
// do not depend on `base`.
static void write_fields(const char *path, int base)
{
    static char text[1 << 16];
    size_t n = 0;
    for (int i = 0; i < 400; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%d %d:%d:1 %d:%d:1 %d:9:1\n",
                              i % 4 == 0, base, 1 + i % 4, base + 1, 5 + i % 3, base + 2);
    files_write(path, text);
}

// If the training data and scored data number their fields differently, a model with a
// vector for each field confuses neighbouring fields: each command that scores warns.
static void numbered_from_one(void **state)
{
    (void)state;
    write_fields("zero.ffm", 0);
    write_fields("one.ffm", 1);
    const char *train = "train --format libffm --epochs 2 --fields 4 --deterministic";
    for (int one = 0; one < 2; one++) {
        const char *mine = one ? "one" : "zero", *other = one ? "zero" : "one";
        const char *says = one ? "its fields are numbered from 0 to 2, and those of the "
                                 "model's data from 1 to 3: add 1 to each"
                               : "its fields are numbered from 1 to 3, and those of the "
                                 "model's data from 0 to 2: subtract 1 from each";
        tug_ends(0, "%s --model ffm --data %s.ffm --out of-%s --valid %s.ffm", train,
                 mine, mine, other);
        e2e_says("warning: --valid: its fields");
        e2e_says(says);
        static const char *const commands[] = {"eval", "predict", "predict --explain"};
        for (size_t i = 0; i < 3; i++) {
            tug_ends(0, "%s --from of-%s --data %s.ffm", commands[i], mine, mine);
            silent("are numbered from");
            tug_ends(0, "%s --from of-%s --data %s.ffm", commands[i], mine, other);
            e2e_says("warning: this data: its fields");
            e2e_says(says);
        }
        tug_ends(0, "%s --model ffm --init-from of-%s --data %s.ffm", train, mine, other);
        e2e_says("warning: --data: its fields");
        tug_ends(0, "%s --model ffm --data %s.ffm --valid %s.ffm", train, mine, other);
        e2e_says("warning: --valid: its fields");
        e2e_says(says);
        // A resumed run knows the fields of the earlier passes.
        tug_ends(0,
                 "train --resume --fields 4 --out of-%s --epochs 3 --data %s.ffm "
                 "--valid %s.ffm",
                 mine, mine, mine);
        tug_ends(0, "eval --from of-%s --data %s.ffm", mine, other);
        e2e_says(says);
    }
    tug_ends(0, "%s --model fm --data one.ffm --out keys", train);
    tug_ends(0, "eval --from keys --data zero.ffm");
    silent("are numbered from"); // fm has one vector for all fields
    tug_ends(0,
             "train --format libffm --epochs 1 --model ffm --table rule=adagrad --data "
             "one.ffm --test zero.ffm");
    e2e_says("warning: --test: its fields are numbered from 0 to 2");
    tug_ends(0, "launch --workers 2 -- train --format libffm --epochs 1 --model ffm "
                "--data one.ffm --valid zero.ffm --out cluster");
    e2e_says("warning: --valid: its fields are numbered from 0 to 2");
    tug_ends(0, "eval --from cluster --data zero.ffm");
    e2e_says("those of the model's data from 1 to 3");
}

static void field_beyond_the_model(void **state)
{
    (void)state;
    write_fields("zero.ffm", 0);
    write_fields("one.ffm", 1);
    tug_ends(0,
             "train --format libffm --epochs 1 --model ffm --data zero.ffm --out three");
    tug_ends(3, "eval --from three --data one.ffm");
    e2e_says(
        "one.ffm:1: field 3 is not below 3, the number of the model's fields; if this "
        "data counts its fields from 1 and the training data did from 0, subtract 1");
}

// The fields of the data are known only after the data was read, also for models without
// fields.
static void named_field_that_is_not_there(void **state)
{
    (void)state;
    write_fields("one.ffm", 1);
    static const char *const models[] = {"ffm", "lr"};
    for (size_t i = 0; i < 2; i++) {
        tug_ends(0, "train --format libffm --epochs 1 --model %s --data one.ffm --out %s",
                 models[i], models[i]);
        tug_ends(0, "eval --from %s --data one.ffm --by 2 --group 1", models[i]);
        silent("no example has");
        tug_ends(3, "eval --from %s --data one.ffm --by 1,0", models[i]);
        e2e_says("no example has the field 0, which --by names; the data has the fields "
                 "1 to 3");
        tug_ends(0, "eval --from %s --data one.ffm --group 0", models[i]);
        e2e_says("warning: no example has the field 0, which --group names");
        tug_ends(0, "predict --from %s --data one.ffm --keep 0", models[i]);
        e2e_says("warning: no example has the field 0, which --keep names");
    }
    tug_ends(3, "eval --from lr --data one.ffm --by 300");
    e2e_says("no example has the field 300, which --by names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbered_from_one),
        cmocka_unit_test(field_beyond_the_model),
        cmocka_unit_test(named_field_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
