// The definitions of the van's functions, which need the class Postoffice.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_VAN_CALLS_H
#define TUG_COMPAT_PS_INTERNAL_VAN_CALLS_H

#include "ps/internal/postoffice.h"

namespace ps
{

// Logs a message with PS_VERBOSE=2, as ps-lite does. A message to a group gets one line.
inline void tell_message(const Message &m, bool mine)
{
    tug_node *n = Postoffice::Get()->node();
    if (Postoffice::Get()->verbose() < 2 || n == nullptr)
        return;
    Message told = m;
    (mine ? told.meta.sender : told.meta.recver) = static_cast<int>(tug_node_id(n));
    LOG(INFO) << told.DebugString();
}

inline Van::~Van()
{
}

inline const Node &Van::my_node()
{
    tug_node *n = Postoffice::Get()->running();
    tug_node_info info;
    // The node may get its id before it gets the list of all nodes' addresses, which has
    // its own address.
    if (tug_node_find(n, tug_node_id(n), &info) != 0) {
        check_rc(tug_node_wait(n));
        check_rc(tug_node_find(n, tug_node_id(n), &info));
    }
    std::lock_guard<std::mutex> hold(lock_);
    my_node_.role = info.role == TUG_GROUP_SERVERS   ? Node::SERVER
                    : info.role == TUG_GROUP_WORKERS ? Node::WORKER
                                                     : Node::SCHEDULER;
    my_node_.id = static_cast<int>(info.id);
    my_node_.hostname = info.host;
    my_node_.port = info.port;
    my_node_.is_recovery = info.recovered;
    return my_node_;
}

inline bool Van::IsReady()
{
    tug_node *n = Postoffice::Get()->node();
    return n != nullptr && tug_node_id(n) != 0;
}

inline int Van::Send(const Message &m)
{
    tug_message t = message_to_tug(m);
    tell_message(m, true);
    check_rc(tug_message_send(Postoffice::Get()->running(), &t));
    size_t bytes = t.body_bytes;
    for (size_t n : t.data_bytes)
        bytes += n;
    return static_cast<int>(bytes);
}

inline void Van::Connect(const Node &node)
{
    check_rc(
        tug_node_reach(Postoffice::Get()->running(), static_cast<uint32_t>(node.id)));
}

inline int Van::RecvMsg(Message *m)
{
    std::unique_lock<std::mutex> hold(lock_);
    if (!strays_) {
        hold.unlock();
        std::unique_ptr<Customer> strays(new Customer(
            static_cast<int>(TUG_APP_ANY), 0, [this](const Message &received) {
                std::lock_guard<std::mutex> inside(lock_);
                received_.push_back(received);
                more_.notify_one();
            }));
        hold.lock();
        strays_ = std::move(strays);
    }
    if (!more_.wait_for(hold, Postoffice::longest_wait(),
                        [this] { return !received_.empty(); }))
        return -1;
    *m = received_.front();
    received_.pop_front();
    return m->meta.data_size + static_cast<int>(m->meta.body.size());
}

inline void Van::forget()
{
    std::lock_guard<std::mutex> hold(lock_);
    received_.clear();
}

} // namespace ps

#endif
