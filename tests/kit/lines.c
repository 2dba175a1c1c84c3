// See lines.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lines.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

uint64_t any_counter;
const struct reader_layout *line_layout;

uint64_t any(uint64_t below)
{
    return random_below(1, 77, any_counter++, below);
}

bool any_in_100(uint64_t percent)
{
    return any(100) < percent;
}

struct line line_make(const char *text, size_t len)
{
    static const char behind[] = "\n1:1 23:4\t5,6\"7:8:9\t1\t2\t3\t4\t5\t6\t7";
    struct line l = {.text = mem_alloc(len + READER_PADDING), .len = len};
    assert_non_null(l.text);
    memcpy(l.text, text, len);
    memcpy(l.text + len, behind, READER_PADDING);
    return l;
}

int line_parse(const struct reader *r, const char *text, struct examples *x,
               struct err *e)
{
    struct line l = line_make(text, strlen(text));
    int rc = reader_line(r, line_layout, l.text, l.len, x, e);
    mem_free(l.text);
    return rc;
}

void line_refused(const struct reader *r, const char *text, const char *reason)
{
    struct examples x = {0};
    struct err e = {0};
    assert_int_equal(line_parse(r, text, &x, &e), TUG_EDATA);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%.60s': '%s' does not say '%s'", text, e.text, reason);
    assert_int_equal(x.n, 0);
    assert_int_equal(x.nnz, 0);
    examples_free(&x);
}
