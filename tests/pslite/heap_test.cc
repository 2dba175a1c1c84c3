// The heap of a server of ps/ps.h: memory that malloc adds gets huge pages once the
// library has asked for them.
//
// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "ps/ps.h"

namespace
{

// Returns whether the mapping of an address is marked for huge pages ("hg").
bool IsMarked(const void *where)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(where);
    std::ifstream maps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(maps, line);) {
        unsigned long from, to;
        if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
            inside = from <= at && at < to;
        else if (inside && line.compare(0, 8, "VmFlags:") == 0)
            return line.find(" hg") != std::string::npos;
    }
    return false;
}

} // namespace

int main()
{
    enum : size_t { MORE_THAN_FIRST = (size_t)3 << 29 };
    ps::Heap heap;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        std::puts("skipped: a kernel without huge pages");
        return 77;
    }
    heap.look(); // huge pages were not asked for, so nothing happens
    ps::Heap::keep_arrays();
    std::unique_ptr<char[]> before(new char[1 << 20]);
    CHECK(!IsMarked(before.get()));
    heap.ask_for_huge_pages();
    std::unique_ptr<char[]> first(new char[1 << 28]), far(new char[MORE_THAN_FIRST]);
    CHECK(IsMarked(first.get() + (1 << 27)));
    // This memory lies behind the part that was marked.
    CHECK(!IsMarked(far.get() + MORE_THAN_FIRST - 1));
    heap.look();
    CHECK(IsMarked(far.get() + MORE_THAN_FIRST - 1));
    return 0;
}
