// An SArray is an array, or a part of another SArray. Copies and parts share the memory; the
// last one to be destroyed frees it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_SARRAY_H
#define TUG_COMPAT_PS_SARRAY_H

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "ps/range.h"

namespace ps
{

template <typename V> class SArray
{
  public:
    SArray()
    {
    }
    explicit SArray(size_t size, V value = V())
    {
        resize(size, value);
    }
    explicit SArray(const std::vector<V> &v)
    {
        CopyFrom(v.data(), v.size());
    }
    explicit SArray(const std::shared_ptr<std::vector<V>> &v)
        : ptr_(v, v->data()), size_(v->size()), capacity_(v->size())
    {
    }
    template <typename W> SArray(const std::initializer_list<W> &list)
    {
        CopyFrom(list.begin(), list.end());
    }
    template <typename W> void operator=(const std::initializer_list<W> &list)
    {
        CopyFrom(list.begin(), list.end());
    }
    // Uses `data` without copying it. If `deletable`, the last SArray that shares it
    // deletes it by delete[].
    SArray(V *data, size_t size, bool deletable = false)
    {
        if (deletable)
            reset(data, size, [](V *p) { delete[] p; });
        else
            reset(data, size, [](V *) {});
    }
    // Shares the memory of an array of another type, as elements of type V.
    template <typename W> explicit SArray(const SArray<W> &a)
    {
        *this = a;
    }
    template <typename W> void operator=(const SArray<W> &a)
    {
        CHECK_EQ(a.size() * sizeof(W) % sizeof(V), 0u);
        share(std::shared_ptr<V>(a.ptr(), reinterpret_cast<V *>(a.data())),
              a.size() * sizeof(W) / sizeof(V));
    }
    // Shares `size` elements at p; the shared_ptr owns the memory.
    void share(const std::shared_ptr<V> &p, size_t size)
    {
        ptr_ = p;
        size_ = capacity_ = size;
    }
    template <typename Deleter> void reset(V *data, size_t size, Deleter d)
    {
        ptr_.reset(data, d);
        size_ = capacity_ = size;
    }
    void CopyFrom(const V *data, size_t size)
    {
        V *p = new V[size];
        std::copy(data, data + size, p);
        reset(p, size, [](V *q) { delete[] q; });
    }
    void CopyFrom(const SArray<V> &a)
    {
        if (this != &a)
            CopyFrom(a.data(), a.size());
    }
    template <typename Iterator> void CopyFrom(const Iterator &first, const Iterator &end)
    {
        size_t size = static_cast<size_t>(std::distance(first, end));
        V *p = new V[size];
        std::copy(first, end, p);
        reset(p, size, [](V *q) { delete[] q; });
    }
    void reserve(size_t capacity)
    {
        if (capacity <= capacity_)
            return;
        V *p = new V[capacity];
        std::copy(begin(), end(), p);
        ptr_.reset(p, [](V *q) { delete[] q; });
        capacity_ = capacity;
    }
    void resize(size_t size, V value = V())
    {
        reserve(size);
        for (size_t i = size_; i < size; ++i)
            ptr_.get()[i] = value;
        size_ = size;
    }
    void clear()
    {
        reset(static_cast<V *>(nullptr), 0, [](V *) {});
    }
    void push_back(const V &v)
    {
        if (size_ == capacity_)
            reserve(size_ * 2 + 4);
        ptr_.get()[size_++] = v;
    }
    void pop_back()
    {
        size_ -= size_ > 0;
    }
    void append(const SArray<V> &a)
    {
        size_t at = size_;
        resize(size_ + a.size());
        std::copy(a.begin(), a.end(), data() + at);
    }
    SArray<V> segment(size_t first, size_t end) const
    {
        CHECK_LE(first, end);
        CHECK_LE(end, size_);
        SArray<V> part;
        part.share(std::shared_ptr<V>(ptr_, ptr_.get() + first), end - first);
        return part;
    }
    bool empty() const
    {
        return size_ == 0;
    }
    size_t size() const
    {
        return size_;
    }
    size_t capacity() const
    {
        return capacity_;
    }
    V *data() const
    {
        return ptr_.get();
    }
    V *begin()
    {
        return data();
    }
    V *end()
    {
        return data() + size_;
    }
    const V *begin() const
    {
        return data();
    }
    const V *end() const
    {
        return data() + size_;
    }
    V front() const
    {
        CHECK(!empty());
        return data()[0];
    }
    V back() const
    {
        CHECK(!empty());
        return data()[size_ - 1];
    }
    // Indexes are checked, because handlers use keys and lengths from other nodes as
    // indexes.
    V &operator[](size_t i)
    {
        return data()[checked(i)];
    }
    const V &operator[](size_t i) const
    {
        return data()[checked(i)];
    }
    std::shared_ptr<V> &ptr()
    {
        return ptr_;
    }
    const std::shared_ptr<V> &ptr() const
    {
        return ptr_;
    }

  private:
    // The function that writes the error text is separate, so that operator[] stays small
    // enough to be inlined.
    size_t checked(size_t i) const
    {
        if (i >= size_)
            throw_outside(i, size_);
        return i;
    }
    [[noreturn]] __attribute__((cold, noinline)) static void throw_outside(size_t i,
                                                                           size_t size)
    {
        throw Error("index " + std::to_string(i) + " is outside an array of " +
                    std::to_string(size));
    }

    std::shared_ptr<V> ptr_;
    size_t size_ = 0, capacity_ = 0;
};

// Returns the range of the values within [lower, upper) in a sorted array.
template <typename V> Range FindRange(const SArray<V> &a, V lower, V upper)
{
    if (upper <= lower)
        return Range(0, 0);
    const V *first = std::lower_bound(a.begin(), a.end(), lower);
    const V *end = std::lower_bound(first, a.end(), upper);
    return Range(static_cast<uint64_t>(first - a.begin()),
                 static_cast<uint64_t>(end - a.begin()));
}

// Returns "[n]: " and the first and last m values as text.
template <typename V> inline std::string DebugStr(const V *data, int n, int m = 5)
{
    std::ostringstream text;
    text << "[" << n << "]: ";
    for (int i = 0; i < n; ++i) {
        if (n >= 2 * m && i == m) {
            text << "... ";
            i = n - m;
        }
        text << data[i] << " ";
    }
    return text.str();
}

template <typename V> std::ostream &operator<<(std::ostream &out, const SArray<V> &a)
{
    return out << DebugStr(a.data(), static_cast<int>(a.size()));
}

} // namespace ps

#endif
