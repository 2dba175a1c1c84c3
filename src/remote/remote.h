// Training on a cluster, from the inside.
//
// The driver (in the scheduler's process) runs the passes: it opens them, prints their
// progress, validates, saves and tests. Workers lease work, pull rows, push gradients.
// Rows live on the servers. Models and data are the same as in one process.
//
//   async, ssp   the data is leased piece by piece; a batch is cut at a fixed place of its
//                piece, and its push carries (pass, piece, batch) as its identity, so that a
//                piece that is trained on again after a death changes nothing twice
//   half-async   likewise, and the threads of a worker compute each batch together
//   geo          likewise, and a worker trains on its own copy of the rows for a stretch of
//                batches, and pushes the average's part of what it changed
//   elastic      likewise, and keeps its copy, which is drawn towards the servers' rows
//   sync         every worker holds all examples and computes its share of every batch;
//                a batch's gradients have the same bits whoever computes them
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_REMOTE_H
#define TUG_REMOTE_REMOTE_H

#include "data/identity.h"
#include "data/piece.h"
#include "remote/deal_rows.h"
#include "remote/exchange.h"
#include "train/run.h"

// The passes of a run are done by workers that lease their work from the scheduler, and driven from
// here.
extern const struct course course_cluster;

// A worker of a cluster: trains on what the scheduler leases to it until the run is over.
int remote_worker_run(const struct train_config *c, struct err *e);

// A client of the cluster in this process.
struct remote {
    struct node *node;
    struct van *van;
    struct client *client;
};

struct remote_options {
    enum wire_role role;
    uint16_t loop, loops;                              // of this process: see msg_join
    void (*view)(void *ctx, const struct msg_view *m); // may be NULL
    void *ctx;
};

int remote_open(struct remote *r, const struct train_config *c,
                const struct remote_options *o, struct err *e);
void remote_close(struct remote *r);
// Instead of it, if the client belongs to a peer that continues to use it.
void remote_give_back(struct remote *r);

// The run's tables on the servers: made, or found there.
int remote_tables(struct remote *r, const struct train_config *c, const struct model *m,
                  struct err *e);

// The cluster's facts about the data. Large: not for the stack.
struct remote_data {
    bool told;  // the driver has said how it is to be read
    bool known; // a worker has said what it sees
    bool has_schema;
    struct schema schema;
    struct identity files; // when they were asked for
    int rc;
};

// Repeats the question until the data is told (for a worker) or known (for the driver).
int remote_data_told(struct remote *r, struct remote_data *ret, struct err *e);
// Whether this worker has the options of the run, once the driver has told them:
// TUG_EUSAGE naming those that differ.
int remote_agree(struct remote *r, const struct train_config *c, struct err *e);
int remote_data_known(struct remote *r, const atomic_bool *interrupted,
                      struct remote_data *ret, struct err *e);

// Turns an absolute path, or one relative to this process, into one below the servers'
// roots (client_below).
int remote_below(struct remote *r, enum wire_root kind, const char *path,
                 char ret[FILE_PATH_MAX], struct err *e);

// Adds trained batches to the global step of features with a lifecycle.
int remote_step(struct remote *r, uint64_t batches, struct err *e);

// Waits for a moment, serving the van.
int remote_pause(struct remote *r, double seconds, struct err *e);

// Whether workers apply the rules: see remote/exchange.h.
bool remote_steps(const struct train_config *c);

// The bytes of a piece: the same for all workers of a run, and of a run that resumes it.
uint64_t remote_piece_bytes(uint64_t text_bytes);

// A worker.

enum {
    REMOTE_SLOTS = TRAIN_MAX_IN_FLIGHT,
    REMOTE_INDEX_BITS = 40, // of a piece in a file; msg_push.id_piece has the file above
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
    uint64_t last;    // batch whose share was pushed
    uint32_t done;    // its micro-batches that were, as bits
    uint64_t view;    // division by which they are this worker's share
    uint64_t reports; // sent in the pass
};

// The memory of one of the threads that compute a batch.
struct remote_thread {
    struct model_work work;        // of the packed model
    struct metrics_stream *stream; // of each label
    struct dense dense;
    float *sums; // by gradients: of its examples; the first one's are the batch's
    size_t cap;  // floats of it
    int rc;
    _Alignas(64) char apart; // threads do not share lines
};

