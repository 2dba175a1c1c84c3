// The macros of dmlc's base.h for programs written for ps-lite.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_DMLC_BASE_H
#define TUG_COMPAT_DMLC_BASE_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

// If 1, a failed CHECK throws dmlc::Error; if 0, it ends the process.
#ifndef DMLC_LOG_FATAL_THROW
#define DMLC_LOG_FATAL_THROW 1
#endif

#ifndef DMLC_USE_CXX11
#define DMLC_USE_CXX11 1
#endif

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(T)                                                      \
    T(T const &) = delete;                                                               \
    T &operator=(T const &) = delete
#endif

namespace dmlc
{

// Returns a pointer to the first element, or nullptr if the container is empty.
template <typename T> inline T *BeginPtr(std::vector<T> &v)
{
    return v.empty() ? nullptr : &v[0];
}
template <typename T> inline const T *BeginPtr(const std::vector<T> &v)
{
    return v.empty() ? nullptr : &v[0];
}
inline char *BeginPtr(std::string &s)
{
    return s.empty() ? nullptr : &s[0];
}
inline const char *BeginPtr(const std::string &s)
{
    return s.empty() ? nullptr : &s[0];
}

} // namespace dmlc

#endif
