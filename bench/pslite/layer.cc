// Measures the cost of the C++ layer (ps/ps.h) over C (tug/kvapp.h): ps::KVWorker and
// tug_kv_send make the same pushes and pulls with the same node, keys and servers, in
// turns.
//
//   layer [--keys N] [--dim N] [--seconds S]
//
// Runs a scheduler, two servers and a worker as processes of this machine. Prints the
// medians of the turns' rates, in keys per second, and the median ratio of C++'s rate to
// C's in the same turn, because other work of the machine changes more slowly than turns.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "ps/ps.h"

namespace
{

enum { APP_CXX = 0, APP_C = 7, TURNS = 31 };

size_t n_keys = 1000, dim = 16;
double seconds = 0.1; // of a turn

double now()
{
    using clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(clock::now().time_since_epoch()).count();
}

void must(int rc)
{
    if (rc == 0)
        return;
    std::fprintf(stderr, "layer: %s\n", tug_last_error());
    std::exit(1);
}

void serve()
{
    ps::KVServer<float> server(APP_CXX);
    tug_kv_default *store;
    tug_app *app;
    must(tug_kv_default_open(&store));
    tug_app_handlers h = tug_app_handlers();
    h.kv = tug_kv_default_handle;
    h.ctx = store;
    must(tug_app_open(&app, ps::Postoffice::Get()->node(), APP_C, APP_C, &h));
    server.set_request_handle(ps::KVServerDefaultHandle<float>());
    ps::Finalize(0, true);
}

template <typename F> double rate(F request)
{
    size_t n = 0;
    double begin = now(), end = begin;
    for (; end - begin < seconds; end = now(), ++n)
        request();
    return static_cast<double>(n * n_keys) / (end - begin);
}

double median(std::vector<double> x)
{
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

template <typename Cxx, typename C>
void compare(const char *what, const Cxx &by_cxx, const C &by_c)
{
    std::vector<double> cxx, c, ratio;
    for (int turn = -1; turn < TURNS; ++turn) { // the first one warms up
        const bool cxx_first = turn % 2 == 0;
        const double first = cxx_first ? rate(by_cxx) : rate(by_c);
        const double second = cxx_first ? rate(by_c) : rate(by_cxx);
        if (turn < 0)
            continue;
        cxx.push_back(cxx_first ? first : second);
        c.push_back(cxx_first ? second : first);
        ratio.push_back(cxx.back() / c.back());
    }
    std::printf("%s of %zu keys x %zu floats: C++ %.3g M keys/s, C %.3g (%.3f of it)\n",
                what, n_keys, dim, median(cxx) / 1e6, median(c) / 1e6, median(ratio));
}

void work()
{
    ps::KVWorker<float> worker(APP_CXX, 0);
    tug_app *app;
    must(tug_app_open(&app, ps::Postoffice::Get()->node(), APP_C, 0, nullptr));
    std::vector<ps::Key> list(n_keys);
    for (size_t i = 0; i < n_keys; ++i)
        list[i] = i * (~static_cast<ps::Key>(0) / n_keys);
    ps::SArray<ps::Key> keys(list);
    ps::SArray<float> values(n_keys * dim, 1), pulled(n_keys * dim, 0);
    tug_kv_request push = tug_kv_request();
    push.push = true;
    push.data.keys = keys.data();
    push.data.n_keys = n_keys;
    push.data.values = values.data();
    push.data.n_values = values.size();
    tug_kv_request pull = tug_kv_request();
    pull.pull = true;
    pull.data.keys = keys.data();
    pull.data.n_keys = n_keys;
    pull.pulled = pulled.data();
    pull.n_pulled = pulled.size();
    auto by_c = [&](const tug_kv_request &q) {
        uint32_t ts;
        must(tug_kv_send(app, &q, &ts));
        must(tug_app_wait(app, ts));
    };
    auto cxx_push = [&] { worker.Wait(worker.ZPush(keys, values)); };
    auto cxx_pull = [&] { worker.Wait(worker.ZPull(keys, &pulled)); };
    auto c_push = [&] { by_c(push); };
    auto c_pull = [&] { by_c(pull); };
    compare("push", cxx_push, c_push);
    compare("pull", cxx_pull, c_pull);
    std::fflush(stdout);
    ps::Finalize(0, true);
}

int role(const char *name)
{
    setenv("DMLC_ROLE", name, 1);
    ps::Start(0);
    if (std::string(name) == "server")
        serve();
    else if (std::string(name) == "worker")
        work();
    else
        ps::Finalize(0, true);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string option = argv[i];
        if (option == "--keys")
            n_keys = std::strtoul(argv[i + 1], nullptr, 10);
        else if (option == "--dim")
            dim = std::strtoul(argv[i + 1], nullptr, 10);
        else if (option == "--seconds")
            seconds = std::strtod(argv[i + 1], nullptr);
    }
    setenv("DMLC_NUM_SERVER", "2", 1);
    setenv("DMLC_NUM_WORKER", "1", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", std::to_string(20000 + getpid() % 10000).c_str(), 1);
    const char *const roles[] = {"scheduler", "server", "server", "worker"};
    for (const char *name : roles)
        if (fork() == 0)
            std::_Exit(role(name));
    int status, failed = 0;
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
