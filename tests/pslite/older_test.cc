// A program in the style of 2015 to 2017, before ps-lite had customers: KVWorker(app),
// Start(), Barrier(group), Finalize(); and functions that such programs use from the
// headers beside it: queues, sorts, matches. Its own classes override Process.
//
// Without DMLC_ROLE, this program is the test, which starts a scheduler, a server and two
// workers by tug launch.
//
// SPDX-License-Identifier: Apache-2.0
#include "ps/ps.h"

#include <random>
#include <thread>

#include "dmlc/parameter.h"
#include "ps/internal/parallel_kv_match.h"
#include "ps/internal/parallel_sort.h"
#include "ps/internal/threadsafe_queue.h"

namespace
{

enum { kTalk = 1, kByHand = 2, kCounted = 3 }; // apps; app 0 adds values

template <typename Base> struct Counted : Base {
    template <typename... Args> explicit Counted(Args... args) : Base(args...)
    {
    }
    void Process(const ps::Message &m) override
    {
        seen += m.meta.simple_app ? 1 : 100;
        requests += m.meta.request;
        bytes += m.data.size() > 1 ? static_cast<int>(m.data[1].size()) : 0;
        Base::Process(m);
    }
    std::atomic<int> seen{0}, requests{0}, bytes{0};
};

void Double(const ps::KVMeta &meta, const ps::KVPairs<int> &data,
            ps::KVServer<int> *server)
{
    ps::KVPairs<int> answer;
    CHECK(!data.keys.empty()) << "no keys";
    answer.keys = data.keys;
    for (size_t i = 0; meta.pull && i < data.keys.size(); ++i)
        answer.vals.push_back(2 * static_cast<int>(data.keys[i]));
    server->Response(meta, answer);
}

void Serve()
{
    ps::KVServerDefaultHandle<float> sums;
    ps::KVServer<float> server(0);
    // The handler is copied, and both copies share the store.
    server.set_request_handle(sums);
    Counted<ps::SimpleApp> talk(kTalk);
    talk.set_request_handle([](const ps::SimpleData &d, ps::SimpleApp *app) {
        CHECK_NE(d.head, 66) << "head 66 throws";
        app->Response(d, d.body + "!");
    });
    Counted<ps::KVServer<int>> counted(static_cast<int>(kCounted));
    counted.set_request_handle(Double);
    std::atomic<int> by_hand{0};
    ps::Customer hand(kByHand, [&](const ps::Message &m) {
        ps::Message answer;
        by_hand++;
        answer.meta.app_id = m.meta.app_id;
        answer.meta.customer_id = m.meta.customer_id;
        answer.meta.timestamp = m.meta.timestamp;
        answer.meta.recver = m.meta.sender;
        ps::Postoffice::Get()->van()->Send(answer);
    });
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup);
    CHECK_EQ(sums.store[1], 2);
    CHECK_EQ(sums.store[2], 4);
    CHECK_EQ(sums.store[3], 0);
    CHECK(sums.store.count(1) == 1 && sums.store.count(3) == 0);
    CHECK_EQ(talk.seen, 4);
    CHECK_EQ(talk.requests, 4);
    CHECK_EQ(counted.seen, 400);
    CHECK_EQ(counted.requests, 4);
    CHECK_EQ(by_hand, 2);
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup);
    ps::Finalize();
}

void Work()
{
    ps::KVWorker<float> kv(0);
    std::vector<ps::Key> keys = {1, 2};
    std::vector<float> sums;
    kv.Wait(kv.Push(keys, {1, 2}));
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup);
    kv.Wait(kv.Pull(keys, &sums));
    CHECK(sums[0] == 2 && sums[1] == 4);

    Counted<ps::SimpleApp> talk(kTalk);
    std::string heard;
    talk.set_response_handle(
        [&](const ps::SimpleData &d, ps::SimpleApp *) { heard += d.body; });
    talk.Wait(talk.Request(1, "hello", ps::kServerGroup));
    CHECK_EQ(heard, "hello!");
    CHECK(talk.seen == 1 && talk.requests == 0);
    bool thrown = false;
    try {
        talk.Wait(talk.Request(66, "", ps::kServerGroup));
    } catch (const ps::Error &e) {
        thrown = std::string(e.what()).find("head 66 throws") != std::string::npos;
    }
    CHECK(thrown);

    Counted<ps::KVWorker<int>> counted(static_cast<int>(kCounted));
    std::vector<int> doubled;
    counted.Wait(counted.Push(keys, {5, 6}));
    counted.Wait(counted.Pull(keys, &doubled));
    CHECK(doubled[0] == 2 && doubled[1] == 4);
    // One request for each call, whatever the number of servers.
    CHECK_EQ(counted.seen, 200);
    CHECK_EQ(counted.bytes, 8);

    ps::Customer hand(kByHand, [](const ps::Message &) {});
    ps::Message m;
    m.meta.app_id = kByHand;
    m.meta.customer_id = kByHand;
    m.meta.request = true;
    m.meta.recver = ps::Postoffice::ServerRankToID(0);
    m.meta.timestamp = hand.NewRequest(m.meta.recver);
    ps::Postoffice::_GetSharedRef()->van()->Send(m);
    hand.WaitRequest(m.meta.timestamp);
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup);
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup);
    ps::Finalize(true);
}

