// Sums to scores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace supquant {

// How the sums of a query become scores: offset + sum, or offset - sum if `descending`, and then a point on a curve.
struct ScoreRule {
    const float* offsets;  // (q,)
    bool descending;
    const float* curves;      // (n_curves, 2, points): ascending scores, and the probabilities that they stand for; or null
    size_t n_curves, points;  // points >= 1
    const int64_t* curve_of;  // (q,) the curve of each query; null if all have the first one
};

// The value at x of straight lines between the points (xs[j], ys[j]), in the order of operations of numpy.interp.
inline double read_curve(const float* xs, const float* ys, size_t points, double x) {
    if (!(x >= xs[0])) return x < xs[0] ? ys[0] : x;
    const size_t j = size_t(std::upper_bound(xs, xs + points, x) - xs) - 1;
    if (j == points - 1 || x == xs[j]) return ys[j];
    const double slope = (double(ys[j + 1]) - ys[j]) / (double(xs[j + 1]) - xs[j]);
    return slope * (x - xs[j]) + ys[j];
}

// scores (q, k) of sums (q, k). Returns false if a query has a curve that is not there.
inline bool scores(const ScoreRule& rule, const float* sums, size_t q, size_t k, float* scores) {
    for (size_t i = 0; i < q; ++i) {
        const size_t curve = rule.curve_of ? size_t(rule.curve_of[i]) : 0;
        if (rule.curves && curve >= rule.n_curves) return false;
        const float* xs = rule.curves + curve * 2 * rule.points;
        for (size_t j = i * k; j < (i + 1) * k; ++j) {
            const float score = rule.descending ? rule.offsets[i] - sums[j] : rule.offsets[i] + sums[j];
            scores[j] = rule.curves ? float(read_curve(xs, xs + rule.points, rule.points, score)) : score;
        }
    }
    return true;
}

}  // namespace supquant
