// Postoffice: the node of this process, which all its customers share.
//
// Every customer calls Start and Finalize with its id, from any thread. The first Start
// starts the node; Finalize(0) ends it after all other customers have called Finalize.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_POSTOFFICE_H
#define TUG_COMPAT_PS_INTERNAL_POSTOFFICE_H

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "ps/internal/customer.h"
#include "ps/internal/heap.h"
#include "ps/internal/van.h"
#include "ps/range.h"

#define PS_VLOG(x) LOG_IF(INFO, (x) <= ::ps::Postoffice::Get()->verbose())

namespace ps
{

class Postoffice
{
  public:
    using Callback = std::function<void()>;

    static Postoffice *Get()
    {
        static Postoffice one;
        return &one;
    }
    static std::shared_ptr<Postoffice> _GetSharedRef()
    {
        return std::shared_ptr<Postoffice>(Get(), [](Postoffice *) {});
    }

    void Start(int customer_id, const char * /*argv0*/, bool do_barrier)
    {
        std::unique_lock<std::mutex> hold(lock_);
        changed_.wait(hold, [this] { return stage_ == STOPPED || stage_ == RUNNING; });
        if (stage_ == STOPPED)
            open_node(hold, do_barrier);
        started_.insert(customer_id);
        tug_node *n = node_;
        hold.unlock();
        if (do_barrier) {
            check_rc(tug_node_wait(n));
            tell_connected();
        }
    }

    void Start(const char *argv0, bool do_barrier)
    {
        Start(0, argv0, do_barrier);
    }

    // The node ends at the Finalize of the started customer with the lowest id, usually
    // 0. If do_barrier is true, that call waits until all nodes have called Finalize, and
    // the calls of other customers wait for it.
    void Finalize(int customer_id, bool do_barrier = true)
    {
        std::unique_lock<std::mutex> hold(lock_);
        if (stage_ != RUNNING)
            return;
        arrived_.insert(customer_id);
        changed_.notify_all();
        int last = started_.empty() || started_.count(0) > 0 ? 0 : *started_.begin();
        if (customer_id == last)
            close_node(hold, do_barrier);
        else if (do_barrier)
            wait_for_end(hold, last);
    }

    void Finalize(bool do_barrier = true)
    {
        Finalize(0, do_barrier);
    }

    void AddCustomer(Customer *c)
    {
        CHECK_NOTNULL(c);
        std::lock_guard<std::mutex> hold(lock_);
        auto added = customers_[c->app_id()].insert(std::make_pair(c->customer_id(), c));
        CHECK(added.second) << "customer_id " << c->customer_id() << " already exists";
        if (stage_ == RUNNING && c->wanted_)
            open_customer(c);
        changed_.notify_all();
    }
    // Closes a customer; it then gets no more messages. Must not be called in
    // a handler or callback.
    void RemoveCustomer(Customer *c)
    {
        CHECK_NOTNULL(c);
        std::unique_lock<std::mutex> hold(lock_);
        auto app = customers_.find(c->app_id());
        if (app != customers_.end() && app->second.count(c->customer_id()) > 0 &&
            app->second[c->customer_id()] == c)
            app->second.erase(c->customer_id());
        // Ending the node closes open customers, so any other thread waits here until the
        // node has ended. An exit callback runs on the thread that ends the node and must
        // not wait.
        if (stage_ == ENDING && ender_ != std::this_thread::get_id())
            changed_.wait(hold, [this] { return stage_ != ENDING; });
        tug_app *a = c->app_.exchange(nullptr);
        if (a == nullptr)
            return;
        closing_++;
        hold.unlock();
        int rc = tug_app_close(a);
        hold.lock();
        closing_--;
        changed_.notify_all();
        check_rc(
            rc); // if a callback deletes its own customer, this fails and ends the process
    }
    // Returns the customer with these ids; waits at most `timeout` seconds until it is
    // made. Returns nullptr if it does not exist by then.
    Customer *GetCustomer(int app_id, int customer_id, int timeout = 0)
    {
        Customer *found = nullptr;
        std::unique_lock<std::mutex> hold(lock_);
        changed_.wait_for(hold, std::chrono::seconds(timeout), [&] {
            const auto app = customers_.find(app_id);
            if (app != customers_.end() && app->second.count(customer_id) > 0)
                found = app->second.find(customer_id)->second;
            return found != nullptr;
        });
        return found;
    }

    // Throws the library's last error if rc is not 0. On a thread other than the one that
    // started the node, it also writes the error to standard error, because thread pools
    // often drop exceptions.
    static void check_of_thread(int rc)
    {
        const Postoffice *p = Get();
        if (rc != TUG_OK && p->starter_ != std::this_thread::get_id())
            LOG(ERROR) << tug_last_error();
        check_rc(rc);
    }

