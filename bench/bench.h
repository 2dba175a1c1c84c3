// The one harness of the measurements behind `tug bench NAME`: what all may be told, the
// clock, medians, keys, a directory, and figures by name that are printed as text or as
// JSON.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_BENCH_H
#define TUG_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "os/clock.h"
#include "os/file.h"
#include "os/json.h"

struct bench_options {
    uint64_t read_keys, grow_keys; // of table; grow_keys 0: that part is left out
    uint64_t rows, epochs;         // of train
    int threads;                   // of train, beside one
    double seconds;                // of each figure of van and cluster
    double spin_us;                // how long is looked for an answer before sleeping
    uint64_t max_bytes; // of van: longer messages are left out; of kvstore: the array's
    uint64_t servers, workers, keys;
    bool sockets; // the cluster's processes use Unix sockets
    uint64_t table_rows;
    uint64_t hot_rows; // of tier: in memory; 0: a tenth
    const char *dir;   // for what is written
    bool json;
};

// A measurement as it runs: its figures by name are what --json prints.
struct bench {
    struct bench_options o;
    json_t *figures;
};

// TUG_EUSAGE when there is none of that name.
int bench_run(const char *name, const struct bench_options *o, struct err *e);

// How close a table comes to the machine's limits.
int bench_table(struct bench *b, struct err *e);
// How fast examples are read and trained on, and what threads gain over one.
int bench_train(struct bench *b, struct err *e);
// What a message costs, and what pushes and pulls of a cluster on this machine do.
int bench_van(struct bench *b, struct err *e);
int bench_cluster(struct bench *b, struct err *e);
// What a kvstore makes of the vans' rate.
int bench_kvstore(struct bench *b, struct err *e);
// Tables of rows with a life: applying rules, saves, shrink, rows on disk.
int bench_rules(struct bench *b, struct err *e);
int bench_save(struct bench *b, struct err *e);
int bench_shrink(struct bench *b, struct err *e);
int bench_tier(struct bench *b, struct err *e);
// A saved model that is served, and followed.
int bench_score(struct bench *b, struct err *e);

// Figures. One that is lost because memory is short is noticed by bench_run.

void bench_count(json_t *figures, const char *name, uint64_t n);
void bench_set(json_t *figures, const char *name, double x); // 0 if it is not finite
double bench_get(const json_t *figures, const char *name);
// Sets a figure divided by that of its peer or limit.
void bench_ratio(json_t *figures, const char *name, const char *over, const char *under);
// bench_group adds a set of figures with this name. bench_row appends one to the list with
// this name, which it makes if there is none. Both return the new set.
json_t *bench_group(json_t *figures, const char *name);
json_t *bench_row(json_t *figures, const char *list);
// Prints a text unless --json is given, with figures put in for
//
//   {NAME}  {NAME/NAME}  {NAME:WIDTH.DIGITS}  {NAME:WIDTH.DIGITSunit}
//
// The unit is one of k, M, G (divided by 1000 and so on), K (by 1024) and %. A negative
// width fills on the right.
void bench_print(const struct bench *b, const json_t *figures, const char *text);

// Time.

static inline double bench_since(uint64_t begin_ns)
{
    return (double)(clock_ns() - begin_ns) * 1e-9;
}
// Both sort x.
double bench_median(double *x, size_t n);
double bench_quantile(double *x, size_t n, double q);

// The key of rank i: any 64 bits.
uint64_t bench_key(uint64_t i);

// A directory of its own in --dir, or in $TMPDIR; and its end.
int bench_make_dir(const struct bench *b, char ret_path[FILE_PATH_MAX], struct err *e);
void bench_remove_dir(const char *path); // "" is fine

#endif
