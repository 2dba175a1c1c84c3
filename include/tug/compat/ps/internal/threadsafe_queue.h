// ThreadsafeQueue: ps-lite's queue for several threads, for programs that use it
// themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMPAT_PS_INTERNAL_THREADSAFE_QUEUE_H
#define TUG_COMPAT_PS_INTERNAL_THREADSAFE_QUEUE_H

#include <condition_variable>
#include <mutex>
#include <queue>
#include <utility>

namespace ps
{

template <typename T> class ThreadsafeQueue
{
  public:
    ThreadsafeQueue()
    {
    }
    ThreadsafeQueue(const ThreadsafeQueue &) = delete;
    ThreadsafeQueue &operator=(const ThreadsafeQueue &) = delete;

    void Push(T value)
    {
        std::lock_guard<std::mutex> hold(lock_);
        queue_.push(std::move(value));
        more_.notify_one();
    }
    // Waits without a time limit, as in ps-lite, until the program has pushed a value,
    // and takes it.
    void WaitAndPop(T *value)
    {
        std::unique_lock<std::mutex> hold(lock_);
        more_.wait(hold, [this] { return !queue_.empty(); });
        *value = std::move(queue_.front());
        queue_.pop();
    }
    // Takes the first value. Returns false if the queue is empty.
    bool TryPop(T *value)
    {
        std::lock_guard<std::mutex> hold(lock_);
        if (queue_.empty())
            return false;
        *value = std::move(queue_.front());
        queue_.pop();
        return true;
    }

  private:
    std::mutex lock_;
    std::condition_variable more_;
    std::queue<T> queue_;
};

} // namespace ps

#endif
