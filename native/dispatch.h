// The choice of an instruction set. A level is the set of kernels compiled for one instruction set.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"

namespace supquant {

// Returns the names of the levels in this library, slowest first.
std::vector<std::string> compiled_levels();

// Returns the names of the levels that this processor and operating system can run, slowest first.
std::vector<std::string> available_levels();

// Returns the kernels in use: those of the last available level, or of the level that select() chose.
const KernelTable& active_kernels();

// Chooses a level by name. Returns false, and changes nothing, if it is not available.
bool select(const std::string& name);

}  // namespace supquant
