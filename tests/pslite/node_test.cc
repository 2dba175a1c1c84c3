// The facts that a program with ps-lite's names gets about its node: its port,
// whether it replaces a dead one (is_recovery), PS_VERBOSE, and that tug ignores
// other settings of ps-lite.
//
// Without DMLC_ROLE, this program is the test: it starts a cluster with Unix sockets and
// TCP by tug launch, and then one by hand, in which a worker dies and another takes its
// place.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <csignal>
#include <fstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "ps/ps.h"

namespace
{

std::string path; // path of this program

bool Listens(int port)
{
    sockaddr_in at = sockaddr_in();
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool open = connect(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at)) == 0;
    close(fd);
    return open;
}

void Serve()
{
    auto *server = new ps::KVServer<float>(0);
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
    ps::RegisterExitCallback([server] { delete server; });
}

// Pushes infinity in a thread that ignores exceptions, as a pool's thread may.
void PushInfinity(ps::KVWorker<float> *kv)
{
    std::thread drops([kv] {
        try {
            kv->Push({1}, {std::numeric_limits<float>::infinity()});
        } catch (const ps::Error &) {
        }
    });
    drops.join();
}

void Work(const std::string &part)
{
    ps::KVWorker<float> kv(0, 0);
    const std::vector<ps::Key> keys = {1};
    std::vector<float> sum = {0};
    if (part == "first")
        raise(SIGKILL);
    if (part == "second") { // this worker has joined before the other one pushes
        kv.Wait(kv.Push(keys, {1}));
    } else if (part == "others") {
        while (sum[0] < 1) // waits for the push of the second worker
            kv.Wait(kv.Pull(keys, &sum));
    } else {
        kv.Wait(kv.Push(keys, {1}));
        PushInfinity(&kv);
    }
}

int Node()
{
    const std::string part = std::getenv("PART") != nullptr ? std::getenv("PART") : "";
    ps::Start(0);
    ps::Postoffice *office = ps::Postoffice::Get();
    const ps::Node me = office->van()->my_node();
    CHECK(Listens(me.port)) << me.DebugString();
    if (ps::IsScheduler() && !part.empty()) {
        CHECK_EQ(me.port, std::atoi(std::getenv("DMLC_PS_ROOT_PORT")));
    }
    CHECK_EQ(me.is_recovery, part == "second");
    CHECK_EQ(office->is_recovery(), part == "second");
    if (ps::IsServer())
        Serve();
    if (ps::IsWorker())
        Work(part);
    ps::Finalize(0, part.empty());
    return 0;
}

pid_t Run(const char *role, const char *part)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("DMLC_ROLE", role, 1);
    setenv("PART", part, 1);
    execl(path.c_str(), path.c_str(), nullptr);
    _exit(98);
}

bool EndedWell(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

void OneTakesADeadOnesPlace()
{
    int status;
    setenv("DMLC_NUM_SERVER", "1", 1);
    setenv("DMLC_NUM_WORKER", "2", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("TUG_DEAD_SECONDS", "5", 1);
    setenv("DMLC_PS_ROOT_PORT", std::to_string(20000 + getpid() % 10000).c_str(), 1);
    const pid_t scheduler = Run("scheduler", "others"), server = Run("server", "others");
    const pid_t other = Run("worker", "others"), first = Run("worker", "first");
    CHECK(waitpid(first, &status, 0) == first && WIFSIGNALED(status));
    const pid_t second = Run("worker", "second");
    CHECK(EndedWell(second));
    CHECK(EndedWell(other));
    CHECK(EndedWell(server));
    CHECK(EndedWell(scheduler));
}

// Counts the lines that contain the text.
int Lines(const std::string &file, const std::string &text)
{
    std::ifstream in(file);
    int n = 0;
    for (std::string line; std::getline(in, line);)
        n += line.find(text) != std::string::npos;
    return n;
}

void LogsTell(const std::string &tug)
{
    char dir[] = "/tmp/tug-node-XXXXXX";
    CHECK(mkdtemp(dir) != nullptr);
    const std::string file = std::string(dir) + "/log";
    setenv("PS_VERBOSE", "2", 1);
    setenv("PS_RESEND", "1", 1);
    setenv("DMLC_PS_VAN_TYPE", "zmq", 1);
    const std::string command = tug +
                                " launch --cluster node --servers 1 --workers 1 -- " +
                                path + " > " + file + " 2>&1";
    CHECK_EQ(std::system(command.c_str()), 0); // NOLINT: it is what is tested
    CHECK_EQ(Lines(file, "Bind to role="), 3);
    CHECK_EQ(Lines(file, "the scheduler is connected to 1 workers and 1 servers"), 1);
    CHECK_EQ(Lines(file, "is connected to others"), 2);
    CHECK_EQ(Lines(file, "is stopped"), 3);
    CHECK_EQ(Lines(file, "9 => 2. Meta: request=1, timestamp=0"), 1); // the sender's line
    // The receiver's line.
    CHECK_EQ(Lines(file, "9 => 8. Meta: request=1, timestamp=0"), 1);
    CHECK_EQ(Lines(file, "8 => 9. Meta: request=0, timestamp=0"), 1);
    CHECK_EQ(Lines(file, "PS_RESEND is not read"), 3);
    CHECK_EQ(Lines(file, "DMLC_PS_VAN_TYPE"), 0);
    CHECK_EQ(Lines(file, "is not finite"), 1);
    unsetenv("PS_VERBOSE");
    unsetenv("PS_RESEND");
    unlink(file.c_str());
    rmdir(dir);
}

} // namespace

int main(int argc, char **argv)
{
    if (std::getenv("DMLC_ROLE") != nullptr)
        return Node();
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    CHECK_GT(n, 0);
    path.assign(self, static_cast<size_t>(n));
    LogsTell(argc > 1 ? argv[1] : "tug");
    OneTakesADeadOnesPlace();
    return 0;
}
