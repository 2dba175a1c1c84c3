// Internals that the files of the leases share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_LEASES_LEASES_INTERNAL_H
#define TUG_CLUSTER_LEASES_LEASES_INTERNAL_H

#include <stddef.h>

#include "base/buf.h"
#include "cluster/bugs.h"
#include "cluster/leases/leases.h"

#define LEASES_UNKNOWN UINT64_MAX // a number of pieces that is not known yet
#define LEASES_NOBODY UINT32_MAX  // "no worker", as an index of workers

enum {
    LEASES_MAX_PIECES = 1 << 22,
    LEASES_MAX_REPORTS = 64 << 20, // most bytes of reports that wait for the driver
    // The most bytes of reports that each stage keeps after leases_keep.
    LEASES_KEPT_REPORTS = 48 << 20,
    LEASES_STAGES = WIRE_PASS_TEST_BEST + 1,
    LEASES_CHUNK = 32, // pieces in one row of the journal
};

// The purpose of a file's examples.
enum file_use { FILE_TRAIN, FILE_VALID, FILE_TEST };

enum piece_state { PIECE_FREE, PIECE_LEASED, PIECE_DONE };

struct piece {
    uint32_t had; // index of the worker that did this piece in the previous pass, or
                  // LEASES_NOBODY
    uint8_t state;
    // The number of workers that train on the piece: 1, or 2 with a backup, while it is
    // leased. Once the piece is done, 1 while the slower of two workers still trains.
    uint8_t holders;
    bool held; // the worker `had` still has the piece in memory
    // In this pass a worker died while it held the piece, and it may have pushed a part
    // of the piece's batches.
    bool left;
    bool before; // the piece was already done when the pass was opened
    bool in_cut;
    uint32_t examples; // the number of examples that were trained on; 0 until the piece
                       // is done
};

struct file {
    uint64_t bytes, hash;
    uint64_t pieces; // the number of pieces that workers reported, or LEASES_UNKNOWN
    bool compressed;
    uint8_t use;  // enum file_use
    bool in_pass; // the current pass reads files of this use
    char *name;
    uint64_t count;     // the number of pieces as far as it is known, or LEASES_UNKNOWN
    struct piece *p;    // an array of `made` pieces
    uint64_t made, cap; // length and capacity of p; made > count if workers asked for
                        // pieces beyond the end of the file
    uint64_t done;      // the number of finished pieces before the end of the file
    uint64_t returned;  // in a file that is leased in order: the number of pieces that
                        // became free again
    uint32_t holders;
    bool in_order; // the file's end is unknown in this pass, so each piece is created
                   // when it is leased
};

struct place {
    uint64_t key;
    uint32_t file, index;
};

struct leases_worker {
    uint32_t id;
    bool alive;
    // The following fields are used in passes of pieces.
    bool holds;
    uint32_t file; // file of the piece that the worker holds, or held last
    uint64_t index;
    // The number of pieces of the pass that were leased before this worker's piece.
    uint64_t since;
    bool knows_file;
    uint64_t reserved; // the number of free pieces that the worker had in the previous
                       // pass
    // Position in `order`; all free pieces reserved for the worker lie at or after it.
    size_t cursor;
    // The following fields are used in passes of shares.
    bool taking_part, finished, view_due;
    uint32_t slot;
    uint64_t next_report;      // the smallest index of a report that has not arrived yet
    uint64_t marked;           // number of the save that the worker marked last
    uint64_t examples, pieces; // see struct leases_work
    // The following fields are not kept in a journal.
    uint64_t reports; // number up to which the worker's reports were taken
    // The worker has not asked for work since this scheduler was started again, so it may
    // have a piece that the journal does not know (leases_tells_early).
    bool unsure;
    bool told; // it has told which piece it has: leases_worker_told
    uint64_t told_pass, told_piece;
    uint32_t unknown; // number of reports of such pieces that were taken
};

