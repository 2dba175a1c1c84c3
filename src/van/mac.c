// HMAC-SHA256 by OpenSSL.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

enum { TEXT_MAX = 2048 };

struct text {
    uint8_t bytes[TEXT_MAX];
    size_t n;
    bool good;
};

static void mac_add(struct text *t, const void *data, size_t n)
{
    uint64_t length = n;
    if (!t->good || n > sizeof(t->bytes) - t->n ||
        sizeof(length) > sizeof(t->bytes) - t->n - n) {
        t->good = false;
        return;
    }
    memcpy(t->bytes + t->n, &length, sizeof(length));
    if (n > 0)
        memcpy(t->bytes + t->n + sizeof(length), data, n);
    t->n += sizeof(length) + n;
}

bool mac(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES], const char *what,
         const struct mac_part *parts, unsigned n)
{
    struct text t = {.good = true};
    unsigned bytes = 0;
    mac_add(&t, what, strlen(what));
    for (unsigned i = 0; i < n; i++)
        mac_add(&t, parts[i].data, parts[i].n);
    if (t.good && HMAC(EVP_sha256(), key, MAC_BYTES, t.bytes, t.n, ret, &bytes) != NULL &&
        bytes == MAC_BYTES)
        return true;
    if (!mac_random(ret))
        memset(ret, 0, MAC_BYTES);
    return false;
}

bool mac_same(const void *a, size_t n, const uint8_t b[MAC_BYTES])
{
    return n == MAC_BYTES && CRYPTO_memcmp(a, b, MAC_BYTES) == 0;
}

bool mac_random(uint8_t ret[MAC_BYTES])
{
    return getrandom(ret, MAC_BYTES, 0) == MAC_BYTES;
}
