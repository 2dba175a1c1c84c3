// KVWorker and KVServer: pushes and pulls of keys with values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_KV_APP_H
#define TUG_COMPAT_PS_KV_APP_H

#include <algorithm>
#include <exception>
#include <new>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/base.h"
#include "ps/simple_app.h"

namespace ps
{

// Keys and their values. Keys ascend strictly. Key i has lens[i] values, or, if lens is
// empty, vals.size() / keys.size().
template <typename Val> struct KVPairs {
    SArray<Key> keys;
    SArray<Val> vals;
    SArray<int> lens;
    int priority = 0;
};

struct KVMeta {
    int cmd;
    bool push;
    bool pull;
    int sender;
    int timestamp;
    int customer_id;
    uint64_t ticket =
        0; // names the request for Response; 0: the program made this struct
};

// Returns value_bytes of tug_kv_data for the type Val: 0 for floats, else the size. The
// library checks only that floats are finite.
template <typename Val> inline uint32_t value_bytes()
{
    static_assert(sizeof(Val) == 1 || sizeof(Val) == 2 || sizeof(Val) == 4 ||
                      sizeof(Val) == 8,
                  "values have 1, 2, 4 or 8 bytes");
    return SameType<Val, float>() ? 0 : static_cast<uint32_t>(sizeof(Val));
}

// Describes kvs for the C library. The description points into the arrays of kvs.
template <typename Val> inline tug_kv_data pairs_to_tug(const KVPairs<Val> &kvs)
{
    tug_kv_data d = tug_kv_data();
    d.keys = kvs.keys.data();
    d.n_keys = kvs.keys.size();
    d.values = reinterpret_cast<const float *>(kvs.vals.data());
    d.n_values = kvs.vals.size();
    d.lengths = kvs.lens.empty() ? nullptr : kvs.lens.data();
    d.value_bytes = value_bytes<Val>();
    return d;
}

template <typename Val> class KVWorker : public SimpleApp
{
  public:
    // Called when a request has succeeded, before Wait returns. Not called when it
    // failed.
    using Callback = std::function<void()>;
    using SlicedKVs = std::vector<std::pair<bool, KVPairs<Val>>>;
    using Slicer = std::function<void(const KVPairs<Val> &, const std::vector<Range> &,
                                      SlicedKVs *)>;

    explicit KVWorker(int app_id, int customer_id = 0)
    {
        make_customer(app_id, customer_id, nullptr, true);
    }

    int Push(const std::vector<Key> &keys, const std::vector<Val> &vals,
             const std::vector<int> &lens = {}, int cmd = 0, const Callback &cb = nullptr,
             int priority = 0)
    {
        return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb,
                     priority);
    }
    // ZPush, ZPull and ZPushPull do not copy the arrays, which must stay unchanged until
    // the request is done.
    int ZPush(const SArray<Key> &keys, const SArray<Val> &vals,
              const SArray<int> &lens = {}, int cmd = 0, const Callback &cb = nullptr,
              int priority = 0)
    {
        auto *p = new Pending<SArray<Val>, SArray<int>>(this, keys, vals, lens, cb);
        return p->send(true, false, cmd, priority);
    }
    int Pull(const std::vector<Key> &keys, std::vector<Val> *vals,
             std::vector<int> *lens = nullptr, int cmd = 0, const Callback &cb = nullptr,
             int priority = 0)
    {
        CHECK_NOTNULL(vals);
        auto *p = new Pending<std::vector<Val>, std::vector<int>>(
            this, SArray<Key>(keys), SArray<Val>(), SArray<int>(), cb);
        return p->into(vals, lens).send(false, true, cmd, priority);
    }
    int ZPull(const SArray<Key> &keys, SArray<Val> *vals, SArray<int> *lens = nullptr,
              int cmd = 0, const Callback &cb = nullptr, int priority = 0)
    {
        CHECK_NOTNULL(vals);
        auto *p = new Pending<SArray<Val>, SArray<int>>(this, keys, SArray<Val>(),
                                                        SArray<int>(), cb);
        return p->into(vals, lens).send(false, true, cmd, priority);
    }
    int PushPull(const std::vector<Key> &keys, const std::vector<Val> &vals,
                 std::vector<Val> *outs, std::vector<int> *lens = nullptr, int cmd = 0,
                 const Callback &cb = nullptr, int priority = 0)
    {
        CHECK_NOTNULL(outs);
        SArray<int> own_lens;
        if (lens != nullptr && !lens->empty())
            own_lens = SArray<int>(*lens);
        auto *p = new Pending<std::vector<Val>, std::vector<int>>(
            this, SArray<Key>(keys), SArray<Val>(vals), own_lens, cb);
        return p->into(outs, lens).send(true, true, cmd, priority);
    }
    int ZPushPull(const SArray<Key> &keys, const SArray<Val> &vals, SArray<Val> *outs,
                  SArray<int> *lens = nullptr, int cmd = 0, const Callback &cb = nullptr,
                  int priority = 0)
    {
        CHECK_NOTNULL(outs);
        auto *p = new Pending<SArray<Val>, SArray<int>>(
            this, keys, vals, lens != nullptr ? *lens : SArray<int>(), cb);
        return p->into(outs, lens).send(true, true, cmd, priority);
    }
    // Sets a function that divides requests among the servers, instead of the servers'
    // ranges. In a pull each server's part must be a run of the keys; in a push it may
    // have any keys.
    void set_slicer(const Slicer &slicer)
    {
        CHECK(slicer) << "invalid slicer";
        slicer_ = slicer;
    }

