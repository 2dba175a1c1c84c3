// The harness of the measurements behind `tug bench NAME`: options, clock, medians, keys,
// a directory for files, and figures, which have names and are printed as text or as
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
    // A name before a colon is that of the measurement that uses the option. table: the
    // number of keys that are read, and the number to which the table grows (0: growth is
    // not measured).
    uint64_t read_keys, grow_keys;
    uint64_t rows, epochs; // train: examples, and passes over them
    int threads;           // train: a number of threads that is measured besides 1
    double seconds;        // van, cluster, moves: time for each figure
    double spin_us; // microseconds for which a wait polls for an answer before it sleeps
    // van: longer messages are not measured; kvstore: the array's size.
    uint64_t max_bytes;
    uint64_t servers, workers, keys;
    bool sockets; // the cluster's processes use Unix sockets
    uint64_t table_rows;
    uint64_t hot_rows; // tier: rows kept in memory; 0: a tenth of all
    const char *dir;   // directory for files; NULL: $TMPDIR
    bool json;
};

// A running measurement. --json prints its figures.
struct bench {
    struct bench_options o;
    json_t *figures;
};

// Runs the measurement with this name. Returns TUG_EUSAGE if the name is unknown.
int bench_run(const char *name, const struct bench_options *o, struct err *e);

// Measures how close a table comes to the machine's limits.
int bench_table(struct bench *b, struct err *e);
// Measures how fast examples are read and trained on, and what more threads gain.
int bench_train(struct bench *b, struct err *e);
// Measure the cost of a message, and pushes and pulls of a cluster on this machine.
int bench_van(struct bench *b, struct err *e);
int bench_cluster(struct bench *b, struct err *e);
// Measures what a server costs that joins a cluster, and how fast partitions move.
int bench_moves(struct bench *b, struct err *e);
// Measures how long pushes wait after the death of a server, and what replicas cost.
int bench_replicas(struct bench *b, struct err *e);
// Measures what share of the rate of plain vans a kvstore reaches.
int bench_kvstore(struct bench *b, struct err *e);
// Measure a table's rules, saves, shrink, and rows on disk.
int bench_rules(struct bench *b, struct err *e);
int bench_save(struct bench *b, struct err *e);
int bench_shrink(struct bench *b, struct err *e);
int bench_tier(struct bench *b, struct err *e);
// Measures how fast a saved model scores rows, also while newer saves are loaded.
int bench_score(struct bench *b, struct err *e);

// Figures. If memory runs out while one is added, bench_run returns an error.

void bench_count(json_t *figures, const char *name, uint64_t n);
void bench_set(json_t *figures, const char *name, double x); // sets 0 if x is not finite
double bench_get(const json_t *figures, const char *name);
// Sets `name` to the figure `over` divided by the figure `under`.
void bench_ratio(json_t *figures, const char *name, const char *over, const char *under);
// bench_group adds a set of figures with this name. bench_row appends a set of figures to
// the list with this name, and makes the list if it is missing. Both return the new set.
json_t *bench_group(json_t *figures, const char *name);
json_t *bench_row(json_t *figures, const char *list);
// Prints a text unless --json is given. These fields are replaced by figures:
//
//   {NAME}  {NAME/NAME}  {NAME:WIDTH.DIGITS}  {NAME:WIDTH.DIGITSunit}
//
// The unit is k, M or G (the figure is divided by 10^3, 10^6 or 10^9), K (divided by
// 1024) or %. A negative width aligns to the left.
void bench_print(const struct bench *b, const json_t *figures, const char *text);

// ---------------------------------------------------------------- time

static inline double bench_since(uint64_t begin_ns)
{
    return (double)(clock_ns() - begin_ns) * 1e-9;
}
// Return the median and the q-quantile of x, which is sorted in place.
double bench_median(double *x, size_t n);
double bench_quantile(double *x, size_t n, double q);

// Returns the i-th key: a number of 64 bits that looks random.
uint64_t bench_key(uint64_t i);

// Makes a new directory in --dir or $TMPDIR; bench_remove_dir removes it.
int bench_make_dir(const struct bench *b, char ret_path[FILE_PATH_MAX], struct err *e);
void bench_remove_dir(const char *path); // path "": does nothing

#endif