    tug_node *node() const
    {
        return node_;
    }
    tug_node *running() const
    {
        if (node_ == nullptr)
            throw Error("the system is not started: call ps::Start first");
        return node_;
    }
    // Returns the node after all nodes have joined; waits for them after StartAsync.
    tug_node *complete()
    {
        tug_node *n = running();
        if (tug_node_id(n) == 0 || !ranges_known(n))
            check_rc(tug_node_wait(n));
        tell_connected();
        return n;
    }
    Van *van()
    {
        return &van_;
    }

    // These functions return the numbers of workers and servers; 0 while the node is not
    // started.
    int num_workers() const
    {
        return node_ != nullptr ? static_cast<int>(tug_node_workers(node_)) : 0;
    }
    int num_servers() const
    {
        return node_ != nullptr ? static_cast<int>(tug_node_servers(node_)) : 0;
    }
    int my_rank()
    {
        tug_node *n = running();
        if (tug_node_id(n) == 0)
            check_rc(tug_node_wait(n));
        return static_cast<int>(tug_node_rank(n));
    }
    int is_worker() const
    {
        return role() == TUG_GROUP_WORKERS;
    }
    int is_server() const
    {
        return role() == TUG_GROUP_SERVERS;
    }
    int is_scheduler() const
    {
        return role() == TUG_GROUP_SCHEDULER;
    }
    // Returns PS_VERBOSE as it was at Start: 1 logs the node's connections, 2 also its
    // messages.
    int verbose() const
    {
        const int level = verbose_.load(std::memory_order_relaxed);
        return level >= 0 ? level : GetEnv("PS_VERBOSE", 0);
    }
    Heap &heap()
    {
        return heap_;
    }
    // Returns whether this node replaces one that died.
    bool is_recovery()
    {
        return van_.my_node().is_recovery;
    }
    static int WorkerRankToID(int rank)
    {
        return rank * 2 + 9;
    }
    static int ServerRankToID(int rank)
    {
        return rank * 2 + 8;
    }
    static int IDtoRank(int id)
    {
        return std::max((id - 8) / 2, 0);
    }

    // Waits until the customers with this id in all processes of the group have called
    // Barrier.
    void Barrier(int customer_id, int node_group)
    {
        (void)running();
        if (GetNodeIDs(node_group).size() > 1)
            check_rc(tug_node_barrier_of(running(), static_cast<uint32_t>(customer_id),
                                         static_cast<uint32_t>(node_group)));
    }
    void Barrier(int node_group)
    {
        Barrier(0, node_group);
    }
    // The borders of the ranges are at multiples of a 256th of all keys; in ps-lite they
    // are at multiples of kMaxKey / n.
    const std::vector<Range> &GetServerKeyRanges()
    {
        tug_node *n = complete();
        std::lock_guard<std::mutex> hold(lock_);
        if (ranges_.empty()) {
            for (uint32_t s = 0; s < tug_node_servers(n); ++s) {
                uint64_t first, last;
                check_rc(tug_node_range(n, s, &first, &last));
                ranges_.push_back(Range(first, last == kMaxKey ? last : last + 1));
            }
        }
        return ranges_;
    }
    // Returns the ids of the nodes of a group, dead ones included: as many as the cluster
    // was started for.
    const std::vector<int> &GetNodeIDs(int group_or_id)
    {
        (void)running();
        std::lock_guard<std::mutex> hold(lock_);
        const auto at = ids_.find(group_or_id);
        CHECK(at != ids_.end()) << "node " << group_or_id << " doesn't exist";
        return at->second;
    }
    std::vector<int> GetDeadNodes(int seconds = 60)
    {
        if (seconds == 0 || node_ == nullptr)
            return std::vector<int>();
        std::vector<uint32_t> ids(tug_node_dead(node_, nullptr, 0));
        size_t n = tug_node_dead(node_, ids.data(), ids.size());
        ids.resize(std::min(n, ids.size()));
        return std::vector<int>(ids.begin(), ids.end());
    }
    // Registers a function that runs when the node ends. The functions run in the order
    // of registration.
    void RegisterExitCallback(const Callback &f)
    {
        std::lock_guard<std::mutex> hold(lock_);
        exits_.push_back(f);
    }

