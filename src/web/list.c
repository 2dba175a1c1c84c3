// Lists remote files: expands an address, and checks each file.
//
// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>
#include <string.h>

#include "base/alloc.h"
#include "web/scheme_internal.h"

bool listing_is_hidden(const char *name)
{
    return name[0] == '.' || name[0] == '_';
}

// Returns whether any directory of a path, or its file, is hidden (listing_is_hidden).
static bool has_hidden(const char *path)
{
    while (!listing_is_hidden(path)) {
        const char *slash = strchr(path, '/');
        if (slash == NULL)
            return false;
        path = slash + 1;
    }
    return true;
}

static bool is_wanted(const struct listing *l, const char *path)
{
    size_t n = strlen(l->folder);
    if (strcmp(path, l->a->path) == 0)
        return true;
    if (strncmp(path, l->folder, n) != 0 || has_hidden(path + n))
        return false;
    return !l->pattern || fnmatch(l->a->path, path, FNM_PATHNAME | FNM_LEADING_DIR) == 0;
}

// Reads the first bytes of a file, which show its format and compression. For http, which
// has no lists, the answer also gives the size of the file.
static int list_look_at(struct web *r, struct web_file *f, struct err *e)
{
    r->open = false;
    while (f->head_len < sizeof f->head && f->head_len < r->bytes) {
        size_t n = 0;
        TRY(web_read_at(r, f->head + f->head_len, sizeof f->head - f->head_len,
                        f->head_len, &n, e));
        f->head_len += n;
    }
    f->name = r->a.name;
    f->address = r->a.whole;
    f->bytes = r->bytes;
    f->version = r->version;
    return 0;
}

static int list_tell(struct listing *l, struct err *e)
{
    struct web_file f = {0};
    l->probe->tries = 0;
    l->probe->mentioned = false;
    TRY(list_look_at(l->probe, &f, e));
    if (l->files++ == LISTED_FILES_MAX)
        return err_set(e, TUG_EDATA, "'%s' names more than %d files", l->a->name,
                       LISTED_FILES_MAX);
    return l->found(l->arg, &f, e);
}

int listing_add(struct listing *l, const char *path, uint64_t bytes, uint64_t version,
                struct err *e)
{
    if (!is_wanted(l, path))
        return 0;
    TRY(address_with_path(&l->probe->a, l->a, path, e));
    l->probe->known = true;
    l->probe->bytes = bytes;
    l->probe->version = version;
    return list_tell(l, e);
}

// Lists an http address: the address is the file, and its size is unknown until the first
// answer.
static int list_itself(struct listing *l, struct err *e)
{
    l->probe->bytes = WEB_HEAD_MAX;
    return list_tell(l, e);
}

static void list_cut(struct listing *l)
{
    size_t n = strcspn(l->a->path, "*?["), all = strlen(l->a->path);
    memcpy(l->literal, l->a->path, n);
    l->pattern = n < all;
    if (!l->pattern && n > 0 && n < sizeof l->literal - 1 && l->literal[n - 1] != '/')
        l->literal[n++] = '/';
    while (n > 0 && l->literal[n - 1] != '/')
        n--;
    memcpy(l->folder, l->literal, n);
}

static int list_all(struct listing *l, const struct interrupt *i, struct err *e)
{
    TRY(web_session(&l->probe, l->a, i, e));
    if (l->a->scheme->list == NULL)
        return list_itself(l, e);
    TRY(web_session(&l->session, l->a, i, e));
    list_cut(l);
    TRY(l->a->scheme->list(l, e));
    if (l->files > 0)
        return 0;
    return err_set(e, TUG_EDATA, "no data at '%s': %s", l->a->name,
                   l->pattern
                       ? "the pattern matches nothing"
                       : "there is no such file or directory, or nothing is in it");
}

int web_list(const char *address, const struct interrupt *i,
             int (*found)(void *arg, const struct web_file *f, struct err *e), void *arg,
             struct err *e)
{
    struct listing *l = mem_zalloc(sizeof *l);
    struct address *a = mem_zalloc(sizeof *a);
    int rc = l != NULL && a != NULL ? address_parse(a, address, e)
                                    : err_nomem(e, "a list of files");
    if (rc == 0) {
        *l = (struct listing){.a = a, .found = found, .arg = arg};
        rc = list_all(l, i, e);
        web_close(l->session);
        web_close(l->probe);
    }
    mem_free(a);
    mem_free(l);
    return rc;
}
