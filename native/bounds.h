// Tables of bytes that bound sums of float32 tables from below.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels.h"

namespace supquant {

// A byte of the table is floor((t - lowest of its codebook) * 254 / reach), at most 255. The reach is the distance from the
// lowest possible sum to a cut, so that all 254 steps lie where the decision falls. If a sum in float32 is below the cut then
// its exact value is below cut + slack, and its bytes add up to at most `limit(cut, reach)`. Neither rounding here (double:
// M * 2^-44 of a step at the most) nor saturation can make that false: the sum of bytes is a whole number, and 254 is one.
class Bounds {
  public:
    static constexpr int kSteps = 254;

    Bounds(const float* table, int M, int K) : table_(table), M_(M), K_(K), lowest_(M) {
        double largest = 0;
        for (int m = 0; m < M; ++m) {
            float low = table[m * K], high = low;
            for (int k = 1; k < K; ++k) {
                low = std::min(low, table[m * K + k]);
                high = std::max(high, table[m * K + k]);
            }
            lowest_[m] = low;
            base_ += low;
            largest += std::max(std::fabs(double(low)), std::fabs(double(high)));
        }
        // Adding M floats one after the other is off by at most (M - 1) 2^-24 of the sum of their magnitudes, or a little more.
        slack_ = M * 6.1e-8 * largest;
    }

    const float* table() const { return table_; }

    // How far the sums that may be below a cut reach above the lowest; none are where this is not positive.
    double reach(float cut) const { return cut + slack_ - base_; }

    // Entry k of codebook m goes to out[(m * 256 + k) * stride].
    void fill(double reach, uint8_t* out, size_t stride) const {
        const double scale = kSteps / reach;
        for (int m = 0; m < M_; ++m) {
            const float* from = table_ + m * K_;
            uint8_t* to = out + size_t(m) * kMaxCodewords * stride;
            const double low = lowest_[m];
            for (int k = 0; k < K_; ++k) to[k * stride] = uint8_t(std::min((double(from[k]) - low) * scale, 255.0));
        }
    }

    // The limit for a cut at or below the one that the tables of this reach were made for.
    int limit(float cut, double made_for) const {
        return int(std::min(reach(cut) / made_for * kSteps + 1e-3, double(kSteps)));
    }

  private:
    const float* table_;
    int M_, K_;
    std::vector<float> lowest_;   // (M,)
    double base_ = 0, slack_ = 0;
};

}  // namespace supquant
