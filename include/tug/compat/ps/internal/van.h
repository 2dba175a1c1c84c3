// The van's part that programs use: this node's identity, and messages sent by hand. The
// transport is the library's (TCP, Unix sockets, TLS); a program cannot bring its own.
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

// Why a program cannot bring a transport, or drive the library's: the compiler says it where
// one of these functions is called.
#define TUG_NO_TRANSPORT                                                                 \
    "the transport is the library's (TCP, Unix sockets, TLS): a program cannot bring "   \
    "or "                                                                                \
    "drive one; see from-ps-lite.md. Van::Send sends a message, a Customer gets them"
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

    // Waits until this node has its place.
    const Node &my_node();
    bool IsReady();
    int GetTimestamp()
    {
        return timestamp_++;
    }
    // Sends a request, whose timestamp a Customer gave, or an answer. Returns the number
    // of bytes of body and data; throws Error.
    int Send(const Message &m);
    int SendMsg(const Message &m)
    {
        return Send(m);
    }
    // Waits for a message whose app has no customer in this process, for at most
    // TUG_WAIT_SECONDS: -1. After the first call such messages wait here. Returns its
    // bytes.
    int RecvMsg(Message *m);
    // The port that the node listens at since it was started (PORT says which it is to be).
    int Bind(const Node &, int)
    {
        return my_node().port;
    }
    // Opens the link now and not with the first message.
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
