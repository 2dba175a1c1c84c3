// The C side of bench/python/rate: makes the same pushes and pulls as Python's loop, with
// the same client and arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "tug/tug.h"

int loop_push(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
              const float *values, int times)
{
    for (int i = 0; i < times; i++) {
        uint64_t ts;
        int rc = tug_push(c, table, keys, n, values, NULL, NULL, &ts);
        if (rc == 0)
            rc = tug_wait(c, ts, 0);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int loop_pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
              float *values, int times)
{
    for (int i = 0; i < times; i++) {
        uint64_t ts;
        int rc = tug_pull(c, table, keys, n, values, NULL, NULL, &ts);
        if (rc == 0)
            rc = tug_wait(c, ts, 0);
        if (rc != 0)
            return rc;
    }
    return 0;
}
