// Chooses the kernels once, by the CPU's features and TUG_KERNELS.
//
// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#include "base/relaxed.h"
#include "kernels/levels.h"

const struct kernels *kernels_named(const char *name)
{
    if (strcmp(name, "ref") == 0)
        return &kernels_ref;
#if defined(__x86_64__) && !RELAXED_SCALAR
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2"))
        return &kernels_avx2;
    if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512cd"))
        return &kernels_avx512;
#endif
    return NULL;
}

static const struct kernels *choose(void)
{
    const char *wanted = getenv("TUG_KERNELS");
    const struct kernels *k = wanted != NULL ? kernels_named(wanted) : NULL;
    static const char *const best_first[] = {"avx512", "avx2", "ref"};
    for (size_t i = 0; k == NULL; i++)
        k = kernels_named(best_first[i]);
    return k;
}

const struct kernels *kernels_get(void)
{
    // The chosen kernels; set without a lock, because every thread chooses the same.
    static const struct kernels *chosen;
    const struct kernels *k = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (k == NULL) {
        k = choose();
        __atomic_store_n(&chosen, k, __ATOMIC_RELAXED);
    }
    return k;
}
