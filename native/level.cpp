// All kernels for one instruction set. CMake compiles this file once per level, with
//   SUPQUANT_LEVEL        the level's name,
//   SUPQUANT_LANES        floats in a vector (1: scalar code), and
//   SUPQUANT_BYTES_...    which file holds its vectors of bytes (none: bytes_portable.h),
// and the table below is the only symbol that leaves the object.
#include "assign.h"
#include "hamming.h"
#include "kernels.h"
#include "products.h"
#include "prune.h"
#include "sums.h"
#include "trees.h"

#define SUPQUANT_JOIN_(a, b) a##b
#define SUPQUANT_JOIN(a, b) SUPQUANT_JOIN_(a, b)
#define SUPQUANT_TEXT_(a) #a
#define SUPQUANT_TEXT(a) SUPQUANT_TEXT_(a)

namespace supquant {

extern const KernelTable SUPQUANT_JOIN(kernels_, SUPQUANT_LEVEL);
const KernelTable SUPQUANT_JOIN(kernels_, SUPQUANT_LEVEL) = {
    SUPQUANT_TEXT(SUPQUANT_LEVEL), fold_pair_table, assign,     greedy,        code_sums,
    pair_block,                    interaction,     table_sums, decode<float>, decode<double>,
    kQueryLanes,                   kGroupFrom,      kFastLookup, kStartCoarse,  mark_by_tables,
    mark_by_bits,                  mark_many,       block_sums, hamming,       tree_sums,
    best_split,                    products,
};

}  // namespace supquant
