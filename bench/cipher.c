// The cipher that TLS uses between vans, alone: without wide AES instructions (VAES) it,
// and not the van, decides how fast a link with TLS is.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/cipher.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { RECORD = 16 << 10, TAG = 16, TURNS = 64 };

struct records {
    EVP_CIPHER_CTX *context;
    unsigned char plain[RECORD], cipher[RECORD], tag[TAG];
};

// A record is one message under a nonce of its own, as in TLS.
static bool do_record(struct records *r, bool encrypt)
{
    static const unsigned char nonce[12];
    int n, rest;
    unsigned char *from = encrypt ? r->plain : r->cipher;
    unsigned char *to = encrypt ? r->cipher : r->plain;
    if (EVP_CipherInit_ex(r->context, NULL, NULL, NULL, nonce, encrypt) != 1)
        return false;
    if (!encrypt &&
        EVP_CIPHER_CTX_ctrl(r->context, EVP_CTRL_AEAD_SET_TAG, TAG, r->tag) != 1)
        return false;
    if (EVP_CipherUpdate(r->context, to, &n, from, RECORD) != 1 ||
        EVP_CipherFinal_ex(r->context, to + n, &rest) != 1)
        return false;
    return !encrypt ||
           EVP_CIPHER_CTX_ctrl(r->context, EVP_CTRL_AEAD_GET_TAG, TAG, r->tag) == 1;
}

static bool measure(struct records *r, bool encrypt, double seconds, double *ret)
{
    double begin = clock_seconds(), now;
    uint64_t done = 0;
    do {
        for (int i = 0; i < TURNS; i++, done++)
            if (!do_record(r, encrypt))
                return false;
        now = clock_seconds();
    } while (now - begin < seconds);
    *ret = (double)done * RECORD / (now - begin);
    return true;
}

int bench_cipher(double seconds, double *ret_encrypt, double *ret_decrypt, struct err *e)
{
    static const unsigned char key[16] = "not a secret key";
    struct records *r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return err_nomem(e, "a record");
    r->context = EVP_CIPHER_CTX_new();
    bool good = r->context != NULL &&
                EVP_CipherInit_ex(r->context, EVP_aes_128_gcm(), NULL, key, NULL, 1) ==
                    1 &&
                measure(r, true, seconds / 2, ret_encrypt) &&
                measure(r, false, seconds / 2, ret_decrypt);
    EVP_CIPHER_CTX_free(r->context);
    mem_free(r);
    return good ? 0 : err_set(e, TUG_EIO, "OpenSSL has no AES-128-GCM");
}
