// Loads OpenBLAS, under the name that the linker would have used.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/blas.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/library.h"

static struct blas found;

static const struct library_function functions[] = {
    {"cblas_sgemm", &found.sgemm},
    {"cblas_sgemv", &found.sgemv},
    {"openblas_set_num_threads", &found.set_num_threads},
    {"openblas_get_corename", &found.get_corename},
};

// Tells OpenBLAS to start no threads, since tug's own threads already work in parallel.
static int blas_begin(struct err *e)
{
    (void)e;
    found.set_num_threads(1);
    return 0;
}

static struct library library = {.file = OPENBLAS_SONAME,
                                 .need = "models with layers need OpenBLAS",
                                 .package = "libopenblas0-pthread",
                                 .other = "another BLAS",
                                 .functions = functions,
                                 .n = sizeof(functions) / sizeof(*functions),
                                 .begin = blas_begin,
                                 .lock = PTHREAD_MUTEX_INITIALIZER};

// Checks whether there is enough address space for OpenBLAS. When OpenBLAS is loaded, it
// allocates a buffer and a stack for each CPU; if an allocation fails, it retries for ever.
static int check_room(struct err *e)
{
    enum { MIB = 1 << 20, LIBRARY_MIB = 64, BUFFER_MIB = 136 };
    struct rlimit limit;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t need = LIBRARY_MIB + (size_t)(cpus > 0 ? cpus : 1) * BUFFER_MIB;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return 0;
    void *room = mmap(NULL, need * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room != MAP_FAILED)
        return munmap(room, need * MIB);
    return err_set(
        e, TUG_ENOMEM,
        "models with layers need OpenBLAS, which needs %zu MiB of address space "
        "on %ld CPUs: raise the limit (ulimit -v, now %zu MiB), or choose a "
        "model without layers",
        need, cpus, (size_t)(limit.rlim_cur / MIB));
}

int blas_load(struct err *e)
{
    if (library_is_loaded(&library))
        return 0;
    TRY(check_room(e));
    return library_load(&library, e);
}

const struct blas *blas(void)
{
    return &found;
}
