// SimpleApp: requests and answers that consist of a number and some bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_SIMPLE_APP_H
#define TUG_COMPAT_PS_SIMPLE_APP_H

#include <string>

#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace ps
{

struct SimpleData {
    int head;
    std::string body;
    int sender;
    int timestamp;
    int customer_id;
    uint64_t ticket =
        0; // names the request for Response; 0: the program made this struct
};

class SimpleApp
{
  public:
    // Handles a request or an answer. A request must be answered once with Response.
    // Handles run one at a time, as callbacks do (tug/kvapp.h). If the handle of a
    // request throws, the request is refused.
    using Handle = std::function<void(const SimpleData &, SimpleApp *)>;

    explicit SimpleApp(int app_id, int customer_id = 0) : SimpleApp()
    {
        make_customer(app_id, customer_id, nullptr, true);
    }
    virtual ~SimpleApp()
    {
        delete obj_;
        obj_ = nullptr;
    }
    SimpleApp(const SimpleApp &) = delete;
    SimpleApp &operator=(const SimpleApp &) = delete;

    // Sends a request to a node or to all nodes of a group. Returns the timestamp for
    // Wait.
    virtual int Request(int head, const std::string &body, int group_or_id)
    {
        uint32_t timestamp;
        check_rc(tug_app_request(obj_->app(), head, body.data(), body.size(),
                                 static_cast<uint32_t>(group_or_id), &timestamp));
        tell(head, body, group_or_id, static_cast<int>(timestamp), true);
        return static_cast<int>(timestamp);
    }
    virtual void Wait(int timestamp)
    {
        obj_->WaitRequest(timestamp);
    }
    virtual void Response(const SimpleData &request, const std::string &body = "")
    {
        tell(request.head, body, request.sender, request.timestamp, false);
        answered(request.ticket != 0 ? tug_app_answer(obj_->app(), request.ticket,
                                                      body.data(), body.size())
                                     : answer_by_hand(request, body));
    }
    virtual void set_request_handle(const Handle &h)
    {
        CHECK(h) << "invalid request handle";
        on_request_ = h;
    }
    virtual void set_response_handle(const Handle &h)
    {
        CHECK(h) << "invalid response handle";
        on_response_ = h;
    }
    virtual Customer *get_customer()
    {
        return obj_;
    }

  protected:
    SimpleApp()
    {
        on_request_ = [](const SimpleData &d, SimpleApp *app) { app->Response(d); };
        on_response_ = [](const SimpleData &, SimpleApp *) {};
    }
    // Gets all simple requests and answers, and the messages passed to Customer::Accept.
    // A program's class may override it, and call it.
    virtual void Process(const Message &m)
    {
        SimpleData d;
        d.ticket = ticket_;
        d.head = m.meta.head;
        d.body = m.meta.body;
        d.sender = m.meta.sender;
        d.timestamp = m.meta.timestamp;
        d.customer_id = m.meta.customer_id;
        (m.meta.request ? on_request_ : on_response_)(d, this);
    }
    using KvHandler = void (*)(void *, tug_app *, const tug_kv_meta *,
                               const tug_kv_data *);
    void make_customer(int app_id, int customer_id, KvHandler kv, bool open)
    {
        tug_app_handlers h = tug_app_handlers();
        h.request = [](void *ctx, tug_app *asked, const tug_simple *q) noexcept {
            auto *app = static_cast<SimpleApp *>(ctx);
            run_handler(asked, q->ticket,
                        [&] { app->process(message_of(app, q, true), q->ticket); });
        };
        h.response = [](void *ctx, tug_app *, const tug_simple *q) noexcept {
            auto *app = static_cast<SimpleApp *>(ctx);
            app->process(message_of(app, q, false), 0);
        };
        h.kv = kv;
        h.ctx = this;
        obj_ = new Customer(
            app_id, customer_id, [this](const Message &m) { Process(m); }, h, open);
    }
    // Checks the result of sending an answer. TUG_EIO is ignored: the node that asked has
    // left and needs no answer.
    static void answered(int rc)
    {
        if (rc != TUG_EIO)
            check_rc(rc);
    }

    // Runs Process for a message; a Response during the call answers the request with
    // this ticket. One member `ticket_` is enough, because handlers run one at a time.
    void process(const Message &m, uint64_t ticket)
    {
        struct Owed {
            Owed(uint64_t *at, uint64_t ticket) : at_(at)
            {
                *at_ = ticket;
            }
            ~Owed()
            {
                *at_ = 0;
            }
            uint64_t *at_;
        } owed(&ticket_, ticket);
        Process(m);
    }

    Customer *obj_ = nullptr;
    uint64_t ticket_ = 0; // ticket of the message that Process handles now; 0: none

  private:
    void tell(int head, const std::string &body, int recver, int timestamp, bool request)
    {
        if (Postoffice::Get()->verbose() < 2)
            return;
        Message m;
        m.meta.head = head;
        m.meta.body = body;
        m.meta.recver = recver;
        m.meta.timestamp = timestamp;
        m.meta.app_id = obj_->app_id();
        m.meta.customer_id = obj_->customer_id();
        m.meta.request = request;
        m.meta.simple_app = true;
        tell_message(m, true);
    }
    static Message message_of(const SimpleApp *app, const tug_simple *q, bool request)
    {
        Message m;
        m.meta.head = q->head;
        m.meta.body.assign(static_cast<const char *>(q->body), q->body_bytes);
        m.meta.sender = static_cast<int>(q->sender);
        m.meta.timestamp = static_cast<int>(q->timestamp);
        m.meta.app_id = app->obj_->app_id();
        m.meta.customer_id = static_cast<int>(q->customer);
        m.meta.request = request;
        m.meta.simple_app = true;
        tell_message(m, false);
        return m;
    }
    int answer_by_hand(const SimpleData &request, const std::string &body)
    {
        tug_message m = tug_message();
        m.head = request.head;
        m.simple = true;
        m.app = static_cast<uint32_t>(obj_->app_id());
        m.customer = static_cast<uint32_t>(request.customer_id);
        m.timestamp = static_cast<uint32_t>(request.timestamp);
        m.receiver = static_cast<uint32_t>(request.sender);
        m.body = body.data();
        m.body_bytes = body.size();
        return tug_message_send(Postoffice::Get()->running(), &m);
    }

    Handle on_request_, on_response_;
};

} // namespace ps

#endif
