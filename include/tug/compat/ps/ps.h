// The public names of ps-lite (dmlc) over libtug's C interface (tug/kvapp.h): programs
// written for ps-lite compile as they are, and run under the same DMLC_* environment.
//
//     c++ -std=c++11 program.cc $(pkg-config --cflags --libs tug-ps) -pthread
//
// Header only, C++11. from-ps-lite.md in the documentation (share/doc/tug) says what
// differs. Failures are exceptions (ps::Error, a dmlc::Error) with the library's sentence.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_PS_H
#define TUG_COMPAT_PS_PS_H

#include "ps/kv_app.h"

namespace ps
{

inline int NumWorkers()
{
    return Postoffice::Get()->num_workers();
}
inline int NumServers()
{
    return Postoffice::Get()->num_servers();
}
inline bool IsWorker()
{
    return Postoffice::Get()->is_worker();
}
inline bool IsServer()
{
    return Postoffice::Get()->is_server();
}
inline bool IsScheduler()
{
    return Postoffice::Get()->is_scheduler();
}
inline int MyRank()
{
    return Postoffice::Get()->my_rank();
}

inline void Start(int customer_id, const char *argv0 = nullptr)
{
    Postoffice::Get()->Start(customer_id, argv0, true);
}
inline void StartAsync(int customer_id, const char *argv0 = nullptr)
{
    Postoffice::Get()->Start(customer_id, argv0, false);
}
inline void Finalize(int customer_id, bool barrier = true)
{
    Postoffice::Get()->Finalize(customer_id, barrier);
}

// These forms of Start and Finalize take no customer id, as in ps-lite from 2015 to 2017.
// They stand for customer 0.
inline void Start(const char *argv0 = nullptr)
{
    Start(0, argv0);
}
inline void StartAsync(const char *argv0 = nullptr)
{
    StartAsync(0, argv0);
}
inline void Finalize(bool barrier = true)
{
    Finalize(0, barrier);
}

inline void RegisterExitCallback(const std::function<void()> &f)
{
    Postoffice::Get()->RegisterExitCallback(f);
}

} // namespace ps

#endif
