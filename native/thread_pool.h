// The pool of threads. A process has one, made when it is first needed.
#pragma once

#include <cstddef>
#include <functional>

namespace supquant {

// A call uses at most this number of threads, or twice the number of cores if that is more.
inline constexpr int kMostThreads = 64;

// Calls work(task, slot) for task = 0 .. n_tasks on at most n_threads threads, one of them the caller's, and returns
// when all tasks are done. Threads that run at the same time have different slots, all below n_threads: the slot is an
// index for scratch memory. If tasks throw, tasks that have not begun are left out, and one of the exceptions is thrown
// here when all threads have left the work. Several threads may call parallel_for at once. A forked child may call it
// too and gets a pool of its own.
void parallel_for(size_t n_tasks, int n_threads, const std::function<void(size_t task, int slot)>& work);

}  // namespace supquant
