// SArray: an array that is shared by those who hold it, or a part of one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PSLITE_PS_SARRAY_H
#define TUG_BENCH_PSLITE_PS_SARRAY_H

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "ps/base.h"

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
    SArray(const std::initializer_list<V> &list)
    {
        CopyFrom(list.begin(), list.size());
    }
    // Without a copy; deleted with delete[] at the end if `deletable`.
    SArray(V *data, size_t size, bool deletable = false)
    {
        if (deletable)
            reset(data, size, [](V *p) { delete[] p; });
        else
            reset(data, size, [](V *) {});
    }
    // The same bytes as another type.
    template <typename W> explicit SArray(const SArray<W> &a)
    {
        CHECK_EQ(a.size() * sizeof(W) % sizeof(V), 0u);
        share(std::shared_ptr<V>(a.ptr(), reinterpret_cast<V *>(a.data())),
              a.size() * sizeof(W) / sizeof(V));
    }
    // A part of something that `owner` keeps alive.
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
        CopyFrom(a.data(), a.size());
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
        return data()[0];
    }
    V back() const
    {
        return data()[size_ - 1];
    }
    V &operator[](size_t i)
    {
        return data()[i];
    }
    const V &operator[](size_t i) const
    {
        return data()[i];
    }
    const std::shared_ptr<V> &ptr() const
    {
        return ptr_;
    }

  private:
    std::shared_ptr<V> ptr_;
    size_t size_ = 0, capacity_ = 0;
};

} // namespace ps

#endif
