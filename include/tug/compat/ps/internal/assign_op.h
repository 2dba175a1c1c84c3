// Operations of ParallelOrderedMatch on two values that have the same key.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_ASSIGN_OP_H
#define TUG_COMPAT_PS_INTERNAL_ASSIGN_OP_H

#include <type_traits>

#include "ps/internal/utils.h"

namespace ps
{

enum AssignOp {
    ASSIGN, // a = b
    PLUS,   // a += b
    MINUS,  // a -= b
    TIMES,  // a *= b
    DIVIDE, // a /= b
    AND,    // a &= b, for integers only
    OR,     // a |= b, for integers only
    XOR     // a ^= b, for integers only
};

template <typename T> inline void AssignFuncInt(const T &right, AssignOp op, T *left)
{
    if (op == AND)
        *left &= right;
    else if (op == OR)
        *left |= right;
    else if (op == XOR)
        *left ^= right;
    else
        LOG(FATAL) << "AssignOp " << op << " does not exist";
}

template <typename T, typename std::enable_if<std::is_integral<T>::value, int>::type = 0>
inline void assign_bits(const T &right, AssignOp op, T *left)
{
    AssignFuncInt(right, op, left);
}
template <typename T, typename std::enable_if<!std::is_integral<T>::value, int>::type = 0>
inline void assign_bits(const T &, AssignOp op, T *)
{
    LOG(FATAL) << "AssignOp " << op << " needs integers";
}

template <typename T> inline void AssignFunc(const T &right, AssignOp op, T *left)
{
    switch (op) {
    case ASSIGN:
        *left = right;
        break;
    case PLUS:
        *left += right;
        break;
    case MINUS:
        *left -= right;
        break;
    case TIMES:
        *left *= right;
        break;
    case DIVIDE:
        *left /= right;
        break;
    default:
        assign_bits(right, op, left);
    }
}

} // namespace ps

#endif
