// Entry policies: which keys may have a row.
//
// Ids follow a power law: most occur once or twice and never again. For a key without a
// row, a policy decides whether a push makes one; until then its record of the key is
// small, or shared with other keys (a sketch).
//
//   none         every key
//   count        keys that occurred `threshold` times: pushes, or the shows that they carry
//   probability  a share of all keys, decided once for each by its hash
//   bloom        as count (to 15), with a counting Bloom filter: a few bits a key, sometimes
//                too early, never too late. More keys than it is made for come in too early
//                more often; it forgets none
//   sketch       as count, with a count-min sketch (Cormode & Muthukrishnan 2005):
//   likewise, in memory that depends on `error` only
//   show-click   keys whose score of shows and clicks reached `threshold`
//
// The push that reaches the threshold is the first that counts for the row. Pushes of
// examples that were counted before, in an earlier pass, count nothing. The state belongs
// to a partition: the same keys get rows whether one process or ten servers have the
// partitions.
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
    bool by_shows;               // count, bloom, sketch: counts shows instead of pushes
    float probability;           // probability: 0 < p <= 1
    // Bloom: number of keys in a partition that the filter is sized for.
    uint32_t capacity;
    float error;           // bloom: share of keys let in too early; sketch: of the sum
                           // of all counts
    float nonclick, click; // show-click: see life.h
    uint64_t seed;         // seed of the hashes
};

// Returns a policy's defaults. entry_check: TUG_EUSAGE lists all policies if there is
// none of that name, or says which of its numbers is wrong.
struct entry_options entry_defaults(const char *policy);
int entry_check(const struct entry_options *o, struct err *e);

// "count:10", "count:10:shows", "probability:0.1", "bloom:5", "sketch:5",
// "show-click:2.5"; Paddle's "count_filter_entry:10", "probability_entry:0.1" and
// "show_click_entry:a:b" (threshold 1) likewise. Other numbers follow a policy's first
// one by name: "bloom:5:shows:capacity=1000000:error=0.001". Printed options parse to the
// same ones, without the seed.
int entry_parse(const char *text, struct entry_options *ret, struct err *e);
int entry_print(const struct entry_options *o, struct buf *to);
const char *entry_names(void); // "none, count, ..."

// A policy, its own or a program's.
struct entry_class {
    const char *name, *about;
    // Opens the state of a partition. NULL: it has no state.
    int (*open)(const struct entry_options *o, void **ret, struct err *e);
    void (*close)(void *state);
    // Counts a push of a key without a row and returns whether the key gets one. If
    // memory is out, it does not.
    bool (*admit)(void *state, const struct entry_options *o, uint64_t key, float show,
                  float click);
    // Decides for a push of examples that were counted in an earlier pass; it counts
    // nothing. NULL: calls `admit` with show and click 0.
    bool (*again)(const void *state, const struct entry_options *o, uint64_t key);
    size_t (*bytes)(const void *state);
    // Save a state and load it bit for bit. `load` checks all bytes.
    int (*save)(const void *state, struct buf *to);
    int (*load)(void *state, const void *bytes, size_t n, struct err *e);
};

// entry_find returns NULL if there is no policy of that name. One thread registers
// policies before any table is made; TUG_EUSAGE if the name is taken or invalid.
const struct entry_class *entry_find(const char *name);
int entry_register(const struct entry_class *c, struct err *e);

// The policy's state for one partition. Only the thread that owns the partition uses it.
struct entry;
int entry_open(struct entry **ret, const struct entry_options *o, struct err *e);
void entry_close(struct entry *x); // NULL is fine
bool entry_admit(struct entry *x, uint64_t key, float show, float click);
bool entry_again(struct entry *x, uint64_t key);
size_t entry_bytes(const struct entry *x);
int entry_save(const struct entry *x, struct buf *to);
int entry_load(struct entry *x, const void *bytes, size_t n, struct err *e);

#endif
