// Reads the elements that tug needs from a page of an S3 list, by expat. A page with a
// document type, which could declare entities, is refused.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "web/scheme_internal.h"

enum { DEPTH_MAX = 16, TEXT_MAX = 64 << 10 };

// The kind of element that the parser is in.
enum place { OUTSIDE, IN_LIST, IN_CONTENTS, IN_OTHER };

struct list {
    XML_Parser parser;
    struct s3_page *page;
    int (*entry)(void *arg, const struct s3_entry *s, struct err *e);
    void *arg;
    enum place place[DEPTH_MAX + 1]; // the place of the element at each depth
    unsigned depth;
    struct buf text; // the text of the element that began last
    char *key, *etag;
    uint64_t bytes;
    bool has_bytes, has_truncated;
    int rc; // the code of the first failure
    struct err *e;
};

static int s3_list_bad(struct err *e)
{
    return err_set(e, TUG_EDATA, "the server's answer is not a list of S3");
}

static void stop(struct list *l, int rc)
{
    l->rc = rc;
    XML_StopParser(l->parser, XML_FALSE);
}

static int s3_list_keep(char **ret, const char *text, struct err *e)
{
    mem_free(*ret);
    *ret = mem_strdup(text);
    return *ret != NULL ? 0 : err_nomem(e, "a list of files");
}

static bool s3_list_number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static int end_contents(struct list *l, struct err *e)
{
    if (l->key == NULL || !l->has_bytes)
        return s3_list_bad(e);
    const struct s3_entry s = {l->key, l->etag != NULL ? l->etag : "", l->bytes};
    TRY(l->entry(l->arg, &s, e));
    mem_free(l->key);
    mem_free(l->etag);
    l->key = l->etag = NULL;
    l->has_bytes = false;
    return 0;
}

static int end_of_contents(struct list *l, const char *name, const char *text,
                           struct err *e)
{
    if (strcmp(name, "Key") == 0)
        return s3_list_keep(&l->key, text, e);
    if (strcmp(name, "ETag") == 0)
        return s3_list_keep(&l->etag, text, e);
    if (strcmp(name, "Size") != 0)
        return 0;
    l->has_bytes = s3_list_number(text, &l->bytes);
    return l->has_bytes ? 0 : s3_list_bad(e);
}

static int end_of_list(struct list *l, const char *name, const char *text, struct err *e)
{
    if (strcmp(name, "Contents") == 0)
        return end_contents(l, e);
    if (strcmp(name, "IsTruncated") == 0) {
        l->page->truncated = strcmp(text, "true") == 0;
        l->has_truncated = true;
        return l->page->truncated || strcmp(text, "false") == 0 ? 0 : s3_list_bad(e);
    }
    if (strcmp(name, "NextContinuationToken") != 0)
        return 0;
    if (strlen(text) >= sizeof l->page->next)
        return s3_list_bad(e);
    memcpy(l->page->next, text, strlen(text) + 1);
    return 0;
}

// Expat calls the following functions, and may call s3_list_on_end once more
// after XML_StopParser.

static void s3_list_begin(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct list *l = arg;
    enum place around = l->place[l->depth];
    (void)attributes;
    if (l->rc != 0)
        return;
    if (l->depth == DEPTH_MAX ||
        (l->depth == 0 && strcmp(name, "ListBucketResult") != 0)) {
        stop(l, s3_list_bad(l->e));
        return;
    }
    l->depth++;
    l->place[l->depth] = l->depth == 1 ? IN_LIST
                         : around == IN_LIST && strcmp(name, "Contents") == 0
                             ? IN_CONTENTS
                             : IN_OTHER;
    l->text.len = 0;
}

static void text(void *arg, const XML_Char *some, int n)
{
    struct list *l = arg;
    if (l->rc == 0 && buf_add(&l->text, some, (size_t)n) != 0)
        stop(l, l->text.len + (size_t)n > TEXT_MAX ? s3_list_bad(l->e)
                                                   : err_nomem(l->e, "a list of files"));
}

static void s3_list_on_end(void *arg, const XML_Char *name)
{
    struct list *l = arg;
    if (l->rc != 0)
        return;
    const char *all = buf_str(&l->text);
    int rc = all != NULL ? 0 : err_nomem(l->e, "a list of files");
    l->depth--;
    if (rc == 0 && l->place[l->depth] == IN_CONTENTS)
        rc = end_of_contents(l, name, all, l->e);
    else if (rc == 0 && l->place[l->depth] == IN_LIST)
        rc = end_of_list(l, name, all, l->e);
    l->text.len = 0;
    if (rc != 0)
        stop(l, rc);
}

static void document_type(void *arg, const XML_Char *name, const XML_Char *system,
                          const XML_Char *public_id, int has_subset)
{
    struct list *l = arg;
    (void)name, (void)system, (void)public_id, (void)has_subset;
    stop(l, s3_list_bad(l->e));
}

static int s3_list_parse(struct list *l, const char *from, size_t n, struct err *e)
{
    XML_SetUserData(l->parser, l);
    XML_SetElementHandler(l->parser, s3_list_begin, s3_list_on_end);
    XML_SetCharacterDataHandler(l->parser, text);
    XML_SetStartDoctypeDeclHandler(l->parser, document_type);
    if (n > INT32_MAX)
        return s3_list_bad(e);
    if (XML_Parse(l->parser, from, (int)n, XML_TRUE) != XML_STATUS_OK) {
        if (l->rc != 0)
            return l->rc;
        return XML_GetErrorCode(l->parser) == XML_ERROR_NO_MEMORY
                   ? err_nomem(e, "a list of files")
                   : s3_list_bad(e);
    }
    bool stuck = l->page->truncated && l->page->next[0] == '\0';
    return l->has_truncated && !stuck ? 0 : s3_list_bad(e);
}

int s3_parse_list(const char *from, size_t n, struct s3_page *ret,
                  int (*entry)(void *arg, const struct s3_entry *s, struct err *e),
                  void *arg, struct err *e)
{
    const XML_Memory_Handling_Suite memory = {mem_alloc, mem_realloc, mem_free};
    *ret = (struct s3_page){0};
    struct list l = {.page = ret,
                     .entry = entry,
                     .arg = arg,
                     .e = e,
                     .text = BUF_INIT(TEXT_MAX),
                     .parser = XML_ParserCreate_MM("UTF-8", &memory, NULL)};
    int rc = l.parser != NULL ? s3_list_parse(&l, from, n, e)
                              : err_nomem(e, "a list of files");
    if (l.parser != NULL)
        XML_ParserFree(l.parser);
    mem_free(l.key);
    mem_free(l.etag);
    buf_free(&l.text);
    return rc;
}
