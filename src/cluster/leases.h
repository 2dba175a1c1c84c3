// Divides the work of a pass over the data among workers: a state machine in the
// scheduler.
//
// Pieces: the data is cut into pieces (file, index); a worker leases one at a time,
// trains on it, and reports it done when all its pushes are acknowledged. A dead worker's
// pieces are leased again. A worker first gets its pieces of the previous pass (they may
// still be in its memory), then pieces without a holder or whose holder has enough left
// to do, in the seeded order of the pass. In a compressed file, whose number of pieces is
// not known, new pieces are handed out in ascending order until one is reported to be the
// last; pieces behind the end are done when reported so with no examples.
//
// Buckets: with them a worker that leases a piece deals its examples into all of them,
// once, in the first pass of the scheduler's life; when all pieces are dealt, the buckets
// are leased in their place: the pieces of one more file, behind the others. Passes that
// continue from a save deal their pieces again: the holders of the buckets have ended.
//
// Scoring: behind a pass, with its number, there may be one over the files of --valid and
// one over those of --test. Their pieces are leased in the same way, and scored. Reports
// are needed: a piece whose report finds no room is not done.
//
// Shares: every worker trains on its share (slot of slots) of every batch of the pass.
// When a worker dies, the batches are divided anew among the living (a new view); a new
// worker waits for the next pass. The pass is over when all living workers have finished
// it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_LEASES_H
#define TUG_CLUSTER_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

struct leases;
struct buf;

int leases_open(struct leases **ret, struct err *e);
void leases_close(struct leases *l);

// The data as a worker sees it. The first report counts; others must agree: TUG_EDATA
// names the file that differs, the difference and both workers (`who`).
int leases_data(struct leases *l, const char *who, const struct msg_data *m,
                struct err *e);

// The driver says how the data is to be read; empty: as the first worker does.
int leases_schema(struct leases *l, const struct msg_schema *m, struct err *e);

// Gets the known facts of the data; files are appended to `to`, which *ret points into.
// TUG_ENOMEM.
int leases_data_is(const struct leases *l, const struct msg_data_wanted *m,
                   struct msg_data_is *ret, struct buf *to);

// Opens pass 1, 2, ...; again the same one: nothing happens. Passes with one number are
// opened in the order of enum wire_pass. TUG_EUSAGE: the pass before is not over.
int leases_pass(struct leases *l, const struct msg_pass *m, struct err *e);

// Asks which pieces a save holds, for which every worker must mark; repeated until it is
// known. Save 0: the previous save has ended, and no worker needs to mark it. The list is
// appended to `to`. TUG_ENOMEM.
int leases_cut(struct leases *l, uint64_t save, struct msg_cut_state *ret, struct buf *to,
               struct err *e);

// A worker (node id) asks for work. It may ask again (a message was lost): it gets the
// same answer until it reports. `finished` != 0: the pass of shares that it has finished.
void leases_ask(struct leases *l, uint32_t worker, const struct msg_lease *m,
                struct msg_leased *ret);

// A piece is done: true if that is news (then servers may forget it); false when it was
// known, or the worker does not hold it any more (it was thought dead).
bool leases_done(struct leases *l, uint32_t worker, const struct msg_piece_done *m);

// Workers come and go. One that has joined counts from the next pass of shares on; of
// pieces it is given at once. 0 or TUG_ENOMEM.
int leases_worker_joined(struct leases *l, uint32_t worker);
void leases_worker_dead(struct leases *l, uint32_t worker);

// Views that changed since the last call, for workers to be told: true, and *ret, until
// there is none.
bool leases_next_view(struct leases *l, uint32_t *ret_worker, struct msg_view *ret);

// Makes all changed views of the pass due again (a message may have been lost); false if
// no worker died in this pass.
bool leases_views_again(struct leases *l);

// Gets the state of the pass; moves the reports since the last call into `reports`.
void leases_state(struct leases *l, uint64_t pass, struct msg_pass_state *ret,
                  struct buf *reports);

// Tests: a worker that joins when the pieces of a save are known need not mark it.
void leases_forget_late_marks(struct leases *l);

void leases_over(struct leases *l); // the run is over: everybody who asks is told so

// Asserts what must hold between two calls: leases_check.c.
#ifndef NDEBUG
void leases_check(struct leases *l);
bool leases_has_worker(const struct leases *l, uint32_t worker); // alive
#else
static inline void leases_check(struct leases *l)
{
    (void)l;
}
#endif

#endif
