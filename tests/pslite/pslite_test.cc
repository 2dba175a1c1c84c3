// A program with ps-lite's names ("ps/ps.h"), in C++11: a scheduler, two servers, and two
// workers with two customers each, as processes that are started by DMLC_* variables as
// in ps-lite.
//
// Without DMLC_ROLE, this program is the test that starts these processes.
//
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "ps/ps.h"

namespace
{

enum {
    kStore = 0,
    kWho = 1,
    kWide = 2,
    kTalk = 3,
    kByHand = 5,
    kThrow = 6,
    kNobody = 77
}; // apps
enum { kServers = 2, kWorkers = 2, kCustomers = 2, kKeys = 1000 };

// Programs rely on these standard headers, which ps-lite's headers include.
std::unordered_map<int, ps::KVPairs<float>> seen;
std::atomic<int> talks{0}, exits{0};
std::queue<int> nothing;

// Servers.

void SayWho(const ps::KVMeta &meta, const ps::KVPairs<float> &data,
            ps::KVServer<float> *server)
{
    ps::KVPairs<float> answer;
    seen[meta.sender] = data; // a copy that is used after the handler
    if (meta.pull) {
        answer.keys = data.keys;
        answer.vals.resize(data.keys.size(), static_cast<float>(ps::MyRank()));
    }
    server->Response(meta, answer);
}

// Handlers as in programs for ps-lite: requests of workers may make them throw.

void SumUnchecked(const ps::KVMeta &meta, const ps::KVPairs<double> &data,
                  ps::KVServer<double> *server)
{
    ps::KVPairs<double> answer;
    answer.keys = data.keys;
    for (size_t i = 0; i < data.keys.size(); ++i)
        answer.vals.push_back(data.vals[i]);
    server->Response(meta, answer);
    CHECK_LT(data.keys.size(), 4u) << "thrown behind the answer";
}

void ThrowSimple(const ps::SimpleData &d, ps::SimpleApp *app)
{
    if (d.head == 1)
        throw std::runtime_error("head 1 throws");
    if (d.head == 2)
        throw 2;
    app->Response(d, "fine");
}

void AnswerByHand(const ps::Message &m)
{
    if (m.meta.head == 66)
        throw std::runtime_error("head 66 throws");
    ps::Message answer;
    CHECK(m.meta.request);
    answer.meta.app_id = m.meta.app_id;
    answer.meta.customer_id = m.meta.customer_id;
    answer.meta.timestamp = m.meta.timestamp;
    answer.meta.recver = m.meta.sender;
    answer.meta.simple_app = m.meta.simple_app;
    answer.meta.push = m.meta.push;
    answer.meta.pull = m.meta.pull;
    answer.meta.head = m.meta.head + 1;
    answer.meta.body = m.meta.body;
    for (size_t i = 0; i < m.data.size(); ++i) {
        if (m.meta.data_type[i] == ps::FLOAT)
            answer.AddData(ps::SArray<float>(m.data[i]));
        else
            answer.AddData(ps::SArray<ps::Key>(m.data[i]));
    }
    CHECK_EQ(ps::Postoffice::Get()->van()->Send(answer),
             static_cast<int>(m.meta.body.size()) + m.meta.data_size);
}

// Takes a message for an app that this process does not have, and answers it.
void TakeStray()
{
    ps::Message m;
    CHECK_EQ(ps::Postoffice::Get()->van()->RecvMsg(&m), 5);
    CHECK_EQ(m.meta.app_id, static_cast<int>(kNobody));
    CHECK_EQ(m.meta.body, "stray");
    AnswerByHand(m);
}

void Serve()
{
    auto *store = new ps::KVServer<float>(kStore);
    store->set_request_handle(ps::KVServerDefaultHandle<float>());
    auto *who = new ps::KVServer<float>(kWho);
    who->set_request_handle(SayWho);
    auto *wide = new ps::KVServer<double>(kWide);
    wide->set_request_handle(ps::KVServerDefaultHandle<double>());
    auto *careless = new ps::KVServer<double>(kThrow);
    careless->set_request_handle(SumUnchecked);
    careless->set_request_handle(ThrowSimple);
    auto *hand = new ps::Customer(kByHand, kByHand, AnswerByHand);
    ps::RegisterExitCallback([=] {
        exits++;
        delete store;
        delete who;
        delete wide;
        delete careless;
    });
    ps::RegisterExitCallback([=] {
        exits++;
        delete hand;
    });
    ps::Postoffice::Get()->Barrier(0, ps::kServerGroup + ps::kWorkerGroup);
    if (ps::MyRank() == 0)
        TakeStray();
}

// Workers: each function is run by one customer.

std::vector<ps::Key> Keys(int customer)
{
    std::vector<ps::Key> keys(kKeys);
    for (size_t i = 0; i < kKeys; ++i)
        keys[i] = ps::kMaxKey / kKeys * i + static_cast<ps::Key>(customer);
    return keys;
}

void CheckSums(ps::KVWorker<float> *kv, int customer)
{
    const std::vector<ps::Key> keys = Keys(customer);
    std::vector<float> ones(kKeys, 1), got, both;
    std::vector<int> lens;
    std::atomic<int> calls{0};
    const int repeat = 20;
    for (int i = 0; i < repeat; ++i) {
        const int t = kv->Push(keys, ones, {}, 0, [&] { calls++; });
        CHECK_EQ(t, i) << "timestamps are per customer";
    }
    for (int i = 0; i < repeat; ++i)
        kv->Wait(i);
    CHECK_EQ(calls.load(), repeat);
    ps::Postoffice::Get()->Barrier(customer, ps::kWorkerGroup);
    kv->Wait(kv->Pull(keys, &got, &lens));
    CHECK_EQ(got.size(), keys.size());
    CHECK_EQ(lens, std::vector<int>(kKeys, 1));
    for (float v : got)
        CHECK_EQ(v, repeat * kWorkers);
    CHECK_EQ(kv->get_customer()->NumResponse(repeat), static_cast<int>(kServers));
    ps::Postoffice::Get()->Barrier(customer, ps::kWorkerGroup);
    kv->Wait(kv->PushPull(keys, ones, &both));
    for (float v : both)
        CHECK(v > repeat * kWorkers && v <= (repeat + 2) * kWorkers);
    ps::SArray<float> zero_copy(both.size());
    kv->Wait(
        kv->ZPushPull(ps::SArray<ps::Key>(keys), ps::SArray<float>(ones), &zero_copy));
    CHECK_GT(zero_copy[0], both[0]);
    ps::SArray<ps::Key> cached({ps::Key(1), ps::Key(5)});
    ps::SArray<int> each({1, 2}), lengths;
    ps::SArray<float> three({1.0f, 2.0f, 3.0f}), pulled;
    // Each customer has keys of its own.
    cached[0] += 100 * static_cast<ps::Key>(1 + 2 * ps::MyRank() + customer);
    cached[1] += cached[0];
    kv->Wait(kv->ZPush(cached, three, each, 0, nullptr, 7));
    kv->Wait(kv->ZPull(cached, &pulled, &lengths));
    CHECK(pulled.size() == 3 && pulled[2] == 3 && lengths.size() == 2 && lengths[1] == 2);
}

// Customer 1 passes barriers that customer 0 never reaches.
void CheckBarriers(int customer)
{
    for (int i = 0; i < 3 * customer; ++i)
        ps::Postoffice::Get()->Barrier(customer, ps::kWorkerGroup);
}

void CheckSlicer(int customer)
{
    ps::KVWorker<float> kv(kWho, customer);
    const std::vector<ps::Key> keys = {1, 2, ps::kMaxKey - 1, ps::kMaxKey};
    std::vector<float> got;
    kv.Wait(kv.Pull(keys, &got));
    CHECK_EQ(got, std::vector<float>({0, 0, 1, 1}));
    kv.set_slicer([](const ps::KVPairs<float> &all, const std::vector<ps::Range> &ranges,
                     ps::KVWorker<float>::SlicedKVs *sliced) {
        CHECK_EQ(ranges.size(), static_cast<size_t>(kServers));
        CHECK_EQ(ranges[0].end(), ranges[1].begin());
        sliced->resize(ranges.size());
        sliced->at(1).first = true;
        sliced->at(1).second = all;
    });
    got.clear();
    kv.Wait(kv.Pull(keys, &got));
    CHECK_EQ(got, std::vector<float>({1, 1, 1, 1}));
    kv.set_slicer(
        [](const ps::KVPairs<float> &, const std::vector<ps::Range> &,
           ps::KVWorker<float>::SlicedKVs *) { CHECK(false) << "of a slicer"; });
    bool thrown = false;
    try {
        (void)kv.Pull(keys, &got);
    } catch (const dmlc::Error &e) {
        thrown = std::string(e.what()).find("of a slicer") != std::string::npos;
    }
    CHECK(thrown);
}

void CheckWide(int customer)
{
    ps::KVWorker<double> kv(kWide, customer);
    const ps::Key key = static_cast<ps::Key>(ps::MyRank() * 2 + customer);
    std::vector<double> got;
    kv.Wait(kv.Push({key}, {1e300}));
    kv.Wait(kv.Push({key}, {-1e300}));
    kv.Wait(kv.Push({key}, {0.125}));
    kv.Wait(kv.Pull({key}, &got));
    CHECK_EQ(got, std::vector<double>({0.125}));
}

// Failures throw exceptions, and other requests are not affected.
void CheckErrors(int customer)
{
    ps::KVWorker<float> kv(kStore, 100 + customer), other(kWide, 200 + customer);
    std::vector<float> got;
    int failures = 0;
    const std::function<void()> wrong[] = {
        [&] {
            kv.Push({3, 2}, {1, 1});
        },
        [&] {
            kv.Push({1, 2}, {1, 1, 1});
        },
        [&] { kv.Wait(999); },
        [&] { other.Wait(other.Pull({1}, &got)); }, // the server's values are doubles
        [&] { ps::KVWorker<float> twice(kStore, 100 + customer); },
        [&] { (void)ps::Postoffice::Get()->GetNodeIDs(1000); },
        [&] { kv.Pull({1}, static_cast<std::vector<float> *>(nullptr)); },
        [&] { kv.ZPull(ps::SArray<ps::Key>({1}), nullptr); },
    };
    for (const auto &f : wrong)
        try {
            f();
        } catch (const dmlc::Error &) {
            ++failures;
        }
    CHECK_EQ(failures, 8);
    kv.Wait(kv.Pull({1}, &got));
}

// Calls f and returns the text of its exception.
std::string Refusal(const std::function<void()> &f)
{
    try {
        f();
    } catch (const ps::Error &e) {
        return e.what();
    }
    return "nothing was thrown";
}

bool Says(const std::string &text, const char *what)
{
    if (text.find(what) == std::string::npos)
        std::cerr << "\"" << text << "\" does not say: " << what << "\n";
    return text.find(what) != std::string::npos;
}

// Pushes with fewer values than keys, with and without a pull, are refused: nothing is
// read or changed, and the server continues.
void CheckValuesOfKeys(int customer)
{
    ps::KVWorker<double> kv(kWide, 300 + customer);
    std::vector<ps::Key> keys;
    // All keys are those of the first server and of this customer.
    for (int i = 0; i < 3000; ++i)
        keys.push_back(
            static_cast<ps::Key>(100000 * (1 + ps::MyRank() * 2 + customer) + i));
    std::vector<double> got, one_each(keys.size(), 1);
    std::vector<int> lens(keys.size(), 0), two(keys.size(), 1);
    lens[0] = 1;
    two[0] = 2;
    two[1] = 0;
    const char *few = "this server expects 1 for each key";
    CHECK(Says(Refusal([&] { kv.Wait(kv.Push(keys, {})); }), few));
    CHECK(Says(Refusal([&] { kv.Wait(kv.PushPull(keys, {}, &got)); }), few));
    CHECK(Says(Refusal([&] { kv.Wait(kv.PushPull(keys, {1}, &got, &lens)); }), few));
    CHECK(Says(Refusal([&] { kv.Wait(kv.Push(keys, one_each, two)); }), few));
    one_each.resize(keys.size() * 2, 1);
    CHECK(Says(Refusal([&] { kv.Wait(kv.Push(keys, one_each)); }), few));
    got.clear();
    kv.Wait(kv.Pull(keys, &got));
    CHECK_EQ(got, std::vector<double>(keys.size(), 0));
}

// Exceptions of handlers refuse the request with their text.
void CheckThrowing(int customer)
{
    ps::KVWorker<double> kv(kThrow, 400 + customer);
    std::vector<double> got;
    const std::vector<ps::Key> keys = {1, 2, 3}, many = {1, 2, 3, 4};
    CHECK(Says(Refusal([&] { kv.Wait(kv.PushPull(keys, {}, &got)); }),
               "index 0 is outside an array of 0"));
    got.clear();
    kv.Wait(kv.PushPull(keys, {1, 2, 3}, &got));
    CHECK_EQ(got, std::vector<double>({1, 2, 3}));
    got.clear();
    // The handler answered before it threw.
    kv.Wait(kv.PushPull(many, {1, 2, 3, 4}, &got));
    CHECK_EQ(got.size(), 4u);
    CHECK(Says(Refusal([&] { kv.Wait(kv.Request(1, "", ps::kServerGroup)); }),
               "head 1 throws"));
    CHECK(Says(Refusal([&] { kv.Wait(kv.Request(2, "", ps::kServerGroup)); }),
               "an exception of an unknown type"));
    kv.Wait(kv.Request(3, "", ps::kServerGroup));

    ps::Customer mine(kByHand, 500 + customer, [](const ps::Message &) {});
    ps::Message m;
    m.meta.app_id = kByHand;
    m.meta.customer_id = 500 + customer;
    m.meta.recver = ps::Postoffice::ServerRankToID(0);
    m.meta.timestamp = mine.NewRequest(m.meta.recver);
    m.meta.request = m.meta.simple_app = true;
    m.meta.head = 66;
    ps::Postoffice::Get()->van()->Send(m);
    CHECK(Says(Refusal([&] { mine.WaitRequest(m.meta.timestamp); }), "head 66 throws"));
}

void CheckMessages(int customer)
{
    std::atomic<int> right{0}, accepted{0};
    ps::Customer mine(kByHand, 10 + customer, [&](const ps::Message &m) {
        if (m.meta.head == 55)
            ++accepted;
        else if (m.meta.simple_app ? m.meta.body == "by hand"
                                   : ps::SArray<float>(m.data[1])[1] == 2)
            ++right;
    });
    ps::Postoffice *office = ps::Postoffice::Get();
    CHECK_EQ(office->GetCustomer(kByHand, 10 + customer, 1), &mine);
    CHECK(office->GetCustomer(kByHand, 1234) == nullptr);
    const int t = mine.NewRequest(ps::kServerGroup);
    ps::Message m;
    m.meta.app_id = kByHand;
    m.meta.customer_id = 10 + customer;
    m.meta.timestamp = t;
    m.meta.request = true;
    m.meta.simple_app = true;
    m.meta.head = 1;
    m.meta.body = "by hand";
    m.meta.recver = ps::Postoffice::ServerRankToID(0);
    CHECK_EQ(office->van()->Send(m), 7);
    m.meta.body.clear();
    m.meta.simple_app = false;
    m.meta.push = m.meta.pull = true;
    m.meta.recver = ps::Postoffice::ServerRankToID(1);
    m.AddData(ps::SArray<ps::Key>({1, 2}));
    m.AddData(ps::SArray<float>({1.0f, 2.0f}));
    CHECK_EQ(office->van()->SendMsg(m), 24);
    mine.WaitRequest(t);
    CHECK_EQ(right.load(), 2);
    CHECK_EQ(mine.NumResponse(t), static_cast<int>(kServers));
    const int half = mine.NewRequest(ps::kServerGroup);
    mine.AddResponse(half);
    CHECK_EQ(mine.NumResponse(half), 1);
    ps::Message own;
    own.meta.head = 55;
    own.meta.timestamp = half;
    mine.Accept(own); // counts as the other server's answer
    mine.WaitRequest(half);
    CHECK_EQ(accepted.load(), 1);
}

void SendStray()
{
    std::atomic<int> answers{0};
    ps::Customer mine(kNobody, 0, [&](const ps::Message &m) {
        answers += m.meta.body == "stray" && m.meta.head == 8;
    });
    const int id = ps::Postoffice::ServerRankToID(0);
    ps::Message m;
    m.meta.app_id = kNobody;
    m.meta.customer_id = 0;
    m.meta.timestamp = mine.NewRequest(id);
    m.meta.request = m.meta.simple_app = true;
    m.meta.head = 7;
    m.meta.body = "stray";
    m.meta.recver = id;
    ps::Postoffice::Get()->van()->Send(m);
    mine.WaitRequest(m.meta.timestamp);
    CHECK_EQ(answers.load(), 1);
}

void Work(int customer)
{
    ps::Start(customer);
    ps::KVWorker<float> kv(kStore, customer); // Finalize closes its customer
    CheckSums(&kv, customer);
    CheckBarriers(customer);
    CheckSlicer(customer);
    CheckWide(customer);
    CheckErrors(customer);
    CheckValuesOfKeys(customer);
    CheckThrowing(customer);
    CheckMessages(customer);
    if (customer == 0)
        ps::Postoffice::Get()->Barrier(0, ps::kServerGroup + ps::kWorkerGroup);
    if (customer == 0 && ps::MyRank() == 0)
        SendStray();
    ps::Finalize(customer, true);
}

// All roles.

void LookAround()
{
    ps::Postoffice *office = ps::Postoffice::Get();
    CHECK_EQ(ps::NumServers(), static_cast<int>(kServers));
    CHECK_EQ(ps::NumWorkers(), static_cast<int>(kWorkers));
    CHECK_EQ(office->GetNodeIDs(ps::kServerGroup), std::vector<int>({8, 10}));
    CHECK_EQ(office->GetNodeIDs(ps::kWorkerGroup), std::vector<int>({9, 11}));
    CHECK_EQ(office->GetNodeIDs(7).size(), 5u);
    CHECK_EQ(office->GetNodeIDs(ps::kScheduler), std::vector<int>({1}));
    const ps::Node me = office->van()->my_node();
    CHECK_EQ(me.role == ps::Node::WORKER, ps::IsWorker() != 0);
    CHECK_EQ(ps::Postoffice::IDtoRank(me.id), ps::MyRank());
    CHECK_EQ(office->is_worker(), ps::IsWorker() != 0);
    CHECK_EQ(office->is_server(), ps::IsServer() != 0);
    CHECK_EQ(office->is_scheduler(), ps::IsScheduler() != 0);
    CHECK_EQ(office->my_rank(), ps::MyRank());
    CHECK_EQ(office->num_workers(), ps::NumWorkers());
    CHECK_EQ(office->num_servers(), ps::NumServers());
    if (ps::IsWorker()) {
        CHECK_EQ(ps::Postoffice::WorkerRankToID(ps::MyRank()), me.id);
    }
    const std::vector<ps::Range> &ranges = office->GetServerKeyRanges();
    CHECK(ranges.size() == kServers && ranges[0].begin() == 0 &&
          ranges[1].end() == ps::kMaxKey);
    ps::Node server;
    server.id = ps::Postoffice::ServerRankToID(0);
    office->van()->Connect(server);
    const int stamp = office->van()->GetTimestamp();
    CHECK_EQ(office->van()->GetTimestamp(), stamp + 1);
    CHECK_EQ(me.ShortDebugString(), std::string(ps::IsWorker()   ? "W"
                                                : ps::IsServer() ? "S"
                                                                 : "H") +
                                        "[" + std::to_string(me.id) + "]");
    CHECK(me.DebugString().find("role=") == 0);
    CHECK(me.port > 0 && !me.hostname.empty());
    CHECK_EQ(office->van()->Bind(me, 1), me.port);
    CHECK(office->GetDeadNodes().empty() && office->van()->IsReady());
    CHECK(!office->is_recovery());
}

void Talk(const ps::SimpleData &d, ps::SimpleApp *app)
{
    CHECK_EQ(d.head, 3);
    CHECK_EQ(d.body, "hello");
    talks++;
    app->Response(d, "and you");
}

// The scheduler's customer sends a request to all nodes, also to itself.
void AskAll(ps::SimpleApp *app)
{
    std::atomic<int> heard{0};
    app->set_response_handle(
        [&](const ps::SimpleData &d, ps::SimpleApp *) { heard += d.body == "and you"; });
    app->Wait(
        app->Request(3, "hello", ps::kScheduler + ps::kServerGroup + ps::kWorkerGroup));
    CHECK_EQ(heard.load(), 1 + kServers + kWorkers);
    app->set_response_handle([](const ps::SimpleData &, ps::SimpleApp *) {});
}

int Role()
{
    ps::SimpleApp *talk;
    if (ps::IsWorker()) {
        std::thread first(Work, 0), second(Work, 1);
        ps::StartAsync(0);
        talk = new ps::SimpleApp(kTalk, 0);
        talk->set_request_handle(Talk);
        LookAround(); // waits until this process has joined and the cluster is complete
        first.join();
        second.join();
    } else {
        ps::Start(0);
        talk = new ps::SimpleApp(kTalk, 0);
        talk->set_request_handle(Talk);
        LookAround();
        if (ps::IsServer())
            Serve();
        if (ps::IsScheduler())
            AskAll(talk);
        ps::Finalize(0, true);
        CHECK_EQ(exits.load(), ps::IsServer() ? 2 : 0);
    }
    delete talk; // freed after Finalize
    CHECK_EQ(talks.load(), 1);
    CHECK_EQ(ps::NumWorkers(), 0);
    return 0;
}

// Checks without a cluster.

void CheckArrays()
{
    ps::SArray<int> a(3, 7), b = a, part = a.segment(1, 3);
    b[1] = 9;
    CHECK(a[1] == 9 && part[0] == 9 && part.size() == 2);
    a.resize(5, 1);
    CHECK(a.size() == 5 && a[4] == 1 && b.size() == 3);
    ps::SArray<char> bytes(b);
    CHECK_EQ(bytes.size(), 3 * sizeof(int));
    ps::SArray<int> back;
    back = bytes;
    CHECK(back.size() == 3 && back.data() == b.data());
    back.push_back(4);
    CHECK(back.size() == 4 && back.back() == 4 && back.front() == 7);
    a.append(back);
    CHECK(a.size() == 9 && a[8] == 4);
    auto shared = std::make_shared<std::vector<int>>(2, 5);
    ps::SArray<int> held(shared);
    shared.reset();
    CHECK(held[1] == 5);
    const ps::Range found = ps::FindRange(ps::SArray<int>({1, 3, 5, 7, 9}), 2, 7);
    CHECK(found.begin() == 1 && found.end() == 3 && found.size() == 2);
    held.push_back(6);
    held.pop_back();
    CHECK(held.size() == 2 && held.capacity() >= 3 && held.ptr().get() == held.data());
    ps::SArray<int> copied;
    copied.CopyFrom(held);
    copied.reserve(10);
    CHECK(copied.capacity() == 10 && copied.size() == 2 && copied[1] == 5);
    copied.clear();
    copied.pop_back();
    CHECK(copied.empty() && copied.begin() == copied.end());
    copied = {4, 5};
    int own[] = {1, 2, 3};
    ps::SArray<int> viewed(own, 3), kept(new int[2]{8, 9}, 2, true);
    viewed[2] = 7;
    CHECK(own[2] == 7 && kept[1] == 9 && copied.back() == 5);
    std::ostringstream text;
    text << ps::SArray<int>({1, 2});
    CHECK_EQ(text.str(), "[2]: 1 2 ");
    bool thrown = false;
    try {
        (void)held.segment(1, 3);
    } catch (const dmlc::Error &) {
        thrown = true;
    }
    CHECK(thrown);
}

// Before ps::Start, calls that need the cluster throw an exception.
void CheckStopped()
{
    const std::function<void()> early[] = {
        [] { ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup); },
        [] { (void)ps::Postoffice::Get()->GetNodeIDs(ps::kServerGroup); },
        [] { (void)ps::MyRank(); },
        [] {
            ps::KVWorker<float> kv(kStore, 0);
            kv.Push({1}, {1});
        },
    };
    int told = 0;
    for (const auto &f : early)
        try {
            f();
        } catch (const ps::Error &e) {
            told += std::string(e.what()).find("call ps::Start first") !=
                    std::string::npos;
        }
    CHECK_EQ(told, 4);
}

