// RocksDB's C interface, which is loaded when the first cold tier is opened. RocksDB
// needs the C++ runtime, and few tables need RocksDB, so libtug and the command are not
// linked with it. One list names the functions in use; it generates the pointers and the
// code that loads them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COLD_ROCKS_H
#define TUG_COLD_ROCKS_H

#include <rocksdb/c.h>

#include "base/err.h"

#define ROCKS_FUNCTIONS(X)                                                               \
    X(batched_multi_get_cf)                                                              \
    X(close)                                                                             \
    X(column_family_handle_destroy)                                                      \
    X(create_iterator)                                                                   \
    X(flush)                                                                             \
    X(flushoptions_create)                                                               \
    X(flushoptions_destroy)                                                              \
    X(free)                                                                              \
    X(get_latest_sequence_number)                                                        \
    X(get_options_from_string)                                                           \
    X(iter_destroy)                                                                      \
    X(iter_get_error)                                                                    \
    X(iter_key)                                                                          \
    X(iter_next)                                                                         \
    X(iter_seek)                                                                         \
    X(iter_valid)                                                                        \
    X(iter_value)                                                                        \
    X(open_column_families)                                                              \
    X(options_create)                                                                    \
    X(options_destroy)                                                                   \
    X(pinnableslice_destroy)                                                             \
    X(pinnableslice_value)                                                               \
    X(readoptions_create)                                                                \
    X(readoptions_destroy)                                                               \
    X(readoptions_set_fill_cache)                                                        \
    X(readoptions_set_iterate_upper_bound)                                               \
    X(write)                                                                             \
    X(writebatch_clear)                                                                  \
    X(writebatch_create)                                                                 \
    X(writebatch_delete)                                                                 \
    X(writebatch_delete_range)                                                           \
    X(writebatch_destroy)                                                                \
    X(writebatch_put)                                                                    \
    X(writeoptions_create)                                                               \
    X(writeoptions_destroy)                                                              \
    X(writeoptions_disable_WAL)

struct rocks {
#define X(name) __typeof__(rocksdb_##name) *name;
    ROCKS_FUNCTIONS(X)
#undef X
};

// Loads RocksDB at the first call, and gets its functions; it is never unloaded.
// TUG_EUSAGE if it is not installed.
int rocks_load(const struct rocks **ret, struct err *e);

#endif