// A pass that is kept after leases_keep while later passes of the same number run. The training
// pass and the scoring passes after it have the same number and differ in kind. A driver
// that was started again gets the reports of all these passes again.
struct stage {
    uint64_t examples, pieces; // the counts of this pass, once it is over
    struct buf reports; // the reports, in the format of `reports` in struct leases, or
                        // their total
    uint64_t n;         // the number of reports in `reports`; with a total at most 1
    size_t written;     // how many bytes of `reports` the journal has
    struct buf fresh;   // the reports in the total that are not in the journal yet
};

struct kept_leases {
    struct stage stages[LEASES_STAGES];
    uint8_t reading;         // kind of the pass whose reports the driver gets
    size_t read;             // how many bytes of the reports of pass `reading` the driver
                             // has got
    bool data, pass, pieces; // whether the rows of the data, the pass and the pieces must
                             // be written again
    int failed;              // see leases_failed
    leases_merge merge;      // NULL: all reports are kept
    struct buf merged;       // the sum of a total and a new report, before it becomes the
                             // total
    uint64_t *changed;       // the changed rows of pieces: file << 32 | chunk
    uint32_t n_changed, cap_changed;
    // The pass in the last rows, and the pass in the rows that are durable.
    uint64_t pass_written, pass_durable;
    struct buf work; // the row of LEASES_ROW_WORK that the journal has
    struct buf note;
};

struct leases {
    bool over;
    struct kept_leases *kept; // NULL without leases_keep
    struct leases_worker *workers;
    uint32_t n_workers, cap_workers;

    bool schema_told;   // the driver has sent the schema
    struct buf schema;  // empty if not known yet
    struct buf options; // options of the run; the driver sends them with the schema
    bool have_data;
    char *told_by;
    uint64_t piece_bytes;
    struct file *files; // in this order: files to train on, the buckets (as one file),
                        // files to score
    uint32_t n_files;
    uint32_t scored; // the number of files to score, the last ones of `files`
    // The number of files of --valid, which come first among the files to score.
    uint32_t valid;
    uint32_t buckets; // 0 if workers train on the pieces themselves
    bool dealt;       // all pieces have been dealt into the buckets

    struct msg_pass pass; // pass.pass is 0 before the first pass
    bool prepared;        // the pieces of the pass can be leased
    struct place *order; // the pieces of files whose number of pieces is known, sorted by
                         // key
    size_t n_order;
    uint64_t unreserved; // the number of free pieces in `order` that no living worker
                         // had in the previous pass
    size_t cursor;   // position in `order`; all unreserved free pieces lie at or after it
    uint64_t leased; // the number of pieces that were leased in this pass
    uint64_t examples;

    uint64_t view;  // number of the newest division of batches into shares
    uint32_t slots; // the number of shares in the newest division
    uint32_t views; // number of divisions of the data in this pass so far
    bool all_finished;

    struct buf reports; // each report is its length (u32), then its bytes
    uint64_t n_reports;

    struct buf done; // FILE_DONE records: the pieces that were done when the pass was
                     // opened
    uint64_t save; // number of the save for which the driver asks for the pieces; 0: none
    uint32_t save_workers; // the number of workers that were known when the save began
    uint64_t bugs;         // cluster/bugs.h
    bool save_known, save_torn;
    bool restored; // the leases were read from a journal

    uint64_t events; // the number of calls of leases_check so far
};

// Returns the number of files to train on, including the buckets; they are the first in
// `files`.
static inline uint32_t leases_trained(const struct leases *l)
{
    return l->n_files - l->scored;
}

// Returns whether the pieces of a file are dealt into buckets. Other pieces are trained
// on directly.
static inline bool leases_deals(const struct leases *l, uint32_t file)
{
    return l->buckets != 0 && file + 1 < leases_trained(l);
}

// Returns whether a worker may get pieces of this file before the lease is durable, see
// leases_tells_early.
static inline bool leases_early_file(const struct leases *l, uint32_t file)
{
    return l->buckets == 0 && !l->files[file].in_order;
}

