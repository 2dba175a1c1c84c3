// Paths of data as people give them: files, directories, globs, pipes, "-".
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_PATHS_H
#define TUG_DATA_PATHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/problems.h"
#include "data/input.h"

struct reader_layout;
struct rows;

struct data_file {
    char *name;       // as it is shown; "(standard input)" for "-"
    char *address;    // by which it is opened where it lies elsewhere; NULL: by its name
    uint64_t version; // of one that lies elsewhere (web/web.h)
    uint64_t device, inode;  // of a file of this machine that has a name; 0: it has none
    const struct rows *rows; // rows in memory, which have no bytes (`bytes`: how many
                             // their address, which tells data apart); NULL: it is a file
    bool is_stdin, compressed;
    bool is_pipe; // it can be read once only: standard input, a named pipe, <(command)
    // The command that its bytes go through (data/filter.h), so that its text is not
    // known before it is read; NULL: none. With a command `compressed` is true.
    const char *command;
    bool packed;                        // it is compressed, whatever its command
    const struct reader_layout *layout; // see source_layout
    uint64_t bytes;                     // on disk
    uint64_t text_bytes; // exact for plain files, an estimate for compressed ones
};

struct data_files {
    struct data_file *file;
    size_t n, cap;
    size_t empty; // files without text, which are passed over
    char *first_empty;
    const char *command;            // of the files that are added; borrowed
    const atomic_bool *interrupted; // ends looking at those that lie elsewhere
};

// Appends what `path` stands for: itself, a directory's plain files at any depth (names
// that begin with '.' or '_' are hidden, as Hadoop's _SUCCESS), a glob's matches, each
// sorted by name. Files are opened once, so that what is missing, unreadable,
// neither file nor pipe, or of a kind that cannot be read is said at the start. Empty files
// are passed over, as Spark leaves them, unless there is no other. Pipes are
// not opened: closing one again would end its writer. An address (web/web.h) stands
// for what it says there.
int data_files_add(struct data_files *f, const char *path, struct err *e);
// When all paths were added: TUG_EDATA where all their files are empty.
int data_files_check(const struct data_files *f, struct err *e);
// Adds all of them; notes errors of single ones and adds the others. TUG_EDATA where all
// are empty.
int data_files_add_all(struct data_files *f, const char *const *paths, size_t n,
                       struct problems *p, struct err *e);
void data_files_free(struct data_files *f);
// Returns the first that can be read only once, or NULL.
const struct data_file *data_files_pipe(const struct data_files *f);

// Servers that this process reads from may redirect to any address, from now on: see web/web.h.
void data_files_any_host(void);

// Adds the files of paths that another process reads, as far as this one sees them: none
// of standard input, of addresses, and of paths that do not exist.
void data_files_add_seen(struct data_files *f, const char *const *paths, size_t n);
// Returns whether an output to `path` would overwrite one of them.
bool data_files_has(const struct data_files *f, const char *path);
// TUG_EUSAGE if an output to `out`, which `option` names, would lie in a directory among
// `paths`, so that who reads that directory next would read the output as data.
int data_paths_check_output(const char *const *paths, size_t n, const char *option,
                            const char *out, struct err *e);
// Whether two of the files [from, to) are one file, by whatever names; which.
bool data_files_repeated(const struct data_files *f, size_t from, size_t to,
                         size_t ret[2]);

// Its bytes as they lie, and its text: decompressed, and through its command. Among local
// files only pipes wait, and `wake_fd` ends that.
int data_file_input(struct input **ret, const struct data_file *f,
                    const struct interrupt *i, struct err *e);
struct decoder;
int data_file_open(struct decoder **ret, const struct data_file *f,
                   const struct interrupt *i, struct err *e);
// Its first lines: decoder_first_lines.
struct buf;
int data_file_first_lines(const struct data_file *f, const atomic_bool *interrupted,
                          size_t lines, size_t most, struct buf *b, struct err *e);

// XXH3 of the file's size, its first 64 KiB and its last 64 KiB: reads these. TUG_EDATA
// when it has changed since. A remote file with a version is compared by its size and
// version. Not of pipes.
int data_file_hash(const struct data_file *f, uint64_t *ret, struct err *e);

#endif
