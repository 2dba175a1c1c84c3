// Saves of tables: a directory of rows files with one manifest, and chains of them. There
// is no other form of saved rows: a saved model is a save of its tables, whose manifest also
// says what run it comes from.
//
//   DIR/save-000001/manifest.json   what is in it: mode, tables and their settings,
//                                   files with counts and checksums, the save before it
//   DIR/save-000001/users-0.rows    one file for each owner of partitions, or more
//   DIR/save-000001/run.json        facts of the run: hosts, times; not part of the model
//
// A save is there when its manifest is: files are written and synced first, then the
// manifest is renamed into place. A delta names its parent; a base or checkpoint has
// none. Loading walks from the newest base or checkpoint through its deltas. A save whose
// parent is missing or another than it says, or a file that is missing, cut short,
// damaged or not the one the manifest names, is refused by name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_SAVE_H
#define TUG_SAVE_SAVE_H

#include "base/buf.h"
#include "base/file.h"
#include "save/rows_file.h"
#include "store/config.h"
#include "store/cut.h"
#include "store/store.h"

enum {
    SAVE_FILE_MAX = 96,
    SAVE_MAX_TABLES = 256,
    SAVE_MAX_FILES = 1 << 14, // of a table
    SAVE_MAX_CHAIN = 4096,
};
#define SAVE_MANIFEST "manifest.json"
#define SAVE_NAMES "names.words" // of a training run: words behind keys (train/names.h)
#define SAVE_HISTORY "history.jsonl" // likewise: its passes (train/history.h)
// Begins a server's refusal if its table is past the batch of the save.
#define SAVE_PASSED "the save's batch has passed"

struct save_file {
    char name[SAVE_FILE_MAX]; // in the save's directory
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
    uint32_t number; // of the save in DIR
    uint64_t step;   // global
    uint32_t parent; // deltas: number of the save before, and its manifest's checksum
    uint64_t parent_checksum;
    // The save that had published its tables when it was made (store_published_by), and
    // the one of its parent.
    uint64_t published, parent_published;
    // Further JSON of the saver, or NULL: in training runs train/saved_run.h.
    char *about;
    struct save_table *tables;
    size_t n_tables;
    uint64_t checksum; // its own: by save_commit and save_read
    bool locked;       // from save_begin to save_commit or save_abort: DIR is ours
    int lock;
};
void save_manifest_free(struct save_manifest *m); // a zeroed one is fine
struct save_table *save_add_table(struct save_manifest *m, uint32_t id,
                                  const struct table_config *c, uint32_t partition_bits,
                                  struct err *e);
// "users-0.rows": the usual name of an owner's file.
void save_file_name(char ret[SAVE_FILE_MAX], const char *table, uint32_t owner);
int save_add_file(struct save_table *t, const char *name, const struct rows_info *info,
                  struct err *e);

// A new save in `dir` (made if missing): its number and directory; nothing is visible
// yet. A delta's parent is the newest save, of whatever mode: TUG_EUSAGE when there is
// none. TUG_EUSAGE as well while another process saves there. The saver fills in the
// step, its JSON, tables and files.
int save_begin(const char *dir, enum save_mode mode, struct save_manifest *ret,
               char ret_path[FILE_PATH_MAX], struct err *e);
// Likewise for a caller that has locked `dir` (file_lock_dir) and keeps the lock.
int save_begin_locked(const char *dir, enum save_mode mode, struct save_manifest *ret,
                      char ret_path[FILE_PATH_MAX], struct err *e);
// Whether a delta on that parent lacks nothing: the store was published by it, or, if
// it is a full save or its saver has died, by what the parent's tables had been
// published by. TUG_EUSAGE when the parent is of another history: another
// directory's, or before a load.
int save_check_parent(const struct store *s, const struct save_manifest *m,
                      struct err *e);
// The commit: the files must be there. Then removes unfinished saves and, if keep > 0 and
// this is not a delta, saves that the newest `keep` bases and checkpoints (with their
// deltas) do not need; of what lies in their directories, only what a save consists of.
// On failure the save is aborted.
int save_commit(const char *dir, struct save_manifest *m, uint32_t keep, struct err *e);
void save_abort(const char *dir, struct save_manifest *m); // removes its directory

// Removes what there is of a save. One that was linked in lies elsewhere and stays: only
// its link goes. Files of others stay, and their directory with them.
void save_remove(const char *dir, uint32_t number);

// Names of saves, of training runs as well: "save-000007" is 7, anything else 0; and the
// way back, under `dir`.
uint32_t save_number(const char *name);
int save_path(char ret[FILE_PATH_MAX], const char *dir, uint32_t number, struct err *e);

