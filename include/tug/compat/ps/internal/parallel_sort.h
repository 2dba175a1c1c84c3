// ParallelSort: sorts an array by std::sort on several threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_PARALLEL_SORT_H
#define TUG_COMPAT_PS_INTERNAL_PARALLEL_SORT_H

#include <algorithm>
#include <functional>
#include <thread>

#include "ps/sarray.h"

namespace ps
{

enum { kSortedAlone = 1 << 14 }; // one thread sorts up to this many elements

template <typename T, typename Less>
void sort_part(T *data, size_t n, int threads, const Less &less)
{
    if (threads < 2 || n < kSortedAlone) {
        std::sort(data, data + n, less);
        return;
    }
    std::thread left([=, &less] { sort_part(data, n / 2, threads / 2, less); });
    sort_part(data + n / 2, n - n / 2, threads - threads / 2, less);
    left.join();
    std::inplace_merge(data, data + n / 2, data + n, less);
}

// Sorts `array` in place. The order of equal elements may change.
template <typename T, typename Less = std::less<T>>
void ParallelSort(SArray<T> *array, int num_threads = 2, const Less &less = Less())
{
    sort_part(array->data(), array->size(), num_threads, less);
}

} // namespace ps

#endif