    // Only a transport that a program adds would call these functions; a call to them
    // does not compile.
    template <typename M> void Manage(const M &)
    {
        static_assert(only_the_library<M>::may, TUG_NO_TRANSPORT);
    }
    template <typename Id> void UpdateHeartbeat(Id, time_t)
    {
        static_assert(only_the_library<Id>::may, TUG_NO_TRANSPORT);
    }

  private:
    friend class Customer;
    friend class Van;
    enum Stage { STOPPED, STARTING, RUNNING, ENDING };

    Postoffice() : environment_(Environment::_GetSharedRef())
    {
    }

    int role() const
    {
        if (role_ != 0)
            return role_;
        const std::string name = GetEnv("DMLC_ROLE", std::string());
        return name == "worker"      ? TUG_GROUP_WORKERS
               : name == "server"    ? TUG_GROUP_SERVERS
               : name == "scheduler" ? TUG_GROUP_SCHEDULER
                                     : 0;
    }
    void tell_connected()
    {
        if (verbose() < 1 || told_.exchange(true))
            return;
        const Node me = van_.my_node();
        LOG(INFO) << "Bind to " << me.DebugString();
        if (me.role == Node::SCHEDULER)
            LOG(INFO) << "the scheduler is connected to " << num_workers()
                      << " workers and " << num_servers() << " servers";
        else
            LOG(INFO) << me.ShortDebugString() << " is connected to others";
    }
    static bool ranges_known(tug_node *n)
    {
        uint64_t first, last;
        return tug_node_range(n, 0, &first, &last) == TUG_OK;
    }

    void open_node(std::unique_lock<std::mutex> &hold, bool wait)
    {
        stage_ = STARTING;
        starter_ = std::this_thread::get_id();
        hold.unlock();
        Heap::keep_arrays();
        if (is_server())
            heap_.ask_for_huge_pages();
        export_settings();
        tell_of_environment();
        verbose_ = GetEnv("PS_VERBOSE", 0);
        tug_node_options o = tug_node_options();
        tug_node *n = nullptr;
        // If `async` is false and the cluster has all its workers, tug_node_start waits a
        // while for the place of a dead worker (tug/kvapp.h).
        o.async = !wait;
        int rc = tug_node_start(&n, &o);
        if (rc == TUG_OK)
            rc = tug_node_at_exit(n, run_exits, this);
        hold.lock();
        stage_ = rc == TUG_OK ? RUNNING : STOPPED;
        changed_.notify_all();
        check_rc(rc);
        node_ = n;
        role_ = tug_node_role(n);
        name_ids(n);
        for (auto &app : customers_)
            for (auto &c : app.second)
                if (c.second->wanted_)
                    open_customer(c.second);
    }
    void name_ids(tug_node *n)
    {
        ids_.clear();
        for (int w = 0; w < static_cast<int>(tug_node_workers(n)); ++w)
            name_id(WorkerRankToID(w), kWorkerGroup);
        for (int s = 0; s < static_cast<int>(tug_node_servers(n)); ++s)
            name_id(ServerRankToID(s), kServerGroup);
        name_id(kScheduler, kScheduler);
    }
    void name_id(int id, int role)
    {
        if (id != role)
            ids_[id].push_back(id);
        for (int group = 1; group <= TUG_GROUP_ALL; ++group)
            if (group & role)
                ids_[group].push_back(id);
    }
    void open_customer(Customer *c)
    {
        tug_app *a;
        if (c->app_.load() != nullptr)
            return;
        check_rc(tug_app_open(&a, node_, static_cast<uint32_t>(c->app_id()),
                              static_cast<uint32_t>(c->customer_id()), &c->handlers_));
        c->app_ = a;
    }

