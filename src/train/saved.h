// Saved models: directories under --out, each complete in itself.
//
//   OUT/save-000007/manifest.json        what is saved; see manifest.h
//   OUT/save-000007/model-000.part ...   rows of the model, by partition
//   OUT/save-000007/model-dense.part     the bias
//   OUT/save-000007/training-*.part      where training goes on, when that is not the model
//   OUT/save-000007/sparse/...           in place of parts: features that live
//
// A save is written part by part, each synced; renaming its manifest is the commit; older
// saves go afterwards. A directory without a manifest is an unfinished save: nobody reads
// it, the next save removes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_SAVED_H
#define TUG_TRAIN_SAVED_H

#include "base/file.h"
#include "base/team.h"
#include "train/manifest.h"
#include "train/parameters.h"

// Where the rows of a save are: in this process, or with somebody who is asked for them.
struct saved_rows {
    const struct model *model;
    const struct parameters *local; // NULL: they are fetched
    void *ctx;
    bool best; // for fetch and count: of the best pass
    // A table of the rows of partitions [first, first + n), which the caller closes.
    // Called by all members of the team.
    int (*fetch)(void *ctx, bool dense, bool best, uint32_t first, uint32_t n,
                 struct table **ret, struct err *e);
    int (*count)(void *ctx, bool best, uint64_t *ret_rows, struct err *e); // sparse ones
    // Rows of features that live are saved by the servers, as tables in `dir`
    // (train/lives.h). NULL: by parts, as others.
    int (*save)(void *ctx, const char *dir, struct err *e);
};

// Writes the next save under `out`. `model` is what eval uses; `training` (or
// NULL) is where training goes on. The parts of *m are filled in here. Keeps
// the newest `keep` saves.
int saved_write(const char *out, struct team *team, const struct saved_rows *model,
                const struct saved_rows *training, struct manifest *m, uint32_t keep,
                char ret_dir[FILE_PATH_MAX], struct err *e);

// The directory of the newest save for --from DIR: DIR itself when it holds a manifest,
// else its newest save. TUG_EDATA when there is none.
int saved_find(const char *from, char ret_dir[FILE_PATH_MAX], struct err *e);
bool saved_any(const char *out);
// Whether nothing is there but saves that were begun and never finished.
bool saved_none(const char *out);

// A role needs parts of both tables: without them a model would load as one that knows
// nothing. TUG_EDATA when some are missing from the list.
int saved_check_parts(const char *dir, const struct manifest *m, enum part_role role,
                      struct err *e);

// Opens *ret and loads the parts of a role into it. A damaged part is refused by name.
int saved_load(const char *dir, const struct manifest *m, enum part_role role,
               struct team *team, struct parameters *ret, struct err *e);

// Adds the rows of tables (sparse, dense) of the MODEL role to existing parameters of the
// same shape (--init-from).
int saved_load_into(const char *dir, const struct manifest *m, enum part_role role,
                    bool sparse, bool dense, struct team *team, struct parameters *p,
                    struct err *e);

#endif