  protected:
    // If a program's class overrides Process, it gets one message for each of its
    // requests that is done, with the answers of all servers together (ps-lite passes a
    // message for each server's answer). The pulled values are in their arrays
    // before the call.
    void Process(const Message &m) override
    {
        if (m.meta.simple_app)
            SimpleApp::Process(m);
    }

  private:
    // Owns the arrays, the callback and the slices of a request until it is done.
    template <typename Vals, typename Lens> struct Pending {
        Pending(KVWorker *w, const SArray<Key> &k, const SArray<Val> &v,
                const SArray<int> &l, const Callback &c)
            : worker(w), callback(c)
        {
            all.keys = k;
            all.vals = v;
            all.lens = l;
        }
        Pending &into(Vals *v, Lens *l)
        {
            pulled = v;
            pulled_lens = l;
            return *this;
        }
        int send(bool pushes, bool pull, int command, int priority)
        {
            std::unique_ptr<Pending> hold(this);
            push = pushes;
            cmd = command;
            tug_kv_request q = tug_kv_request();
            uint32_t timestamp;
            tug_app *app = worker->obj_->app();
            all.priority = priority;
            q.push = push;
            q.pull = pull;
            q.cmd = cmd;
            q.priority = priority;
            if (push && !all.lens.empty() && all.lens.size() != all.keys.size())
                throw Error("there are " + std::to_string(all.lens.size()) +
                            " lengths for " + std::to_string(all.keys.size()) + " keys");
            q.data = pairs_to_tug(all);
            if (pull && !pulled->empty()) {
                q.pulled = reinterpret_cast<float *>(pulled->data());
                q.n_pulled = pulled->size();
            }
            if (pull && pulled_lens != nullptr) {
                pulled_lens->resize(all.keys.size());
                q.pulled_lengths = pulled_lens->data();
            }
            q.slice = worker->slicer_ ? slice : nullptr;
            q.room = room;
            q.done = done;
            q.ctx = this;
            std::unique_ptr<Message> told;
            if (Postoffice::Get()->verbose() >= 2)
                told.reset(new Message(request()));
            int rc = tug_kv_send(app, &q, &timestamp);
            if (rc == TUG_OK)
                (void)hold.release(); // done() deletes the Pending
            if (rc != TUG_OK && thrown)
                std::rethrow_exception(thrown);
            Postoffice::check_of_thread(rc);
            if (told)
                tell_request(*told, timestamp);
            return static_cast<int>(timestamp);
        }
        static int slice(void *ctx, const tug_kv_data *, uint32_t servers,
                         const uint64_t *, tug_kv_data *ret) noexcept
        {
            auto *p = static_cast<Pending *>(ctx);
            try {
                p->worker->slicer_(p->all, Postoffice::Get()->GetServerKeyRanges(),
                                   &p->sliced);
                CHECK_EQ(p->sliced.size(), servers);
                for (uint32_t s = 0; s < servers; ++s)
                    if (p->sliced[s].first)
                        ret[s] = pairs_to_tug(p->sliced[s].second);
                return 0;
            } catch (...) {
                p->thrown = std::current_exception();
                return -1;
            }
        }
        static float *room(void *ctx, size_t n) noexcept
        {
            auto *p = static_cast<Pending *>(ctx);
            try {
                p->pulled->resize(n);
            } catch (...) { // memory is short; the request fails
                return nullptr;
            }
            return reinterpret_cast<float *>(p->pulled->data());
        }
        // Returns a message that describes the request, for the log line of PS_VERBOSE=2.
        // The message is a copy, because the request may end before the line is written.
        Message request() const
        {
            Message m = answer(0);
            m.meta.request = true;
            m.meta.recver = kServerGroup;
            m.meta.data_type.clear();
            m.data.clear();
            m.AddData(all.keys);
            m.AddData(all.vals);
            return m;
        }
        static void tell_request(Message m, uint32_t timestamp)
        {
            m.meta.timestamp = static_cast<int>(timestamp);
            tell_message(m, true);
        }
        static void tell_answer(Message m)
        {
            m.meta.sender = kServerGroup;
            tell_message(m, false);
        }
        // Returns a message with the answer to a request that is done, for classes that
        // override Process.
        Message answer(uint32_t timestamp) const
        {
            Message m;
            m.meta.app_id = worker->obj_->app_id();
            m.meta.customer_id = worker->obj_->customer_id();
            m.meta.timestamp = static_cast<int>(timestamp);
            m.meta.head = cmd;
            m.meta.push = push;
            m.meta.pull = pulled != nullptr;
            if (pulled != nullptr) {
                m.AddData(all.keys);
                m.AddData(SArray<Val>(pulled->data(), pulled->size()));
            }
            return m;
        }
        static void done(void *ctx, uint32_t timestamp, int rc) noexcept
        {
            std::unique_ptr<Pending> p(static_cast<Pending *>(ctx));
            const KVWorker &w = *p->worker;
            if (rc == TUG_OK && Postoffice::Get()->verbose() >= 2)
                tell_answer(p->answer(timestamp));
            if (rc == TUG_OK && typeid(w) != typeid(KVWorker))
                p->worker->Process(p->answer(timestamp));
            if (p->callback && rc == TUG_OK)
                p->callback();
            else if (p->callback) // Wait throws this error
                LOG(ERROR) << "request " << timestamp << " failed: " << tug_last_error();
        }
        KVWorker *worker;
        bool push = false;
        int cmd = 0;
        KVPairs<Val> all;
        SlicedKVs sliced;
        std::exception_ptr thrown;
        Callback callback;
        Vals *pulled = nullptr;
        Lens *pulled_lens = nullptr;
    };

