// Loads shared libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/library.h"

#include <dlfcn.h>
#include <string.h>

static int library_find(const struct library *l, void *library,
                        const struct library_function *f, struct err *e)
{
    void *found = dlsym(library, f->name);
    if (found == NULL)
        return err_set(e, TUG_EUSAGE,
                       "%s does not have the function %s: is this file %s?", l->file,
                       f->name, l->other);
    memcpy(f->to, &found, sizeof(found));
    return 0;
}

static int library_load_all(const struct library *l, struct err *e)
{
    void *library = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return err_set(e, TUG_EUSAGE, "%s, which cannot be loaded (%s): install %s",
                       l->need, dlerror(), l->package);
    for (size_t i = 0; i < l->n; i++)
        TRY(library_find(l, library, &l->functions[i], e));
    return l->begin != NULL ? l->begin(e) : 0;
}

bool library_is_loaded(struct library *l)
{
    pthread_mutex_lock(&l->lock);
    bool loaded = l->tried && l->rc == 0;
    pthread_mutex_unlock(&l->lock);
    return loaded;
}

int library_load(struct library *l, struct err *e)
{
    pthread_mutex_lock(&l->lock);
    if (!l->tried)
        l->rc = library_load_all(l, &l->e);
    l->tried = true;
    pthread_mutex_unlock(&l->lock);
    return l->rc == 0 ? 0 : err_set(e, l->rc, "%s", l->e.text);
}
