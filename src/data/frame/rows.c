// Publishes rows in memory, and computes facts about them without reading them.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/frame/rows.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/frame/columns.h"

#define SCHEME "memory://"

// All published rows. Each has a number that is never used again, so that the address of
// withdrawn rows stays invalid.
struct published {
    const struct rows *rows;
    uint64_t number;
    struct published *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct published *first;
static uint64_t last_number;

int rows_publish(const struct rows *r, char ret_address[ROWS_ADDRESS_MAX], struct err *e)
{
    struct published *p = mem_alloc(sizeof(*p));
    if (p == NULL)
        return err_nomem(e, "rows in memory");
    pthread_mutex_lock(&lock);
    *p = (struct published){r, ++last_number, first};
    first = p;
    snprintf(ret_address, ROWS_ADDRESS_MAX, SCHEME "%" PRIu64, p->number);
    pthread_mutex_unlock(&lock);
    return 0;
}

bool rows_is_address(const char *path)
{
    return strncmp(path, SCHEME, strlen(SCHEME)) == 0;
}

// Returns the pointer to the published rows of an address, so that the caller can unlink
// them; NULL if the address has no rows. The caller holds the lock.
static struct published **published_find(const char *address)
{
    if (!rows_is_address(address))
        return NULL;
    uint64_t number = strtoull(address + strlen(SCHEME), NULL, 10);
    for (struct published **at = &first; *at != NULL; at = &(*at)->next)
        if ((*at)->number == number)
            return at;
    return NULL;
}

const struct rows *rows_find(const char *address)
{
    pthread_mutex_lock(&lock);
    struct published **at = published_find(address);
    const struct rows *ret = at != NULL ? (*at)->rows : NULL;
    pthread_mutex_unlock(&lock);
    return ret;
}

void rows_withdraw(const char *address)
{
    pthread_mutex_lock(&lock);
    struct published **at = published_find(address), *gone = NULL;
    if (at != NULL) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    mem_free(gone);
}

// ---------------------------------------------------------------- facts

enum { FEATURE_BYTES = 8 }; // the approximate length of a feature's text, " 1234:1"

uint64_t rows_text_bytes(const struct rows *r)
{
    uint64_t features = r->sparse != NULL
                            ? r->sparse->offsets[r->n] - r->sparse->offsets[0]
                        : r->dense != NULL ? r->n * r->dense->columns
                                           : r->n * r->columns->n;
    return 2 * r->n + FEATURE_BYTES * features;
}

uint64_t rows_within(const struct rows *r, uint64_t text_bytes)
{
    uint64_t row = r->n > 0 ? rows_text_bytes(r) / r->n : 1;
    return row < text_bytes ? text_bytes / row : 1;
}

int rows_hash(const struct rows *r, uint64_t *ret, struct err *e)
{
    enum { ENDS = 256 };
    struct buf text = BUF_INIT((size_t)1 << 40);
    int rc = 0;
    for (uint64_t i = 0; i < r->n && rc == 0; i++) {
        if (i == ENDS && r->n > 2 * ENDS)
            i = r->n - ENDS;
        rc = rows_text(r, i, &text, e);
    }
    *ret = hash_bytes(text.data, text.len, r->n);
    buf_free(&text);
    return rc;
}

int rows_weight(const struct rows *r, uint64_t i, float *ret, struct err *e)
{
    float weight = r->weights != NULL ? r->weights[i] : 1;
    *ret = weight;
    return weight >= 0 && isfinite(weight)
               ? 0
               : err_set(e, TUG_EDATA,
                         "the weight is %g, but weights must be finite and not negative",
                         (double)weight);
}
