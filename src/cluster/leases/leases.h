// Divides the work of a pass over the data among workers: a state machine in the
// scheduler.
//
// Pieces: the data is cut into pieces (file, index); a worker leases one at a time,
// trains on it, and reports it done when all its pushes are acknowledged. A dead worker's
// pieces are leased again. A worker first gets the pieces that it had in the previous
// pass (they may still be in its memory), then pieces that no living worker had or whose
// previous holder has enough left to do, in the seeded order of the pass. In a compressed
// file, whose number of pieces is not known, new pieces are handed out in ascending order
// until a worker reports one as the last. A piece behind the end is done when a worker
// reports it with no examples.
//
// Backups: if the driver asks for them, a worker for which no free piece is left gets the
// piece that another worker has had for the longest time. The first report counts.
// Servers apply each push of a piece once, whichever worker sends it, and they may forget
// the pushes of the piece when both workers have reported. No backup is handed out while
// a save is being marked: if one worker pushes before its mark and the other one after
// its own mark, the save would have only a part of their pushes.
//
// Buckets: in the first pass after the scheduler's start a worker that leases a piece
// deals its examples into all buckets instead of training on them. When all pieces are
// dealt, the buckets are leased instead: they are the pieces of one more file, which
// follows the files to train on. After a resume the pieces are dealt again, because the
// processes that held the buckets have ended.
//
// Scoring: a training pass may be followed by a pass over the files of --valid and one
// over those of --test, with the same number. Their pieces are leased in the same way,
// and scored. Their reports must not be lost: a piece is not done if there is no
// memory for its report.
//
// Shares: every worker trains on its share (slot of slots) of every batch of the pass.
// When a worker dies, the batches are divided anew among the living (a new view); a new
// worker waits for the next pass. The pass is over when all living workers have finished
// it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_LEASES_LEASES_H
#define TUG_CLUSTER_LEASES_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct leases;
struct buf;

int leases_open(struct leases **ret, struct err *e);
void leases_close(struct leases *l);

// Takes a worker's description of the data. The first description is kept; the later ones
// must agree with it. TUG_EDATA names the file that differs, the difference and both
// workers (`who` is the name of this worker).
int leases_data(struct leases *l, const char *who, const struct msg_data *m,
                struct err *e);

// Takes the driver's schema and options for reading the data. If the schema is empty, the
// first worker's schema is used.
int leases_schema(struct leases *l, const struct msg_schema *m, struct err *e);

// Gets the known facts of the data. The list of files is appended to `to`, and *ret
// points into `to`. Returns 0 or TUG_ENOMEM.
int leases_data_is(const struct leases *l, const struct msg_data_wanted *m,
                   struct msg_data_is *ret, struct buf *to);

// Opens pass 1, 2, ...; nothing happens if this pass is open already. A training pass and
// the scoring passes that follow it have the same number, and are opened in the order of
// enum wire_pass. Returns TUG_EUSAGE if the previous pass is not over.
int leases_pass(struct leases *l, const struct msg_pass *m, struct err *e);

// Gets the list of the pieces that a save in the middle of a pass contains. Every worker
// must mark the save first, so the caller repeats the call until ret->known is set.
// `save` = 0 tells that the previous save has ended, so that workers that join later need
// not mark it. The list of pieces is appended to `to`. Returns 0 or TUG_ENOMEM.
int leases_cut(struct leases *l, uint64_t save, struct msg_cut_state *ret, struct buf *to,
               struct err *e);

// Answers a request for work from a worker (node id). A worker that asks again because a
// message was lost gets the same answer until it reports. m->finished is the number of
// the pass of shares in which the worker has finished its share; 0: none. Returns false
// if the request must not be answered, because an earlier report has not arrived yet: the
// worker repeats both.
bool leases_ask(struct leases *l, uint32_t worker, const struct msg_lease *m,
                struct msg_leased *ret);

// A worker sends its next report before the last one is answered. So reports are numbered,
// and are taken in their order.
enum leases_turn {
    LEASES_NEXT,  // the report must be taken now
    LEASES_TAKEN, // it was taken before, or the next scheduler must not take it any more
    LEASES_AHEAD, // an earlier report has not arrived yet; the worker repeats both
};
enum leases_turn leases_turn_of(struct leases *l, uint32_t worker,
                                const struct msg_piece_done *m);
// Takes a worker's report of a finished piece. Returns true if the report is new, false if
// the piece was already done, or if the worker had lost the piece because the worker was
// declared dead. *ret_forget tells whether servers may now forget the pushes of the
// piece: no living worker trains on it any more. If memory is short, the report is not
// taken.
bool leases_done(struct leases *l, uint32_t worker, const struct msg_piece_done *m,
                 bool *ret_forget);

// Adds and removes workers. A new worker gets pieces at once, but takes part in passes of
// shares only from the next pass on. leases_worker_joined returns 0 or TUG_ENOMEM.
int leases_worker_joined(struct leases *l, uint32_t worker);
void leases_worker_dead(struct leases *l, uint32_t worker);

// Gets a view (a worker's share of the batches) that has changed and must be sent to
// *ret_worker. Each call gets another view; returns false if there are no more.
bool leases_next_view(struct leases *l, uint32_t *ret_worker, struct msg_view *ret);

