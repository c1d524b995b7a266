#include "bounds.h"

namespace supquant {

// Numbers are compared in lanes that do not wait for each other.
Range range_of(const float* numbers, int count) {
    constexpr int kLanes = 16;
    Range range;
    float low[kLanes], high[kLanes];
    int nan[kLanes] = {};
    std::fill_n(low, kLanes, range.low);
    std::fill_n(high, kLanes, range.high);
    int k = 0;
    for (; k + kLanes <= count; k += kLanes)
        for (int lane = 0; lane < kLanes; ++lane) {
            const float number = numbers[k + lane];
            low[lane] = number < low[lane] ? number : low[lane];
            high[lane] = number > high[lane] ? number : high[lane];
            nan[lane] |= number != number;
        }
    for (; k < count; ++k) {
        range.low = std::min(range.low, numbers[k]);
        range.high = std::max(range.high, numbers[k]);
        range.has_nan |= numbers[k] != numbers[k];
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        range.low = std::min(range.low, low[lane]);
        range.high = std::max(range.high, high[lane]);
        range.has_nan |= nan[lane] != 0;
    }
    return range;
}

Bounds::Bounds(const float* table, int M, int K, const uint8_t* used)
    : table_(table), used_(used), M_(M), K_(K), lowest_(M) {
    double largest = 0;
    for (int m = 0; m < M; ++m) {
        Range range;
        if (!used) range = range_of(table + m * K, K);
        for (int k = 0; used && k < K; ++k) {
            if (!used[m * kMaxCodewords + k]) continue;
            range.low = std::min(range.low, table[m * K + k]);
            range.high = std::max(range.high, table[m * K + k]);
        }
        lowest_[m] = range.low;
        base_ += range.low;
        largest += std::max(std::fabs(double(range.low)), std::fabs(double(range.high)));
    }
    // A float32 sum of M numbers is off by about (M - 1) 2^-24 of the sum of their magnitudes. 6.1e-8 is a little
    // above 2^-24.
    slack_ = M * 6.1e-8 * largest;
}

void Bounds::fill(double reach, uint8_t* out, size_t stride) const {
    const double scale = kSteps / reach;
    for (int m = 0; m < M_; ++m) {
        const float* from = table_ + m * K_;
        uint8_t* to = out + size_t(m) * kMaxCodewords * stride;
        const double low = lowest_[m];
        for (int k = 0; k < K_; ++k) {
            const bool counts = !used_ || used_[m * kMaxCodewords + k];
            to[k * stride] = counts ? uint8_t(std::min((double(from[k]) - low) * scale, 255.0)) : 255;
        }
    }
}

}  // namespace supquant
