// Rows that were found, as keys that sort by sum and then by row.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace supquant {

using Key = uint64_t;

// Floats in order are unsigned integers in order once negative ones are turned over and positive ones moved above them.
inline Key make_key(float sum, uint32_t row) {
    uint32_t bits;
    sum += 0.0f;  // -0 and 0 are equal sums
    std::memcpy(&bits, &sum, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return Key(bits) << 32 | row;
}
inline uint32_t row_of(Key key) { return uint32_t(key); }
inline float sum_of(Key key) {
    uint32_t bits = uint32_t(key >> 32);
    bits = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    float sum;
    std::memcpy(&sum, &bits, sizeof sum);
    return sum;
}

// The k lowest keys of all it was given. More are kept than k, and the worst of them thrown away once in a while, which takes
// a constant time for each key whatever their order.
class TopK {
  public:
    // `ascending`: rows come in ascending order, so that a row with the sum of the worst one kept is no better.
    TopK(size_t k, bool ascending) : k_(k), ascending_(ascending) {}

    // Only rows with a sum below this can be among the k lowest; infinity as long as there are not k.
    float cut() const { return cut_; }

    // No more rows of equal sum are of use.
    size_t most() const { return k_; }

    // After fewer rows so many are still below the cut that ruling rows out does not pay.
    size_t warm_up() const { return 8 * k_; }

    // False if the key, and so any higher one, is not among the k lowest.
    bool take(Key key) {
        if (key >= worst_) return false;
        keys_.push_back(key);
        if (keys_.size() >= 2 * k_ + 1024) select();
        return true;
    }

    // Lowers the cut if that is worth the work.
    void tighten() {
        if (keys_.size() >= k_ + (kept_ ? k_ / 4 + 8 : 0)) select();
    }

    std::vector<Key>& keys() { return keys_; }

  private:
    // Drops all but the k lowest.
    void select() {
        std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.end());
        keys_.resize(k_);
        kept_ = k_;
        worst_ = keys_.back();
        cut_ = sum_of(worst_);
        if (!ascending_) cut_ = std::nextafter(cut_, std::numeric_limits<float>::infinity());
    }

    const size_t k_;
    const bool ascending_;
    std::vector<Key> keys_;
    size_t kept_ = 0;
    Key worst_ = std::numeric_limits<Key>::max();
    float cut_ = std::numeric_limits<float>::infinity();
};

// All keys with a sum up to a limit.
class Within {
  public:
    explicit Within(float limit) : cut_(std::nextafter(limit, std::numeric_limits<float>::infinity())) {}

    float cut() const { return cut_; }
    size_t most() const { return std::numeric_limits<size_t>::max(); }
    size_t warm_up() const { return 0; }
    bool take(Key key) {
        keys_.push_back(key);
        return true;
    }
    void tighten() {}
    std::vector<Key>& keys() { return keys_; }

  private:
    std::vector<Key> keys_;
    float cut_;
};

}  // namespace supquant