void CheckQueues()
{
    ps::ThreadsafeQueue<int> queue;
    int sum = 0, got;
    std::thread fill([&] {
        for (int i = 1; i <= 100; ++i)
            queue.Push(i);
    });
    for (int i = 0; i < 100; ++i) {
        queue.WaitAndPop(&got);
        sum += got;
    }
    fill.join();
    CHECK_EQ(sum, 5050);
    CHECK(!queue.TryPop(&got));
}

void CheckSorts()
{
    std::mt19937 draw(1);
    for (size_t n : {0, 1, 7, 100000}) {
        ps::SArray<int> array(n);
        for (size_t i = 0; i < n; ++i)
            array[i] = static_cast<int>(draw() % 1000);
        std::vector<int> sorted(array.data(), array.data() + n);
        std::sort(sorted.begin(), sorted.end(), std::greater<int>());
        ps::ParallelSort(&array, 3, [](const int &a, const int &b) { return a > b; });
        CHECK(std::equal(sorted.begin(), sorted.end(), array.data()));
    }
}

void CheckMatches()
{
    const ps::SArray<ps::Key> from = {1, 3, 5, 7}, to = {0, 3, 4, 7, 9};
    const ps::SArray<int> values = {10, 11, 30, 31, 50, 51, 70, 71};
    ps::SArray<int> ret;
    CHECK_EQ(ps::ParallelOrderedMatch(from, values, to, &ret, 2), 4u);
    const int assigned[] = {0, 0, 30, 31, 0, 0, 70, 71, 0, 0};
    CHECK(std::equal(assigned, assigned + 10, ret.data()));
    const struct {
        ps::AssignOp op;
        int want;
    } ops[] = {{ps::PLUS, 18}, {ps::MINUS, 6}, {ps::TIMES, 72}, {ps::DIVIDE, 2},
               {ps::AND, 4},   {ps::OR, 14},   {ps::XOR, 10},   {ps::ASSIGN, 6}};
    for (const auto &one : ops) {
        int left = 12;
        ps::AssignFunc(6, one.op, &left);
        CHECK_EQ(left, one.want);
    }
    float number = 1;
    bool thrown = false;
    try {
        ps::AssignFunc(2.0f, ps::XOR, &number);
    } catch (const dmlc::Error &) {
        thrown = true;
    }
    CHECK(thrown);
}

void CheckNames()
{
    std::vector<int> empty, one = {7};
    std::string text = "x";
    CHECK(dmlc::BeginPtr(empty) == nullptr && *dmlc::BeginPtr(one) == 7 &&
          *dmlc::BeginPtr(text) == 'x');
    CHECK_EQ(std::string(ps::DataTypeName[ps::FLOAT]), "FLOAT");
    setenv("TUG_TEST_NUMBER", "2.5", 1);
    CHECK_EQ(dmlc::GetEnv("TUG_TEST_NUMBER", 1.0), 2.5);
    CHECK_EQ(dmlc::GetEnv("TUG_TEST_NONE", 3), 3);
}

} // namespace

int main(int argc, char **argv)
{
    if (std::getenv("DMLC_ROLE") == nullptr) {
        CheckQueues();
        CheckSorts();
        CheckMatches();
        CheckNames();
        const std::string command =
            std::string(argc > 1 ? argv[1] : "tug") +
            " launch --cluster older --servers 1 --workers 2 -- " + argv[0] + " 2>&1";
        return std::system(command.c_str()) != 0; // NOLINT: it is what is tested
    }
    ps::StartAsync("older");
    ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);
    if (ps::IsServer())
        Serve();
    else if (ps::IsWorker())
        Work();
    else
        ps::Finalize();
    return 0;
}
