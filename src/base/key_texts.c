// Memory of the texts of keys (key_texts.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "base/key_texts.h"

#include "base/alloc.h"

void key_texts_fini(struct key_texts *t)
{
    mem_free(t->key);
    mem_free(t->at);
    key_set_fini(&t->set);
    buf_free(&t->text);
    *t = (struct key_texts){.text = BUF_INIT(t->text.max)};
}

int key_texts_reserve(struct key_texts *t)
{
    if (t->n < t->cap)
        return 0;
    if (t->n == KEY_TEXTS_MAX)
        return TUG_ENOMEM;
    size_t cap = t->cap < KEY_TEXTS_MAX / 2 - 64 ? 2 * t->cap + 64 : KEY_TEXTS_MAX;
    uint64_t *key = mem_realloc_array(t->key, cap, sizeof(*key));
    t->key = key != NULL ? key : t->key;
    size_t *at = mem_realloc_array(t->at, cap, sizeof(*at));
    t->at = at != NULL ? at : t->at;
    if (key == NULL || at == NULL)
        return TUG_ENOMEM;
    TRY(key_set_reserve(&t->set, cap));
    key_set_clear(&t->set, cap);
    for (size_t i = 0; i < t->n; i++)
        *key_set_place(&t->set, t->key, t->key[i]) = (uint32_t)i + 1;
    t->cap = cap;
    return 0;
}

int key_texts_add(struct key_texts *t, uint64_t key, size_t at)
{
    int rc = buf_add(&t->text, "", 1);
    if (rc != 0) {
        t->text.len = at;
        return rc;
    }
    t->key[t->n] = key;
    t->at[t->n] = at;
    *key_set_place(&t->set, t->key, key) = (uint32_t)++t->n;
    return 0;
}
