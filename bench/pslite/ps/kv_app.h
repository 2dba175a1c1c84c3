// KVWorker and KVServer: pushes and pulls of keys with values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_KV_APP_H
#define TUG_BENCH_PSLITE_PS_KV_APP_H

#include "ps/sarray.h"
#include "ps/simple_app.h"

namespace ps
{

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
    uint64_t ticket;
};

template <typename Val> class KVWorker : public SimpleApp
{
    static_assert(sizeof(Val) == sizeof(float), "values have four bytes");

  public:
    using Callback = std::function<void()>;

    KVWorker(int app_id, int customer_id)
    {
        open(app_id, customer_id, nullptr);
    }

    int Push(const std::vector<Key> &keys, const std::vector<Val> &vals,
             const std::vector<int> &lens = {}, int cmd = 0, const Callback &cb = nullptr,
             int priority = 0)
    {
        return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, cb,
                     priority);
    }
    int ZPush(const SArray<Key> &keys, const SArray<Val> &vals,
              const SArray<int> &lens = {}, int cmd = 0, const Callback &cb = nullptr,
              int priority = 0)
    {
        auto *p = new Pending<SArray<Val>, SArray<int>>(keys, vals, lens, cb);
        return p->send(app_, true, false, cmd, priority);
    }
    int Pull(const std::vector<Key> &keys, std::vector<Val> *vals,
             std::vector<int> *lens = nullptr, int cmd = 0, const Callback &cb = nullptr,
             int priority = 0)
    {
        auto *p = new Pending<std::vector<Val>, std::vector<int>>(
            SArray<Key>(keys), SArray<Val>(), SArray<int>(), cb);
        return p->into(vals, lens).send(app_, false, true, cmd, priority);
    }
    int ZPull(const SArray<Key> &keys, SArray<Val> *vals, SArray<int> *lens = nullptr,
              int cmd = 0, const Callback &cb = nullptr, int priority = 0)
    {
        auto *p = new Pending<SArray<Val>, SArray<int>>(keys, SArray<Val>(),
                                                        SArray<int>(), cb);
        return p->into(vals, lens).send(app_, false, true, cmd, priority);
    }
    int PushPull(const std::vector<Key> &keys, const std::vector<Val> &vals,
                 std::vector<Val> *outs, std::vector<int> *lens = nullptr, int cmd = 0,
                 const Callback &cb = nullptr, int priority = 0)
    {
        SArray<int> own_lens;
        if (lens != nullptr && !lens->empty())
            own_lens = SArray<int>(*lens);
        auto *p = new Pending<std::vector<Val>, std::vector<int>>(
            SArray<Key>(keys), SArray<Val>(vals), own_lens, cb);
        return p->into(outs, lens).send(app_, true, true, cmd, priority);
    }
    int ZPushPull(const SArray<Key> &keys, const SArray<Val> &vals, SArray<Val> *outs,
                  SArray<int> *lens = nullptr, int cmd = 0, const Callback &cb = nullptr,
                  int priority = 0)
    {
        auto *p = new Pending<SArray<Val>, SArray<int>>(
            keys, vals, lens != nullptr ? *lens : SArray<int>(), cb);
        return p->into(outs, lens).send(app_, true, true, cmd, priority);
    }

  private:
    // Holds what a request needs until it is done.
    template <typename Vals, typename Lens> struct Pending {
        Pending(const SArray<Key> &k, const SArray<Val> &v, const SArray<int> &l,
                const Callback &c)
            : keys(k), vals(v), lens(l), callback(c)
        {
        }
        Pending &into(Vals *v, Lens *l)
        {
            pulled = v;
            pulled_lens = l;
            return *this;
        }
        int send(tug_app *app, bool push, bool pull, int cmd, int priority)
        {
            tug_kv_request q = tug_kv_request();
            uint32_t timestamp;
            q.push = push;
            q.pull = pull;
            q.cmd = cmd;
            q.priority = priority;
            q.data.keys = keys.data();
            q.data.n_keys = keys.size();
            q.data.values = reinterpret_cast<const float *>(vals.data());
            q.data.n_values = vals.size();
            q.data.lengths = lens.empty() ? nullptr : lens.data();
            if (!lens.empty() && lens.size() != keys.size()) {
                delete this;
                throw Error("there are not as many lengths as keys");
            }
            if (pull && !pulled->empty()) {
                q.pulled = reinterpret_cast<float *>(pulled->data());
                q.n_pulled = pulled->size();
            }
            if (pull && pulled_lens != nullptr) {
                pulled_lens->resize(keys.size());
                q.pulled_lengths = pulled_lens->data();
            }
            q.room = room;
            q.done = done;
            q.ctx = this;
            int rc = tug_kv_send(app, &q, &timestamp);
            if (rc != TUG_OK)
                delete this;
            check_rc(rc);
            return static_cast<int>(timestamp);
        }
        static float *room(void *ctx, size_t n)
        {
            auto *p = static_cast<Pending *>(ctx);
            p->pulled->resize(n);
            return reinterpret_cast<float *>(p->pulled->data());
        }
        static void done(void *ctx, uint32_t, int rc)
        {
            auto *p = static_cast<Pending *>(ctx);
            if (p->callback && rc == TUG_OK)
                p->callback();
            delete p;
        }
        SArray<Key> keys;
        SArray<Val> vals;
        SArray<int> lens;
        Callback callback;
        Vals *pulled = nullptr;
        Lens *pulled_lens = nullptr;
    };
};