    static std::chrono::milliseconds longest_wait()
    {
        const char *text = std::getenv("TUG_WAIT_SECONDS");
        double seconds = text != nullptr ? std::strtod(text, nullptr) : 0;
        return std::chrono::milliseconds(
            static_cast<int64_t>((seconds > 0 ? seconds : 600) * 1000));
    }
    bool all_arrived(int but) const
    {
        for (int c : started_)
            if (c != but && arrived_.count(c) == 0)
                return false;
        return true;
    }
    void wait_for_end(std::unique_lock<std::mutex> &hold, int last)
    {
        const uint64_t now = generation_;
        if (!changed_.wait_for(hold, longest_wait(), [&] { return generation_ != now; }))
            throw Error("Finalize(" + std::to_string(last) +
                        ") of this process has not ended within TUG_WAIT_SECONDS");
    }
    void close_node(std::unique_lock<std::mutex> &hold, bool do_barrier)
    {
        int me = *arrived_.begin();
        me = started_.count(0) > 0 ? 0 : me;
        if (do_barrier &&
            !changed_.wait_for(hold, longest_wait(), [&] { return all_arrived(me); }))
            throw Error("a customer of this process was started, but has not called "
                        "Finalize within TUG_WAIT_SECONDS");
        stage_ = ENDING;
        ender_ = std::this_thread::get_id();
        changed_.wait(hold, [this] { return closing_ == 0; });
        tug_node *n = node_;
        hold.unlock();
        const uint32_t id = tug_node_id(n);
        int rc = tug_node_finalize(n, do_barrier);
        PS_VLOG(1) << "node " << id << " is stopped";
        hold.lock();
        told_ = false;
        node_ = nullptr;
        for (auto &app : customers_)
            for (auto &c : app.second)
                c.second->app_ = nullptr;
        started_.clear();
        arrived_.clear();
        ranges_.clear();
        exits_.clear();
        van_.forget();
        generation_++;
        stage_ = STOPPED;
        changed_.notify_all();
        hold.unlock();
        check_rc(rc);
    }
    static void run_exits(void *ctx) noexcept
    {
        auto *p = static_cast<Postoffice *>(ctx);
        std::unique_lock<std::mutex> hold(p->lock_);
        std::vector<Callback> exits = p->exits_;
        hold.unlock();
        for (const auto &f : exits)
            f();
    }

    std::shared_ptr<Environment> environment_; // held so that it outlives the postoffice
    std::mutex lock_;
    std::condition_variable changed_;
    Stage stage_ = STOPPED;
    std::atomic<std::thread::id> starter_{std::thread::id()};
    std::thread::id ender_;
    uint64_t generation_ = 0;
    int closing_ = 0;
    std::atomic<tug_node *> node_{nullptr};
    std::atomic<int> role_{0};
    std::atomic<int> verbose_{-1}; // PS_VERBOSE at Start; -1: not read yet
    Heap heap_;
    std::atomic<bool> told_{false}; // whether the connections were logged
    std::set<int> started_, arrived_;
    std::map<int, std::map<int, Customer *>> customers_; // by app id and customer id
    // The ids of each group's nodes, and each node's own id.
    std::map<int, std::vector<int>> ids_;
    std::vector<Range> ranges_;
    std::vector<Callback> exits_;
    Van van_; // the last member: its customer uses the other members in its destructor
};

// ---------------------------------------------------------------- customers

inline Customer::Customer(int app_id, int customer_id, const RecvHandle &handle)
    : app_id_(app_id), customer_id_(customer_id), handle_(handle),
      handlers_(tug_app_handlers()), wanted_(true)
{
    handlers_.message = [](void *ctx, tug_app *app, const tug_message *m) noexcept {
        auto *c = static_cast<Customer *>(ctx);
        if (m->request)
            run_handler(app, m->ticket, [&] { c->handle_(message_of_tug(*m)); });
        else
            c->handle_(message_of_tug(*m));
    };
    handlers_.ctx = this;
    Postoffice::Get()->AddCustomer(this);
}

inline Customer::Customer(int app_id, int customer_id, const RecvHandle &handle,
                          const tug_app_handlers &handlers, bool open)
    : app_id_(app_id), customer_id_(customer_id), handle_(handle), handlers_(handlers),
      wanted_(open)
{
    Postoffice::Get()->AddCustomer(this);
}

inline Customer::~Customer()
{
    Postoffice::Get()->RemoveCustomer(this);
}

inline void Customer::WaitRequest(int timestamp)
{
    Postoffice::check_of_thread(tug_app_wait(app(), static_cast<uint32_t>(timestamp)));
}

inline void Customer::Open()
{
    Postoffice *p = Postoffice::Get();
    std::lock_guard<std::mutex> hold(p->lock_);
    wanted_ = true;
    if (p->stage_ == Postoffice::RUNNING)
        p->open_customer(this);
}

inline tug_app *Customer::app()
{
    if (app_.load() == nullptr) {
        (void)Postoffice::Get()->running();
        Open();
    }
    return app_.load();
}

inline void Customer::Accept(const Message &received)
{
    struct Call {
        Customer *customer;
        Message message;
    };
    auto *call = new Call{this, received};
    int rc = tug_node_call(
        Postoffice::Get()->running(),
        [](void *ctx) noexcept {
            std::unique_ptr<Call> c(static_cast<Call *>(ctx));
            c->customer->handle_(c->message);
            if (!c->message.meta.request)
                c->customer->AddResponse(c->message.meta.timestamp);
        },
        call);
    if (rc != TUG_OK)
        delete call;
    check_rc(rc);
}

} // namespace ps

#include "ps/internal/van_calls.h"

#endif
