// Compares the keys of columns' words with the keys of lines that contain them.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "data/format/reader.h"
#include "kit/lines.h"
#include "kit/test.h"

struct trial {
    struct reader_options o;
    const char *header, *line;
    const char *words; // "NAME=TEXT>WORD;...": one for each feature of the line, in order
};

static void check_word(const struct reader *r, const struct examples *x, size_t i,
                       const char *trial, size_t len)
{
    const char *text = memchr(trial, '=', len), *word = memchr(trial, '>', len);
    struct reader_word w;
    struct buf name = BUF_INIT(1000);
    uint32_t slot;
    assert_int_equal(
        reader_find_slot(r, trial, (size_t)(text - trial), reader_slots(r), &slot, NULL),
        0);
    assert_int_equal(slot, x->slot[i]);
    reader_slot_name(r, slot, &name);
    assert_int_equal(name.len, text - trial);
    assert_memory_equal(name.data, trial, name.len);
    assert_int_equal(reader_word(r, slot, text + 1, (size_t)(word - text - 1), &w, NULL),
                     0);
    assert_true(w.key == x->key[i]);
    assert_int_equal(w.len, trial + len - word - 1);
    assert_memory_equal(w.text, word + 1, w.len);
    buf_free(&name);
}

static void words_have_the_keys_of_lines(void **state)
{
    (void)state;
    static const struct trial trials[] = {
        {{.format = "csv", .label_column = "y", .numeric = "age"},
         "y,site,age,\"a b\"",
         "1,x|y,17,\"q\"\"r\"",
         "site=x|y>x|y;age=17>;a b=q\"r>q\"r"},
        {{.format = "criteo", .labels = true},
         NULL,
         "1\t2\t\t57\t-3\t99999999999\t\t\t\t\t\t\t\t\tabc\t\t\t\t\t\t\t\t\t\t\t\t\t"
         "\t\t\t\t\t\t\t\t\t\t\t\tz",
         "I1=2>2;I3=57>L16;I4=-3>-3;I5=99999999999>L641;C1=abc>abc;C26=z>z"},
        {{.format = "multislot",
          .labels = true,
          .slots = "y:label, u:ids, seen:ids@u, k:keys, p:dense[2], j:skip"},
         NULL,
         "1 1 1 7 2 7 -9 1 77 2 0.5 3 1 8",
         "u=7>7;seen=7>7;seen=-9>-9;k=77>77;p=0>0;p=1>1"},
        {{.format = "libffm", .labels = true, .fields = 9},
         NULL,
         "1 3:17:1 8:2:0.5",
         "3=17>17;8=2>2"},
    };
    for (size_t t = 0; t < sizeof(trials) / sizeof(*trials); t++) {
        struct reader *r;
        struct examples x = {0};
        const struct reader_layout *layout = NULL;
        struct line l = line_make(trials[t].line, strlen(trials[t].line));
        assert_int_equal(reader_open(&r, &trials[t].o, NULL), 0);
        if (trials[t].header != NULL) {
            struct line h = line_make(trials[t].header, strlen(trials[t].header));
            assert_int_equal(reader_header(r, h.text, h.len, &layout, NULL), 0);
            mem_free(h.text);
        }
        assert_int_equal(reader_line(r, layout, l.text, l.len, &x, NULL), 0);
        const char *at = trials[t].words;
        for (size_t i = 0; i < x.nnz; i++) {
            size_t len = strcspn(at, ";");
            check_word(r, &x, i, at, len);
            at += len + (at[len] == ';');
        }
        assert_int_equal(*at, 0);
        examples_free(&x);
        mem_free(l.text);
        reader_close(r);
    }
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    struct reader *r;
    struct reader_word w;
    struct err e;
    uint32_t slot;
    struct reader_options o = {.format = "multislot",
                               .slots = "y:label, u:ids, p:dense[2]"};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_true(reader_hashes(r));
    assert_int_equal(reader_find_slot(r, "v", 1, reader_slots(r), &slot, &e), TUG_EUSAGE);
    assert_string_equal(e.text, "there is no feature column 'v'; did you mean 'u'?");
    assert_int_equal(reader_find_slot(r, "y", 1, reader_slots(r), &slot, &e),
                     TUG_EUSAGE); // y is the label, not a feature
    assert_int_equal(reader_word(r, 0, "x7", 2, &w, &e), TUG_EDATA);
    assert_string_equal(e.text, "slot 'u' has no id 'x7'");
    assert_int_equal(reader_word(r, 1, "2", 1, &w, &e), TUG_EDATA);
    assert_string_equal(e.text, "slot 'p' has no place '2'");
    reader_close(r);
    o = (struct reader_options){.format = "libsvm"};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_false(reader_hashes(r));
    assert_int_equal(reader_word(r, 0, "a", 1, &w, &e), TUG_EDATA);
    assert_string_equal(e.text, "'a' is not an index: an index is a whole number");
    reader_close(r);
}

static void formats_have_properties(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        bool numbered, lacks_fields;
    } formats[] = {
        {"criteo", false, false}, {"libsvm", true, true},      {"libffm", true, false},
        {"csv", false, false},    {"multislot", false, false}, {"", false, false},
        {NULL, false, false},
    };
    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
        const char *format = formats[i].format;
        assert_int_equal(reader_format_is_numbered(format), formats[i].numbered);
        assert_int_equal(reader_format_lacks_fields(format), formats[i].lacks_fields);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_have_the_keys_of_lines),
        cmocka_unit_test(wrong_words_are_refused),
        cmocka_unit_test(formats_have_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
