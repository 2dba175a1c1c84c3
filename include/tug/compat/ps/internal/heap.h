// Settings of malloc: which memory it keeps, and, in a server, the size of its pages.
// Handlers look up random keys in tables of many megabytes, and translating the address
// takes most of the time of a look-up. So a server asks the system for huge pages for the
// heap (madvise).
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
    // Makes malloc keep freed arrays of many megabytes for later requests. Otherwise it
    // would map and unmap them for each request, and the system would zero them each
    // time. That takes half of the time of a 64 MB pull.
    static void keep_arrays()
    {
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    }
    // Makes the heap grow in large steps from now on. The first step, taken at once, can
    // hold the tables of most programs. A step reserves only addresses; the system adds
    // pages when they are written to.
    void ask_for_huge_pages()
    {
        if (mallopt(M_TOP_PAD, kStep) == 0) // the malloc is not glibc's (ASan)
            return;
        told_ = static_cast<char *>(sbrk(0));
        // volatile keeps the compiler from removing new and delete.
        void *volatile first = ::operator new(kFirst, std::nothrow);
        ::operator delete(first);
        look();
    }
    // Asks for huge pages for the memory that malloc has added since the last call. A
    // call is cheap if malloc has not added memory.
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
