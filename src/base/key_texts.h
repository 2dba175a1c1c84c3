// Texts of 64-bit keys, such as the words whose hashes the keys are: each key once, by
// numbers in the order in which they came. Other values of a key lie in arrays of the
// caller's, by its number.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_KEY_TEXTS_H
#define TUG_BASE_KEY_TEXTS_H

#include "base/buf.h"
#include "base/key_set.h"

enum { KEY_TEXTS_MAX = 1 << 29 }; // a set of keys takes less than 2^31

struct key_texts {
    struct key_set set;
    uint64_t *key; // of each number
    size_t *at;    // where its text begins
    size_t n, cap;
    struct buf text; // each with a NUL behind it
};

#define KEY_TEXTS_INIT(max_bytes) ((struct key_texts){.text = BUF_INIT(max_bytes)})
void key_texts_fini(struct key_texts *t); // a zeroed one is fine

// Returns the key's number + 1; 0 if it has none.
static inline size_t key_texts_find(const struct key_texts *t, uint64_t key)
{
    return t->n > 0 ? *key_set_place(&t->set, t->key, key) : 0;
}

// Stays until the next text comes.
static inline char *key_texts_at(const struct key_texts *t, size_t number)
{
    return t->text.data + t->at[number];
}

// Room for one more key. Below KEY_TEXTS_MAX of them: TUG_ENOMEM, and all is as it was.
int key_texts_reserve(struct key_texts *t);

// Adds a key without a number, after key_texts_reserve: its text is the bytes that the
// caller has appended to t->text from byte `at` on, without a NUL. TUG_ENOMEM, TUG_EDATA:
// as buf_add; then the text is taken back.
int key_texts_add(struct key_texts *t, uint64_t key, size_t at);

#endif
