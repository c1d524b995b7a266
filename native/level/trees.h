// Decision trees: sums of leaves, and the best split of a node.
#pragma once

#include "kernels.h"

namespace {

using supquant::Split;
using supquant::SplitProblem;
using supquant::TreeEnsemble;

// tree_sums for kRows rows, which go down a tree together: a single row would wait for memory at every node.
template <size_t kRows>
void tree_sums_of(const TreeEnsemble& trees, const float* rows, float* sums) {
    const size_t nodes = (size_t(1) << trees.depth) - 1;
    for (size_t group = 0; group < trees.n_groups; ++group) {
        float sum[kRows] = {};
        for (size_t tree = group * trees.group_size; tree < (group + 1) * trees.group_size; ++tree) {
            const int32_t* features = trees.features + tree * nodes;
            const float* thresholds = trees.thresholds + tree * nodes;
            const float* leaves = trees.leaves + tree * (nodes + 1);
            uint32_t place[kRows] = {};
            for (int level = 0; level < trees.depth; ++level)
#pragma GCC unroll 4
                for (size_t i = 0; i < kRows; ++i) {
                    const uint32_t node = place[i];
                    place[i] = 2 * node + 1 + (rows[i * trees.d + features[node]] > thresholds[node]);
                }
#pragma GCC unroll 4
            for (size_t i = 0; i < kRows; ++i) sum[i] += leaves[place[i] - nodes];
        }
#pragma GCC unroll 4
        for (size_t i = 0; i < kRows; ++i) sums[i * trees.n_groups + group] = sum[i];
    }
}

void tree_sums(const TreeEnsemble& trees, const float* x, size_t begin, size_t end, float* sums) {
    const auto of = [&](auto kernel, size_t i) { kernel(trees, x + i * trees.d, sums + i * trees.n_groups); };
    size_t i = begin;
    for (; i + 16 <= end; i += 16) of(tree_sums_of<16>, i);
    for (; i + 4 <= end; i += 4) of(tree_sums_of<4>, i);
    for (; i < end; ++i) of(tree_sums_of<1>, i);
}

typedef double Pair __attribute__((vector_size(16)));

inline double magnitude(double x) { return __builtin_fabs(x); }

void best_split(const SplitProblem& problem, const int32_t* features, size_t begin, size_t end, Split* best) {
    double total = 0, mass = 0;
    for (size_t i = 0; i < problem.count; ++i) {
        total += problem.weights[i];
        mass += magnitude(problem.weights[i]);
    }
    *best = {-1, begin, 255};
    for (size_t f = begin; f < end; ++f) {
        const uint8_t* column = problem.bins + size_t(features[f]) * problem.n;
        Pair sums[256] = {};  // of each bin: sum of weights, sum of their magnitudes
        for (size_t i = 0; i < problem.count; ++i) {
            const double weight = problem.weights[i];
            sums[column[problem.rows[i]]] += Pair{weight, magnitude(weight)};
        }
        double left = 0, left_mass = 0;
        for (int bin = 0; bin < 255; ++bin) {
            if (sums[bin][1] == 0) continue;  // an empty bin: the split is the one before
            left += sums[bin][0];
            left_mass += sums[bin][1];
            const double right = total - left, right_mass = mass - left_mass;
            if (!(right_mass > 0)) break;
            const double score = left * left / left_mass + right * right / right_mass;
            if (score > best->score) *best = {score, f, uint8_t(bin)};
        }
    }
}

}  // namespace
