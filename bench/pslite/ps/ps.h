// The public names of ps-lite (dmlc) over libtug's C interface (tug/kvapp.h), for
// programs and benchmarks written for ps-lite: what bench/pslite/build compiles against.
// Header only, C++11. Values have four bytes; docs/kvapp.md says what differs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_PS_H
#define TUG_BENCH_PSLITE_PS_PS_H

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
inline void RegisterExitCallback(const std::function<void()> &f)
{
    Postoffice::Get()->RegisterExitCallback(f);
}

} // namespace ps

#endif
