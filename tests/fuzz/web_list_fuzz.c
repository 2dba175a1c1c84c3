// Lists of files as web servers send them: XML of S3 (first byte 'x') and JSON of
// WebHDFS. Any bytes give a list of usable names, or are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "web/scheme_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take_key(void *arg, const struct s3_entry *s, struct err *e)
{
    (void)e;
    *(size_t *)arg += strlen(s->key) + strlen(s->etag);
    return 0;
}

static int take_name(void *arg, const struct webhdfs_entry *w, struct err *e)
{
    (void)e;
    assert(strchr(w->name, '/') == NULL && strcmp(w->name, "..") != 0);
    *(size_t *)arg += strlen(w->name);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    struct s3_page page;
    size_t letters = 0;
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    int rc = data[0] == 'x' ? s3_parse_list(text, size - 1, &page, take_key, &letters, &e)
                            : webhdfs_parse_list(text, size - 1, take_name, &letters, &e);
    assert(rc == 0 || (rc == TUG_EDATA && e.text[0] != '\0'));
    assert(letters <= size); // the names together are no longer than the input
    if (data[0] == 'x' && rc == 0)
        assert(!page.truncated || page.next[0] != '\0');
    return 0;
}