    Slicer slicer_;
};

template <typename Val> class KVServer : public SimpleApp
{
  public:
    using ReqHandle =
        std::function<void(const KVMeta &, const KVPairs<Val> &, KVServer *)>;

    // A request that arrives before the program has called set_request_handle waits for
    // that call, at most ten seconds.
    explicit KVServer(int app_id)
    {
        make_customer(app_id, app_id, handle, false);
    }
    using SimpleApp::set_request_handle;
    // The handle must call Response once for each request, at once or later, from any
    // thread. If the handle throws, the request is refused, and the worker's Wait throws
    // an error with the exception's text.
    void set_request_handle(const ReqHandle &h)
    {
        CHECK(h) << "invalid request handle";
        handle_ = h;
        // Asks for huge pages for tables that the handle may hold.
        Postoffice::Get()->heap().look();
        obj_->Open();
    }
    void Response(const KVMeta &request, const KVPairs<Val> &answer = KVPairs<Val>())
    {
        const tug_kv_data d = pairs_to_tug(answer);
        if (request.ticket != 0)
            tell_response(request, answer);
        if (request.ticket == 0)
            answer_by_hand(request, answer);
        else if (d.n_values * sizeof(Val) < kShared)
            answered(tug_kv_answer(obj_->app(), request.ticket, &d, nullptr, nullptr));
        else
            answered(tug_kv_answer(
                obj_->app(), request.ticket, &d,
                [](void *ctx) { delete static_cast<SArray<Val> *>(ctx); },
                new SArray<Val>(answer.vals)));
    }
    using SimpleApp::Response;
    // With PS_VERBOSE=2, writes the log line of an answer that the library sends by
    // itself.
    void tell_response(const KVMeta &request, const KVPairs<Val> &answer)
    {
        if (Postoffice::Get()->verbose() >= 2)
            tell_message(answer_to(request, answer), true);
    }
    tug_app *app() const
    {
        return obj_->app();
    }

  protected:
    // If a program's class overrides Process, the override gets all requests and may pass
    // them to this function.
    void Process(const Message &m) override
    {
        if (m.meta.simple_app) {
            SimpleApp::Process(m);
            return;
        }
        KVMeta meta;
        meta.ticket = this->ticket_;
        KVPairs<Val> pairs;
        meta.cmd = m.meta.head;
        meta.push = m.meta.push;
        meta.pull = m.meta.pull;
        meta.sender = m.meta.sender;
        meta.timestamp = m.meta.timestamp;
        meta.customer_id = m.meta.customer_id;
        if (!m.data.empty()) {
            CHECK_GE(m.data.size(), 2u);
            pairs.keys = m.data[0];
            pairs.vals = m.data[1];
        }
        if (m.data.size() > 2)
            pairs.lens = m.data[2];
        CHECK(handle_) << "the server has no request handle";
        handle_(meta, pairs, this);
    }

  private:
    // Answers with fewer bytes are copied, which is faster than sharing them.
    enum { kShared = 4096 };

    static void handle(void *ctx, tug_app *app, const tug_kv_meta *m,
                       const tug_kv_data *d) noexcept
    {
        auto *s = static_cast<KVServer *>(ctx);
        run_handler(app, m->ticket, [&] { s->call_handle(app, m, d); });
        Postoffice::Get()->heap().look();
    }
    void call_handle(tug_app *app, const tug_kv_meta *m, const tug_kv_data *d)
    {
        if (d->value_bytes != value_bytes<Val>())
            throw Error("the request's values do not have the server's type");
        KVMeta meta;
        meta.cmd = m->cmd;
        meta.push = m->push;
        meta.pull = m->pull;
        meta.sender = static_cast<int>(m->sender);
        meta.timestamp = static_cast<int>(m->timestamp);
        meta.customer_id = static_cast<int>(m->customer);
        meta.ticket = m->ticket;
        // Handlers may hold the arrays after they return, so the arrays share the
        // message's memory.
        std::shared_ptr<void> hold(tug_app_keep(app, m->ticket), tug_app_release);
        if (hold == nullptr)
            throw std::bad_alloc();
        KVPairs<Val> pairs;
        pairs.keys.share(std::shared_ptr<Key>(hold, const_cast<Key *>(d->keys)),
                         d->n_keys);
        pairs.vals.share(std::shared_ptr<Val>(hold, reinterpret_cast<Val *>(
                                                        const_cast<float *>(d->values))),
                         d->n_values);
        if (d->lengths != nullptr)
            pairs.lens.share(std::shared_ptr<int>(hold, const_cast<int *>(d->lengths)),
                             d->n_keys);
        if (Postoffice::Get()->verbose() >= 2)
            tell_message(message_of(meta, pairs), false);
        const KVServer &own = *this;
        if (typeid(own) == typeid(KVServer))
            handle_(
                meta, pairs,
                // Without a Message, because only classes that override Process need one.
                this);
        else
            process(message_of(meta, pairs), meta.ticket);
    }
    Message message_of(const KVMeta &meta, const KVPairs<Val> &pairs) const
    {
        Message m;
        m.meta.app_id = obj_->app_id();
        m.meta.customer_id = meta.customer_id;
        m.meta.timestamp = meta.timestamp;
        m.meta.sender = meta.sender;
        m.meta.head = meta.cmd;
        m.meta.push = meta.push;
        m.meta.pull = meta.pull;
        m.meta.request = true;
        m.AddData(pairs.keys);
        m.AddData(pairs.vals);
        if (!pairs.lens.empty())
            m.AddData(pairs.lens);
        return m;
    }
    Message answer_to(const KVMeta &request, const KVPairs<Val> &answer) const
    {
        Message m;
        m.meta.head = request.cmd;
        m.meta.push = request.push;
        m.meta.pull = request.pull;
        m.meta.app_id = obj_->app_id();
        m.meta.customer_id = request.customer_id;
        m.meta.timestamp = request.timestamp;
        m.meta.recver = request.sender;
        if (request.pull) {
            m.AddData(answer.keys);
            m.AddData(answer.vals);
            if (!answer.lens.empty())
                m.AddData(answer.lens);
        }
        return m;
    }
    void answer_by_hand(const KVMeta &request, const KVPairs<Val> &answer)
    {
        (void)Postoffice::Get()->van()->Send(answer_to(request, answer));
    }

    ReqHandle handle_;
};