// Checks that a command may write to the file `path`, which `option` named. TUG_EUSAGE if
// it would lie among the files of a save, or is the directory of one.
int save_check_output(const char *option, const char *path, struct err *e);

// Finds the newest complete save under `from`, or `from` itself if it is one. TUG_EDATA:
// there is none.
int save_find(const char *from, char ret_path[FILE_PATH_MAX], struct err *e);
int save_read(const char *path, struct save_manifest *ret, struct err *e);
// `root`: FILE_ANYWHERE, or a directory that `path` is below (base/file.h).
int save_read_in(int root, const char *path, struct save_manifest *ret, struct err *e);

// The saves that must be loaded to restore one, oldest first; they have been checked to
// fit together.
struct save_chain {
    int root; // borrowed; FILE_ANYWHERE, or what the paths are below
    struct save_manifest *saves;
    char (*paths)[FILE_PATH_MAX];
    size_t n;
};
int save_chain_open(struct save_chain *ret, const char *from, struct err *e);
// The chain that ends with the save at `path`, below the directory that is open as
// `root`.
int save_chain_open_below(struct save_chain *ret, int root, const char *path,
                          struct err *e);
// Likewise for a reader that has loaded the save whose manifest has the checksum `known`:
// only the saves behind it, if the first one of *ret is a delta of, or else all of the
// chain. 0: none.
int save_chain_open_behind(struct save_chain *ret, int root, const char *path,
                           uint64_t known, struct err *e);
void save_chain_close(struct save_chain *c);

// Rows of the table of that name into a store, of those partitions (the store's) that
// `mine` says (NULL: all), whatever number of files, owners and partitions wrote them.
// Day and step are those of the newest save, and if that is a SAVE_DAY, the day has
// ended. The state of an entry policy is loaded if the number of partitions and the
// policy are the same; else candidates begin anew. Nothing counts as changed then: a
// delta that is saved next builds on this save, so it must be the newest one of its
// directory. TUG_EUSAGE: the table's rows differ in what (settings that only matter for
// the future, such as rates and thresholds, may differ). All files are looked at before a
// row is loaded: one that is missing, cut short or another than the manifest names
// changes nothing. On a later failure the store may hold some of the rows.
int save_load(const struct save_chain *c, const char *table, struct store *s,
              bool (*mine)(void *ctx, uint32_t partition), void *ctx, struct err *e);
// Does the checks that save_load does before the first row, for callers that have to
// clear the store first.
int save_check(const struct save_chain *c, const char *table, struct store *s,
               struct err *e);
// Without a store: the table of that name in the newest save, once all its files are seen
// to be there and to be those that the manifest names; and the blocks of one of them, each
// checked before `fn` sees it. Rows of saves that it builds on are not among them.
int save_open_table(const struct save_chain *c, const char *table,
                    const struct save_table **ret, struct err *e);
int save_each_block(const struct save_chain *c, const struct save_table *t, size_t file,
                    rows_block_fn fn, void *ctx, struct err *e);
// Returns the header of a file of the current cut.
struct rows_shape save_cut_shape(const struct store *s);

// Whole stores into a new save of `dir`: one owner, no training meanwhile. `about`: as in
// the manifest; NULL is fine.
int save_stores(const char *dir, enum save_mode mode, struct store *const *stores,
                size_t n, const char *about, int zstd_level, uint32_t keep,
                char ret_path[FILE_PATH_MAX], struct err *e);
// The same into the directory `path` of a checkpoint that has begun; the caller commits it.
int save_add_stores(struct save_manifest *m, const char *path,
                    struct store *const *stores, size_t n, int zstd_level, struct err *e);
// Rows of a table that no store keeps, of partitions [first, first + n), into a file of a
// save; those whose float in column `counted` is 0 are left out: they are what they began
// with. SAVE_ALL_ROWS: all are written. The same rows give the same bytes.
#define SAVE_ALL_ROWS UINT32_MAX
int save_write_table(const struct table *t, uint32_t first, uint32_t n, uint32_t counted,
                     const char *path, struct rows_info *ret, struct err *e);
// One cut of a store into one file, of those partitions that `mine` says (NULL: all):
// each must be in one file of a save. The caller began the cut and ends it.
int save_write_cut(struct store *s, const char *path, int zstd_level,
                   bool (*mine)(void *ctx, uint32_t partition), void *ctx,
                   struct rows_info *ret, struct err *e);

#endif
