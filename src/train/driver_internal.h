// What driver.c and driver_rows.c share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_DRIVER_INTERNAL_H
#define TUG_TRAIN_DRIVER_INTERNAL_H

#include <pthread.h>

#include "train/remote.h"

// Copies of the tables as they were after the best pass.
#define DRIVER_BEST 2u // added to the numbers of the tables

struct driver {
    struct remote remote;
    bool opened, best_made;
    uint32_t workers, servers;
    struct metrics_stream stream; // of the pass
    double read_seconds;          // of all workers, in the pass
    uint64_t examples;            // of the pass before; 0: this is the first
    uint64_t bad_lines;           // in the pass
    uint64_t data_bytes;
    pthread_mutex_t lock; // of the client, for the threads of an evaluation or a save
    struct parameters *cache;
    bool best;         // an evaluation looks at the copies
    struct err lookup; // why it could not
};

#endif