// Returns the library's description of the request that a handle was given.
inline tug_kv_meta meta_to_tug(const KVMeta &m)
{
    tug_kv_meta meta = tug_kv_meta();
    meta.cmd = m.cmd;
    meta.push = m.push;
    meta.pull = m.pull;
    meta.sender = static_cast<uint32_t>(m.sender);
    meta.timestamp = static_cast<uint32_t>(m.timestamp);
    meta.customer = static_cast<uint32_t>(m.customer_id);
    meta.ticket = m.ticket;
    return meta;
}

// Adds pushed values to a store, one value per key; pulls of keys that were never pushed
// get zeros. For floats the store is the library's tug_kv_default.
template <typename Val> struct KVServerDefaultHandle {
    void operator()(const KVMeta &m, const KVPairs<Val> &d, KVServer<Val> *server)
    {
        KVPairs<Val> answer;
        const tug_kv_meta meta = meta_to_tug(m);
        const tug_kv_data data = pairs_to_tug(d);
        check_rc(tug_kv_check_values(&meta, &data, 1));
        for (size_t i = 0; m.push && i < d.keys.size(); ++i)
            store[d.keys[i]] += d.vals[i];
        if (m.pull) {
            answer.keys = d.keys;
            answer.vals.reserve(d.keys.size());
        }
        for (size_t i = 0; m.pull && i < d.keys.size(); ++i) {
            const auto at = store.find(d.keys[i]);
            answer.vals.push_back(at != store.end() ? at->second : Val());
        }
        server->Response(m, answer);
    }
    std::unordered_map<Key, Val> store;
};

