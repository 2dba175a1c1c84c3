// Environment: a program's settings by Environment::Init, which override environment
// variables.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_ENV_H
#define TUG_COMPAT_PS_INTERNAL_ENV_H

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

#include "dmlc/logging.h"

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

// Writes the values of Environment::Init into the environment, where the library reads
// them.
inline void export_settings()
{
    for (const char *name :
         {"DMLC_ROLE", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI",
          "DMLC_PS_ROOT_PORT", "DMLC_NODE_HOST", "DMLC_INTERFACE", "PORT"}) {
        const char *text = Environment::Get()->find(name);
        if (text != nullptr && text != std::getenv(name))
            setenv(name, text, 1);
    }
}

// Warns, once in a process, of each environment variable of ps-lite that this library
// does not read, if it is set to a value other than ps-lite's default.
inline void tell_of_environment()
{
    static const char *const unread[][3] = {
        {"DMLC_ENABLE_RDMA", "messages go over TCP or Unix sockets", ""},
        {"DMLC_RANK", "the scheduler gives ranks", ""},
        {"DMLC_TASK_ID", "the scheduler gives ranks", ""},
        {"DMLC_NUM_ATTEMPT", "a process that comes back takes a dead one's place", ""},
        {"DMLC_USE_KUBERNETES", "host names are looked up in any case", ""},
        {"DMLC_LOCAL", "links of one machine are Unix sockets under tug launch", ""},
        {"DMLC_PS_VAN_TYPE", "messages go over TCP or Unix sockets, by priority", "zmq"},
        {"DMLC_PS_WATER_MARK", "messages that wait to be sent are bounded by memory", ""},
        {"PS_RESEND",
         "a request counts once in any case, and is sent again on a new link", ""},
        {"PS_RESEND_TIMEOUT", "a link that is silent for 15 s is replaced", ""},
        {"PS_DROP_MSG", "no message is dropped", ""},
        {"PS_HEARTBEAT_INTERVAL", "heartbeats are always on", ""},
        {"PS_HEARTBEAT_TIMEOUT", "TUG_DEAD_SECONDS says when a node is dead", ""},
    };
    static std::atomic<bool> told(false);
    if (told.exchange(true))
        return;
    for (const auto &one : unread) {
        const char *text = Environment::Get()->find(one[0]);
        const std::string value = text != nullptr ? text : "";
        if (!value.empty() && value != "0" && value != one[2])
            LOG(WARNING) << one[0] << " is not read: " << one[1];
    }
}

} // namespace ps

#endif
