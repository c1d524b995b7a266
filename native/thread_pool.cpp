#include "thread_pool.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace supquant {
namespace {

using Work = std::function<void(size_t, int)>;

struct Job {
    Job(const Work& work, size_t n_tasks) : work(work), n_tasks(n_tasks) {}

    const Work& work;
    const size_t n_tasks;
    std::atomic<size_t> next{0};
    int slots = 1;                 // slots handed out, the caller's slot 0 among them; guarded by the pool's mutex
    int helpers = 0;               // threads in drain() besides the caller; guarded by the pool's mutex
    std::condition_variable left;  // signalled when the last helper has left

    // Takes tasks until none is left.
    void drain(int slot) {
        for (size_t task; (task = next.fetch_add(1)) < n_tasks;) work(task, slot);
    }
};

class Pool {
  public:
    Pool() : pid_(getpid()) {}

    // The pool is never destroyed: its threads end with the process. A forked child has the parent's pool without its
    // threads, and its mutex may be held. So the child does not touch that pool and makes a new one.
    static Pool& instance() {
        static std::atomic<Pool*> current{nullptr};
        Pool* pool = current.load();
        while (!pool || pool->pid_ != getpid()) {
            Pool* fresh = new Pool;
            if (current.compare_exchange_strong(pool, fresh)) return *fresh;
            delete fresh;
        }
        return *pool;
    }

    void run(size_t n_tasks, int n_threads, const Work& work) {
        Job job(work, n_tasks);
        {
            std::lock_guard lock(mutex_);
            grow(n_threads - 1);
            for (int i = 1; i < n_threads; ++i) waiting_.push_back(&job);
        }
        wake_.notify_all();
        job.drain(0);
        std::unique_lock lock(mutex_);
        std::erase(waiting_, &job);
        job.left.wait(lock, [&] { return job.helpers == 0; });
    }

  private:
    // Starts threads until the pool has `wanted`.
    void grow(int wanted) {
        try {
            for (; n_threads_ < wanted; ++n_threads_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
            // The system has no more threads to give. The threads that run do the work.
        }
    }

    // The loop of a thread of the pool.
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return !waiting_.empty(); });
            Job& job = *waiting_.front();
            waiting_.pop_front();
            const int slot = job.slots++;
            ++job.helpers;
            lock.unlock();
            job.drain(slot);
            lock.lock();
            if (--job.helpers == 0) job.left.notify_all();
        }
    }

    const pid_t pid_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Job*> waiting_;  // holds a job once for every helper that it still wants
    int n_threads_ = 0;
};

}  // namespace

void parallel_for(size_t n_tasks, int n_threads, const Work& work) {
    if (size_t(n_threads) > n_tasks) n_threads = int(n_tasks);
    if (n_threads > 1) return Pool::instance().run(n_tasks, n_threads, work);
    for (size_t task = 0; task < n_tasks; ++task) work(task, 0);
}

}  // namespace supquant
