// Customers: who sends requests, is told of answers, and handles what others ask.
//
// Handlers and callbacks of all customers of a process run one at a time (tug/kvapp.h) and
// must not wait. An exception that leaves one ends the process, as in ps-lite.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_CUSTOMER_H
#define TUG_COMPAT_PS_INTERNAL_CUSTOMER_H

#include <atomic>
#include <condition_variable>
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

class Customer
{
  public:
    using RecvHandle = std::function<void(const Message &)>;

    // Gets all that comes for these ids as messages, from now on.
    Customer(int app_id, int customer_id, const RecvHandle &handle);
    // Of the library's apps, which have handlers of their own. Not `open`: nothing comes
    // until Open is called.
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

    // A timestamp that waits for all nodes of the group; from any thread.
    int NewRequest(int recver)
    {
        uint32_t timestamp;
        check_rc(tug_app_new_request(app(), static_cast<uint32_t>(recver), &timestamp));
        return static_cast<int>(timestamp);
    }
    void WaitRequest(int timestamp)
    {
        check_rc(tug_app_wait(app(), static_cast<uint32_t>(timestamp)));
    }
    int NumResponse(int timestamp)
    {
        uint32_t n;
        check_rc(tug_app_responses(app(), static_cast<uint32_t>(timestamp), &n));
        return static_cast<int>(n);
    }
    // Of nodes that were sent nothing.
    void AddResponse(int timestamp, int n = 1)
    {
        check_rc(tug_app_add_responses(app(), static_cast<uint32_t>(timestamp),
                                       static_cast<uint32_t>(n)));
    }
    // Handles a message as if it had come.
    void Accept(const Message &received);

    void Open();
    tug_app *app(); // opened, if it was not

  private:
    friend class Postoffice;

    int app_id_, customer_id_;
    RecvHandle handle_;
    tug_app_handlers handlers_;
    bool wanted_; // to be open
    std::atomic<tug_app *> app_{nullptr};
};

} // namespace ps

#include "ps/internal/postoffice.h"

#endif
