// Reads a scan's blocks and passes over rows that are not eligible.
#pragma once

#include <bit>

#include "kernels.h"
#include "scan.h"

namespace supquant {

// Hands out the blocks `begin` up to `end` of a space, a few at a time, whatever the cut is. A block without eligible
// rows is skipped. Of a block with at most kFew eligible rows, only these rows are handed out, one by one.
class BlockReader {
  public:
    BlockReader(const ScanSpace& space, int M, size_t begin, size_t end)
        : words_(space.members ? nullptr : space.eligible), n_(space.n), next_(begin), end_(end) {
        list_ = {space.blocks, numbers_, 0, M};
    }

    bool done(float = 0) const { return next_ >= end_; }
    size_t next() const { return next_; }
    void skip_to(size_t block) { next_ = block; }

    const BlockList& list() const { return list_; }
    const uint32_t* rows_begin() const { return rows_; }
    const uint32_t* rows_end() const { return rows_ + n_listed_; }

    // Fills list() with the next blocks, and rows_begin() .. rows_end() with the next single rows.
    const BlockList& read(float = 0) {
        list_.count = 0;
        n_listed_ = 0;
        for (; list_.count < kScanBlocks && n_listed_ <= kMostRows - kFew && next_ < end_; ++next_) {
            if (!words_)
                numbers_[list_.count++] = uint32_t(next_);
            else if (words_[next_])
                list_rows(words_[next_]);
        }
        return list_;
    }

    // Bit i of the result is set if row i of the b-th listed block exists and is eligible.
    uint64_t allowed(int b) const { return allowed_in(numbers_[b]); }

    // Bit i of the result is set if row i of the block exists and is eligible.
    uint64_t allowed_in(uint32_t block) const {
        uint64_t rows = words_ ? words_[block] : ~uint64_t(0);
        const size_t first = size_t(block) * kBlockRows;
        if (first + kBlockRows > n_) rows &= (uint64_t(1) << (n_ - first)) - 1;
        return rows;
    }

  private:
    // Lists the next block, or its eligible rows (the bits of `word`) if they are few.
    void list_rows(uint64_t word) {
        if (std::popcount(word) > kFew) {
            numbers_[list_.count++] = uint32_t(next_);
            return;
        }
        for (; word; word &= word - 1) rows_[n_listed_++] = uint32_t(next_ * kBlockRows + std::countr_zero(word));
    }

    static constexpr int kFew = 4;         // a block with so many eligible rows or fewer is read row by row
    static constexpr int kMostRows = 256;  // single rows in one list

    const uint64_t* words_;  // one bit a row, or null: every row is eligible
    const size_t n_;         // codes in all blocks
    size_t next_;            // the first block that was not handed out yet
    const size_t end_;
    uint32_t numbers_[kScanBlocks];
    BlockList list_;
    uint32_t rows_[kMostRows];
    int n_listed_ = 0;
};

}  // namespace supquant
