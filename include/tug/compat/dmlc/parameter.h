// dmlc::GetEnv: a setting of the environment as a value.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_DMLC_PARAMETER_H
#define TUG_COMPAT_DMLC_PARAMETER_H

#include <cstdlib>
#include <sstream>
#include <string>

#include "dmlc/logging.h"

namespace dmlc
{

// Returns the value of an environment variable, or `otherwise` if it is missing or empty.
// Throws Error if the text is not a value of type T.
template <typename T> inline T GetEnv(const char *name, T otherwise)
{
    const char *text = std::getenv(name);
    if (text == nullptr || *text == '\0')
        return otherwise;
    T value = T();
    std::istringstream in(text);
    if (!(in >> value))
        throw Error(std::string(name) + " is '" + text + "', which cannot be read");
    return value;
}

} // namespace dmlc

#endif