void CheckLogs()
{
    int n = 0;
    if (n == 0)
        CHECK_EQ(n, 0) << "the else below is not CHECK's";
    else
        n = 1;
    LOG_IF(INFO, n > 0) << n++;
    PS_VLOG(2) << n++;
    CHECK_EQ(n, 0);
    CHECK_EQ(CHECK_NOTNULL(&n), &n);
    CHECK_EQ(ps::GetEnv("TUG_NOT_SET", 5), 5);
    CHECK_EQ(ps::Environment::Init({{"TUG_NOT_SET", "6"}}), ps::Environment::Get());
    CHECK_EQ(ps::GetEnv("TUG_NOT_SET", 5), 6);
    CHECK_EQ(std::string(ps::Environment::Get()->find("TUG_NOT_SET")), "6");
    ps::Environment::Init({});
    LL << "a line";
}

// The cluster.

int FreePort()
{
    sockaddr_in a = sockaddr_in();
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(bind(fd, reinterpret_cast<sockaddr *>(&a), n), 0);
    CHECK_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&a), &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

pid_t Begin(const char *self, const char *role)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("DMLC_ROLE", role, 1);
        alarm(100); // ends the process if something hangs
        execl(self, self, role, static_cast<char *>(nullptr));
        _exit(127);
    }
    return pid;
}

int RunCluster(const char *self)
{
    std::vector<pid_t> pids;
    int failures = 0;
    setenv("DMLC_NUM_SERVER", std::to_string(kServers).c_str(), 1);
    setenv("DMLC_NUM_WORKER", std::to_string(kWorkers).c_str(), 1);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", std::to_string(FreePort()).c_str(), 1);
    setenv("TUG_WAIT_SECONDS", "90", 1);
    setenv("TUG_DEAD_SECONDS", "20", 1);
    pids.push_back(Begin(self, "scheduler"));
    for (int i = 0; i < kServers; ++i)
        pids.push_back(Begin(self, "server"));
    for (int i = 0; i < kWorkers; ++i)
        pids.push_back(Begin(self, "worker"));
    for (pid_t pid : pids) {
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        failures += status != 0;
    }
    return failures;
}

} // namespace

int main(int, char **argv)
{
    if (std::getenv("DMLC_ROLE") != nullptr)
        return Role();
    CheckArrays();
    CheckLogs();
    CheckStopped();
    return RunCluster(argv[0]) != 0;
}
