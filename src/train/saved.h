// Saved models: saves of their tables (save/save.h) under --out, each complete in itself.
//
//   OUT/save-000007/manifest.json     the tables, and the run (train/saved_run.h)
//   OUT/save-000007/sparse-0.rows ... rows of the model, by partition
//   OUT/save-000007/dense-0.rows      the bias, and weights of layers
//   OUT/save-000007/training-...      where training goes on, when that is not the model
//   OUT/save-000007/history.jsonl     what each pass was like (train/history.h); not part of the
//                                     model, and with seconds in it never the same twice
//
// Rows of features that live are written by the servers that have them, a file each; all
// others by the run itself, into files whose number follows from that of the rows alone:
// so the same model gives the same files, whoever trained it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_H
#define TUG_TRAIN_SAVED_H

#include "base/file.h"
#include "base/team.h"
#include "save/save.h"
#include "train/parameters.h"
#include "train/saved_run.h"

// MODEL is what eval and predict use (the best pass when there was validation, and the
// mean of the parameters where it is made); TRAINING is where the run goes on, when that
// differs; MEAN is the mean there, when the model is not.
enum saved_role { SAVED_MODEL, SAVED_TRAINING, SAVED_MEAN, SAVED_ROLES };

// Returns the name of a role's table in a save.
const char *saved_table(enum saved_role role, bool dense);

// The location of a save's rows: in this process, or elsewhere, by functions.
struct saved_rows {
    const struct model *model;
    const struct parameters *local; // NULL: they are fetched
    // Called before and after the rows are written, if these are not the rows in training
    // (struct run_rows); or NULL.
    int (*swap)(void *ctx, struct err *e);
    void *ctx;
    bool best; // for fetch and count: of the best pass
    // A table of the rows of partitions [first, first + n), which the caller closes.
    // Called by all members of the team.
    int (*fetch)(void *ctx, bool dense, bool best, uint32_t first, uint32_t n,
                 struct table **ret, struct err *e);
    int (*count)(void *ctx, bool best, uint64_t *ret_rows, struct err *e); // sparse ones
    // Rows of features that live are saved by the servers, into the directory of *m,
    // which begins without tables. NULL: not saved.
    int (*save)(void *ctx, const char *dir, struct save_manifest *m,
                struct saved_run *run, struct err *e);
};

// Writes the next save under `out`, which the caller has locked: the rows of each role,
// of which all but the model may be NULL. Keeps the newest `keep` saves.
int saved_write(const char *out, struct team *team,
                const struct saved_rows *const roles[SAVED_ROLES], struct saved_run *run,
                uint32_t keep, char ret_dir[FILE_PATH_MAX], struct err *e);

// Whether there is a save under `out`; whether there is nothing but saves that were begun
// and never finished, and perhaps the directory `beside` (NULL: none).
bool saved_any(const char *out);
bool saved_none(const char *out, const char *beside);

// Reads the save in `dir`, which save_find found, that a run resumes from or begins with.
// TUG_EDATA if it is of tables without a run. TUG_EUSAGE if it was published (--publish).
int saved_open(struct save_chain *ret, const char *dir, struct err *e);
int saved_check_whole(const char *dir, struct err *e); // the same questions alone

// The run whose save is in `dir`. The caller frees *ret.
int saved_read(struct saved_run *ret, const char *dir, struct err *e);

// Opens *ret and loads the rows of a role into it, of a delta those that it builds on, too.
// A damaged file is refused by name.
int saved_load(const char *dir, const struct saved_run *run, enum saved_role role,
               struct team *team, struct parameters *ret, struct err *e);

// Adds the rows of tables (sparse, dense) of the MODEL role to existing parameters of the
// same shape (--init-from).
int saved_load_into(const char *dir, enum saved_role role, bool sparse, bool dense,
                    struct team *team, struct parameters *p, struct err *e);

// For followers of published saves: loads save `at` of a chain over the current rows of
// the model. A delta's keys that are gone lose their rows. `p` is
// parameters_open_packed's. After a failure it holds some of the rows.
int saved_load_change(const struct save_chain *c, size_t at, struct team *team,
                      struct parameters *p, struct err *e);
// Reads all of it and looks whether it is as it was written, of a model of such rows.
int saved_verify(const struct save_chain *c, size_t at, struct team *team,
                 const struct parameters *p, struct err *e);

#endif
