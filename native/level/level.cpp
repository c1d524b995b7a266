// All kernels for one instruction set. CMake compiles this file once for each level, with these macros:
//   SUPQUANT_LEVEL        the name of the level
//   SUPQUANT_LANES        floats in a vector, 1 for code without vectors
//   SUPQUANT_BYTES_...    chooses the file with vectors of bytes; bytes_portable.h if none is set
//   SUPQUANT_LOOKUPS      set if the level differs from another one only in look-ups of bytes: then the table has only these,
//                         and dispatch.cpp adds the other kernels
//
// The table below is the only symbol that leaves the object. Only this file includes the headers of this folder. They
// keep all code in anonymous namespaces and use no templates or inline functions of the standard library. The linker
// merges functions that several objects define, and might keep one with instructions that this processor does not have.
#include "kernels.h"
#include "lookups.h"
#if !defined(SUPQUANT_LOOKUPS)
#include "assign.h"
#include "beam.h"
#include "counts.h"
#include "dots.h"
#include "exponential.h"
#include "products.h"
#include "prune.h"
#include "sums.h"
#include "trees.h"
#endif

#define SUPQUANT_JOIN_(a, b) a##b
#define SUPQUANT_JOIN(a, b) SUPQUANT_JOIN_(a, b)
#define SUPQUANT_TEXT_(a) #a
#define SUPQUANT_TEXT(a) SUPQUANT_TEXT_(a)

namespace supquant {

extern const KernelTable SUPQUANT_JOIN(kernels_, SUPQUANT_LEVEL);
const KernelTable SUPQUANT_JOIN(kernels_, SUPQUANT_LEVEL) = {
    .name = SUPQUANT_TEXT(SUPQUANT_LEVEL),
#if !defined(SUPQUANT_LOOKUPS)
    .fold_pair_table = fold_pair_table,
    .assign = assign,
    .beam = beam,
    .code_sums = code_sums,
    .pair_block = pair_block,
    .interaction = interaction,
    .table_sums = table_sums,
    .decode_float = decode<float>,
    .decode_double = decode<double>,
    .query_lanes = kQueryLanes,
#endif
    .group_from = kGroupFrom,
    .fast_lookup = kFastLookup,
    .coarse_rows = kCoarseRows,
    .mark_by_tables = mark_by_tables,
#if !defined(SUPQUANT_LOOKUPS)
    .list_marked = list_marked,
    .row_sums = row_sums,
    .mark_by_bits = mark_by_bits,
    .mark_many = mark_many,
    .block_sums = block_sums,
    .tree_sums = tree_sums,
    .best_split = best_split,
    .products = products,
    .gaussian = gaussian,
    .counted_exponentials = counted_exponentials,
    .byte_dots = row_dots<int8_t>,
    .half_dots = row_dots<uint16_t>,
    .count_products = count_products,
    .count_slopes = count_slopes,
#endif
};

}  // namespace supquant
