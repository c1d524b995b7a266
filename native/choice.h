// When ruling rows out by bytes pays, and in which way.
#pragma once

#include <algorithm>
#include <cstddef>

namespace supquant {

// Whether so many of some rows passed that adding up all of them is quicker than one by one.
inline bool many(size_t passed, size_t rows) { return 8 * passed > rows; }

// Which way of ruling out rows pays now. The first ways are faster and let more rows through. Where one lets too many through the
// next one takes over; the faster one is tried again after a while, longer each time, since the cut falls.
class Choice {
  public:
    enum Way { kCoarse, kFine, kFloat };

    explicit Choice(Way best) : best_(best), way_(best == kCoarse ? kFine : best) {}

    Way way() const { return way_; }
    void saw(size_t rows, size_t passed) {
        if (way_ != kFloat && many(passed, rows)) {
            way_ = Way(way_ + 1);
            left_ = wait_;
            wait_ = std::min(4 * wait_, 64);
        } else if (way_ != best_ && --left_ <= 0) {
            way_ = Way(way_ - 1);
        }
    }

  private:
    const Way best_;
    Way way_;
    int left_ = 4, wait_ = 4;   // lists of blocks
};

}  // namespace supquant
