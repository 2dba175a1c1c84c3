// dmlc's CHECK and LOG, for programs written for ps-lite: lines on standard error with the
// time, file and line. A failed CHECK and LOG(FATAL) throw dmlc::Error with the line.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_DMLC_LOGGING_H
#define TUG_COMPAT_DMLC_LOGGING_H

#include <cassert>
#include <ctime>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "dmlc/base.h"

namespace dmlc
{

struct Error : std::runtime_error {
    explicit Error(const std::string &why) : std::runtime_error(why)
    {
    }
};

inline void InitLogging(const char *)
{
}

// Collects a line of the log and writes it when the statement ends.
class LogMessage
{
  public:
    LogMessage(const char *file, int line)
    {
        char time[16];
        std::time_t now = std::time(nullptr);
        std::tm parts;
        localtime_r(&now, &parts);
        std::strftime(time, sizeof(time), "%H:%M:%S", &parts);
        text_ << "[" << time << "] " << file << ":" << line << ": ";
    }
    ~LogMessage()
    {
        text_ << "\n";
        std::cerr
            << text_.str(); // one write, so that lines of several threads do not mix
    }
    LogMessage(const LogMessage &) = delete;
    LogMessage &operator=(const LogMessage &) = delete;
    std::ostream &stream()
    {
        return text_;
    }

  private:
    std::ostringstream text_;
};

// The failure path is out of line, so that a CHECK for each key in a handler costs only a
// comparison.
class LogMessageFatal
{
  public:
    __attribute__((cold, noinline)) LogMessageFatal(const char *file, int line)
    {
        text_ << file << ":" << line << ": ";
    }
    __attribute__((cold, noinline)) ~LogMessageFatal() noexcept(false)
    {
        std::cerr << text_.str() + "\n";
#if DMLC_LOG_FATAL_THROW
        throw Error(text_.str());
#else
        std::abort();
#endif
    }
    LogMessageFatal(const LogMessageFatal &) = delete;
    LogMessageFatal &operator=(const LogMessageFatal &) = delete;
    std::ostream &stream()
    {
        return text_;
    }

  private:
    std::ostringstream text_;
};

// Makes the log stream void, so that both branches of LOG_IF's ?: have the same type.
class LogMessageVoidify
{
  public:
    void operator&(std::ostream &)
    {
    }
};

template <typename T>
inline T *check_not_null(T *p, const char *what, const char *file, int line)
{
    if (p == nullptr)
        LogMessageFatal(file, line).stream() << "Check notnull: " << what;
    return p;
}

} // namespace dmlc

#define LOG_INFO ::dmlc::LogMessage(__FILE__, __LINE__)
#define LOG_WARNING LOG_INFO
#define LOG_ERROR LOG_INFO
#define LOG_FATAL ::dmlc::LogMessageFatal(__FILE__, __LINE__)
#define LOG_QFATAL LOG_FATAL
#define LOG(severity) LOG_##severity.stream()
#define LG LOG_INFO.stream()
#define VLOG(x) LOG_INFO.stream()
#define LOG_IF(severity, condition)                                                      \
    !(condition) ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#define LOG_EVERY_N(severity, n) LOG(severity)
#ifdef NDEBUG
#define LOG_DFATAL LOG_ERROR
#define DFATAL ERROR
#define DLOG(severity) true ? (void)0 : ::dmlc::LogMessageVoidify() & LOG(severity)
#define DLOG_IF(severity, condition) DLOG(severity)
#else
#define LOG_DFATAL LOG_FATAL
#define DFATAL FATAL
#define DLOG(severity) LOG(severity)
#define DLOG_IF(severity, condition) LOG_IF(severity, condition)
#endif

#define CHECK(x)                                                                         \
    if (x) {                                                                             \
    } else                                                                               \
        LOG_FATAL.stream() << "Check failed: " #x << ' '
#define CHECK_LT(x, y) CHECK((x) < (y))
#define CHECK_GT(x, y) CHECK((x) > (y))
#define CHECK_LE(x, y) CHECK((x) <= (y))
#define CHECK_GE(x, y) CHECK((x) >= (y))
#define CHECK_EQ(x, y) CHECK((x) == (y))
#define CHECK_NE(x, y) CHECK((x) != (y))
#define CHECK_NOTNULL(x) ::dmlc::check_not_null((x), #x, __FILE__, __LINE__)

#ifdef NDEBUG
#define DCHECK(x)                                                                        \
    while (false)                                                                        \
    CHECK(x)
#else
#define DCHECK(x) CHECK(x)
#endif
#define DCHECK_LT(x, y) DCHECK((x) < (y))
#define DCHECK_GT(x, y) DCHECK((x) > (y))
#define DCHECK_LE(x, y) DCHECK((x) <= (y))
#define DCHECK_GE(x, y) DCHECK((x) >= (y))
#define DCHECK_EQ(x, y) DCHECK((x) == (y))
#define DCHECK_NE(x, y) DCHECK((x) != (y))

#endif
