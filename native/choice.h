// The choice of how a scan rules rows out: by coarse bytes, by fine bytes, or not at all.
#pragma once

#include <algorithm>
#include <cstddef>

namespace supquant {

// Returns whether more than one row in eight passed. Then adding up whole blocks is faster than adding up row by row.
inline bool many(size_t passed, size_t rows) { return 8 * passed > rows; }

// Chooses between the ways. An earlier way is faster and lets more rows through. When a way lets too many rows through,
// the next one takes over. The faster way is tried again later, because the cut falls during a scan; each wait is
// longer than the last, until the fastest way works.
class Choice {
  public:
    enum Way { kCoarse, kFine, kFloat };

    // Coarse bytes are left when more than one row in `coarse_rows` passes. `known` says that a scan begins with a good
    // cut. Otherwise it does not begin with coarse bytes.
    Choice(Way best, size_t coarse_rows, bool known)
        : best_(best), coarse_rows_(coarse_rows), way_(best == kCoarse && !known ? kFine : best) {}

    Way way() const { return way_; }

    // Tells how many of some rows passed, after each list of blocks.
    void saw(size_t rows, size_t passed) {
        if (way_ != kFloat && (way_ == kCoarse ? coarse_rows_ * passed > rows : many(passed, rows))) {
            way_ = Way(way_ + 1);
            left_ = wait_;
            wait_ = std::min(4 * wait_, kLongestWait);
        } else if (way_ == best_) {
            wait_ = kFirstWait;  // a crowd of good rows, as in a cell of sorted codes, is over
        } else if (--left_ <= 0) {
            way_ = Way(way_ - 1);
        }
    }

  private:
    static constexpr int kFirstWait = 4, kLongestWait = 64;  // in lists of blocks

    const Way best_;
    const size_t coarse_rows_;
    Way way_;
    int left_ = kFirstWait;  // lists of blocks until the faster way is tried again
    int wait_ = kFirstWait;  // the next such number
};

}  // namespace supquant
