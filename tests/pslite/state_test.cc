// A program with ps-lite's names, whose scheduler is `tug scheduler --state`: it is killed and
// started again several times, and the workers, which meet at a barrier in each round, end
// with the right sums.
//
// Without DMLC_ROLE, this program is the test; its argument is the path of tug.
//
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ps/ps.h"

namespace
{

const int kills = 8, rounds_of_a_life = 3, workers = 2;
std::string self, progress, state, tug;

void Serve()
{
    auto *server = new ps::KVServer<float>(0);
    server->set_request_handle(ps::KVServerDefaultHandle<float>());
    ps::RegisterExitCallback([server] { delete server; });
}

// Adds a byte to the file of the progress for each round.
void Tell()
{
    const int fd = open(std::getenv("PROGRESS"), O_WRONLY | O_APPEND);
    CHECK_EQ(write(fd, "r", 1), 1);
    close(fd);
}

void Work()
{
    ps::KVWorker<float> kv(0, 0);
    const std::vector<ps::Key> keys = {1, 3, 5};
    std::vector<float> sums;
    for (int round = 1; round <= kills * rounds_of_a_life + 1; round++) {
        kv.Wait(kv.Push(keys, {1, 2, 3}));
        ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
        kv.Wait(kv.Pull(keys, &sums));
        for (size_t i = 0; i < keys.size(); i++)
            CHECK_EQ(sums[i], static_cast<float>(round * workers) *
                                  static_cast<float>(i + 1));
        ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
        if (ps::MyRank() == 0)
            Tell();
    }
}

int Node()
{
    ps::Start(0);
    if (ps::IsServer())
        Serve();
    if (ps::IsWorker())
        Work();
    ps::Finalize(0, true);
    return 0;
}

pid_t Run(const char *role)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    setenv("DMLC_ROLE", role, 1);
    execl(self.c_str(), self.c_str(), nullptr);
    _exit(98);
}

pid_t RunScheduler(const std::string &address)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(tug.c_str(), "tug", "scheduler", "--scheduler", address.c_str(), "--servers", "1",
          "--workers", "2", "--dead-timeout", "30", "--state", state.c_str(), nullptr);
    _exit(98);
}

bool EndedWell(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

void AwaitRounds(int least)
{
    for (int i = 0; i < 60000; i++) {
        const int fd = open(progress.c_str(), O_RDONLY);
        const off_t n = lseek(fd, 0, SEEK_END);
        close(fd);
        if (n > least)
            return;
        usleep(1000);
    }
    CHECK(false) << "no progress after " << least << " rounds";
}

void GoesOn()
{
    const std::string port = std::to_string(20000 + getpid() % 10000);
    setenv("DMLC_NUM_SERVER", "1", 1);
    setenv("DMLC_NUM_WORKER", "2", 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", port.c_str(), 1);
    setenv("TUG_DEAD_SECONDS", "30", 1);
    setenv("PROGRESS", progress.c_str(), 1);
    pid_t scheduler = RunScheduler("127.0.0.1:" + port);
    const pid_t server = Run("server"), one = Run("worker"), two = Run("worker");
    for (int i = 0; i < kills; i++) {
        int status;
        AwaitRounds(i * rounds_of_a_life);
        CHECK_EQ(kill(scheduler, SIGKILL), 0);
        CHECK_EQ(waitpid(scheduler, &status, 0), scheduler);
        CHECK(WIFSIGNALED(status));
        scheduler = RunScheduler("127.0.0.1:" + port);
    }
    CHECK(EndedWell(one));
    CHECK(EndedWell(two));
    CHECK(EndedWell(server));
    CHECK(EndedWell(scheduler));
    AwaitRounds(kills * rounds_of_a_life);
}

} // namespace

int main(int argc, char **argv)
{
    if (std::getenv("DMLC_ROLE") != nullptr)
        return Node();
    char path[4096], dir[] = "/tmp/tug-state-XXXXXX";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    CHECK_GT(n, 0);
    CHECK(mkdtemp(dir) != nullptr);
    self.assign(path, static_cast<size_t>(n));
    tug = argc > 1 ? argv[1] : "tug";
    state = std::string(dir) + "/state";
    progress = std::string(dir) + "/progress";
    close(open(progress.c_str(), O_CREAT | O_WRONLY, 0600));
    GoesOn();
    unlink(progress.c_str());
    unlink((state + "/journal").c_str());
    unlink((state + "/lock").c_str());
    rmdir(state.c_str());
    rmdir(dir);
    return 0;
}
