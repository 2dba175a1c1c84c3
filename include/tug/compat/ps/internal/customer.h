// Customers send requests, get answers, and handle the requests of other customers.
//
// Handlers and callbacks of all customers of a process run one at a time (tug/kvapp.h)
// and must not wait. If a handler of a request throws an exception, the request is
// refused, and the node that sent it gets the exception's text. If a callback, or a
// handler of an answer, throws, the process ends, as in ps-lite.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_CUSTOMER_H
#define TUG_COMPAT_PS_INTERNAL_CUSTOMER_H

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "ps/internal/message.h"

namespace ps
{

// Refuses a request whose handler threw. If the handler had answered before, the
// exception is printed to standard error only.
inline void refuse_thrown(tug_app *app, uint64_t ticket, const char *what) noexcept
{
    if (tug_app_refuse(app, ticket, TUG_EUSAGE, what) != TUG_OK)
        std::fprintf(stderr, "a handler threw after it had answered: %s\n", what);
}

// Runs the handler of another node's request.
template <typename Handler>
inline void run_handler(tug_app *app, uint64_t ticket, const Handler &handler) noexcept
{
    try {
        handler();
    } catch (const std::exception &e) {
        refuse_thrown(app, ticket, e.what());
    } catch (...) {
        refuse_thrown(app, ticket, "the handler threw an exception of an unknown type");
    }
}

class Customer
{
  public:
    using RecvHandle = std::function<void(const Message &)>;

    // Opens a customer whose handle gets all requests and answers for these ids as
    // messages.
    Customer(int app_id, int customer_id, const RecvHandle &handle);
    Customer(int id, const RecvHandle &handle) : Customer(id, id, handle)
    {
    }
    // SimpleApp, KVWorker and KVServer use this constructor, because they have handlers
    // of their own. If `open` is false, no request arrives until Open is called.
    Customer(int app_id, int customer_id, const RecvHandle &handle,
             const tug_app_handlers &handlers, bool open);
    ~Customer();
    Customer(const Customer &) = delete;
    Customer &operator=(const Customer &) = delete;

    int app_id() const
    {
        return app_id_;
    }
    int customer_id() const
    {
        return customer_id_;
    }

    // Returns the timestamp of a new request, which all nodes of the group `recver` must
    // answer. Any thread may call it.
    int NewRequest(int recver)
    {
        uint32_t timestamp;
        check_rc(tug_app_new_request(app(), static_cast<uint32_t>(recver), &timestamp));
        return static_cast<int>(timestamp);
    }
    void WaitRequest(int timestamp);
    int NumResponse(int timestamp)
    {
        uint32_t n;
        check_rc(tug_app_responses(app(), static_cast<uint32_t>(timestamp), &n));
        return static_cast<int>(n);
    }
    // Counts n more nodes as having answered, although no message was sent to them.
    void AddResponse(int timestamp, int n = 1)
    {
        check_rc(tug_app_add_responses(app(), static_cast<uint32_t>(timestamp),
                                       static_cast<uint32_t>(n)));
    }
    // Handles a message as if it had arrived from another node.
    void Accept(const Message &received);

    void Open();
    tug_app *app(); // returns the library's customer, and opens it if it is not open yet

  private:
    friend class Postoffice;

    int app_id_, customer_id_;
    RecvHandle handle_;
    tug_app_handlers handlers_;
    bool wanted_; // whether the customer is to be open while the node runs
    std::atomic<tug_app *> app_{nullptr};
};

} // namespace ps

#include "ps/internal/postoffice.h"

#endif
