// Inputs from remote files (web/web.h).
//
// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>

#include "base/alloc.h"
#include "data/input/input.h"
#include "data/source/paths.h"
#include "web/web.h"

struct elsewhere {
    struct input base;
    struct web *web;
};

static struct web *web_of(struct input *in)
{
    return ((struct elsewhere *)(void *)in)->web;
}

static int elsewhere_read(struct input *in, char *out, size_t cap, size_t *ret_n,
                          struct err *e)
{
    return web_read(web_of(in), out, cap, ret_n, e);
}

static int elsewhere_seek(struct input *in, uint64_t at, struct err *e)
{
    return web_seek(web_of(in), at, e);
}

static int elsewhere_read_at(struct input *in, char *out, size_t n, uint64_t at,
                             size_t *ret_n, struct err *e)
{
    return web_read_at(web_of(in), out, n, at, ret_n, e);
}

static void elsewhere_close(struct input *in)
{
    web_close(web_of(in));
    mem_free(in);
}

static const struct input_ops elsewhere_ops = {.read = elsewhere_read,
                                               .seek = elsewhere_seek,
                                               .read_at = elsewhere_read_at,
                                               .close = elsewhere_close};

int input_open_web(struct input **ret, const struct web_file *f,
                   const struct interrupt *i, struct err *e)
{
    struct elsewhere *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return err_nomem(e, "an open file");
    r->base = (struct input){.ops = &elsewhere_ops, .name = f->name, .fd = -1};
    int rc = web_open(&r->web, f, i, e);
    if (rc == 0)
        *ret = &r->base;
    else
        mem_free(r);
    return rc;
}

void data_files_any_host(void)
{
    atomic_store(&web_any_host, true);
}