template <> struct KVServerDefaultHandle<float> {
    struct Store {
        Store() : p(make(), tug_kv_default_close)
        {
        }
        size_t size() const
        {
            return tug_kv_default_keys(p.get());
        }
        // Returns the first value of a key, or 0 if the key was never pushed. It is a
        // copy: a program cannot change the store by assigning to it.
        float operator[](Key key) const
        {
            size_t n = 0;
            const float *values = tug_kv_default_find(p.get(), key, &n);
            return values != nullptr && n > 0 ? values[0] : 0;
        }
        size_t count(Key key) const
        {
            size_t n = 0;
            return tug_kv_default_find(p.get(), key, &n) != nullptr;
        }
        static tug_kv_default *make()
        {
            tug_kv_default *s;
            check_rc(tug_kv_default_open(&s));
            return s;
        }
        std::shared_ptr<tug_kv_default> p;
    };

    void operator()(const KVMeta &m, const KVPairs<float> &d, KVServer<float> *server)
    {
        const tug_kv_meta meta = meta_to_tug(m);
        const tug_kv_data data = pairs_to_tug(d);
        server->tell_response(m, KVPairs<float>());
        tug_kv_default_handle(store.p.get(), server->app(), &meta, &data);
    }
    Store store;
};

} // namespace ps

#endif
