// The loading of libcurl.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/curl_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define SONAME "libcurl.so.4"

// At the first call; what came of it is kept.
static struct {
    pthread_once_t once;
    int rc;
    struct err e;
    struct curl functions;
} loaded = {.once = PTHREAD_ONCE_INIT};

static int find(void *library, const char *name, void *ret_function)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        return err_set(&loaded.e, TUG_EUSAGE,
                       "%s does not have the function %s: is it older than 7.85?", SONAME,
                       name);
    memcpy(ret_function, &found, sizeof(found));
    return 0;
}

static int find_all(void *library, struct curl *f)
{
#define X(name) TRY(find(library, #name, &f->name));
    CURL_FUNCTIONS(X)
#undef X
    return f->curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
               ? 0
               : err_set(&loaded.e, TUG_EIO, "libcurl cannot be started");
}

static void load(void)
{
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        loaded.rc = find_all(library, &loaded.functions);
    else
        loaded.rc = err_set(&loaded.e, TUG_EUSAGE,
                            "data that lies elsewhere needs libcurl, which cannot be "
                            "loaded (%s): install libcurl4",
                            dlerror());
}

int curl_load(const struct curl **ret, struct err *e)
{
    pthread_once(&loaded.once, load);
    if (loaded.rc != 0)
        return err_set(e, loaded.rc, "%s", loaded.e.text);
    *ret = &loaded.functions;
    return 0;
}
