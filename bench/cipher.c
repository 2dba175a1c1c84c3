// Measures the cipher of TLS alone. On a CPU without wide AES instructions (VAES), the
// cipher, not the van, limits the rate of a link with TLS.
//
// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/pair.h"

enum { RECORD = 16 << 10, TAG = 16, TURNS = 64 };

struct records {
    EVP_CIPHER_CTX *context;
    unsigned char plain[RECORD], cipher[RECORD], tag[TAG];
};

// Encrypts or decrypts one record, as TLS does: each record is a message of its own.
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

static bool measure(struct records *r, bool encrypt, double seconds, json_t *figures)
{
    uint64_t begin = clock_ns(), done = 0;
    do {
        for (int i = 0; i < TURNS; i++, done++)
            if (!do_record(r, encrypt))
                return false;
    } while (bench_since(begin) < seconds);
    bench_set(figures, encrypt ? "encrypt" : "decrypt",
              (double)done * RECORD / bench_since(begin));
    return true;
}

int bench_cipher(double seconds, json_t *figures, struct err *e)
{
    static const unsigned char key[16] = "not a secret key";
    static struct records r;
    r.context = EVP_CIPHER_CTX_new();
    bool good = r.context != NULL &&
                EVP_CipherInit_ex(r.context, EVP_aes_128_gcm(), NULL, key, NULL, 1) ==
                    1 &&
                measure(&r, true, seconds / 2, figures) &&
                measure(&r, false, seconds / 2, figures);
    EVP_CIPHER_CTX_free(r.context);
    return good ? 0 : err_set(e, TUG_EIO, "OpenSSL has no AES-128-GCM");
}
