// AWS Signature Version 4, as its documentation says: the request in canonical form, a
// text to sign that has its hash, and a key that is derived from the secret for the day,
// the region and the service.
//
// SPDX-License-Identifier: Apache-2.0
#include "web/sigv4_internal.h"

#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

enum { HASH_BYTES = SHA256_DIGEST_LENGTH, DAY_CHARACTERS = 8, TEXT_MAX = 64 << 10 };

struct hash {
    unsigned char byte[HASH_BYTES];
};

struct hex {
    char text[2 * HASH_BYTES + 1];
};

static struct hex to_hex(const struct hash *h)
{
    static const char digit[] = "0123456789abcdef";
    struct hex ret = {0};
    for (size_t i = 0; i < HASH_BYTES; i++) {
        ret.text[2 * i] = digit[h->byte[i] >> 4];
        ret.text[2 * i + 1] = digit[h->byte[i] & 15];
    }
    return ret;
}

static bool hmac(const void *key, size_t key_len, const void *text, size_t len,
                 struct hash *ret)
{
    return HMAC(EVP_sha256(), key, (int)key_len, text, len, ret->byte, NULL) != NULL;
}

// Appends the names of the signed headers, such as "host;x-amz-date".
static int add_names(const struct sigv4 *s, struct buf *b)
{
    for (size_t i = 0; i < s->headers; i++)
        TRY(buf_printf(b, "%s%s", i > 0 ? ";" : "", s->header[i].name));
    return 0;
}

static int add_canonical(const struct sigv4 *s, struct buf *b)
{
    TRY(buf_printf(b, "GET\n%s\n%s\n", s->path, s->query));
    for (size_t i = 0; i < s->headers; i++)
        TRY(buf_printf(b, "%s:%s\n", s->header[i].name, s->header[i].value));
    TRY(buf_add(b, "\n", 1));
    TRY(add_names(s, b));
    return buf_printf(b, "\n%s", SIGV4_EMPTY);
}

static int add_scope(const struct sigv4 *s, struct buf *b)
{
    return buf_printf(b, "%.*s/%s/%s/aws4_request", DAY_CHARACTERS, s->date, s->region,
                      s->service);
}

static int add_to_sign(const struct sigv4 *s, struct buf *b)
{
    struct buf canonical = BUF_INIT(TEXT_MAX);
    struct hash hash;
    int rc = add_canonical(s, &canonical);
    if (rc == 0 &&
        SHA256((const unsigned char *)canonical.data, canonical.len, hash.byte) == NULL)
        rc = TUG_ENOMEM;
    buf_free(&canonical);
    TRY(rc);
    TRY(buf_printf(b, "AWS4-HMAC-SHA256\n%s\n", s->date));
    TRY(add_scope(s, b));
    return buf_printf(b, "\n%s", to_hex(&hash).text);
}

static bool derive(const struct sigv4 *s, const struct buf *secret, struct hash *key)
{
    return hmac(secret->data, secret->len, s->date, DAY_CHARACTERS, key) &&
           hmac(key, HASH_BYTES, s->region, strlen(s->region), key) &&
           hmac(key, HASH_BYTES, s->service, strlen(s->service), key) &&
           hmac(key, HASH_BYTES, "aws4_request", 12, key);
}

static int signature(const struct sigv4 *s, struct hex *ret)
{
    struct buf text = BUF_INIT(TEXT_MAX), secret = BUF_INIT(TEXT_MAX);
    struct hash key = {{0}};
    int rc = add_to_sign(s, &text);
    if (rc == 0)
        rc = buf_printf(&secret, "AWS4%s", s->secret);
    if (rc == 0 &&
        (!derive(s, &secret, &key) || !hmac(&key, HASH_BYTES, text.data, text.len, &key)))
        rc = TUG_ENOMEM;
    *ret = to_hex(&key);
    OPENSSL_cleanse(&key, sizeof key);
    buf_free(&text);
    buf_wipe(&secret);
    return rc;
}

static int add_authorization(const struct sigv4 *s, struct buf *ret)
{
    struct hex hex;
    TRY(signature(s, &hex));
    TRY(buf_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/", s->key_id));
    TRY(add_scope(s, ret));
    TRY(buf_printf(ret, ", SignedHeaders="));
    TRY(add_names(s, ret));
    return buf_printf(ret, ", Signature=%s", hex.text);
}

int sigv4_sign(const struct sigv4 *s, struct buf *ret, struct err *e)
{
    int rc = add_authorization(s, ret);
    return rc == 0 ? 0 : err_set(e, rc, "sign a request: %s", err_text(rc));
}
