// Messages as objects, for customers that a program makes itself and for Van::Send.
// KVWorker and KVServer build them only for classes that override Process and for
// PS_VERBOSE=2.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_MESSAGE_H
#define TUG_COMPAT_PS_INTERNAL_MESSAGE_H

#include <limits>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "ps/sarray.h"

namespace ps
{

enum DataType {
    CHAR,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    FLOAT,
    DOUBLE,
    OTHER
};

inline const char *DataTypeText(DataType t)
{
    static const char *const names[] = {"CHAR",   "INT8",  "INT16",  "INT32",
                                        "INT64",  "UINT8", "UINT16", "UINT32",
                                        "UINT64", "FLOAT", "DOUBLE", "OTHER"};
    return t >= CHAR && t <= OTHER ? names[t] : "?";
}

// DataTypeName[t] is the name of data type t, as with ps-lite's array of this name.
struct DataTypeNames {
    const char *operator[](int t) const
    {
        return DataTypeText(static_cast<DataType>(t));
    }
};
static const DataTypeNames DataTypeName = DataTypeNames();

template <typename V, typename W> inline bool SameType()
{
    return std::is_same<typename std::remove_cv<V>::type, W>::value;
}

template <typename V> inline DataType GetDataType()
{
    return SameType<V, int8_t>()     ? INT8
           : SameType<V, int16_t>()  ? INT16
           : SameType<V, int32_t>()  ? INT32
           : SameType<V, int64_t>()  ? INT64
           : SameType<V, uint8_t>()  ? UINT8
           : SameType<V, uint16_t>() ? UINT16
           : SameType<V, uint32_t>() ? UINT32
           : SameType<V, uint64_t>() ? UINT64
           : SameType<V, float>()    ? FLOAT
           : SameType<V, double>()   ? DOUBLE
                                     : OTHER;
}

// Defines kEmpty of Node and Meta, the value of a member that is not set.
template <typename T> struct HasEmpty {
    static const int kEmpty;
};
template <typename T> const int HasEmpty<T>::kEmpty = std::numeric_limits<int>::max();

struct Node : HasEmpty<Node> {
    enum Role { SERVER, WORKER, SCHEDULER };

    Role role = WORKER;
    int id = kEmpty;
    int customer_id = 0;
    std::string hostname;
    int port = kEmpty;
    bool is_recovery = false; // whether the node replaces a dead one, without its state

    std::string ShortDebugString() const
    {
        const char *letter = role == SERVER ? "S" : role == WORKER ? "W" : "H";
        return letter + (id != kEmpty ? "[" + std::to_string(id) + "]" : std::string());
    }
    std::string DebugString() const
    {
        std::ostringstream text;
        text << "role="
             << (role == SERVER   ? "server"
                 : role == WORKER ? "worker"
                                  : "scheduler");
        if (id != kEmpty)
            text << ", id=" << id;
        text << ", ip=" << hostname << ", port=" << port
             << ", is_recovery=" << is_recovery;
        return text.str();
    }
};

// The control part of ps-lite's own messages. It is empty in every message that a program
// receives, and Van::Send refuses messages in which it is not empty.
struct Control {
    enum Command { EMPTY, TERMINATE, ADD_NODE, BARRIER, ACK, HEARTBEAT };

    Command cmd = EMPTY;
    std::vector<Node> node;
    int barrier_group = 0;
    uint64_t msg_sig = 0;

    bool empty() const
    {
        return cmd == EMPTY;
    }
    std::string DebugString() const
    {
        return empty() ? std::string() : "cmd=" + std::to_string(cmd);
    }
};

struct Meta : HasEmpty<Meta> {
    int head = kEmpty;
    int app_id = kEmpty;
    int customer_id = kEmpty;
    int timestamp = kEmpty;
    int sender = kEmpty;
    int recver = kEmpty;
    bool request = false;
    bool push = false;
    bool pull = false;
    bool simple_app = false;
    std::string body;
    std::vector<DataType> data_type; // types of the arrays in Message::data
    Control control;
    int data_size = 0; // bytes of all arrays in Message::data together
    int priority = 0;

