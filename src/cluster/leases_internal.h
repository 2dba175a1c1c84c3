// What the files of the leases share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_LEASES_INTERNAL_H
#define TUG_CLUSTER_LEASES_INTERNAL_H

#include <stddef.h>

#include "base/buf.h"
#include "cluster/leases.h"

#define LEASES_UNKNOWN UINT64_MAX // number of pieces
#define LEASES_NOBODY UINT32_MAX  // index of a worker

enum {
    LEASES_MAX_PIECES = 1 << 22,
    LEASES_MAX_REPORTS = 64 << 20, // bytes that wait for the driver
};

// The purpose of a file's examples.
enum file_use { FILE_TRAIN, FILE_VALID, FILE_TEST };

enum piece_state { PIECE_FREE, PIECE_LEASED, PIECE_DONE };

struct piece {
    uint32_t had; // index of the worker that did it in the pass before, or NOBODY
    uint8_t state;
    bool held;   // in memory, by the worker that had it
    bool left;   // by a worker that died, perhaps in the middle of it, in this pass
    bool before; // done when the pass was opened
    bool in_cut;
    uint32_t examples; // of those done
};

struct file {
    uint64_t bytes, hash;
    uint64_t pieces; // as the workers told, or UNKNOWN
    bool compressed;
    uint8_t use;  // enum file_use
    bool in_pass; // the pass is over files of its use
    char *name;
    uint64_t count;     // pieces, as far as is known by now; UNKNOWN
    struct piece *p;    // of `made` pieces
    uint64_t made, cap; // more than `count` when workers looked behind the end
    uint64_t done;      // of those before the end
    uint64_t returned; // pieces that came back free while the file is handed out in order
    uint32_t holders;
    bool in_order; // of this pass: pieces are made as they are handed out
};

struct place {
    uint64_t key;
    uint32_t file, index;
};

struct leases_worker {
    uint32_t id;
    bool alive;
    // Pieces.
    bool holds;
    uint32_t file; // that it holds, or held last
    uint64_t index;
    bool knows_file;
    uint64_t reserved; // free pieces that it had in the pass before
    size_t cursor;     // into the order: none of them is before it
    // Shares.
    bool taking_part, finished, view_due;
    uint32_t slot;
    uint64_t next_report; // index of the next report that is news
    uint64_t marked;      // the save that it has marked last
};

struct leases {
    bool over;
    struct leases_worker *workers;
    uint32_t n_workers, cap_workers;

    bool schema_told;   // by the driver
    struct buf schema;  // empty: not known
    struct buf options; // of the run, told with it
    bool have_data;
    char *told_by;
    uint64_t piece_bytes;
    struct file *files; // to be trained on; the buckets; to be scored
    uint32_t n_files;
    uint32_t scored;  // of them the last so many
    uint32_t valid;   // of those the first so many, of --valid
    uint32_t buckets; // 0: pieces are trained on as they are
    bool dealt;       // all pieces are in the buckets

    struct msg_pass pass; // 0: none yet
    bool prepared;        // pieces are ready to be handed out
    struct place *order;  // of pieces whose number is known, by key
    size_t n_order;
    uint64_t unreserved; // free pieces in the order that nobody alive had
    size_t cursor;       // none of them is before it
    uint64_t examples;

    uint64_t view;  // number of the newest division
    uint32_t slots; // parts of it
    uint32_t views; // divisions in this pass
    bool all_finished;

    struct buf reports; // each: its length (u32), its bytes
    uint64_t n_reports;

    struct buf done;       // FILE_DONE records: with what the pass began
    uint64_t save;         // whose pieces are asked for; 0: none
    uint32_t save_workers; // that were there when it was
    bool without_late_marks;
    bool save_known, save_torn;

    uint64_t events; // as leases_check counts them
};

// How many files, from the first, are for training, including the buckets.
static inline uint32_t leases_trained(const struct leases *l)
{
    return l->n_files - l->scored;
}

// Whether the pieces of a file are dealt into buckets, rather than trained on.
static inline bool leases_deals(const struct leases *l, uint32_t file)
{
    return l->buckets != 0 && file + 1 < leases_trained(l);
}

// Whether a pass scores the pieces of its files, and does not train on them.
static inline bool leases_scores(const struct leases *l)
{
    return l->pass.kind >= WIRE_PASS_VALID;
}

// Data: leases_data.c.
uint64_t leases_data_id(const struct leases *l); // 0: there is none yet
// Whether it is what the pass had that goes on.
int leases_check_data(const struct leases *l, const struct msg_pass *m, struct err *e);
void leases_free_files(struct file *files, uint32_t n);

// Pieces: leases_pieces.c.
int leases_prepare(struct leases *l); // pieces of a new pass; 0 or TUG_ENOMEM
void leases_ask_piece(struct leases *l, struct leases_worker *w, struct msg_leased *ret);
bool leases_piece_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m);
void leases_return_pieces(struct leases *l, struct leases_worker *w); // it has died
// Whether all are; how many are, and of how many, which is an estimate while the end of some
// files is not known, and 0 while that of none is.
bool leases_pieces_done(const struct leases *l, uint64_t *ret_done, uint64_t *ret_pieces);

// Cuts: leases_cut.c.
bool leases_must_mark(const struct leases *l, const struct leases_worker *w);
bool leases_marking(const struct leases *l); // somebody has not marked yet
void leases_marked(struct leases *l, struct leases_worker *w, uint64_t save);
int leases_keep_done(struct leases *l, const struct msg_pass *m, struct err *e);
struct wire_text leases_done_of(const struct leases *l, uint32_t file); // bits

// Shares: leases_shares.c.
void leases_divide(struct leases *l); // for a new pass
void leases_ask_share(struct leases *l, struct leases_worker *w,
                      const struct msg_lease *m, struct msg_leased *ret);
bool leases_share_done(struct leases *l, struct leases_worker *w,
                       const struct msg_piece_done *m);
void leases_divide_without(struct leases *l, struct leases_worker *w); // it has died

#endif
