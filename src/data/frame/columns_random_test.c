// Opens Arrow structs with random fields, most of them valid and some absurd. If a struct
// opens, every cell is read, and the sanitizers must find nothing. Schemas of any depth
// are read without a stack of that depth.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/random.h"
#include "data/frame/columns.h"
#include "data/frame/rows.h"
#include "kit/test.h"

enum { ROWS = 16, WIDE = 32, TRIES = 20000, DEEP = 100000 };

static uint64_t seed, drawn;

static uint64_t draw(uint64_t n)
{
    return random_below(seed, 0, drawn++, n);
}

static int64_t odd(int64_t usual)
{
    static const int64_t absurd[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     9,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX / 64,
                                     INT64_MAX / 64 + 1,
                                     1ll << 31,
                                     1ll << 32,
                                     -2};
    return draw(8) != 0 ? usual : absurd[draw(sizeof absurd / sizeof *absurd)];
}

static void release_schema(struct ArrowSchema *s)
{
    s->release = NULL;
}

static void release_array(struct ArrowArray *a)
{
    a->release = NULL;
}

// The memory to which a column's arrays point. A reader cannot know the sizes of buffers.
// Therefore the random numbers in the buffers are small enough that a reader that makes
// all possible checks stays inside the buffers.
struct drawn {
    int32_t offsets32[ROWS + 1];
    int64_t offsets64[ROWS + 1];
    uint8_t wide[ROWS * WIDE], valid[ROWS / 8];
    int32_t views[ROWS][4];
    char text[ROWS];
    int64_t sizes[1];
    const void *buffers[4];
};

static void draw_buffers(struct drawn *d)
{
    for (int i = 0; i <= ROWS; i++) {
        int64_t at = odd(i);
        d->offsets64[i] = at > ROWS ? ROWS : at;
        d->offsets32[i] = (int32_t)(at > ROWS ? ROWS : at < INT32_MIN ? -1 : at);
    }
    for (size_t i = 0; i < sizeof d->wide; i++)
        d->wide[i] = (uint8_t)(draw(3) == 0 ? draw(256) : draw(4));
    for (int i = 0; i < ROWS; i++) {
        const int32_t view[] = {draw(2) != 0 ? 5 : 13, 0, (int32_t)odd(0),
                                (int32_t)draw(5)};
        memcpy(d->views[i], view, sizeof view);
    }
    memcpy(d->text, "aabbccddeeffgghh", ROWS);
    d->valid[0] = (uint8_t)draw(256);
    d->valid[1] = (uint8_t)draw(256);
    d->sizes[0] = ROWS;
}

static const char *const formats[] = {"n",
                                      "b",
                                      "c",
                                      "C",
                                      "s",
                                      "S",
                                      "i",
                                      "I",
                                      "l",
                                      "L",
                                      "f",
                                      "g",
                                      "e",
                                      "u",
                                      "U",
                                      "vu",
                                      "z",
                                      "+l",
                                      "+L",
                                      "+w:2",
                                      "+w:-1",
                                      "+w:0",
                                      "tdD",
                                      "tdm",
                                      "tts",
                                      "ttm",
                                      "ttu",
                                      "ttn",
                                      "tss:",
                                      "tsm:",
                                      "tsu:UTC",
                                      "tsn:+02:00",
                                      "tsn:Mars/Base",
                                      "tDs",
                                      "tDm",
                                      "tDu",
                                      "tDn",
                                      "d:9,2",
                                      "d:38,-3",
                                      "d:9,2,256",
                                      "d:99999999999,1",
                                      "d:",
                                      "+s",
                                      "",
                                      "w:3"};

static int64_t buffers_of(const char *f)
{
    if (*f == 'n')
        return 0;
    if (strncmp(f, "+w", 2) == 0 || strcmp(f, "+s") == 0)
        return 1;
    return *f == 'u' || *f == 'U' || *f == 'z' ? 3 : *f == 'v' ? 4 : 2;
}

struct part {
    struct ArrowSchema schema, *child_schema[1];
    struct ArrowArray array, *child[1];
    struct drawn drawn;
};

