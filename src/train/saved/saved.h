// Saved models: saves of a model's tables (save/save.h) under --out, each complete in
// itself.
//
//   OUT/save-000007/manifest.json     the tables, and the run (train/saved/saved_run.h)
//   OUT/save-000007/sparse-0.rows ... rows of the model, by partition
//   OUT/save-000007/dense-0.rows      the bias, and weights of layers
//   OUT/save-000007/training-...      rows that training resumes from, if not the model's
//   OUT/save-000007/history.jsonl     the record of passes (train/history.h); not part of the
//                                     model, and with seconds in it never the same twice
//
// Rows with a feature lifecycle are written by the servers that hold them, one file per
// server. The run itself writes all other rows. The number of files depends only on the
// number of rows, so the same model gives the same files, whichever processes trained it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_SAVED_H
#define TUG_TRAIN_SAVED_SAVED_H

#include "os/file.h"
#include "os/team.h"
#include "save/save.h"
#include "train/rows/parameters.h"
#include "train/saved/saved_run.h"

// The kinds of rows in a save. MODEL: the rows that eval and predict use: those of the
// best pass if the run had validation, and the mean of the parameters with --average.
// TRAINING: the rows from which training resumes, if they differ from MODEL. MEAN: the
// mean of the parameters at the time of the save, if MODEL is another mean.
enum saved_role { SAVED_MODEL, SAVED_TRAINING, SAVED_MEAN, SAVED_ROLES };

// Returns the name of a role's table in a save.
const char *saved_table(enum saved_role role, bool dense);

// The source of the rows of one role in a save: parameters in this process, or
// functions that fetch rows.
struct saved_rows {
    const struct model *model;
    const struct parameters *local; // NULL: `fetch` returns the rows
    // If the rows to write are not the trained ones (run_rows.swap), exchanges them
    // before they are written, and back afterwards. NULL: the trained rows are written.
    int (*swap)(void *ctx, struct err *e);
    void *ctx;
    bool best; // whether fetch and count read the rows of the best pass
    // Returns a table with the rows of partitions [first, first + n), which the caller
    // closes. All members of the team call it.
    int (*fetch)(void *ctx, bool dense, bool best, uint32_t first, uint32_t n,
                 struct table **ret, struct err *e);
    // Counts the rows of sparse features.
    int (*count)(void *ctx, bool best, uint64_t *ret_rows, struct err *e);
    // Lets the servers save rows with a feature lifecycle into `dir` and adds their
    // tables to *m. NULL: this process writes the rows.
    int (*save)(void *ctx, const char *dir, struct save_manifest *m,
                struct saved_run *run, struct err *e);
    // Returns an error if another process may write the save instead. NULL: none may.
    int (*may_commit)(void *ctx, struct err *e);
};

// Writes the next save under `out`, which the caller has locked, with the rows of each
// role; the rows of a role other than MODEL may be NULL. Keeps the newest `keep` saves
// and removes older ones.
int saved_write(const char *out, struct team *team,
                const struct saved_rows *const roles[SAVED_ROLES], struct saved_run *run,
                uint32_t keep, char ret_dir[FILE_PATH_MAX], struct err *e);

// saved_any returns whether `out` holds a save. saved_none returns whether `out` is
// empty, not counting unfinished saves and the directory `beside` (NULL: none).
bool saved_any(const char *out);
bool saved_none(const char *out, const char *beside);

// Reads the save in `dir`, found by save_find, with which a run begins (--resume,
// --init-from). Returns TUG_EDATA if it does not come from a training run, TUG_EUSAGE if
// it was published (--publish).
int saved_open(struct save_chain *ret, const char *dir, struct err *e);
// Makes the checks of saved_open without keeping the save open.
int saved_check_whole(const char *dir, struct err *e);

// Reads the description of the run that wrote the save in `dir`. The caller frees *ret.
int saved_read(struct saved_run *ret, const char *dir, struct err *e);

// Finds the newest save under `out`, and reads its description as saved_read does.
int saved_read_newest(struct saved_run *ret, char ret_dir[FILE_PATH_MAX], const char *out,
                      struct err *e);

// Opens *ret and loads the rows of a role into it. If the save is a delta, also loads the
// saves on which it builds. Returns an error that names a damaged file.
int saved_load(const char *dir, const struct saved_run *run, enum saved_role role,
               struct team *team, struct parameters *ret, struct err *e);

// Adds the rows of a role to existing parameters of the same shape: the rows of the
// sparse table, of the dense table, or of both.
int saved_load_into(const char *dir, enum saved_role role, bool sparse, bool dense,
                    struct team *team, struct parameters *p, struct err *e);

// For a process that follows published saves: loads save `at` of a chain, whose rows
// replace or extend the model's current rows. Removes the rows of keys that a delta lists
// as removed. `p` was opened by parameters_open_packed. After a failure, only some of the
// rows are loaded.
int saved_load_change(const struct save_chain *c, size_t at, struct team *team,
                      struct parameters *p, struct err *e);
// Reads save `at` completely and checks that it is undamaged and that its rows fit the
// model of `p`.
int saved_verify(const struct save_chain *c, size_t at, struct team *team,
                 const struct parameters *p, struct err *e);

#endif
