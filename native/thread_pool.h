// The pool of threads. A process has one, made when it is first needed.
#pragma once

#include <cstddef>
#include <functional>

namespace supquant {

// Calls work(task, slot) for task = 0 .. n_tasks on at most n_threads threads, one of them the caller's, and returns
// when all tasks are done. Threads that run at the same time have different slots, all below n_threads: the slot is an
// index for scratch memory. `work` must not throw. Several threads may call parallel_for at once. A forked child may
// call it too and gets a pool of its own.
void parallel_for(size_t n_tasks, int n_threads, const std::function<void(size_t task, int slot)>& work);

}  // namespace supquant
