// Saves of tables: directories with files of rows and one manifest, and chains of such
// directories. There is no other form of saved rows: a saved model is a save of its
// tables, whose manifest also describes the run that made it.
//
//   DIR/save-000001/manifest.json   its contents: mode, tables and their settings,
//                                   files with counts and checksums, its parent
//   DIR/save-000001/users-0.rows    one file for each owner of partitions, or more
//   DIR/save-000001/run.json        facts of the run: hosts, times; not part of the model
//
// A save exists when its manifest does: the files are written and synced first, then the
// manifest is renamed into place. A delta names its parent; a base or checkpoint has
// none. Loading walks from the newest base or checkpoint through its deltas. A save is
// refused if its parent is missing or was replaced by another save. A file is refused if
// it is missing, truncated, damaged, or not the file in the manifest. The error names the
// save or file.
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
    SAVE_MAX_FILES = 1 << 14, // most files that one table has in a save
    SAVE_MAX_CHAIN = 4096,
};
#define SAVE_MANIFEST "manifest.json"
// File of a training run: the words behind keys (train/names.h)
#define SAVE_NAMES "names.words"
// File of a training run: its passes (train/history.h)
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
    // Further JSON from the saver, or NULL; for training runs see train/saved/saved_run.h.
    char *about;
    struct save_table *tables;
    size_t n_tables;
    uint64_t checksum; // checksum of the manifest itself; set by save_commit and
                       // save_read
    bool locked;       // DIR is locked for this save, from save_begin to save_commit or
                       // save_abort
    int lock;
};
void save_manifest_free(struct save_manifest *m); // a zeroed one is fine
struct save_table *save_add_table(struct save_manifest *m, uint32_t id,
                                  const struct table_config *c, uint32_t partition_bits,
                                  struct err *e);
// Makes "users-0.rows", the usual name of an owner's file.
void save_file_name(char ret[SAVE_FILE_MAX], const char *table, uint32_t owner);
int save_add_file(struct save_table *t, const char *name, const struct rows_info *info,
                  struct err *e);

// Begins a new save in `dir`, which is made if missing: gets its number and directory.
// Nothing is visible yet. The parent of a delta is the newest save, of any mode. Returns
// TUG_EUSAGE if a delta has no parent, or while another process saves there. The caller
// fills in the step, its JSON, tables and files.
int save_begin(const char *dir, enum save_mode mode, struct save_manifest *ret,
               char ret_path[FILE_PATH_MAX], struct err *e);
// Does what save_begin does, for a caller that has locked `dir` (file_lock_dir) and keeps
// the lock.
int save_begin_locked(const char *dir, enum save_mode mode, struct save_manifest *ret,
                      char ret_path[FILE_PATH_MAX], struct err *e);
// Checks that a delta on this parent has all changes of the store. For this, the store
// must have been published by the parent or, if the parent is a checkpoint or its saver
// has died, by the save that had published the parent's tables. Returns TUG_EUSAGE if the
// parent belongs to another history: of another directory, or from before a load.
int save_check_parent(const struct store *s, const struct save_manifest *m,
                      struct err *e);
// Commits the save, whose files must exist. Then removes unfinished saves and, if keep >
// 0 and this is not a delta, the saves that the newest `keep` bases and checkpoints (with
// their deltas) do not need. In their directories it removes only files of saves. On
// failure the save is aborted.
int save_commit(const char *dir, struct save_manifest *m, uint32_t keep, struct err *e);
void save_abort(const char *dir, struct save_manifest *m); // removes the save's directory

// Removes the files of a save. If the save or a file is a symbolic link, only the link is
// removed. Other files stay, and with them the directory.
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

// The saves that must be loaded to restore one, oldest first. Each was checked to
// build on the one before.
struct save_chain {
    int root; // borrowed; FILE_ANYWHERE, or the directory that the paths are below
    struct save_manifest *saves;
    char (*paths)[FILE_PATH_MAX];
    size_t n;
};
int save_chain_open(struct save_chain *ret, const char *from, struct err *e);
// Opens the chain that ends with the save at `path`, below the open directory `root`.
int save_chain_open_below(struct save_chain *ret, int root, const char *path,
                          struct err *e);
// Opens the chain as save_chain_open_below does, for a reader that has already loaded the
// save whose manifest has the checksum `known` (0: none). *ret has only the saves after
// that one, if the first of them is a delta of it; otherwise it has the whole chain.
int save_chain_open_behind(struct save_chain *ret, int root, const char *path,
                           uint64_t known, struct err *e);
void save_chain_close(struct save_chain *c);

// Loads the rows of the table with this name into a store. `mine` selects partitions of
// the store (NULL: all). The files may be from any number of owners and partitions. Day
// and step become those of the newest save; if its mode is SAVE_DAY, the day has ended.
// The state of an entry policy is loaded if the number of partitions and the policy are
// the same; otherwise candidates begin anew. Afterwards no row counts as changed: the
// next delta builds on this save, so this must be the newest save of its directory.
// Returns TUG_EUSAGE with the difference if the rows have another layout; settings for
// the future, such as rates and thresholds, may differ. All files are checked before a
// row is loaded: if one is missing, truncated or not the one that the manifest names,
// nothing changes. After a later failure the store may have some of the rows.
int save_load(const struct save_chain *c, const char *table, struct store *s,
              bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e);
// Does the checks that save_load does before it loads the first row. A caller
// that must clear the store before a load calls it first, so that a bad save
// leaves the store unchanged.
int save_check(const struct save_chain *c, const char *table, struct store *s,
               struct err *e);
// These functions need no store. save_open_table returns the table with this name in the
// newest save, after checking that all its files exist and are those that the manifest
// names. save_each_block passes the blocks of one of these files to `fn`, each after
// checking it. The blocks do not include rows of the saves on which the newest save
// builds.
int save_open_table(const struct save_chain *c, const char *table,
                    const struct save_table **ret, struct err *e);
int save_each_block(const struct save_chain *c, const struct save_table *t, size_t file,
                    rows_block_fn fn, void *ctx, struct err *e);
// Returns the header for a file of the current cut.
struct rows_shape save_cut_shape(const struct store *s);

// Saves whole stores into a new save of `dir`, with one owner and without training
// meanwhile. `about` is as in the manifest, or NULL.
int save_stores(const char *dir, enum save_mode mode, struct store *const *stores,
                size_t n, const char *about, int zstd_level, uint32_t keep,
                char ret_path[FILE_PATH_MAX], struct err *e);
// Does what save_stores does, into the directory `path` of a checkpoint that has begun;
// the caller commits it.
int save_add_stores(struct save_manifest *m, const char *path,
                    struct store *const *stores, size_t n, int zstd_level, struct err *e);
// Writes rows of partitions [first, first + n) of a table without a store into a file of
// a save. Rows whose count, the float in column `counted`, is 0 are left out, because
// they still have their initial values; if `counted` is SAVE_ALL_ROWS, all rows are
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
