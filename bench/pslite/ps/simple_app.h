// SimpleApp: requests of a number and some bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_SIMPLE_APP_H
#define TUG_BENCH_PSLITE_PS_SIMPLE_APP_H

#include "ps/postoffice.h"

namespace ps
{

struct SimpleData {
    int head;
    std::string body;
    int sender;
    int timestamp;
    int customer_id;
    uint64_t ticket;
};

class SimpleApp
{
  public:
    using Handle = std::function<void(const SimpleData &, SimpleApp *)>;

    SimpleApp(int app_id, int customer_id)
    {
        open(app_id, customer_id, nullptr);
    }
    virtual ~SimpleApp()
    {
        if (app_ != nullptr && Postoffice::Get()->node() != nullptr)
            tug_app_close(app_);
    }
    SimpleApp(const SimpleApp &) = delete;
    SimpleApp &operator=(const SimpleApp &) = delete;

    int Request(int head, const std::string &body, int group_or_id)
    {
        uint32_t timestamp;
        check_rc(tug_app_request(app_, head, body.data(), body.size(),
                                 static_cast<uint32_t>(group_or_id), &timestamp));
        return static_cast<int>(timestamp);
    }
    void Response(const SimpleData &request, const std::string &body = "")
    {
        check_rc(tug_app_answer(app_, request.ticket, body.data(), body.size()));
    }
    void Wait(int timestamp)
    {
        check_rc(tug_app_wait(app_, static_cast<uint32_t>(timestamp)));
    }
    void set_request_handle(const Handle &h)
    {
        on_request_ = h;
    }
    void set_response_handle(const Handle &h)
    {
        on_response_ = h;
    }

  protected:
    SimpleApp()
    {
    }
    void open(int app_id, int customer_id,
              void (*kv)(void *, tug_app *, const tug_kv_meta *, const tug_kv_data *))
    {
        tug_app_handlers h = tug_app_handlers();
        h.request = [](void *ctx, tug_app *, const tug_simple *q) {
            auto *app = static_cast<SimpleApp *>(ctx);
            SimpleData d = data_of(q);
            if (app->on_request_)
                app->on_request_(d, app);
            else
                app->Response(d);
        };
        h.response = [](void *ctx, tug_app *, const tug_simple *q) {
            auto *app = static_cast<SimpleApp *>(ctx);
            if (app->on_response_)
                app->on_response_(data_of(q), app);
        };
        h.kv = kv;
        h.ctx = this;
        check_rc(tug_app_open(&app_, Postoffice::Get()->node(),
                              static_cast<uint32_t>(app_id),
                              static_cast<uint32_t>(customer_id), &h));
    }

    tug_app *app_ = nullptr;

  private:
    static SimpleData data_of(const tug_simple *q)
    {
        return SimpleData{q->head,
                          std::string(static_cast<const char *>(q->body), q->body_bytes),
                          static_cast<int>(q->sender),
                          static_cast<int>(q->timestamp),
                          static_cast<int>(q->customer),
                          q->ticket};
    }

    Handle on_request_, on_response_;
};

} // namespace ps

#endif
