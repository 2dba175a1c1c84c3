// Joins several problems into one error, so that the user can fix all at once.
//
// SPDX-License-Identifier: Apache-2.0
#include "options/problems.h"

#include <stdio.h>
#include <string.h>

int problems_note(struct problems *p, int rc, const struct err *e)
{
    if (rc != TUG_EUSAGE && rc != TUG_EDATA)
        return rc;
    if (p->n++ == 0)
        p->code = rc;
    // A problem for which the text has no room is still counted.
    if (e != NULL)
        (void)buf_printf(&p->text, "%s\n", e->text);
    return 0;
}

static int problems_tell_one(const struct problems *p, const char *at, struct err *e)
{
    if (at == NULL)
        return err_set(e, p->code, "%u problems were found", p->n);
    if (p->n == 1)
        return err_set(e, p->code, "%.*s", (int)strcspn(at, "\n"), at);
    char all[ERR_TEXT_MAX];
    int n = snprintf(all, sizeof(all), "%u problems:", p->n);
    for (unsigned i = 1; *at != '\0' && n < (int)sizeof(all) - 1; i++) {
        int len = (int)strcspn(at, "\n");
        n += snprintf(all + n, sizeof(all) - (size_t)n, " (%u) %.*s", i, len, at);
        at += len + 1;
    }
    return err_set(e, p->code, "%s", all);
}

int problems_tell(struct problems *p, struct err *e)
{
    int rc = p->n == 0 ? 0 : problems_tell_one(p, buf_str(&p->text), e);
    problems_free(p);
    return rc;
}

void problems_free(struct problems *p)
{
    buf_free(&p->text);
    *p = PROBLEMS_INIT;
}
