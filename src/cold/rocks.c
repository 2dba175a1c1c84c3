// The loading of RocksDB: by the name that the linker would have used, so that it is the
// version whose header was compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/rocks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

// At the first call; what came of it is kept.
static struct {
    pthread_once_t once;
    int rc;
    struct err e;
    struct rocks functions;
} loaded = {.once = PTHREAD_ONCE_INIT};

static int find(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        return err_set(&loaded.e, TUG_EUSAGE,
                       "%s does not have the function %s: is it another version?",
                       ROCKSDB_SONAME, name);
    memcpy(ret_function, &found, sizeof(found));
    return 0;
}

static int find_all(void *library, struct rocks *f)
{
#define X(name) TRY(find(library, "rocksdb_" #name, &f->name));
    ROCKS_FUNCTIONS(X)
#undef X
    return 0;
}

static void load(void)
{
    void *library = dlopen(ROCKSDB_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        loaded.rc = find_all(library, &loaded.functions);
    else
        loaded.rc = err_set(&loaded.e, TUG_EUSAGE,
                            "rows on disk need RocksDB, which cannot be loaded (%s): "
                            "install librocksdb-dev",
                            dlerror());
}

int rocks_load(const struct rocks **ret, struct err *e)
{
    pthread_once(&loaded.once, load);
    if (loaded.rc != 0)
        return err_set(e, loaded.rc, "%s", loaded.e.text);
    *ret = &loaded.functions;
    return 0;
}
