// Loads RocksDB by the name that the linker would have used, so that it is the version
// whose header was compiled.
//
// SPDX-License-Identifier: Apache-2.0
#include "cold/rocks.h"

#include "os/library.h"

static struct rocks rocks;

#define X(name) {"rocksdb_" #name, &rocks.name},
static const struct library_function functions[] = {ROCKS_FUNCTIONS(X)};
#undef X

static struct library library = {.file = ROCKSDB_SONAME,
                                 .need = "rows on disk need RocksDB",
                                 .package = "librocksdb-dev",
                                 .other = "another version",
                                 .functions = functions,
                                 .n = sizeof(functions) / sizeof(*functions),
                                 .lock = PTHREAD_MUTEX_INITIALIZER};

int rocks_load(const struct rocks **ret, struct err *e)
{
    TRY(library_load(&library, e));
    *ret = &rocks;
    return 0;
}
