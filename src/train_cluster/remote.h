// Internals of training on a cluster.
//
// The driver (in the scheduler's process) runs the passes: it opens them, prints their
// progress, validates, saves and tests. Workers lease work, pull rows, push gradients.
// The servers have the rows. Models and data are the same as in one process.
//
//   async, ssp   the data is leased piece by piece; a piece is always divided into the same
//                batches, and a push carries (pass, piece, batch) as its identity, so that a
//                piece that is trained on again after a death changes nothing twice
//   half-async   the same, but the threads of a worker compute each batch together
//   geo          the same, but a worker trains on its own copy of the rows for a stretch of
//                batches, and then pushes its change divided by the number of workers
//   elastic      as geo, but the worker keeps its copy, which is moved towards the servers' rows
//   sync         every worker has all examples in memory and computes its share of every batch;
//                a batch's gradients have the same bits, whichever worker computes them
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_REMOTE_H
#define TUG_TRAIN_CLUSTER_REMOTE_H

#include "data/source/identity.h"
#include "data/source/piece.h"
#include "train/run.h"
#include "train_cluster/deal_rows.h"
#include "train_cluster/exchange.h"
#include "train_cluster/work_facts.h"

// The course (the code that does the passes) of a run on a cluster: workers lease their
// work from the scheduler, and the driver in this process controls the run.
extern const struct course course_cluster;

// Runs a worker of a cluster: it trains on what the scheduler leases to it until the run
// is over. `facts` (NULL: none) has as many lanes as remote_worker_lanes returns.
int remote_worker_run(const struct train_config *c, struct work_facts *facts,
                      struct err *e);
uint32_t remote_worker_lanes(const struct train_config *c);

// A client of the cluster in this process.
struct remote {
    struct node *node;
    struct van *van;
    struct client *client;
};

struct remote_options {
    enum wire_role role;
    uint16_t loop, loops; // number of this client's loop, and of all loops of the
                          // process: see msg_join
    // Called when the scheduler has divided the micro-batches anew among the
    // workers; may be NULL.
    void (*view)(void *ctx, const struct msg_view *m);
    void *ctx;
};

int remote_open(struct remote *r, const struct train_config *c,
                const struct remote_options *o, struct err *e);
void remote_close(struct remote *r);
// Called instead of remote_close if the client belongs to a peer, which continues to use
// it.
void remote_give_back(struct remote *r);

// Makes the run's tables on the servers, or finds them there.
int remote_tables(struct remote *r, const struct train_config *c, const struct model *m,
                  struct err *e);

// The cluster's description of the data. The struct is too large for the stack.
struct remote_data {
    bool told;  // the driver has sent how the data is to be read
    bool known; // a worker has described the data
    bool has_schema;
    struct schema schema;
    // Hash of the run's options and identity of its files, if they were asked for.
    struct identity files;
    int rc;
};

// Wait for the description of the data: in a worker until the driver has sent how to read
// it, in the driver until a worker has described it.
int remote_data_told(struct remote *r, struct remote_data *ret, struct err *e);
// Checks that this worker has the options of the run, after the driver has sent them.
// TUG_EUSAGE names the options that differ.
int remote_agree(struct remote *r, const struct train_config *c, struct err *e);
int remote_data_known(struct remote *r, const atomic_bool *interrupted,
                      struct remote_data *ret, struct err *e);

// Converts an absolute path, or one relative to this process, into one below the servers'
// roots (client_below).
int remote_below(struct remote *r, enum wire_root kind, const char *path,
                 char ret[FILE_PATH_MAX], struct err *e);

// Adds trained batches to the global step, for features with a lifecycle.
int remote_step(struct remote *r, uint64_t batches, struct err *e);

// Waits for this time, while the van is polled.
int remote_pause(struct remote *r, double seconds, struct err *e);

// Returns whether workers apply the rules: see train_cluster/exchange.h.
bool remote_steps(const struct train_config *c);

// Returns the size of a piece in bytes. All workers of a run, and a run that resumes that
// run, get the same size.
uint64_t remote_piece_bytes(uint64_t text_bytes);

