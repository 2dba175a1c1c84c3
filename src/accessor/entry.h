// Entry policies decide which keys get a row.
//
// Ids follow a power law: most of them occur once or twice and never again. For a key
// without a row, a policy decides whether a push makes one; until then its record of the
// key is small, or shared with other keys (a sketch).
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
    char policy[ENTRY_NAME_MAX]; // name of the policy; "" stands for none
    float threshold;             // for count, bloom, sketch, show-click
    bool by_shows;     // for count, bloom, sketch: count shows instead of pushes
    float probability; // for policy probability: above 0, at most 1
    // For bloom: the number of keys in a partition for which the filter is sized.
    uint32_t capacity;
    // For bloom: the fraction of keys that get a row too early. For sketch: the error of a
    // count, as a fraction of the sum of all counts.
    float error;
    float nonclick, click; // for show-click: the coefficients of the score (life.h)
    uint64_t seed;         // seed of the hashes
};

// entry_defaults returns a policy's default options. entry_check checks options:
// TUG_EUSAGE if no policy has this name (the sentence lists all policies), or a number is
// wrong (the sentence names it).
struct entry_options entry_defaults(const char *policy);
int entry_check(const struct entry_options *o, struct err *e);

// "count:10", "count:10:shows", "probability:0.1", "bloom:5", "sketch:5",
// "show-click:2.5"; Paddle's "count_filter_entry:10", "probability_entry:0.1" and
// "show_click_entry:a:b" (threshold 1) are also accepted. After the first number, other
// options follow by name: "bloom:5:shows:capacity=1000000:error=0.001". Parsing printed
// options gives the same options, except the seed.
int entry_parse(const char *text, struct entry_options *ret, struct err *e);
int entry_print(const struct entry_options *o, struct buf *to);
const char *entry_names(void); // "none, count, ..."

// The functions of a policy, one of tug's or a program's own.
struct entry_class {
    const char *name, *about;
    double counts_to;     // the greatest count that it can keep; 0: any
    const char *counters; // names of policies that count further, for messages
    // Opens the policy's state for a partition. NULL: the policy does not have a state.
    int (*open)(const struct entry_options *o, void **ret, struct err *e);
    void (*close)(void *state);
    // Counts a push of a key without a row, and returns whether the key gets a row. It
    // gets none if memory is short.
    bool (*admit)(void *state, const struct entry_options *o, uint64_t key, float show,
                  float click);
    // Decides about a push of examples that were counted in an earlier pass, without
    // counting it. NULL: `admit` is called with show and click 0.
    bool (*again)(const void *state, const struct entry_options *o, uint64_t key);
    size_t (*bytes)(const void *state);
    // Save a state, and load it with the same bits. `load` checks all bytes.
    int (*save)(const void *state, struct buf *to);
    int (*load)(void *state, const void *bytes, size_t n, struct err *e);
};

// entry_find returns the policy with this name; NULL if there is none. entry_register
// adds a program's policy; one thread calls it before any table is made. TUG_EUSAGE if
// the name is taken or invalid.
const struct entry_class *entry_find(const char *name);
int entry_register(const struct entry_class *c, struct err *e);

// A policy with its state for one partition. Only the thread that owns the partition uses
// it.
struct entry;
int entry_open(struct entry **ret, const struct entry_options *o, struct err *e);
void entry_close(struct entry *x); // NULL is fine
bool entry_admit(struct entry *x, uint64_t key, float show, float click);
bool entry_again(struct entry *x, uint64_t key);
size_t entry_bytes(const struct entry *x);
int entry_save(const struct entry *x, struct buf *to);
int entry_load(struct entry *x, const void *bytes, size_t n, struct err *e);

#endif
