// Decides the kind of a store by its type's name, its options and the environment.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kvstore/kvstore_internal.h"

#define BIG_ARRAY 1000000
#define SLICE 40000

// Sets *ret, if it is 0, to the number of elements that the environment's `variable` gives,
// or to `usual` if the variable is not set.
static int read_elements(uint64_t *ret, const char *variable, uint64_t usual,
                         struct err *e)
{
    const char *text = getenv(variable);
    char *end;
    if (*ret != 0)
        return 0;
    *ret = usual;
    if (text == NULL || text[0] == 0)
        return 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*end != 0 || text[0] == '-' || n == 0)
        return err_set(e, TUG_EUSAGE, "%s=%.40s is not a number of elements", variable,
                       text);
    *ret = n;
    return 0;
}

static int check_type(const char *small, const char *given, struct err *e)
{
    static const char *const others[] = {"nccl", "horovod", "byteps", "teststore"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strstr(small, others[i]) != NULL)
            return err_set(e, TUG_EUSAGE,
                           "there are no stores of type '%s' here; there are local, "
                           "device, dist_sync, dist_async, dist_sync_device and p3",
                           given);
    if (strncmp(small, "local", 5) == 0 || strncmp(small, "device", 6) == 0 ||
        strncmp(small, "p3", 2) == 0 || strstr(small, "dist") != NULL)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "there is no type of store '%s'; there are local, device, dist_sync, "
                   "dist_async, dist_sync_device and p3",
                   given);
}

// Sets whether arrays are sliced: if the store is of type p3, or, as in MXNet, if
// DMLC_PS_VAN_TYPE is p3.
static int read_slices(struct tug_kvstore *s, bool p3,
                       const struct tug_kvstore_options *o, struct err *e)
{
    const char *van = getenv("DMLC_PS_VAN_TYPE");
    if (!p3 && (van == NULL || strcmp(van, "p3") != 0))
        return 0;
    if (s->async)
        return err_set(e, TUG_EUSAGE,
                       "a store of type '%s' cannot slice arrays (p3%s), because only "
                       "synchronous stores can: open dist_sync",
                       s->type, p3 ? "" : ", by DMLC_PS_VAN_TYPE");
    s->slice = o->slice;
    return read_elements(&s->slice, "MXNET_KVSTORE_SLICE_THRESHOLD", SLICE, e);
}

int kvs_type_read(struct tug_kvstore *s, const struct tug_kvstore_options *o,
                  struct err *e)
{
    const char *type = o->type;
    char *small = s->type;
    int n = snprintf(small, sizeof(s->type), "%s", type != NULL ? type : "local");
    if (n < 0 || (size_t)n >= sizeof(s->type))
        return err_set(e, TUG_EUSAGE, "the type of a store has at most %zu characters",
                       sizeof(s->type) - 1);
    for (int i = 0; i < n; i++)
        small[i] = (char)tolower((unsigned char)small[i]);
    TRY(check_type(small, type != NULL ? type : small, e));
    bool p3 = strstr(small, "p3") != NULL;
    s->dist = p3 || strstr(small, "dist") != NULL;
    s->async = strstr(small, "async") != NULL;
    s->device = strstr(small, "device") != NULL;
    s->big_array = o->big_array;
    TRY(read_elements(&s->big_array, "MXNET_KVSTORE_BIGARRAY_BOUND", BIG_ARRAY, e));
    return s->dist ? read_slices(s, p3, o, e) : 0;
}