// ---------------------------------------------------------------- the state of a worker

enum {
    REMOTE_SLOTS = TRAIN_MAX_IN_FLIGHT,
    REMOTE_INDEX_BITS = 40, // low bits of msg_push.id_piece, for the index of a piece;
                            // the file is in the bits above
};

struct remote_score;

struct held_piece {
    uint32_t file;
    uint64_t index;
    struct dataset *data;
};

struct share {
    struct remote_worker *worker;
    uint64_t pass;
    struct order order;
    struct order_block hand;
    uint64_t first, batches;
    bool begun;
    uint64_t last;    // number of the last batch whose share was pushed
    uint32_t done;    // bit i is set if micro-batch i of batch `last` was pushed
    uint64_t view;    // number of the division of batches that gave the micro-batches in
                      // `done` to this worker
    uint64_t reports; // number of reports sent in the pass
};

// The memory of one of the threads that compute a batch.
struct remote_thread {
    struct model_work work;        // memory for computing by the packed model
    struct metrics_stream *stream; // for each label: sums over examples
    struct dense dense;
    // With updates by gradients: sums over this thread's examples. The first thread's
    // sums become those of the batch.
    float *sums;
    size_t cap; // floats of `sums`
    int rc;
    _Alignas(64) char apart; // keeps data of different threads in different cache lines
};

struct remote_worker {
    const struct train_config *config; // points to `own`
    struct train_config own;           // the settings, and how the data is read
    struct schema *schema;             // the schema that config.reader points to, or NULL
    // Number of this worker among the lanes (threads) of its process; number of lanes.
    uint16_t lane, lanes;
    struct work_lane *work; // the facts for the worker's page; NULL: no page
    uint64_t pulled_ns;     // time in ns spent waiting for rows
    struct remote remote;
    struct model model;
    struct exchange_keys keys;
    struct exchange_local local; // used in geo and elastic mode
    struct exchange slots[REMOTE_SLOTS];
    // A thread, or all threads of a team that computes each batch together.
    struct remote_thread *threads;
    int n_threads;
    struct reader *reader;
    struct team *team;
    struct pieces *pieces;
    // The buckets of the global shuffle; NULL: pieces are trained on in their order.
    struct deal_rows *dealt;
    // If workers apply the rules (by steps): the rules of the rows and of the dense
    // parameters, with the current learning rate.
    struct rule_params rules[ACCESSOR_MAX_GROUPS], dense_rule[ACCESSOR_MAX_GROUPS];
    uint64_t *order; // indices of the examples in a batch or stretch
    size_t cap_order;
    uint64_t pass;  // the current pass
    bool bad_score; // a score of the pass was not finite
    bool told_left_out;

    // The following members are used in async and ssp mode.
    struct held_piece *held; // pieces that are kept in memory
    size_t n_held, cap_held;
    uint64_t pending_bytes, may_hold;
    uint64_t clock;  // in ssp mode: the worker's clock
    bool paused;     // in ssp mode: no worker waits for this worker
    uint64_t marked; // number of the save that the worker marked last

    // The following members are used in sync mode.
    struct dataset *all;
    struct share share;
    struct msg_view view; // the newest division of batches that has arrived

    struct remote_score *score; // state of scoring; NULL: the driver scores

    // The members up to `ctx` are used only in a worker without a driver.
    uint64_t reported; // number of examples reported so far
    bool at_end;       // the last piece was at the end of its file
    int (*batch_done)(void *ctx, struct err *e); // Called after each batch; may be NULL.
    // In mode sync: called repeatedly during a wait for rows, with the time at which the
    // wait began. May be NULL.
    int (*waits)(void *ctx, double began, struct err *e);
    void *ctx;

    double read_seconds;
    double wait_seconds; // time spent waiting for rows and acknowledgements
    uint64_t waited_ns;  // the client's waiting time in ns at the last report
    uint64_t bad_lines;
};

// Checks the share of each batch that *v gives to a worker.
int remote_check_view(const struct msg_view *v, struct err *e);

