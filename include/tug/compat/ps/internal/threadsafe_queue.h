// A queue that threads share, as programs written for ps-lite use it.
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
    // Waits, without a deadline, as ps-lite does: only for what the program itself pushes.
    void WaitAndPop(T *value)
    {
        std::unique_lock<std::mutex> hold(lock_);
        more_.wait(hold, [this] { return !queue_.empty(); });
        *value = std::move(queue_.front());
        queue_.pop();
    }
    // False: it is empty.
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
