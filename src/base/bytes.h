// Copying, comparing, searching and sorting with a length of 0. C11 forbids null pointers
// as arguments of memcpy and similar functions even then, but an empty example, text or
// table has no memory; a sanitizer reports such a call, and an optimizer may assume that
// it does not happen. cmake/tug.cmake includes this file before every C file of the
// project, so that no call can be forgotten. With a length of 0 the functions do nothing,
// whatever the pointers (as in C2y).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BYTES_H
#define TUG_BASE_BYTES_H

#include <stdlib.h>
#include <string.h>

#define BYTES_INLINE static inline __attribute__((always_inline, unused))

BYTES_INLINE void *bytes_copy(void *to, const void *from, size_t n)
{
    return n != 0 ? memcpy(to, from, n) : to;
}

BYTES_INLINE void *bytes_move(void *to, const void *from, size_t n)
{
    return n != 0 ? memmove(to, from, n) : to;
}

BYTES_INLINE void *bytes_set(void *to, int byte, size_t n)
{
    return n != 0 ? memset(to, byte, n) : to;
}

BYTES_INLINE int bytes_compare(const void *a, const void *b, size_t n)
{
    return n != 0 ? memcmp(a, b, n) : 0;
}

BYTES_INLINE void *bytes_first(const void *in, int byte, size_t n)
{
    return n != 0 ? memchr(in, byte, n) : NULL;
}

BYTES_INLINE void *bytes_last(const void *in, int byte, size_t n)
{
    return n != 0 ? memrchr(in, byte, n) : NULL;
}

BYTES_INLINE int bytes_compare_text(const char *a, const char *b, size_t n)
{
    return n != 0 ? strncmp(a, b, n) : 0;
}

BYTES_INLINE void bytes_sort(void *at, size_t n, size_t size,
                             int (*compare)(const void *, const void *))
{
    if (n != 0)
        qsort(at, n, size, compare);
}

BYTES_INLINE void *bytes_search(const void *key, const void *at, size_t n, size_t size,
                                int (*compare)(const void *, const void *))
{
    return n != 0 ? bsearch(key, at, n, size, compare) : NULL;
}

#undef BYTES_INLINE

// The macros take `...`, so that an argument may be a compound literal with commas.
#define memcpy(...) bytes_copy(__VA_ARGS__)
#define memmove(...) bytes_move(__VA_ARGS__)
#define memset(...) bytes_set(__VA_ARGS__)
#define memcmp(...) bytes_compare(__VA_ARGS__)
#define memchr(...) bytes_first(__VA_ARGS__)
#define memrchr(...) bytes_last(__VA_ARGS__)
#undef strncmp
#define strncmp(...) bytes_compare_text(__VA_ARGS__)
#define qsort(...) bytes_sort(__VA_ARGS__)
#define bsearch(...) bytes_search(__VA_ARGS__)

#endif
