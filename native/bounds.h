// Tables of bytes whose sums are lower bounds of float32 sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels.h"

namespace supquant {

// The lowest and the highest of some numbers, and whether one of them is NaN.
struct Range {
    float low = std::numeric_limits<float>::max(), high = -std::numeric_limits<float>::max();
    bool has_nan = false;
};

Range range_of(const float* numbers, int count);

// Makes the table of bytes of one query. Entry t of a codebook becomes floor((t - lowest entry of the codebook) * 254 /
// reach), at most 255. The reach is the distance from the lowest possible sum to the cut, so the 254 steps cover just
// the sums that may be below the cut.
//
// The promise: if the float32 sum of a row is below the cut, its bytes add up to at most `limit(cut, reach)`. The exact
// sum of such a row is below cut + slack. Its bytes are rounded down, so they add up to at most (cut + slack - lowest
// sum) * 254 / reach, which `limit` computes. Doubles are off by at most M * 2^-44 of a step, and `limit` adds 1e-3 of
// a step. Sums saturate at 255, which is above every limit.
class Bounds {
  public:
    static constexpr int kSteps = 254;  // steps between the lowest possible sum and the cut

    // `used` (M, 256) says which codewords occur, or is null if all may. Others do not count.
    Bounds(const float* table, int M, int K, const uint8_t* used);

    const float* table() const { return table_; }

    // Returns a number that no float32 sum is below.
    double at_least() const { return base_ - slack_; }

    // Returns how much the sums with codeword k of codebook m are above this number, at least.
    double above_lowest(int m, int k) const { return double(table_[m * K_ + k]) - lowest_[m]; }

    // Returns the distance from the lowest possible sum to the cut. If it is not positive, no sum is below the cut.
    double reach(float cut) const { return cut + slack_ - base_; }

    // Writes the byte of entry k of codebook m to out[(m * 256 + k) * stride].
    void fill(double reach, uint8_t* out, size_t stride) const;

    // Returns the largest sum of bytes that a row below the cut can have, in tables that were filled for the reach
    // `made_for`. The cut is not above the one of that reach.
    int limit(float cut, double made_for) const {
        return int(std::min(reach(cut) / made_for * kSteps + 1e-3, double(kSteps)));
    }

  private:
    const float* table_;
    const uint8_t* used_;
    int M_, K_;
    std::vector<float> lowest_;  // (M,) the lowest entry of each codebook
    double base_ = 0;            // the lowest possible sum
    double slack_ = 0;           // how far a float32 sum may be from the exact one
};

}  // namespace supquant
