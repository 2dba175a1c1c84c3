// Settings of a program, before those of its environment.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_ENV_H
#define TUG_COMPAT_PS_INTERNAL_ENV_H

#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

namespace ps
{

class Environment
{
  public:
    static Environment *Get()
    {
        return _GetSharedRef().get();
    }
    static std::shared_ptr<Environment> _GetSharedRef()
    {
        static std::shared_ptr<Environment> one(new Environment());
        return one;
    }
    static Environment *Init(const std::unordered_map<std::string, std::string> &settings)
    {
        Get()->settings_ = settings;
        return Get();
    }
    const char *find(const char *name) const
    {
        const auto at = settings_.find(name);
        return at != settings_.end() ? at->second.c_str() : std::getenv(name);
    }

  private:
    Environment()
    {
    }
    std::unordered_map<std::string, std::string> settings_;
};

} // namespace ps

#endif
