// A range of keys or of positions in an array.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_RANGE_H
#define TUG_COMPAT_PS_RANGE_H

#include "ps/internal/utils.h"

namespace ps
{

class Range
{ // [begin, end); the range of the last server also includes its end, kMaxKey
  public:
    Range() : Range(0, 0)
    {
    }
    Range(uint64_t begin, uint64_t end) : begin_(begin), end_(end)
    {
    }
    uint64_t begin() const
    {
        return begin_;
    }
    uint64_t end() const
    {
        return end_;
    }
    uint64_t size() const
    {
        return end_ - begin_;
    }

  private:
    uint64_t begin_, end_;
};

} // namespace ps

#endif
