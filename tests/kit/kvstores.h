// Stores of a process without a cluster, for tests: small arrays of floats by name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_KVSTORES_H
#define TUG_KIT_KVSTORES_H

#include "kit/test.h"
#include "tug/kvstore.h"

enum { ROWS = 7, WIDTH = 3, N = ROWS * WIDTH };

static inline void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static inline void refused(int rc, const char *why)
{
    assert_int_equal(TUG_EUSAGE, rc);
    if (strstr(tug_last_error(), why) == NULL)
        fail_msg("'%s' is not in: %s", why, tug_last_error());
}

static inline struct tug_kvstore *open_type(const char *type)
{
    struct tug_kvstore *s;
    check(tug_kvstore_open(&s, &(struct tug_kvstore_options){.type = type}));
    return s;
}

static inline struct tug_array dense(float *data)
{
    return (struct tug_array){TUG_FLOAT32, false, ROWS, WIDTH, data, NULL, 0};
}

static inline int push(struct tug_kvstore *s, const char *name, struct tug_array *a)
{
    struct tug_kvstore_item item = {{.name = name}, a};
    return tug_kvstore_push(s, &item, 1, 0);
}

static inline int init(struct tug_kvstore *s, const char *name, struct tug_array *a)
{
    struct tug_kvstore_item item = {{.name = name}, a};
    return tug_kvstore_init(s, &item, 1);
}

static inline int pull(struct tug_kvstore *s, const char *name, struct tug_array *a)
{
    struct tug_kvstore_item item = {{.name = name}, a};
    return tug_kvstore_pull(s, &item, 1, 0);
}

#endif
