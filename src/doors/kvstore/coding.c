// Compression of gradients: see coding.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/coding.h"

#include <math.h>
#include <string.h>

int kvs_coding_parse(const char *name, float *threshold, enum kvs_coding *ret,
                     struct err *e)
{
    if (isnan(*threshold))
        *threshold = 0.5f;
    if (name != NULL && strcmp(name, "none") == 0)
        *ret = KVS_UNCODED;
    else if (name != NULL && strcmp(name, "2bit") == 0)
        *ret = KVS_2BIT;
    else if (name != NULL && strcmp(name, "1bit") == 0)
        *ret = KVS_1BIT;
    else
        return err_set(e, TUG_EUSAGE,
                       "there is no compression '%.40s'; there are 2bit, 1bit and none",
                       name != NULL ? name : "");
    if (!isfinite(*threshold) || (*ret == KVS_2BIT && !(*threshold > 0)))
        return err_set(e, TUG_EUSAGE,
                       "the threshold of compression '%s' must be a finite number, and "
                       "above 0 for 2bit, not %g",
                       name, (double)*threshold);
    return 0;
}

size_t kvs_coded_words(enum kvs_coding c, size_t n)
{
    size_t each = c == KVS_2BIT ? 16 : 32;
    return (n + each - 1) / each;
}

static void encode_2bit(float t, const float *values, float *left, size_t n,
                        uint8_t *bytes)
{
    for (size_t i = 0; i < n; i++) {
        float r = left[i] + values[i];
        uint8_t code = 0;
        if (r >= t) {
            code = 3;
            r -= t;
        } else if (r <= -t) {
            code = 2;
            r += t;
        }
        left[i] = r;
        bytes[i / 4] |= (uint8_t)(code << (6 - 2 * (i % 4)));
    }
}

static void encode_1bit(float t, const float *values, float *left, size_t n,
                        uint8_t *bytes)
{
    for (size_t i = 0; i < n; i++) {
        float r = left[i] + values[i];
        bool one = r > t;
        left[i] = one ? r - 1 : r + 1;
        bytes[i / 8] |= (uint8_t)(one << (7 - i % 8));
    }
}

void kvs_encode(enum kvs_coding c, float threshold, const float *values, float *left,
                size_t n, uint32_t *words)
{
    memset(words, 0, kvs_coded_words(c, n) * sizeof(*words));
    if (c == KVS_2BIT)
        encode_2bit(threshold, values, left, n, (uint8_t *)words);
    else
        encode_1bit(threshold, values, left, n, (uint8_t *)words);
}

void kvs_decode(enum kvs_coding c, float threshold, const uint32_t *words, size_t n,
                float *values)
{
    const uint8_t *bytes = (const uint8_t *)words;
    const float of[4] = {0, 0, -threshold, threshold}; // code 1 is not used
    for (size_t i = 0; i < n; i++)
        values[i] = c == KVS_2BIT ? of[bytes[i / 4] >> (6 - 2 * (i % 4)) & 3]
                    : bytes[i / 8] >> (7 - i % 8) & 1 ? 1
                                                      : -1;
}