// Joins the cluster (or, without a driver, uses the caller's membership), and opens
// everything that a worker needs. *w must be zeroed except for config and lanes.
// remote_worker_close also closes a worker that is opened in part.
int remote_worker_open(struct remote_worker *w, struct err *e);
void remote_worker_close(struct remote_worker *w);
// Merges the sums of the threads of the worker into those of the first thread, and
// returns these, one for each label.
struct metrics_stream *remote_seen(struct remote_worker *w);

// Trains on a leased piece or bucket, and reports that it is done. Before a global
// shuffle, deals a leased piece instead.
int remote_train_piece(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);
// Marks this worker as idle at the servers, because it has no piece at the moment: other
// workers then do not wait for it. May be called before the first piece.
int remote_pieces_pause(struct remote_worker *w, struct err *e);

// Trains on the worker's share of all batches of a pass.
int remote_train_share(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);

int remote_threads_open(struct remote_worker *w, struct err *e);
void remote_threads_close(struct remote_worker *w);

// Functions by which workers score pieces of --valid and --test, if workers
// score: remote_score.c.
int remote_score_open(struct remote_worker *w, struct err *e);
void remote_score_close(struct remote_worker *w);
const struct pieces *remote_score_pieces(const struct remote_worker *w, bool test);
// remote_score_has returns whether a leased file is one of --valid or --test;
// remote_score_piece scores a leased piece of such a file.
bool remote_score_has(const struct remote_worker *w, uint32_t file);
int remote_score_piece(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);

// Makes room for n examples in w->order.
int remote_reserve_order(struct remote_worker *w, size_t n, struct err *e);

// Waits for the batch and computes it with all threads. Then x has the values that
// remain to be pushed: parts of the dense parameters may have been pushed already, with
// the fields of `push`.
int remote_compute(struct remote_worker *w, struct exchange *x,
                   const struct exchange_push *push, struct err *e);

// Computes the gradients of a part of the batch, into the thread's work; those of the
// dense parameters are added to `dense`. For TUG_EDATA and TUG_ENOMEM see remote_failed.
int remote_gradients(const struct remote_worker *w, struct remote_thread *t,
                     const struct exchange *x, const struct model_batch *part,
                     float *dense);
static inline size_t remote_at_once(const struct remote_worker *w)
{
    return w->model.options.ops->at_once;
}

// Sets the error for TUG_ENOMEM, or for TUG_EDATA: a score of the pass was not finite.
// Returns rc.
int remote_failed(struct remote_worker *w, int rc, uint64_t pass, struct err *e);
// Handles a batch of this data that failed with `rc`: if a score or an update was not
// finite, sets the error that names the column and the first line.
int remote_diverged(struct remote_worker *w, const struct exchange *x,
                    const struct dataset *d, uint64_t pass, int rc, struct err *e);
// Does what remote_diverged does, for a server's error about a key, whichever worker has
// pushed it. Returns rc for any other error.
int remote_name_key(const struct remote_worker *w, const struct dataset *d, int rc,
                    struct err *e);
// remote_tell_left_out warns once about an update of this data that a server has left
// out; remote_count_left_out warns at the end about their number.
void remote_tell_left_out(struct remote_worker *w, const struct dataset *d);
void remote_count_left_out(const struct remote_worker *w);

// Record how far the worker is, for its page (work_facts.h). remote_began takes
// UINT32_MAX as the file for a share of a pass.
void remote_began(struct remote_worker *w, uint64_t pass, uint32_t file, uint64_t index);
void remote_did_batch(struct remote_worker *w, uint64_t examples);
void remote_did_piece(struct remote_worker *w);
// Adds time spent reading data, which began at `start`.
void remote_has_read(struct remote_worker *w, double start);

// Reports to the scheduler, and through it to the driver, what was done since the last
// report. *m has the other fields of the message; its report is filled in here.
int remote_report(struct remote_worker *w, struct msg_piece_done *m, struct err *e);
// Numbers the report *m, sends it, and does not wait for its answer.
int remote_tell_done(struct remote_worker *w, struct msg_piece_done *m, struct err *e);

#endif
