// Entry policies: which keys may have a row.
//
// Ids follow a power law: most occur once or twice and are never seen again. A policy
// decides, for a key that has no row yet, whether a push makes one; until then what it
// remembers of the key is small, or shared with others (a sketch).
//
//   none         every key
//   count        keys that occurred `threshold` times: pushes, or the shows that they carry
//   probability  a share of all keys, decided once for each by its hash
//   bloom        as count (to 15), with a counting Bloom filter: a few bits a key, sometimes
//                too early, never too late. More keys than it is made for come in too early
//                more often; it forgets none
//   sketch       as count, with a count-min sketch (Cormode & Muthukrishnan 2005): likewise,
//                in memory that depends on `error` alone
//   show-click   keys whose score of shows and clicks reached `threshold`
//
// The push that reaches the threshold is the first that counts for the row. Pushes of
// examples that were counted before, in an earlier pass, count nothing. What is
// remembered belongs to a partition: who has which partitions, one process or ten
// servers, makes no difference to which keys come in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ENTRY_H
#define TUG_ACCESSOR_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { ENTRY_NAME_MAX = 32 };

struct entry_options {
    char policy[ENTRY_NAME_MAX]; // by name; "" is none
    float threshold;             // count, bloom, sketch, show-click
    bool by_shows;               // count, bloom, sketch: shows count, not pushes
    float probability;           // probability: 0 < p <= 1
    uint32_t capacity;           // bloom: keys of a partition that it is made for
    float error;           // bloom: share of keys let in too early; sketch: of the sum
                           // of all counts
    float nonclick, click; // show-click: see life.h
    uint64_t seed;         // of hashes
};

// What a policy of that name begins with. Checking: TUG_EUSAGE naming all policies if
// there is none of that name, or saying which of the numbers that it looks at can't be.
struct entry_options entry_defaults(const char *policy);
int entry_check(const struct entry_options *o, struct err *e);

// "count:10", "count:10:shows", "probability:0.1", "bloom:5", "sketch:5",
// "show-click:2.5"; Paddle's "count_filter_entry:10", "probability_entry:0.1" and
// "show_click_entry:a:b" (threshold 1) likewise. Behind a policy's own number, other
// numbers by name: "bloom:5:shows:capacity=1000000:error=0.001". Printing gives what
// reads back as the same; the seed is not part of it.
int entry_parse(const char *text, struct entry_options *ret, struct err *e);
int entry_print(const struct entry_options *o, struct buf *to);
const char *entry_names(void); // "none, count, ..."

// A policy, its own or a program's.
struct entry_class {
    const char *name, *about;
    // What it remembers of a partition. NULL: it needs nothing.
    int (*open)(const struct entry_options *o, void **ret, struct err *e);
    void (*close)(void *state);
    // A push of a key without a row: counts it, and says whether it is to have one.
    // Memory that is short means no.
    bool (*admit)(void *state, const struct entry_options *o, uint64_t key, float show,
                  float click);
    // A push of a key without a row that counts nothing: its examples were pushed before.
    // NULL: as `admit` decides without shows and clicks.
    bool (*again)(const void *state, const struct entry_options *o, uint64_t key);
    size_t (*bytes)(const void *state);
    // For saves: the same bits after a load. `load` believes nothing.
    int (*save)(const void *state, struct buf *to);
    int (*load)(void *state, const void *bytes, size_t n, struct err *e);
};

// By name; NULL: there is none. Registering is done before any table is made, by one
// thread; TUG_EUSAGE: the name is taken, or no name.
const struct entry_class *entry_find(const char *name);
int entry_register(const struct entry_class *c, struct err *e);

// The policy's state for one partition. Threads: the partition's owner's.
struct entry;
int entry_open(struct entry **ret, const struct entry_options *o, struct err *e);
void entry_close(struct entry *x); // NULL is fine
bool entry_admit(struct entry *x, uint64_t key, float show, float click);
bool entry_again(struct entry *x, uint64_t key);
size_t entry_bytes(const struct entry *x);
int entry_save(const struct entry *x, struct buf *to);
int entry_load(struct entry *x, const void *bytes, size_t n, struct err *e);

#endif
