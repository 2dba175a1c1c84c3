// Van: the part of ps-lite's van that programs use, namely this node's identity and
// sending messages. The transport is the library's (TCP, Unix sockets, TLS); a program
// cannot add one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_VAN_H
#define TUG_COMPAT_PS_INTERNAL_VAN_H

#include <atomic>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ps/base.h"
#include "ps/internal/message.h"

namespace ps
{

class Customer;

// The compiler's error for a program that calls a function of ps-lite's transport.
#define TUG_NO_TRANSPORT                                                                 \
    "the transport is part of the library (TCP, Unix sockets, TLS); a program cannot "   \
    "replace or call it (see from-ps-lite.md). Van::Send sends a message, and a "        \
    "Customer receives messages"
template <typename> struct only_the_library {
    enum { may = false };
};

class Van
{
  public:
    template <typename Type> static Van *Create(const Type &)
    {
        static_assert(only_the_library<Type>::may, TUG_NO_TRANSPORT);
        return nullptr;
    }
    template <typename Id> void Start(Id)
    {
        static_assert(only_the_library<Id>::may, TUG_NO_TRANSPORT);
    }
    template <typename Nothing = void> void Stop()
    {
        static_assert(only_the_library<Nothing>::may, TUG_NO_TRANSPORT);
    }
    template <typename M> void PackMeta(const M &, char **, int *)
    {
        static_assert(only_the_library<M>::may, TUG_NO_TRANSPORT);
    }
    template <typename M> void UnpackMeta(const char *, int, M *)
    {
        static_assert(only_the_library<M>::may, TUG_NO_TRANSPORT);
    }

    Van()
    {
    }
    ~Van();
    Van(const Van &) = delete;
    Van &operator=(const Van &) = delete;

    // Returns this node; waits until it has joined the cluster.
    const Node &my_node();
    bool IsReady();
    int GetTimestamp()
    {
        return timestamp_++;
    }
    // Sends a request or an answer. The timestamp of a request comes from
    // Customer::NewRequest. Returns the number of bytes of body and data; throws Error if
    // it fails.
    int Send(const Message &m);
    int SendMsg(const Message &m)
    {
        return Send(m);
    }
    // Waits at most TUG_WAIT_SECONDS for a message to an app without a customer in this
    // process. Returns the number of bytes of the message, or -1 if no message arrived.
    // From the first call on, such messages are queued in this process.
    int RecvMsg(Message *m);
    // Returns the port at which the node has listened since Start. The variable PORT
    // selects it.
    int Bind(const Node &, int)
    {
        return my_node().port;
    }
    // Opens the link to a node now; otherwise the first message to the node opens it.
    void Connect(const Node &node);

  private:
    friend class Postoffice;
    void forget();

    std::atomic<int> timestamp_{0};
    std::mutex lock_;
    std::condition_variable more_;
    Node my_node_;
    std::unique_ptr<Customer> strays_;
    std::deque<Message> received_;
};

} // namespace ps

#include "ps/internal/postoffice.h"

#endif
