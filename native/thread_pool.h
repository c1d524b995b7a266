// One pool of threads for the process, made when it is first needed.
#pragma once

#include <cstddef>
#include <functional>

namespace supquant {

// Calls work(task, slot) for task = 0 .. n_tasks on at most n_threads threads, the caller among them, and returns
// when all are done. `slot` < n_threads is different for threads that run at the same time: an index for scratch
// space. `work` must not throw. May be called from several threads at once, and from a forked child, which makes a
// pool of its own.
void parallel_for(size_t n_tasks, int n_threads, const std::function<void(size_t task, int slot)>& work);

}  // namespace supquant