// Returns whether the current pass scores its files instead of training on them.
static inline bool leases_scores(const struct leases *l)
{
    return l->pass.kind >= WIRE_PASS_VALID;
}

// Defined in leases_data.c:
uint64_t leases_data_id(const struct leases *l); // 0 if the data is not described yet
// Checks that the data is the same as when the resumed pass was opened.
int leases_check_data(const struct leases *l, const struct msg_pass *m, struct err *e);
void leases_free_files(struct file *files, uint32_t n);

// Defined in leases_pieces.c:
int leases_prepare(struct leases *l); // makes the pieces of a new pass; returns 0 or
                                      // TUG_ENOMEM
void leases_ask_piece(struct leases *l, struct leases_worker *w, struct msg_leased *ret);
bool leases_piece_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m, bool *ret_forget);
// Notes that a worker that has died may have left any piece that it may have got early and
// that is not done.
void leases_left_unknown(struct leases *l);
// Makes the pieces of worker w, which has died, free for other workers.
void leases_return_pieces(struct leases *l, struct leases_worker *w);
// Returns whether all pieces of the pass are done, and gets the number of finished pieces
// and of all pieces. The number of all pieces is an estimate while the end of some file
// is unknown, and 0 while the ends of all files are unknown. Both pointers may be NULL.
bool leases_pieces_done(const struct leases *l, uint64_t *ret_done, uint64_t *ret_pieces);

// Adds the pieces of a file to l->order. Does nothing if the pass leases this file in
// file order. Does nothing either if `file` stands for the buckets of a global shuffle, and
// not all pieces were dealt yet.
void leases_list_file(struct leases *l, uint32_t file);
int leases_order(struct leases *l); // sorts l->order of a pass anew; 0 or TUG_ENOMEM
bool leases_by_piece(const struct leases *l);

// Defined in leases_keep.c. These functions do nothing if leases_keep was not called.
// leases_changed records that a piece has changed.
void leases_changed(struct leases *l, uint32_t file, uint64_t index);
void leases_changed_all(struct leases *l);
// Called when the driver opens a pass. Stores the counts of the open pass if the new pass
// has the same number; else drops everything that was kept of earlier passes.
void leases_stage_over(struct leases *l, const struct msg_pass *m);
void leases_read_stage(struct leases *l, uint8_t kind);
int leases_note_pass(struct leases *l, struct wire_text note);
bool leases_move_kept(struct leases *l, struct buf *to, uint64_t *ret_n);
void leases_keep_free(struct leases *l);

// Defined in leases_reports.c. leases_report_fits makes room for a report of the open pass,
// and leases_report_keep then adds it, if there is a journal.
bool leases_report_fits(struct leases *l, struct wire_text report);
void leases_report_keep(struct leases *l, struct wire_text report);
struct row;
void leases_row_report(struct row *r, struct leases *l, uint32_t stage);
void leases_clear_stages(struct leases *l);
bool leases_reports_hold(struct leases *l); // counts the reports of each stage; false if
                                            // a report was cut

// -------------------------------------------- the functions for cuts are in leases_cut.c

// Returns whether w must mark the current save before it gets a piece.
bool leases_must_mark(const struct leases *l, const struct leases_worker *w);
// Returns whether some worker has not marked the save yet.
bool leases_marking(const struct leases *l);
void leases_marked(struct leases *l, struct leases_worker *w, uint64_t save);
int leases_keep_done(struct leases *l, const struct msg_pass *m, struct err *e);
// Returns the finished pieces of a file as bytes with one bit for each piece.
struct wire_text leases_done_of(const struct leases *l, uint32_t file);

// Defined in leases_shares.c:
void leases_divide(struct leases *l); // called for each new pass of shares
void leases_ask_share(struct leases *l, struct leases_worker *w,
                      const struct msg_lease *m, struct msg_leased *ret);
bool leases_share_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m);
// Divides the batches of the pass among the workers without w, which has died.
void leases_divide_without(struct leases *l, struct leases_worker *w);

#endif
