// The rows that a scan finds. A row is a key of 64 bits; keys sort by sum, then by row number.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace supquant {

using Key = uint64_t;

// Returns the key of a row. The upper 32 bits are those of the sum, changed so that unsigned integers sort as the
// floats do: all bits of a negative float are flipped, and the sign bit of a positive one is set. The lower 32 bits are
// the row.
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

// Keeps the k lowest of all keys given to it, or all of them. It stores up to 2 k + 1024 keys and then drops all but the k
// lowest, so a key costs constant time in whatever order keys come.
class Answers {
  public:
    // `ascending` says that rows come in ascending order. Then a later row with the sum of the k-th key is never
    // needed. `cut` is a number that the sums of at least k rows are known to be below, or infinity.
    Answers(size_t k, bool ascending, float cut)
        : k_(k), ascending_(ascending), known_(std::isfinite(cut)), cut_(cut) {}

    // Keeps all keys: there are never as many as kEvery. The cut lets through the sums that are at most the limit.
    explicit Answers(float limit)
        : k_(kEvery), ascending_(false), known_(true),
          cut_(std::nextafter(limit, std::numeric_limits<float>::infinity())) {}

    // A row can be among the k lowest only if its sum is below the cut. The cut is infinity until k sums are known.
    float cut() const { return cut_; }

    // Largest number of rows with the same sum that can be needed.
    size_t most() const { return k_; }

    // Number of rows to add up in float32 first. Before that the cut is so high that bytes would rule out few rows.
    size_t warm_up() const { return known_ ? 0 : 8 * k_; }

    // Stores a key. Returns false if the key, and so every higher key, is not among the k lowest.
    bool take(Key key) {
        if (key >= worst_) return false;
        keys_.push_back(key);
        if (keys_.size() >= 2 * k_ + 1024) select();
        return true;
    }

    // Lowers the cut if enough keys came since the last time.
    void tighten() {
        if (keys_.size() >= k_ + (kept_ ? k_ / 4 + 8 : 0)) select();
    }

    std::vector<Key>& keys() { return keys_; }

  private:
    // Drops all keys but the k lowest and lowers the cut.
    [[gnu::noinline]] void select() {
        std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.end());
        keys_.resize(k_);
        kept_ = k_;
        worst_ = keys_.back();
        cut_ = sum_of(worst_);
        if (!ascending_) cut_ = std::nextafter(cut_, std::numeric_limits<float>::infinity());
    }

    static constexpr size_t kEvery = std::numeric_limits<size_t>::max() / 4;

    const size_t k_;
    const bool ascending_;
    const bool known_;  // whether a cut was known from the start
    float cut_;
    std::vector<Key> keys_;
    size_t kept_ = 0;  // keys left by the last select(); 0 before the first
    Key worst_ = std::numeric_limits<Key>::max();
};

}  // namespace supquant
