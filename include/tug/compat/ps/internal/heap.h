// Settings of malloc: which memory it keeps, and in a server where its memory lies:
// handlers look keys up at random in tables of many megabytes, and most of the time of a
// look-up is that of finding the page. So a server asks for huge pages for the heap, as
// far as the system grants them (madvise).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_HEAP_H
#define TUG_COMPAT_PS_INTERNAL_HEAP_H

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <new>

namespace ps
{

class Heap
{
  public:
    // Arrays of many megabytes are used again instead of being mapped, filled with zeros and
    // unmapped for each request: half of the time of a 64 MB pull.
    static void keep_arrays()
    {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    }
    // The heap grows in large steps from here on, and by one at once that holds the tables of
    // most programs: these are addresses, pages come when they are written to.
    void ask_for_huge_pages()
    {
        if (mallopt(M_TOP_PAD, kStep) == 0) // another malloc, as that of ASan
            return;
        told_ = static_cast<char *>(sbrk(0));
        // volatile: else the compiler leaves the pair out.
        void *volatile first = ::operator new(kFirst, std::nothrow);
        ::operator delete(first);
        look();
    }
    // Asks for huge pages for the memory that malloc has added since the last call. Cheap if it
    // has added none.
    void look()
    {
        char *const told = told_, *const end = static_cast<char *>(sbrk(0));
        if (told == nullptr || end <= told)
            return;
        const uintptr_t from = reinterpret_cast<uintptr_t>(told) / kPage * kPage;
        (void)madvise(reinterpret_cast<void *>(from),
                      reinterpret_cast<uintptr_t>(end) - from, MADV_HUGEPAGE);
        told_ = end;
    }

  private:
    enum : size_t { kStep = 64 << 20, kFirst = 1 << 30, kPage = 65536 };

    std::atomic<char *> told_{
        nullptr}; // end of the memory for which huge pages were requested
};

} // namespace ps

#endif
