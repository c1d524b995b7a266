// Decision trees: sums of leaves, and the best split of a node.
#pragma once

#include "kernels.h"

namespace {

using supquant::Split;
using supquant::SplitProblem;
using supquant::TreeEnsemble;

// Rows that go down a tree together. A single row would wait for memory at every node.
constexpr size_t kTreeRows = 16;

void tree_sums(const TreeEnsemble& trees, const float* x, size_t begin, size_t end, float* sums) {
    const size_t nodes = (size_t(1) << trees.depth) - 1;
    for (size_t first = begin; first < end; first += kTreeRows) {
        const size_t count = end - first < kTreeRows ? end - first : kTreeRows;
        const float* rows = x + first * trees.d;
        for (size_t group = 0; group < trees.n_groups; ++group) {
            float sum[kTreeRows] = {};
            for (size_t tree = group * trees.group_size; tree < (group + 1) * trees.group_size; ++tree) {
                const int32_t* features = trees.features + tree * nodes;
                const float* thresholds = trees.thresholds + tree * nodes;
                const float* leaves = trees.leaves + tree * (nodes + 1);
                uint32_t place[kTreeRows] = {};
                for (int level = 0; level < trees.depth; ++level)
                    for (size_t i = 0; i < count; ++i) {
                        const uint32_t node = place[i];
                        place[i] = 2 * node + 1 + (rows[i * trees.d + features[node]] > thresholds[node]);
                    }
                for (size_t i = 0; i < count; ++i) sum[i] += leaves[place[i] - nodes];
            }
            for (size_t i = 0; i < count; ++i) sums[(first + i) * trees.n_groups + group] = sum[i];
        }
    }
}

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
        double sums[256][2] = {};  // of each bin: sum of weights, sum of their magnitudes
        for (size_t i = 0; i < problem.count; ++i) {
            const double weight = problem.weights[i];
            double* sum = sums[column[problem.rows[i]]];
            sum[0] += weight;
            sum[1] += magnitude(weight);
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
