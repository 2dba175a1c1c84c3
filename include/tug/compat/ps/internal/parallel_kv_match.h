// ParallelOrderedMatch: combines the values of keys that two sorted lists have in common.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_PARALLEL_KV_MATCH_H
#define TUG_COMPAT_PS_INTERNAL_PARALLEL_KV_MATCH_H

#include <algorithm>

#include "ps/internal/assign_op.h"
#include "ps/sarray.h"

namespace ps
{

// Applies `op` to the k values in dst_vals of each key that is also in src_keys, with its
// values in src_vals. Both lists of keys ascend. If dst_vals is empty, it is filled with
// zeros first. Returns the number of values that were combined. num_threads is ignored,
// because memory limits the speed of merging two lists.
template <typename K, typename V, typename C>
size_t ParallelOrderedMatch(const SArray<K> &src_keys, const SArray<V> &src_vals,
                            const SArray<K> &dst_keys, C *dst_vals, int k = 1,
                            AssignOp op = ASSIGN, int /*num_threads*/ = 1)
{
    size_t width = static_cast<size_t>(k), taken = 0;
    CHECK_GT(k, 0);
    CHECK_EQ(src_keys.size() * width, src_vals.size());
    if (dst_vals->size() == 0)
        dst_vals->resize(dst_keys.size() * width, V());
    CHECK_EQ(dst_keys.size() * width, dst_vals->size());
    for (size_t s = 0, d = 0; s < src_keys.size() && d < dst_keys.size();) {
        if (src_keys[s] < dst_keys[d]) {
            s++;
        } else if (dst_keys[d] < src_keys[s]) {
            d++;
        } else {
            for (size_t i = 0; i < width; ++i)
                AssignFunc(src_vals[s * width + i], op, &(*dst_vals)[d * width + i]);
            taken += width;
            s++, d++;
        }
    }
    return taken;
}

} // namespace ps

#endif
