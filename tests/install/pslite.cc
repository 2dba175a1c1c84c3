// A program of a user, written for ps-lite. It has a global variable with a name that the
// library uses inside.
//
// SPDX-License-Identifier: Apache-2.0
#include "ps/ps.h"

std::unordered_map<int, ps::KVPairs<float>> mem_map;

int main()
{
    ps::Start(0);
    if (ps::IsServer()) {
        auto *server = new ps::KVServer<float>(0);
        server->set_request_handle(ps::KVServerDefaultHandle<float>());
        ps::RegisterExitCallback([server] { delete server; });
    }
    if (ps::IsWorker()) {
        ps::KVWorker<float> kv(0, 0);
        std::vector<float> got;
        kv.Wait(kv.Push({1, 2}, {3, 4}));
        kv.Wait(kv.Pull({1, 2}, &got));
        CHECK_EQ(got, std::vector<float>({3, 4}));
    }
    ps::Finalize(0, true);
    return static_cast<int>(mem_map.size());
}