template <typename Val> class KVServer : public SimpleApp
{
    static_assert(sizeof(Val) == sizeof(float), "values have four bytes");

  public:
    using ReqHandle =
        std::function<void(const KVMeta &, const KVPairs<Val> &, KVServer *)>;

    explicit KVServer(int app_id) : app_id_(app_id)
    {
    }
    using SimpleApp::set_request_handle;
    // From here on requests come; those that were earlier have waited.
    void set_request_handle(const ReqHandle &h)
    {
        bool first = !handle_;
        handle_ = h;
        if (first)
            open(app_id_, app_id_, handle);
    }
    void Response(const KVMeta &request, const KVPairs<Val> &answer = KVPairs<Val>())
    {
        tug_kv_data d = tug_kv_data();
        d.n_keys = answer.keys.size();
        d.values = reinterpret_cast<const float *>(answer.vals.data());
        d.n_values = answer.vals.size();
        d.lengths = answer.lens.empty() ? nullptr : answer.lens.data();
        if (d.n_values * sizeof(Val) < kShared) {
            check_rc(tug_kv_answer(app_, request.ticket, &d, nullptr, nullptr));
            return;
        }
        auto *hold = new SArray<Val>(answer.vals);
        check_rc(tug_kv_answer(
            app_, request.ticket, &d,
            [](void *ctx) { delete static_cast<SArray<Val> *>(ctx); }, hold));
    }
    tug_app *app() const
    {
        return app_;
    }

  private:
    enum { kShared = 4096 }; // bytes: fewer are copied, which is faster

    static void handle(void *ctx, tug_app *app, const tug_kv_meta *m,
                       const tug_kv_data *d)
    {
        auto *s = static_cast<KVServer *>(ctx);
        KVMeta meta = {m->cmd,
                       m->push,
                       m->pull,
                       static_cast<int>(m->sender),
                       static_cast<int>(m->timestamp),
                       static_cast<int>(m->customer),
                       m->ticket};
        // Handlers may keep the arrays: then the message stays.
        std::shared_ptr<void> hold(tug_kv_keep(app, m->ticket), tug_kv_release);
        KVPairs<Val> pairs;
        pairs.keys.share(std::shared_ptr<Key>(hold, const_cast<Key *>(d->keys)),
                         d->n_keys);
        pairs.vals.share(std::shared_ptr<Val>(hold, reinterpret_cast<Val *>(
                                                        const_cast<float *>(d->values))),
                         d->n_values);
        if (d->lengths != nullptr)
            pairs.lens.share(std::shared_ptr<int>(hold, const_cast<int *>(d->lengths)),
                             d->n_keys);
        s->handle_(meta, pairs, s);
    }

    int app_id_;
    ReqHandle handle_;
};

// Adds what is pushed, in tug's table.
template <typename Val> struct KVServerDefaultHandle {
    static_assert(std::is_same<Val, float>::value, "the default store adds floats");

    struct Store {
        Store() : p(make(), tug_kv_store_close)
        {
        }
        size_t size() const
        {
            return tug_kv_store_keys(p.get());
        }
        static tug_kv_store *make()
        {
            tug_kv_store *s;
            check_rc(tug_kv_store_open(&s));
            return s;
        }
        std::shared_ptr<tug_kv_store> p;
    };

    void operator()(const KVMeta &m, const KVPairs<Val> &d, KVServer<Val> *server)
    {
        tug_kv_meta meta = tug_kv_meta();
        meta.cmd = m.cmd;
        meta.push = m.push;
        meta.pull = m.pull;
        meta.sender = static_cast<uint32_t>(m.sender);
        meta.ticket = m.ticket;
        tug_kv_data data = tug_kv_data();
        data.keys = d.keys.data();
        data.n_keys = d.keys.size();
        data.values = d.vals.data();
        data.n_values = d.vals.size();
        data.lengths = d.lens.empty() ? nullptr : d.lens.data();
        tug_kv_store_handle(store.p.get(), server->app(), &meta, &data);
    }
    Store store;
};

} // namespace ps

#endif
