// Texts of 64-bit keys, such as the words whose hashes the keys are. Each key has a
// number, in the order in which keys were added; the caller keeps other values of a key
// in arrays of its own, indexed by this number.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_KEY_TEXTS_H
#define TUG_BASE_KEY_TEXTS_H

#include "base/buf.h"
#include "base/key_set.h"

enum { KEY_TEXTS_MAX = 1 << 29 }; // a set of keys holds fewer than 2^31

struct key_texts {
    struct key_set set;
    uint64_t *key; // the key of each number
    size_t *at;    // the offset in `text` of each number's text
    size_t n, cap;
    struct buf text; // each text ends with a NUL
};

#define KEY_TEXTS_INIT(max_bytes) ((struct key_texts){.text = BUF_INIT(max_bytes)})
void key_texts_fini(struct key_texts *t); // a zeroed struct is fine

// Returns the key's number + 1; 0 if it has none.
static inline size_t key_texts_find(const struct key_texts *t, uint64_t key)
{
    return t->n > 0 ? *key_set_place(&t->set, t->key, key) : 0;
}

// Returns the text of the key with this number, which is one less than what key_texts_find
// returned. The pointer is valid until the next text is added.
static inline char *key_texts_at(const struct key_texts *t, size_t number)
{
    return t->text.data + t->at[number];
}

// Makes room for one more key, up to KEY_TEXTS_MAX keys. Returns TUG_ENOMEM if it cannot;
// then nothing has changed.
int key_texts_reserve(struct key_texts *t);

// Adds a key that has no number, after key_texts_reserve. Its text is the bytes that the
// caller has appended to t->text from byte `at` on, without a NUL. Returns TUG_ENOMEM or
// TUG_EDATA as buf_add does; then the text is removed again.
int key_texts_add(struct key_texts *t, uint64_t key, size_t at);

#endif
