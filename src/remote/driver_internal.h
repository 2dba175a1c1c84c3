// The driver of a run on a cluster: course_cluster (course.h) does by messages what
// course_local does in this process.
//
// It opens passes and follows them; `run.parameters` is no more than a cache here, of the
// rows that an evaluation asks for, and empty when one begins. The best pass so far is
// kept by the servers, as copies of the tables. Saves and loads go part by part: never
// more than a part is held.
//
// This is what driver.c, driver_cut.c, driver_publish.c, driver_rows.c and driver_score.c
// share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_DRIVER_INTERNAL_H
#define TUG_REMOTE_DRIVER_INTERNAL_H

#include <pthread.h>

#include "remote/remote.h"
#include "remote/remote_rows.h"
#include "remote/waiting.h"
#include "train/course.h"
#include "train/micro.h"
#include "train/run_rows.h"

// How many batches ahead the moment of a save of shares lies: doubled each time that it
// has passed before all servers were told, and step by step fewer with each save that was
// made: until that moment the save waits, and behind it the pass may end.
enum { DRIVER_AHEAD = 8, DRIVER_AHEAD_MAX = 4096 };

static inline uint64_t driver_ahead(uint64_t ahead, bool passed)
{
    if (passed)
        return ahead < DRIVER_AHEAD_MAX / 2 ? 2 * ahead : DRIVER_AHEAD_MAX;
    return ahead - (ahead - DRIVER_AHEAD + 7) / 8;
}

// The readers' positions in the middle of a pass.
struct driver_position {
    uint64_t pass;     // 0: not in the middle of one
    uint64_t first;    // shares: the next batch
    uint64_t examples; // pieces: in those done
    uint64_t data;     // which: msg_pass_state
    struct buf done;   // pieces: FILE_DONE records
    // For the save in progress:
    uint64_t clock; // shares: of its moment
    uint64_t roster, newest;
    bool known, torn, lost;
};

// State of publishing (driver_publish.c).
struct driver_published {
    char below[FILE_PATH_MAX]; // what servers call --publish
    int lock;                  // of it: no other run publishes there meanwhile
    double due;                // by clock_seconds
    bool based;                // a delta can follow: the newest save there is this run's
    uint32_t deltas;           // behind the last base
};

struct driver {
    struct remote remote;
    struct remote_worker
        *worker;          // of a peer (peer.c), whose client is its own; else NULL
    uint32_t first_epoch; // of a peer's run
    uint64_t sharing[SYNC_MICROS]; // sessions of the peers that share the pass's batches
    struct run *run;               // likewise
    struct waiting waiting;        // likewise: for shares of others
    struct remote_data *data;
    bool opened;
    uint32_t workers, servers;
    uint32_t labels;
    struct metrics_stream *stream;     // of each label: of the pass
    double read_seconds, wait_seconds; // of all workers, in the pass
    uint64_t examples;                 // of the pass before; 0: this is the first
    uint64_t bad_lines;                // that were read in the pass
    bool all_read_all;                 // every worker reads all of the data: shares
    uint64_t data_bytes;
    uint64_t looks;       // of --fetch and --dump, in the run
    bool looks_into;      // now: at what is trained
    bool shows_mean;      // of --average, in the place of what is trained (run_rows.swap)
    double shuffle_begun; // 0: the examples are not being dealt
    pthread_mutex_t lock; // of the client, for the threads of an evaluation or a save
    struct remote_rows rows; // of an evaluation
    // Features that live: driver_cut.c. --out, absolute, and what servers call it.
    char out[FILE_PATH_MAX], out_below[FILE_PATH_MAX];
    struct driver_position cut, resumed;
    struct driver_published published;
    uint64_t
        batches_before; // of the run, when the pass began, perhaps before a resumption
    uint64_t saved_batches; // of the pass, at the last save within it
    uint64_t ahead;         // shares: batches until the moment of a save
};

extern const struct run_rows rows_driver; // driver_rows.c

int driver_begin_layers(struct run *r, struct err *e); // driver_rows.c

// Workers score the examples of --valid, or of --test: driver_score.c.
int driver_score(struct run *r, bool test, bool best, struct metrics *ret, struct err *e);

// Whether the pass is over, and the slowest clock of the servers.
int driver_is_over(struct driver *d, uint64_t pass, bool *ret, uint64_t *ret_clock,
                   struct err *e);
// --average: a sample after so many batches of the run, if one is due or the pass is over.
int driver_sample(struct run *r, uint64_t batches, bool over, struct err *e);
// Returns the clock of the next batch, in sync mode.
int driver_set_clock(struct driver *d, uint64_t clock, struct err *e);
// Saves the tables of features that live, into the save in `dir`. ctx: the run.
int driver_save_tables(void *ctx, const char *dir, struct save_manifest *m,
                       struct saved_run *run, struct err *e);
// Reads the readers' positions of the save in `dir` into d->resumed.
int driver_find_position(struct driver *d, const struct saved_run *run, const char *dir,
                         struct err *e);
// A save in the middle of the pass, if one is due after so many examples. A failed save
// is not an error: the pass continues.
int driver_save_within(struct run *r, uint64_t pass, uint64_t examples,
                       struct train_result *result, struct err *e);

// --publish: checks that it is possible; makes a save after so many batches of the run,
// if it is time for one, whose failure is not an error unless the cluster has ended; and
// the last one.
int driver_publish_open(struct run *r, struct err *e);
int driver_publish_due(struct run *r, uint64_t batches, const struct train_result *result,
                       struct err *e);
int driver_publish_last(struct run *r, const struct train_result *result, struct err *e);

#endif
