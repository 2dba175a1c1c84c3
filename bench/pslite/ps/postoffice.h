// Postoffice: the process's node, one for all.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_POSTOFFICE_H
#define TUG_BENCH_PSLITE_PS_POSTOFFICE_H

#include <malloc.h>

#include <functional>
#include <map>
#include <vector>

#include "ps/base.h"

namespace ps
{

class Range
{ // [begin, end); the last range's end is kMaxKey, which belongs to it, too
  public:
    Range()
    {
    }
    Range(uint64_t begin, uint64_t end) : begin_(begin), end_(end)
    {
    }
    uint64_t begin() const
    {
        return begin_;
    }
    uint64_t end() const
    {
        return end_;
    }
    uint64_t size() const
    {
        return end_ - begin_;
    }

  private:
    uint64_t begin_ = 0, end_ = 0;
};

struct Node {
    int id;
    bool is_recovery; // never: whoever takes a dead node's place has no state of it
};

class Postoffice
{
  public:
    static Postoffice *Get()
    {
        static Postoffice p;
        return &p;
    }
    void Start(int /*customer*/, const char * /*argv0*/, bool wait)
    {
        if (node_ != nullptr)
            return; // a further customer of this process
        // Arrays of many megabytes are used again instead of being mapped, filled with
        // zeros and unmapped for each request: half of the time of a 64 MB pull.
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
        tug_node_options o = tug_node_options();
        o.async = !wait;
        check_rc(tug_node_start(&node_, &o));
    }
    void Finalize(int /*customer*/, bool barrier = true)
    {
        if (node_ == nullptr)
            return;
        tug_node *n = node_;
        int rc = tug_node_finalize(n, barrier);
        node_ = nullptr;
        check_rc(rc);
    }
    tug_node *node() const
    {
        return node_;
    }

    int num_workers() const
    {
        return static_cast<int>(tug_node_workers(node_));
    }
    int num_servers() const
    {
        return static_cast<int>(tug_node_servers(node_));
    }
    int my_rank() const
    {
        return static_cast<int>(tug_node_rank(node_));
    }
    bool is_worker() const
    {
        return tug_node_role(node_) == TUG_GROUP_WORKERS;
    }
    bool is_server() const
    {
        return tug_node_role(node_) == TUG_GROUP_SERVERS;
    }
    bool is_scheduler() const
    {
        return tug_node_role(node_) == TUG_GROUP_SCHEDULER;
    }
    bool is_recovery() const
    {
        return false;
    }
    static int WorkerRankToID(int rank)
    {
        return rank * 2 + 9;
    }
    static int ServerRankToID(int rank)
    {
        return rank * 2 + 8;
    }
    static int IDtoRank(int id)
    {
        return id < 8 ? 0 : (id - 8) / 2;
    }
    Postoffice *van()
    {
        return this;
    }
    Node my_node() const
    {
        return Node{static_cast<int>(tug_node_id(node_)), false};
    }

    void Barrier(int /*customer*/, int group)
    {
        check_rc(tug_node_barrier(node_, static_cast<uint32_t>(group)));
    }
    const std::vector<Range> &GetServerKeyRanges()
    {
        if (ranges_.empty()) {
            for (uint32_t s = 0; s < tug_node_servers(node_); ++s) {
                uint64_t first, last;
                check_rc(tug_node_range(node_, s, &first, &last));
                ranges_.push_back(Range(first, last == kMaxKey ? last : last + 1));
            }
        }
        return ranges_;
    }
    std::vector<int> GetNodeIDs(int group_or_id)
    {
        std::vector<uint32_t> ids(4096);
        ids.resize(tug_node_ids(node_, static_cast<uint32_t>(group_or_id), ids.data(),
                                ids.size()));
        return std::vector<int>(ids.begin(), ids.end());
    }
    std::vector<int> GetDeadNodes(int /*seconds*/ = 60)
    {
        std::vector<uint32_t> ids(4096);
        ids.resize(tug_node_dead(node_, ids.data(), ids.size()));
        return std::vector<int>(ids.begin(), ids.end());
    }
    void RegisterExitCallback(const std::function<void()> &f)
    {
        auto *copy = new std::function<void()>(f);
        check_rc(tug_node_at_exit(
            node_,
            [](void *ctx) {
                auto *call = static_cast<std::function<void()> *>(ctx);
                (*call)();
                delete call;
            },
            copy));
    }

  private:
    tug_node *node_ = nullptr;
    std::vector<Range> ranges_;
};

} // namespace ps

#endif