    std::string DebugString() const
    {
        std::ostringstream text;
        text << (sender == kEmpty ? std::string("?") : std::to_string(sender)) << " => "
             << recver << ". Meta: request=" << request;
        if (timestamp != kEmpty)
            text << ", timestamp=" << timestamp;
        if (!control.empty())
            text << ", control={ " << control.DebugString() << " }";
        else
            text << ", app_id=" << app_id << ", customer_id=" << customer_id
                 << ", simple_app=" << simple_app << ", push=" << push;
        if (head != kEmpty)
            text << ", head=" << head;
        if (!body.empty())
            text << ", body=" << body;
        if (!data_type.empty()) {
            text << ", data_type={";
            for (DataType t : data_type)
                text << " " << DataTypeText(t);
            text << " }";
        }
        return text.str();
    }
};

struct Message {
    Meta meta;
    // The arrays of the message: keys, values and, if not all keys have equally many
    // values, lengths.
    std::vector<SArray<char>> data;

    template <typename V> void AddData(const SArray<V> &values)
    {
        CHECK_EQ(data.size(), meta.data_type.size());
        meta.data_type.push_back(GetDataType<V>());
        data.push_back(SArray<char>(values));
        meta.data_size += static_cast<int>(data.back().size());
    }
    std::string DebugString() const
    {
        std::ostringstream text;
        text << meta.DebugString();
        if (!data.empty())
            text << " Body:";
        for (const auto &d : data)
            text << " data_size=" << d.size();
        return text.str();
    }
};

// Returns a message in the library's form, whose pointers are to the memory of `m`.
inline tug_message message_to_tug(const Message &m)
{
    tug_message t = tug_message();
    if (!m.meta.control.empty())
        throw Error("control messages are the library's own and cannot be sent");
    if (m.data.size() > TUG_MESSAGE_DATA)
        throw Error("a message has more data than keys, values and lengths");
    t.head = m.meta.head == Meta::kEmpty ? 0 : m.meta.head;
    t.priority = m.meta.priority;
    t.request = m.meta.request;
    t.simple = m.meta.simple_app;
    t.push = m.meta.push;
    t.pull = m.meta.pull;
    t.app = static_cast<uint32_t>(m.meta.app_id);
    t.customer = static_cast<uint32_t>(m.meta.customer_id);
    t.timestamp = static_cast<uint32_t>(m.meta.timestamp);
    t.receiver = static_cast<uint32_t>(m.meta.recver);
    t.body = m.meta.body.data();
    t.body_bytes = m.meta.body.size();
    for (size_t i = 0; i < m.data.size(); ++i) {
        t.data[i] = m.data[i].data();
        t.data_bytes[i] = m.data[i].size();
    }
    if (m.data.size() > 1 && m.meta.data_type.size() > 1) {
        DataType type = m.meta.data_type[1];
        t.value_bytes = type == FLOAT                                       ? 0
                        : type == INT64 || type == UINT64 || type == DOUBLE ? 8
                        : type == INT32 || type == UINT32                   ? 4
                        : type == INT16 || type == UINT16                   ? 2
                                                                            : 1;
    }
    return t;
}

inline Message message_of_tug(const tug_message &t)
{
    Message m;
    m.meta.head = t.head;
    m.meta.app_id = static_cast<int>(t.app);
    m.meta.customer_id = static_cast<int>(t.customer);
    m.meta.timestamp = static_cast<int>(t.timestamp);
    m.meta.sender = static_cast<int>(t.sender);
    m.meta.recver = static_cast<int>(t.receiver);
    m.meta.request = t.request;
    m.meta.push = t.push;
    m.meta.pull = t.pull;
    m.meta.simple_app = t.simple;
    m.meta.priority = t.priority;
    if (t.body_bytes > 0)
        m.meta.body.assign(static_cast<const char *>(t.body), t.body_bytes);
    const DataType values = t.value_bytes == 0   ? FLOAT
                            : t.value_bytes == 8 ? UINT64
                            : t.value_bytes == 4 ? UINT32
                            : t.value_bytes == 2 ? UINT16
                                                 : UINT8;
    const DataType types[] = {UINT64, values, INT32};
    for (int i = 0; i < TUG_MESSAGE_DATA && t.data_bytes[0] > 0; ++i) {
        if (i == 2 && t.data_bytes[i] == 0)
            break; // the message has no lengths
        SArray<char> bytes;
        bytes.CopyFrom(static_cast<const char *>(t.data[i]), t.data_bytes[i]);
        m.data.push_back(bytes);
        m.meta.data_type.push_back(types[i]);
        m.meta.data_size += static_cast<int>(t.data_bytes[i]);
    }
    return m;
}

} // namespace ps

#endif
