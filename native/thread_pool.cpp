#include "thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "system.h"

namespace supquant {
namespace {

using Work = std::function<void(size_t, int)>;

// One call of parallel_for. It lies on the caller's stack, and the caller waits until no thread knows it any more. All
// fields but `next` are guarded by the pool's mutex.
struct Job {
    Job(const Work& work, size_t n_tasks, int wanted) : work(work), n_tasks(n_tasks), wanted(wanted) {}

    const Work& work;
    const size_t n_tasks;
    std::atomic<size_t> next{0};
    int wanted;                    // helpers that the job still wants
    int slots = 1;                 // slots handed out, the caller's slot 0 among them
    int helpers = 0;               // threads in drain() besides the caller
    std::exception_ptr error;      // the first exception of a task
    Job* following = nullptr;      // the next job in the pool's list
    std::condition_variable left;  // signalled when the last helper has left

    // Takes tasks until none is left, or one throws: then the other threads get no more tasks either.
    std::exception_ptr drain(int slot) noexcept {
        try {
            for (size_t task; (task = next.fetch_add(1)) < n_tasks;) work(task, slot);
        } catch (...) {
            next = n_tasks;
            return std::current_exception();
        }
        return nullptr;
    }
};

// Jobs that want helpers, first come, first served. The list is made of the jobs themselves: it never allocates, so
// there is no state in which memory ran out halfway.
class JobList {
  public:
    bool empty() const { return !first_; }

    void push(Job& job) {
        *last_ = &job;
        last_ = &job.following;
    }
    // Returns the first job, which leaves the list with the last helper that it wants.
    Job& take() {
        Job& job = *first_;
        if (--job.wanted == 0) remove(job);
        return job;
    }
    void remove(const Job& job) {
        for (Job** link = &first_; *link; link = &(*link)->following)
            if (*link == &job) {
                *link = job.following;
                if (last_ == &job.following) last_ = link;
                return;
            }
    }

  private:
    Job* first_ = nullptr;
    Job** last_ = &first_;  // where the next job is linked
};

// Lets the runtime allocate the variables of this thread: those of the C++ library, which a thread needs to throw, and
// those of this module. Otherwise it does so when they are first used, and ends the process if there is no memory then.
void allocate_thread_variables() {
    [[maybe_unused]] thread_local volatile int touched;
    touched = std::uncaught_exceptions();
}

// Memory that is kept free while a thread starts, for its variables. It is the system's: a new thread without an arena of the
// allocator gets pages of its own from the system.
struct Reserve : Pages {
    Reserve() : Pages(1 << 16) {}
};

class Pool {
  public:
    Pool() : process_(process_id()) {}

    // The pool is never destroyed: its threads end with the process. A forked child has the parent's pool without its
    // threads, and its mutex may be held. So the child does not touch that pool and makes a new one.
    static Pool& instance() {
        static std::atomic<Pool*> current{nullptr};
        Pool* pool = current.load();
        while (!pool || pool->process_ != process_id()) {
            Pool* fresh = new Pool;
            if (current.compare_exchange_strong(pool, fresh)) return *fresh;
            delete fresh;
        }
        return *pool;
    }

    void run(size_t n_tasks, int n_threads, const Work& work) {
        allocate_thread_variables();
        Job job(work, n_tasks, n_threads - 1);
        std::unique_lock lock(mutex_);
        grow(n_threads - 1, lock);
        waiting_.push(job);
        lock.unlock();
        for (int i = 1; i < n_threads; ++i) wake_.notify_one();
        const std::exception_ptr mine = job.drain(0);
        lock.lock();
        waiting_.remove(job);
        job.left.wait(lock, [&] { return job.helpers == 0; });
        lock.unlock();
        if (const std::exception_ptr& error = mine ? mine : job.error) std::rethrow_exception(error);
    }

  private:
    // Starts threads until the pool has `wanted`, and waits for each until it has allocated what it needs: a late
    // thread must not do so in the midst of a search that has taken the last memory. If the system has no more to
    // give, those that run do the work.
    void grow(int wanted, std::unique_lock<std::mutex>& lock) noexcept {
        try {
            while (n_threads_ < wanted) {
                {
                    Reserve reserve;
                    std::thread([this] { serve(); }).detach();
                    ++n_threads_;
                }
                started_.wait(lock, [&] { return n_started_ == n_threads_; });
            }
        } catch (...) {
        }
    }

    // The loop of a thread of the pool.
    void serve() noexcept {
        std::unique_lock lock(mutex_);  // free when the reserve is
        allocate_thread_variables();
        ++n_started_;
        started_.notify_all();
        for (;;) {
            wake_.wait(lock, [&] { return !waiting_.empty(); });
            Job& job = waiting_.take();
            const int slot = job.slots++;
            ++job.helpers;
            lock.unlock();
            std::exception_ptr error = job.drain(slot);
            lock.lock();
            if (error && !job.error) job.error = std::move(error);
            error = nullptr;  // under the lock: the caller may end the exception as soon as it has it
            if (--job.helpers == 0) job.left.notify_all();
        }
    }

    const long long process_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable started_;
    JobList waiting_;
    int n_threads_ = 0;  // threads of the pool
    int n_started_ = 0;  // those of them that wait for jobs or work
};

// The most threads that one call uses. More than twice the cores only wait for each other, and a pool keeps them.
int most_threads() {
    static const int most = std::max(kMostThreads, 2 * int(std::thread::hardware_concurrency()));  // it asks the system
    return most;
}

}  // namespace

void parallel_for(size_t n_tasks, int n_threads, const Work& work) {
    if (n_threads > kMostThreads) n_threads = std::min(n_threads, most_threads());
    if (size_t(std::max(n_threads, 0)) > n_tasks) n_threads = int(n_tasks);
    if (n_threads > 1) return Pool::instance().run(n_tasks, n_threads, work);
    for (size_t task = 0; task < n_tasks; ++task) work(task, 0);
}

}  // namespace supquant
