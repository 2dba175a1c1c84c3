// Saves of tables: directories with files of rows and one manifest, and chains of such
// directories. There is no other form of saved rows: a saved model is a save of its
// tables, whose manifest also describes the run that made it.
//
//   DIR/save-000001/manifest.json   its contents: mode, tables and their settings,
//                                   files with counts and checksums, its parent
//   DIR/save-000001/users-0.rows    rows; each owner of partitions writes one file or more
//   DIR/save-000001/run.json        facts of the run: hosts, times; not part of the model
//
// A save exists once its manifest does: the files are written and synced first, then the
// manifest is renamed into place. A delta names its parent; a base or checkpoint has
// none. Loading walks from the newest base or checkpoint through its deltas. A save is
// refused if its parent is missing or was replaced by another save. A file is refused if
// it is missing, truncated or damaged, or is not the file that the manifest describes.
// The error names the save or file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_SAVE_H
#define TUG_SAVE_SAVE_H

#include "base/buf.h"
#include "os/file.h"
#include "save/rows_file.h"
#include "store/config.h"
#include "store/cut.h"
#include "store/store.h"

enum {
    SAVE_FILE_MAX = 96,
    SAVE_MAX_TABLES = 256,
    SAVE_MAX_FILES = 1 << 14, // largest number of files of one table in a save
    SAVE_MAX_CHAIN = 4096,
};
#define SAVE_MANIFEST "manifest.json"
// File of a training run: the words from which its keys were made (train/names.h)
#define SAVE_NAMES "names.words"
// File of a training run: the history of its passes (train/history.h)
#define SAVE_HISTORY "history.jsonl"

struct save_file {
    char name[SAVE_FILE_MAX]; // name in the save's directory
    struct rows_info info;
};
struct save_table {
    uint32_t id;
    struct table_config config;
    uint32_t partition_bits;
    struct save_file *files;
    size_t n_files, cap_files;
};
struct save_manifest {
    enum save_mode mode;
    uint32_t number; // number of the save in DIR
    uint64_t step;   // the global step
    // For a delta: number of the parent, and the checksum of its manifest.
    uint32_t parent;
    uint64_t parent_checksum;
    // published: the number of the save that had published the tables when this save was
    // made (store_published_by). parent_published: that number in the parent's manifest.
    uint64_t published, parent_published;
    // JSON that the saver adds, or NULL. For that of training runs see
    // train/saved/saved_run.h.
    char *about;
    struct save_table *tables;
    size_t n_tables;
    uint64_t checksum; // checksum of the manifest itself; set by save_commit and
                       // save_read
    bool locked;       // DIR is locked for this save, from save_begin to save_commit or
                       // save_abort
    int lock;
};
void save_manifest_free(struct save_manifest *m); // *m may be zeroed
struct save_table *save_add_table(struct save_manifest *m, uint32_t id,
                                  const struct table_config *c, uint32_t partition_bits,
                                  struct err *e);
// Makes "users-0.rows", the usual name of an owner's file.
void save_file_name(char ret[SAVE_FILE_MAX], const char *table, uint32_t owner);
int save_add_file(struct save_table *t, const char *name, const struct rows_info *info,
                  struct err *e);

// Begins a new save in `dir`, and makes `dir` if it is missing. Gets the save's number
// and directory. Readers do not see the save yet. The parent of a delta is the newest
// save, of any mode. Returns TUG_EUSAGE if a delta has no parent, or while another
// process saves in `dir`. The caller fills in step, about, tables and files.
int save_begin(const char *dir, enum save_mode mode, struct save_manifest *ret,
               char ret_path[FILE_PATH_MAX], struct err *e);
// Does what save_begin does, for a caller that has locked `dir` (file_lock_dir) and keeps
// the lock.
int save_begin_locked(const char *dir, enum save_mode mode, struct save_manifest *ret,
                      char ret_path[FILE_PATH_MAX], struct err *e);
// Checks that a delta on the parent of `m` has all changes of the store since that
// parent. For this, the parent must have published the store. If the parent is a
// checkpoint, or its saver has died, the save that had published the parent's tables may
// have done so instead. Returns TUG_EUSAGE if the store was published by another save,
// for example in another directory, or before a load.
int save_check_parent(const struct store *s, const struct save_manifest *m,
                      struct err *e);
// Commits the save, whose files must exist. Then removes unfinished saves. If keep > 0
// and this save is not a delta, also removes all saves but the newest `keep` bases and
// checkpoints, their deltas, and the saves that these need. In the directory of a removed
// save, removes only files that belong to saves. If the commit fails, the save is
// aborted.
int save_commit(const char *dir, struct save_manifest *m, uint32_t keep, struct err *e);
void save_abort(const char *dir, struct save_manifest *m); // removes the save's directory
// Removes the files of the save in the directory `path`, and their entries in its manifest,
// so that the save can be made again.
int save_empty(const char *path, struct save_manifest *m, struct err *e);

// Removes the files of a save. If the save or a file is a symbolic link, only the link is
// removed. The directory stays if it contains other files.
void save_remove(const char *dir, uint32_t number);