struct remote_worker {
    const struct train_config *config; // `own`
    struct train_config own;           // with how the data is read
    struct schema *schema;             // that config.reader points to; or NULL
    uint16_t lane, lanes;              // of the threads of its process
    struct remote remote;
    struct model model;
    struct exchange_keys keys;
    struct exchange_local local; // geo, elastic
    struct exchange slots[REMOTE_SLOTS];
    struct remote_thread *threads; // one, or where a batch is theirs the team's
    int n_threads;
    struct reader *reader;
    struct team *team;
    struct pieces *pieces;
    struct deal_rows *dealt; // NULL: pieces are trained on as they are
    struct rule_params rules[ACCESSOR_MAX_GROUPS],
        dense_rule[ACCESSOR_MAX_GROUPS]; // by steps: at the rate now
    uint64_t *order;                     // examples of a batch, or stretch
    size_t cap_order;
    uint64_t pass;  // that it works on
    bool bad_score; // one was not finite
    bool told_left_out;

    // async, ssp
    struct held_piece *held; // pieces kept in memory
    size_t n_held, cap_held;
    uint64_t pending_bytes, may_hold;
    uint64_t clock;  // ssp
    bool paused;     // ssp: nobody waits for it
    uint64_t marked; // the save that it has marked last

    // sync
    struct dataset *all;
    struct share share;
    struct msg_view view; // the newest division that came

    struct remote_score *score; // NULL: the driver scores

    // Without a driver: the sums for a report, and the callback after each batch.
    uint64_t reported;                           // examples
    bool at_end;                                 // of the file of the last piece
    int (*batch_done)(void *ctx, struct err *e); // may be NULL
    // Sync: now and then, for rows, since it began. May be NULL.
    int (*waits)(void *ctx, double began, struct err *e);
    void *ctx;

    double read_seconds;
    double wait_seconds; // for rows and acknowledgements
    uint64_t waited_ns;  // of the client's, until the last report
    uint64_t bad_lines;
};

// Whether the worker's part of a batch is one.
int remote_check_view(const struct msg_view *v, struct err *e);

// Joins (or, without a driver, takes the stay that there is), and opens all that a worker
// needs, config and lanes of a zeroed *w being set. Closes what is there of it.
int remote_worker_open(struct remote_worker *w, struct err *e);
void remote_worker_close(struct remote_worker *w);
// Merges its threads' sums over the pass, for each label.
struct metrics_stream *remote_seen(struct remote_worker *w);

// Trains on one leased piece, or bucket, and reports it done; one that is to be dealt it
// deals.
int remote_train_piece(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);
// There is no piece for now: no worker must wait for this one. Also before the first.
int remote_pieces_pause(struct remote_worker *w, struct err *e);

// Trains on the worker's share of all batches of a pass.
int remote_train_share(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);

int remote_threads_open(struct remote_worker *w, struct err *e);
void remote_threads_close(struct remote_worker *w);

// Scoring pieces of --valid and --test, when the workers do: remote_score.c.
int remote_score_open(struct remote_worker *w, struct err *e);
void remote_score_close(struct remote_worker *w);
const struct pieces *remote_score_pieces(const struct remote_worker *w, bool test);
// Whether a leased file is one of theirs; and scores a leased piece of it.
bool remote_score_has(const struct remote_worker *w, uint32_t file);
int remote_score_piece(struct remote_worker *w, const struct msg_leased *l,
                       struct err *e);

// Room for so many examples in w->order.
int remote_reserve_order(struct remote_worker *w, size_t n, struct err *e);

// Waits for the batch and computes it with all threads: the values to push are in x then,
// or were pushed already, depending on `push`.
int remote_compute(struct remote_worker *w, struct exchange *x,
                   const struct exchange_push *push, struct err *e);

// The gradients of a part of the batch that was pulled in the thread's work; those of the
// dense parameters are added to `dense`. TUG_EDATA, TUG_ENOMEM: see remote_failed.
int remote_gradients(const struct remote_worker *w, struct remote_thread *t,
                     const struct exchange *x, const struct model_batch *part,
                     float *dense);
static inline size_t remote_at_once(const struct remote_worker *w)
{
    return w->model.options.ops->at_once;
}

// TUG_ENOMEM, or TUG_EDATA: a score of the pass was not finite.
int remote_failed(struct remote_worker *w, int rc, uint64_t pass, struct err *e);
// Of a batch of this data that failed with `rc`: where a score or an update was not finite, the
// error that names the column and the first line.
int remote_diverged(struct remote_worker *w, const struct exchange *x,
                    const struct dataset *d, uint64_t pass, int rc, struct err *e);
// Does so for a server's error about a key, whichever worker has pushed it; returns rc
// for any other error.
int remote_name_key(const struct remote_worker *w, const struct dataset *d, int rc,
                    struct err *e);
// Warns once of an update of this data that a server has left out; at the end of how many.
void remote_tell_left_out(struct remote_worker *w, const struct dataset *d);
void remote_count_left_out(const struct remote_worker *w);

// Tells the scheduler, and through it the driver, what was done since the last time.
// *m says what; its report is filled in here.
int remote_report(struct remote_worker *w, struct msg_piece_done *m, struct err *e);

#endif
