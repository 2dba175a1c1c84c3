// Names that all of ps/ needs: keys, groups, checks and logs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_BASE_H
#define TUG_BENCH_PSLITE_PS_BASE_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include <tug/kvapp.h>

namespace ps
{

using Key = uint64_t;
static const Key kMaxKey = std::numeric_limits<Key>::max();
static const int kScheduler = TUG_GROUP_SCHEDULER;
static const int kServerGroup = TUG_GROUP_SERVERS;
static const int kWorkerGroup = TUG_GROUP_WORKERS;

// What a failed call of the library becomes.
struct Error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void check_rc(int rc)
{
    if (rc != TUG_OK)
        throw Error(tug_last_error());
}

enum LogLevel { INFO, WARNING, ERROR, FATAL };

// One line on standard error; a fatal one ends the process.
class LogLine
{
  public:
    LogLine(const char *file, int line, LogLevel level) : level_(level)
    {
        text_ << file << ":" << line << ": ";
    }
    ~LogLine()
    {
        std::fprintf(stderr, "%s\n", text_.str().c_str());
        if (level_ == FATAL)
            std::abort();
    }
    std::ostream &stream()
    {
        return text_;
    }

  private:
    std::ostringstream text_;
    LogLevel level_;
};

} // namespace ps

#define LOG(level) ::ps::LogLine(__FILE__, __LINE__, ::ps::level).stream()
#define CHECK(x)                                                                         \
    if (!(x))                                                                            \
    LOG(FATAL) << "Check failed: " #x " "
#define PSLITE_CHECK(a, op, b)                                                           \
    if (!((a)op(b)))                                                                     \
    LOG(FATAL) << "Check failed: " #a " " #op " " #b " (" << (a) << " and " << (b) << ") "
#define CHECK_EQ(a, b) PSLITE_CHECK(a, ==, b)
#define CHECK_NE(a, b) PSLITE_CHECK(a, !=, b)
#define CHECK_LT(a, b) PSLITE_CHECK(a, <, b)
#define CHECK_LE(a, b) PSLITE_CHECK(a, <=, b)
#define CHECK_GT(a, b) PSLITE_CHECK(a, >, b)
#define CHECK_GE(a, b) PSLITE_CHECK(a, >=, b)

#endif