// Marks all changed views of the pass to be sent again (a message may have been lost).
// Returns false if no worker died in this pass.
bool leases_views_again(struct leases *l);

// Gets the state of the pass; moves the reports that arrived since the last call into
// `reports`.
void leases_state(struct leases *l, uint64_t pass, struct msg_pass_state *ret,
                  struct buf *reports);

// The work of a worker so far.
struct leases_work {
    // In passes of pieces: the examples in the worker's finished pieces, and the
    // number of these pieces.
    uint64_t examples, pieces;
    uint32_t holds; // 1 while the worker has a piece, or has not finished its share of
                    // the pass
};
// Gets the work of a worker; zeros if the worker is not known. *hint is 0 before the
// first of several calls, which are fast if they ask for the workers in the order of
// joining.
void leases_work(const struct leases *l, uint32_t worker, uint32_t *hint,
                 struct leases_work *ret);

void leases_set_bugs(struct leases *l, uint64_t bugs); // cluster/bugs.h

// The state that outlives the scheduler, in a journal: rows of these kinds (leases_keep.c).
// Journals hold the numbers, so a new kind gets the next number.
enum leases_row {
    LEASES_ROW_DATA = 0,   // description of the data, the driver's schema and options
    LEASES_ROW_PASS = 1,   // the pass as it was opened, with the driver's note
    LEASES_ROW_WORK = 2,   // workers, shares, and the save in progress
    LEASES_ROW_PIECES = 3, // some pieces of a file, and the counts of the file
    LEASES_ROW_REPORT = 4, // reports of the pass
    LEASES_ROWS,
};
// Makes leases note from now on which rows have changed, and keep the reports of a pass
// until the next pass begins: a driver that opens the same pass again gets all its
// reports again. Returns 0 or TUG_ENOMEM.
int leases_keep(struct leases *l);
// Appends to `to` the sum of `total` (empty at first) and another report. Returns
// TUG_EDATA if one of them is damaged, or TUG_ENOMEM.
typedef int (*leases_merge)(struct buf *to, struct wire_text total,
                            struct wire_text report);
// Makes the leases keep only the total of the reports about training, which the driver
// gets instead of the reports. Call it before leases_row_read.
void leases_set_merge(struct leases *l, leases_merge merge);
// Makes all rows, or those that have changed since the last call. Each is written to
// `row`, in place of the previous one, and then `put` is called with its kind. The rows
// must be read back in the same order. Returns 0, TUG_ENOMEM or the error of `put`.
int leases_rows(struct leases *l, bool all, struct buf *row,
                int (*put)(void *ctx, enum leases_row kind), void *ctx);
// Restores one row. Returns TUG_EDATA if its bytes are not a valid row. After the last
// row, call leases_restored: it returns 0, TUG_EDATA if the rows contradict each other,
// or TUG_ENOMEM.
int leases_row_read(struct leases *l, enum leases_row kind, const void *bytes, size_t n);
int leases_restored(struct leases *l);
// Returns the driver's note of the open pass; empty if there is none.
struct wire_text leases_note(const struct leases *l);
// Returns TUG_ENOMEM if a report did not fit into the kept reports, TUG_EDATA if a report
// could not be added to the total; else 0.
int leases_failed(const struct leases *l);

// Tells that the rows of the last leases_rows are durable.
void leases_durable(struct leases *l);
// Returns whether a worker may get this answer to its request before the lease is durable.
// If the scheduler then dies, the next one does not know that the worker has the piece, and
// may give it to a second worker. Both push the same batches, which servers apply once until they
// forget the piece. So the next scheduler takes reports of pieces of which it does not know,
// and lets servers forget no piece for which leases_may_push returns true.
//
// A worker has at most LEASES_UNKNOWN_MAX such pieces: those of the reports that it has sent
// ahead of their answers (CLIENT_TELLS, client/client.h), and the one on which it trains. It
// cannot end more pieces that were never leased to it.
enum { LEASES_UNKNOWN_MAX = 17 };
bool leases_tells_early(const struct leases *l, const struct msg_leased *m);
// Tells which piece a worker that has joined again may still push: pass and piece as in
// FORGET; pass 0: none.
void leases_worker_told(struct leases *l, uint32_t worker, uint64_t pass, uint64_t piece);
// Returns whether a living worker may push batches of this piece although the scheduler did
// not lease the piece to it. Such a worker has not asked for work since the scheduler was
// started again; and it has not joined again yet, or has told that it has this piece.
// pass 0: whether a living worker has not joined again yet.
bool leases_may_push(const struct leases *l, uint64_t pass, uint64_t piece);

void leases_over(struct leases *l); // ends the run: every worker that asks for work
                                    // from now on gets WIRE_LEASE_OVER

// Asserts the invariants that hold between two calls (leases_check.c).
#ifndef NDEBUG
void leases_check(struct leases *l);
// Returns whether this worker is known and alive.
bool leases_has_worker(const struct leases *l, uint32_t worker);
#else
static inline void leases_check(struct leases *l)
{
    (void)l;
}
#endif

#endif
