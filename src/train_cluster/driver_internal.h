// Internals of the driver of a run on a cluster, which its files share: driver.c,
// driver_cut.c, driver_publish.c, driver_rows.c and driver_score.c. course_cluster
// (course.h) does by messages what course_local does in this process.
//
// The driver opens passes and waits for their end. Here `run.parameters` is only a cache
// of the rows that an evaluation needs; it is empty at the begin of the evaluation. The
// servers keep the best pass so far, as copies of the tables. Saves and loads are done
// part by part, so that the driver never has more than one part in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_DRIVER_INTERNAL_H
#define TUG_TRAIN_CLUSTER_DRIVER_INTERNAL_H

#include <pthread.h>

#include "train/course.h"
#include "train/rows/micro.h"
#include "train/rows/run_rows.h"
#include "train_cluster/remote.h"
#include "train_cluster/remote_rows.h"
#include "train_cluster/waiting.h"

// In sync mode a save is announced this many batches ahead. The distance doubles if that
// batch was applied before all servers had the announcement. It shrinks after each
// successful save: with a shorter distance the save waits for fewer batches, and the pass
// is less likely to end before the save.
enum { DRIVER_AHEAD = 8, DRIVER_AHEAD_MAX = 4096 };

// Returns whether a save that has failed `tries` times is to be made again, and logs that.
bool driver_saves_again(const struct err *e, int tries);

static inline uint64_t driver_ahead(uint64_t ahead, bool passed)
{
    if (passed)
        return ahead < DRIVER_AHEAD_MAX / 2 ? 2 * ahead : DRIVER_AHEAD_MAX;
    return ahead - (ahead - DRIVER_AHEAD + 7) / 8;
}

// The position of the readers in the middle of a pass.
struct driver_position {
    uint64_t pass;     // 0: not in the middle of a pass
    uint64_t first;    // with shares: number of the next batch
    uint64_t examples; // with pieces: number of examples in the finished pieces
    uint64_t data;     // id of the data, as in msg_pass_state
    struct buf done;   // with pieces: FILE_DONE records of the finished pieces
    // The following members belong to the save in progress.
    uint64_t clock; // with shares: the clock at which the save is made
    uint64_t roster, newest;
    bool known, torn, lost;
};

// State of publishing (driver_publish.c).
struct driver_published {
    char below[FILE_PATH_MAX]; // the servers' name of the directory of --publish
    int lock; // lock of the directory of --publish, so that no other run publishes there
    double due; // time (clock_seconds) of the next save
    // Whether a delta can follow, because this run made the newest save in the
    // directory of --publish.
    bool based;
    uint32_t deltas; // deltas since the last base
};

struct driver {
    struct remote remote;
    // The worker of a peer (peer.c), which has a client of its own; NULL: not a peer.
    struct remote_worker *worker;
    uint32_t first_epoch; // the pass with which a peer's run began
    // For a peer: sessions of the peers that share the pass's batches.
    uint64_t sharing[SYNC_MICROS];
    struct run *run;        // for a peer: the run
    struct waiting waiting; // for a peer: the wait for shares of other peers
    struct remote_data *data;
    bool opened;
    uint32_t workers, servers;
    uint32_t labels;
    // For each label: sums over the examples of the pass so far.
    struct metrics_stream *stream;
    double read_seconds, wait_seconds; // sums over all workers, in the pass
    uint64_t examples;  // examples of the previous pass; 0: this is the first
    uint64_t bad_lines; // bad lines that were read in the pass
    bool all_read_all;  // with shares: every worker reads all of the data
    uint64_t data_bytes;
    struct numbering known; // numbers of the features that workers have trained on since
                            // this process began
    uint64_t looks;         // number of outputs of --fetch and --dump in the run so far
    bool looks_into;        // an evaluation for --fetch or --dump is under way
    bool shows_mean; // evaluations use the mean of the parameters (--average), not the
                     // current ones (run_rows.swap)
    // Time at which dealing the examples began; 0: they are not being dealt.
    double shuffle_begun;
    pthread_mutex_t lock; // protects the client, which threads of an evaluation or a save
                          // share
    struct remote_rows rows; // rows that an evaluation reads
    // For features with a lifecycle (driver_cut.c): the absolute path of --out, and the
    // servers' name of it.
    char out[FILE_PATH_MAX], out_below[FILE_PATH_MAX];
    struct driver_position cut, resumed;
    struct driver_published published;
    // Batches of the run before this pass, including those before a resume.
    uint64_t batches_before;
    // Batches of the run at its last save within a pass, or at the beginning of the run.
    uint64_t saved_batches;
    bool began; // a pass has begun
    // With shares: the number of batches by which a save is announced ahead.
    uint64_t ahead;
    // The number of the pass with which this driver goes on. It is 0 if the driver began
    // the run itself, or if another pass has followed.
    uint64_t goes_on;
    uint64_t steps; // if the servers count steps: their number when the pass was opened
};

extern const struct run_rows rows_driver; // defined in driver_rows.c

int driver_begin_layers(struct run *r, struct err *e); // defined in driver_rows.c

// Lets workers score the examples of --valid or --test; in driver_score.c.
int driver_score(struct run *r, bool test, bool best, struct metrics *ret, struct err *e);

// Gets whether the pass is over, and the smallest clock of the servers.
int driver_is_over(struct driver *d, uint64_t pass, bool *ret, uint64_t *ret_clock,
                   struct err *e);
// Takes a sample for --average after this number of batches of the run, if one is due or
// the pass is over.
int driver_sample(struct run *r, uint64_t batches, bool over, struct err *e);
// Sets the clock of the next batch, in sync mode.
int driver_set_clock(struct driver *d, uint64_t clock, struct err *e);
// Saves the tables of features with a lifecycle into the save in `dir`. ctx is the run.
int driver_save_tables(void *ctx, const char *dir, struct save_manifest *m,
                       struct saved_run *run, struct err *e);
// Writes the position of the readers into the description of the run.
int driver_set_readers(struct saved_run *run, const struct driver_position *p,
                       struct err *e);
// Appends the note of the pass that is opened now, by which another driver could go on
// with that pass. Appends nothing if the scheduler keeps no notes (driver_note.c).
int driver_note(struct run *r, uint64_t pass, const struct train_result *result,
                struct buf *to, struct err *e);
// Sets the driver's state to that in the note of the open pass.
void driver_go_on(struct driver *d, const struct run *r);
// Adds the batches of a pass to the steps of the tables, once.
int driver_add_steps(struct run *r, uint64_t batches, struct err *e);
// Reads the position of the readers from the save in `dir` into d->resumed.
int driver_find_position(struct driver *d, const struct saved_run *run, const char *dir,
                         struct err *e);
// Makes a save in the middle of the pass, if one is due after this number of examples. A
// failed save is not an error: the pass continues.
int driver_save_within(struct run *r, uint64_t pass, uint64_t examples,
                       struct train_result *result, struct err *e);

// These functions serve --publish. driver_publish_open checks that publishing is
// possible. driver_publish_due makes a save after this number of batches of the run if
// one is due; a failed save is an error only if the cluster has ended.
// driver_publish_last makes the save at the end of the run.
int driver_publish_open(struct run *r, struct err *e);
int driver_publish_due(struct run *r, uint64_t batches, const struct train_result *result,
                       struct err *e);
int driver_publish_last(struct run *r, const struct train_result *result, struct err *e);

#endif
