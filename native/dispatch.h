// Which instruction sets were compiled in, which of them this CPU and operating system can run, and which is in use.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace supquant {

std::vector<std::string> compiled_levels();    // slowest first
std::vector<std::string> available_levels();   // those of them that run here
const KernelTable& active_kernels();           // the last available one unless select() chose another
bool select(const std::string& name);          // false: not available, nothing changed

}  // namespace supquant