static void draw_part(struct part *p, struct part *inner)
{
    const char *f = formats[draw(sizeof formats / sizeof *formats)];
    struct drawn *d = &p->drawn;
    bool list = *f == '+', dictionary = !list && inner != NULL && draw(3) == 0;
    draw_buffers(d);
    p->child_schema[0] = inner != NULL ? &inner->schema : NULL;
    p->child[0] = inner != NULL && draw(20) != 0 ? &inner->array : NULL;
    p->schema = (struct ArrowSchema){.format = draw(50) != 0 ? f : NULL,
                                     .name = draw(10) != 0 ? "x\033[31m" : NULL,
                                     .n_children = list && inner != NULL && odd(1) == 1,
                                     .children = draw(20) != 0 ? p->child_schema : NULL,
                                     .dictionary = dictionary ? &inner->schema : NULL};
    bool long_offsets = f[0] == 'U' || strcmp(f, "+L") == 0;
    bool offsets = long_offsets || f[0] == 'u' || f[0] == 'z' || strcmp(f, "+l") == 0;
    const void *values = f[0] == 'v'    ? (const void *)d->views
                         : long_offsets ? (const void *)d->offsets64
                         : offsets      ? (const void *)d->offsets32
                                        : (const void *)d->wide;
    const void *buffers[] = {draw(2) != 0 ? d->valid : NULL,
                             draw(20) != 0 ? values : NULL,
                             draw(20) != 0 ? d->text : NULL, d->sizes};
    memcpy(d->buffers, buffers, sizeof buffers);
    int64_t n = draw(12) != 0 ? buffers_of(f) : (int64_t)draw(5);
    int64_t offset = (int64_t)draw(3);
    p->array = (struct ArrowArray){
        .length = odd(ROWS - offset),
        .null_count = odd(buffers[0] != NULL ? -1 : 0),
        .offset = odd(offset),
        .n_buffers = n,
        .buffers = draw(20) != 0 ? d->buffers : NULL,
        .n_children = p->schema.n_children,
        .children = draw(20) != 0 ? p->child : NULL,
        .dictionary = dictionary && draw(20) != 0 ? &inner->array : NULL};
    struct ArrowArray *a = &p->array;
    if (a->length > 0 && a->offset >= 0 && a->length <= INT64_MAX / 64 &&
        a->offset <= INT64_MAX / 64 && a->offset + a->length > ROWS) {
        a->offset = offset;
        a->length = ROWS - offset;
    }
}

static void read_all(const struct columns *c)
{
    struct buf text = BUF_INIT(1 << 20);
    struct rows r = {.columns = c, .n = c->rows, .separator = ',', .list_separator = '|'};
    for (uint64_t i = 0; i < c->rows && i < ROWS; i++) {
        buf_clear(&text);
        OK(columns_text(&r, i, &text));
    }
    buf_free(&text);
}

static void test_random(void **state)
{
    (void)state;
    int opened = 0;
    for (seed = 0; seed < TRIES; seed++) {
        struct part p[3];
        drawn = 0;
        draw_part(&p[2], NULL);
        draw_part(&p[1], draw(2) != 0 ? &p[2] : NULL);
        draw_part(&p[0], &p[1]);
        const void *top[1] = {NULL};
        struct ArrowSchema *schemas[] = {&p[0].schema},
                           root = {.format = "+s",
                                   .n_children = odd(1) == 1,
                                   .children = schemas,
                                   .release = release_schema};
        int64_t rows = p[0].array.length;
        struct ArrowArray *arrays[] = {draw(50) != 0 ? &p[0].array : NULL},
                          table = {.length = rows >= 0 && rows <= ROWS ? rows : odd(1),
                                   .null_count = draw(50) == 0 ? odd(0) : 0,
                                   .offset = draw(20) == 0 ? odd(0) : 0,
                                   .n_buffers = 1,
                                   .buffers = draw(50) != 0 ? top : NULL,
                                   .n_children = draw(50) != 0,
                                   .children = draw(50) != 0 ? arrays : NULL,
                                   .release = release_array};
        struct columns *c;
        struct err e;
        int rc = columns_open_array(&c, &root, &table, &e);
        if (rc == 0) {
            read_all(c);
            columns_close(c);
            opened++;
        } else if (strchr(e.text, '\033') != NULL) {
            fail_msg("%s", e.text);
        }
        assert_null(root.release);
        assert_null(table.release);
    }
    assert_true(opened > TRIES / 20);
}

static void test_deep(void **state)
{
    (void)state;
    struct ArrowSchema *s = mem_zalloc(DEEP * sizeof *s),
                       **child = mem_zalloc(DEEP * sizeof *child);
    struct ArrowArray *a = mem_zalloc(DEEP * sizeof *a),
                      **part = mem_zalloc(DEEP * sizeof *part);
    static const int32_t values[] = {0, 1, 2, 3};
    static const void *buffers[] = {NULL, values};
    assert_true(s != NULL && child != NULL && a != NULL && part != NULL);
    for (int dictionaries = 0; dictionaries < 2; dictionaries++) {
        for (size_t i = 0; i < DEEP; i++) {
            bool last = i + 1 == DEEP;
            child[i] = last ? NULL : &s[i + 1];
            part[i] = last ? NULL : &a[i + 1];
            s[i] = (struct ArrowSchema){.format = i == 0         ? "+s"
                                                  : dictionaries ? "i"
                                                                 : "+l",
                                        .name = "deep"};
            a[i] = (struct ArrowArray){
                .length = 2, .n_buffers = i == 0 ? 1 : 2, .buffers = buffers};
            if (i > 0 && dictionaries) {
                s[i].dictionary = child[i];
                a[i].dictionary = part[i];
            } else if (!last) {
                s[i].n_children = a[i].n_children = 1;
                s[i].children = &child[i];
                a[i].children = &part[i];
            }
        }
        s[0].release = release_schema;
        a[0].release = release_array;
        struct columns *c;
        struct cell cell;
        struct err e;
        OK(columns_open_array(&c, &s[0], &a[0], &ok_e));
        assert_int_equal(column_cell(&c->batch[0].span[0], 1, &cell, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "column 'deep' has the Arrow format"));
        columns_close(c);
    }
    mem_free(s);
    mem_free(a);
    mem_free(child);
    mem_free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