// save_number returns the number in the name of a save or of a training run's save: 7 for
// "save-000007", 0 for any other name. save_path makes the path of a save under `dir`.
uint32_t save_number(const char *name);
int save_path(char ret[FILE_PATH_MAX], const char *dir, uint32_t number, struct err *e);

// Checks that a command may write to the file `path`, which `option` named. Returns
// TUG_EUSAGE if the file would be among the files of a save, or is the directory of one.
int save_check_output(const char *option, const char *path, struct err *e);

// Finds the newest complete save under `from`, or `from` itself if it is a save. Returns
// TUG_EDATA if there is none.
int save_find(const char *from, char ret_path[FILE_PATH_MAX], struct err *e);
int save_read(const char *path, struct save_manifest *ret, struct err *e);
// Reads the manifest of a save. `root` is FILE_ANYWHERE, or a directory that contains
// `path` (os/file.h).
int save_read_in(int root, const char *path, struct save_manifest *ret, struct err *e);

// The saves that must be loaded to restore a save, oldest first. Each was checked to
// build on the save before it.
struct save_chain {
    int root; // borrowed; FILE_ANYWHERE, or the directory that contains the paths
    struct save_manifest *saves;
    char (*paths)[FILE_PATH_MAX];
    size_t n;
};
int save_chain_open(struct save_chain *ret, const char *from, struct err *e);
// Opens the chain that ends with the save at `path`, below the open directory `root`.
int save_chain_open_below(struct save_chain *ret, int root, const char *path,
                          struct err *e);
// Opens the chain as save_chain_open_below does, for a reader that has already loaded the
// save whose manifest has the checksum `known` (0: none). If the chain contains a delta
// of that save, *ret has only that delta and the saves after it; otherwise *ret has the
// whole chain.
int save_chain_open_behind(struct save_chain *ret, int root, const char *path,
                           uint64_t known, struct err *e);
void save_chain_close(struct save_chain *c);

// Loads the rows of the table with this name into a store. `mine` selects partitions of
// the store (NULL: all). The files may be from any number of owners and partitions. Day
// and step become those of the newest save; if its mode is SAVE_DAY, the day has ended.
// The state of an entry policy is loaded if the number of partitions and the policy are
// the same; otherwise candidates begin anew. Afterwards no row counts as changed: the
// next delta builds on this save, so this must be the newest save of its directory.
// Returns TUG_EUSAGE with the difference if the rows have another layout. Settings that
// only affect later updates, such as rates and thresholds, may differ. All files are
// checked before a row is loaded: if a file is missing, truncated or not the one that the
// manifest names, nothing changes. After a later failure the store may have some of the
// rows.
int save_load(const struct save_chain *c, const char *table, struct store *s,
              bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e);
// Does the same, but changes nothing in partitions that `mine` does not select, except the
// global step. For a table of which other stores lead some partitions.
int save_load_some(const struct save_chain *c, const char *table, struct store *s,
                   bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e);
// Does the checks that save_load does before it loads the first row. A caller
// that must clear the store before a load calls it first, so that a bad save
// leaves the store unchanged.
int save_check(const struct save_chain *c, const char *table, struct store *s,
               struct err *e);
// These functions need no store. save_open_table returns the table with this name in the
// newest save, after checking that all its files exist and are those that the manifest
// names. save_each_block passes the blocks of one of these files to `fn`, each after
// checking it. These blocks have only the rows of the newest save, without those of the
// saves that it builds on.
int save_open_table(const struct save_chain *c, const char *table,
                    const struct save_table **ret, struct err *e);
int save_each_block(const struct save_chain *c, const struct save_table *t, size_t file,
                    rows_block_fn fn, void *ctx, struct err *e);
// Returns the shape of the rows in the store's current cut, for rows_create.
struct rows_shape save_cut_shape(const struct store *s);

// Saves whole stores into a new save of `dir`. The caller must own all partitions, and
// must not train meanwhile. `about` is the JSON for the manifest, or NULL.
int save_stores(const char *dir, enum save_mode mode, struct store *const *stores,
                size_t n, const char *about, int zstd_level, uint32_t keep,
                char ret_path[FILE_PATH_MAX], struct err *e);
// Writes stores as save_stores does, but into the directory `path` of a checkpoint that
// the caller has begun and will commit.
int save_add_stores(struct save_manifest *m, const char *path,
                    struct store *const *stores, size_t n, int zstd_level, struct err *e);
// Writes rows of partitions [first, first + n) of a table without a store into a file of
// a save. The float in column `counted` is a row's count. A row with count 0 is left out,
// because it still has its initial values; if `counted` is SAVE_ALL_ROWS, all rows are
// written. The same rows give the same bytes.
#define SAVE_ALL_ROWS UINT32_MAX
int save_write_table(const struct table *t, uint32_t first, uint32_t n, uint32_t counted,
                     const char *path, struct rows_info *ret, struct err *e);
// Writes a cut of a store into one file; `mine` selects partitions (NULL: all). Each
// partition must be in exactly one file of a save. The caller begins and ends the cut.
int save_write_cut(struct store *s, const char *path, int zstd_level,
                   bool (*mine)(void *ctx, uint32_t partition), void *ctx,
                   struct rows_info *ret, struct err *e);

#endif
