// GetEnv for settings, ps::Error and check_rc for errors of the library, and ps-lite's
// macro LL.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_UTILS_H
#define TUG_COMPAT_PS_INTERNAL_UTILS_H

#include <inttypes.h>

#include "../../../kvapp.h"
#include "dmlc/logging.h"
#include "ps/internal/env.h"

#define LL LOG(ERROR)

namespace ps
{

// The exception for a failed call of the library; what() returns the sentence of
// tug_last_error.
struct Error : dmlc::Error {
    using dmlc::Error::Error;
};

inline void check_rc(int rc)
{
    if (rc != TUG_OK)
        throw Error(tug_last_error());
}

template <typename V> inline V GetEnv(const char *name, V otherwise)
{
    const char *text = Environment::Get()->find(name);
    return text != nullptr ? V(text) : otherwise;
}

inline int GetEnv(const char *name, int otherwise)
{
    const char *text = Environment::Get()->find(name);
    return text != nullptr ? static_cast<int>(std::strtol(text, nullptr, 10)) : otherwise;
}

} // namespace ps

#endif
