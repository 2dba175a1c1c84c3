// Decodes the keys of a request or finds them by the signature of their list, cuts them
// into runs, one for each partition, and checks them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_PROTOCOL_KEYS_H
#define TUG_PROTOCOL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/key_set.h"
#include "os/budget.h"
#include "wire/wire.h"

enum {
    KEYS_MAX = 1 << 26, // greatest number of keys in a request
    KEYS_LISTS = 8,     // lists of keys that a loop remembers for each link
};
#define KEYS_LISTS_BYTES ((size_t)64 << 20) // limit of all lists of a link together

// The lists of keys most recently used by the other end of a link.
struct key_lists {
    struct listed_keys {
        uint64_t signature; // 0: the place is free
        uint64_t used;
        uint64_t *keys;
        uint32_t n;
    } list[KEYS_LISTS];
    uint64_t uses;
    size_t bytes;
    struct budget *budget; // counts the lists' memory; may be NULL
};
void key_lists_free(struct key_lists *l);

// The keys of one partition: from index `begin` to the next run's `begin`.
struct key_run {
    uint32_t partition, begin;
};

struct keys {
    const uint64_t *key;
    uint32_t n;
    const struct key_run *runs; // n_runs runs, and one more that begins at n
    uint32_t n_runs;
    uint32_t longest; // number of keys of the longest run
};

// Memory that keys_read reuses from one request to the next.
struct keys_scratch {
    uint32_t bits;        // there are 2^bits partitions
    struct key_run *runs; // the runs of keys: one for each partition and one more
    uint64_t *unpacked;
    size_t max_unpacked;
    struct key_set seen;
};
int keys_scratch_init(struct keys_scratch *s, uint32_t partition_bits);
void keys_scratch_fini(struct keys_scratch *s); // `s` may be all zeros

// Keys in the form of a push or pull message.
struct keys_wire {
    uint8_t flags; // flags of enum wire_flags
    uint32_t n;
    uint64_t list;
    struct wire_span span;
};

// Decodes n keys and cuts them into runs. *ret is valid as long as the span, the lists
// and the scratch memory are unchanged. Returns TUG_EUSAGE if the span's length does not
// fit n, the keys are not sorted by partition, or the list is unknown.
int keys_read(struct keys_scratch *s, struct key_lists *lists, const struct keys_wire *w,
              enum wire_space space, struct keys *ret, struct err *e);

// Returns TUG_EUSAGE if a key occurs twice.
int keys_check_distinct(struct keys_scratch *s, const struct keys *k, struct err *e);

#endif
