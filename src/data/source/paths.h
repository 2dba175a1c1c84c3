// Paths of data as users give them: files, directories, globs, pipes, "-".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_PATHS_H
#define TUG_DATA_SOURCE_PATHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/input/input.h"
#include "options/problems.h"

struct reader_layout;
struct rows;

struct data_file {
    char *name;       // the name in messages; "(standard input)" for "-"
    char *address;    // address by which a remote file is opened; NULL: opened by name
    uint64_t version; // version of a remote file (web/web.h)
    uint64_t device, inode;  // identity of a local file that has a name; else 0
    const struct rows *rows; // rows in memory; NULL: a file. For rows, `bytes` is their
                             // address, so that different rows differ in it
    bool is_stdin, compressed;
    bool is_pipe; // can be read only once: standard input, a named pipe, <(command)
    // The command that converts the file's bytes to text (data/input/filter.h); NULL:
    // none. If there is a command, `compressed` is true, because the length of the text is
    // not known before it is read.
    const char *command;
    bool packed; // whether the file is compressed, also if a command reads it
    const struct reader_layout *layout; // the layout that source_layout returns
    uint64_t bytes;                     // bytes on disk
    uint64_t text_bytes; // exact for plain files, an estimate for compressed ones
};

struct data_files {
    struct data_file *file;
    size_t n, cap;
    size_t empty; // number of files without text, which are skipped
    char *first_empty;
    const char *command; // the command for the files that are added; the caller owns it
    // Set to true by a signal to end the listing of remote files; NULL: nothing ends it.
    const atomic_bool *interrupted;
};

// Appends the files of `path`: the path itself, a directory's plain files at any depth
// (except names that begin with '.' or '_', such as Hadoop's _SUCCESS), the matches of a
// glob, or the files that a remote address lists (web/web.h). Files of a directory or
// glob are sorted by name. Each file is opened once, so that a file that is missing,
// unreadable, neither file nor pipe, or of an unsupported kind is reported at the start.
// Empty files, such as Spark writes, are skipped unless all files are empty. Pipes are
// not opened, because closing a pipe would end its writer.
int data_files_add(struct data_files *f, const char *path, struct err *e);
// Called when all paths were added: returns TUG_EDATA if all their files are empty.
int data_files_check(const struct data_files *f, struct err *e);
// Adds all paths. The errors of paths that cannot be added are collected in *p. Returns
// TUG_EDATA if all files are empty.
int data_files_add_all(struct data_files *f, const char *const *paths, size_t n,
                       struct problems *p, struct err *e);
void data_files_free(struct data_files *f);
// Returns the first file that can be read only once, or NULL.
const struct data_file *data_files_pipe(const struct data_files *f);

// From now on, servers that this process reads from may redirect to any address
// (web/web.h).
void data_files_any_host(void);

// Adds the files that another process will read. Skips standard input, addresses, and
// paths that do not exist for this process.
void data_files_add_seen(struct data_files *f, const char *const *paths, size_t n);
// Returns whether an output to `path` would overwrite one of the files.
bool data_files_has(const struct data_files *f, const char *path);
// Returns TUG_EUSAGE if `out`, the output of the option `option`, would lie in a
// directory among `paths`: the next run would read the output as data.
int data_paths_check_output(const char *const *paths, size_t n, const char *option,
                            const char *out, struct err *e);
// Returns whether two of the files [from, to) are the same file, perhaps under different
// names; sets ret[0] and ret[1] to their indices.
bool data_files_repeated(const struct data_files *f, size_t from, size_t to,
                         size_t ret[2]);

// data_file_input opens a file's bytes as they are stored. data_file_open opens its text:
// decompressed, and passed through the file's command. A read of a local file waits only
// if the file is a pipe; i->wake_fd ends that wait.
int data_file_input(struct input **ret, const struct data_file *f,
                    const struct interrupt *i, struct err *e);
struct decoder;
int data_file_open(struct decoder **ret, const struct data_file *f,
                   const struct interrupt *i, struct err *e);
// Gets the first lines of a file, as decoder_first_lines does.
struct buf;
int data_file_first_lines(const struct data_file *f, const atomic_bool *interrupted,
                          size_t lines, size_t most, struct buf *b, struct err *e);

// Returns the XXH3 of the file's size, its first 64 KiB and its last 64 KiB; reads these.
// Returns TUG_EDATA if the file has changed since it was listed. For a remote file with a
// version, the hash is of its size and version. Not for pipes.
int data_file_hash(const struct data_file *f, uint64_t *ret, struct err *e);

#endif
