// The blocks of sorted codes that a search needs, found by the cells of the codes.
#pragma once

#include <algorithm>
#include <vector>

#include "bounds.h"
#include "kernels.h"
#include "scan.h"

namespace supquant {

// Hands out the blocks of cells, the most promising cell first, a few blocks at a time. It has the methods of
// BlockReader that Search::run needs.
//
// No code of a cell has a sum below the bound of the cell, which adds up the entries of its leading codewords and the
// lowest entries of the other codebooks. A cell holds no answer if its bound is not below the cut. Bounds of the cells
// inside a cell are computed when this one is reached, so most of them never are.
class CellReader {
  public:
    CellReader(const ScanSpace& space, int M, const Bounds& bounds)
        : cells_(*space.cells), bounds_(bounds) {
        list_ = {space.blocks, numbers_, 0, M};
        wait_inside({bounds.at_least(), 0, -1}, std::numeric_limits<float>::infinity());
    }

    // Returns whether no cell is left that may hold a row below the cut.
    bool done(float cut) const { return begin_ == end_ && (waiting_.empty() || !(waiting_.front().bound < cut)); }

    const BlockList& list() const { return list_; }
    const uint32_t* rows_begin() const { return nullptr; }
    const uint32_t* rows_end() const { return nullptr; }

    // Returns the work so far, in codes: those that were handed out, and kCellWork for each cell with a bound.
    size_t work() const { return work_; }

    // Fills list() with the next blocks. A block at the edge of a cell comes again, with its other codes.
    const BlockList& read(float cut) {
        list_.count = 0;
        while (list_.count < kScanBlocks && (begin_ < end_ || open_next(cut))) {
            const uint32_t block = begin_ / kBlockRows, first = block * kBlockRows;
            const uint32_t stop = std::min(end_, first + kBlockRows);
            masks_[list_.count] = bits_below(stop - first) & ~bits_below(begin_ - first);
            numbers_[list_.count++] = block;
            work_ += stop - begin_;
            begin_ = stop;
        }
        return list_;
    }

    // Bit i of the result is set if code i of the b-th listed block belongs to the cell.
    uint64_t allowed(int b) const { return masks_[b]; }

    // Returns about how many codes are in cells that were not handed out and may hold a row below the cut. Only some of
    // the cells that were not reached yet are looked into.
    size_t left(float cut) const {
        size_t known = 0, reached = 0, seen = 0, needed = 0;
        for (const Waiting& cell : waiting_) {
            if (!(cell.bound < cut)) continue;
            const size_t codes = codes_before(cell.level, cell.number + 1) - codes_before(cell.level, cell.number);
            if (cell.level + 1 == cells_.depth) {
                known += codes;
            } else if (reached++ % kLookedInto == 0) {
                seen += codes;
                needed += needed_inside(cell, cut);
            } else {
                known += seen ? size_t(double(codes) * needed / seen) : codes;
            }
        }
        return known + needed;
    }

  private:
    // A cell that was not reached yet. Level 0 has the cells by the first leading codebook.
    struct Waiting {
        double bound;
        uint32_t number;
        int level;
    };
    static bool later(const Waiting& a, const Waiting& b) { return a.bound > b.bound; }

    static uint64_t bits_below(uint32_t i) { return i < kBlockRows ? (uint64_t(1) << i) - 1 : ~uint64_t(0); }

    // Calls use(cell) for the cells inside a cell. Level -1 stands for all codes.
    template <class Use>
    void for_inside(const Waiting& cell, Use use) const {
        const int level = cell.level + 1, m = cells_.lead[level];
        const size_t first = cell.level < 0 ? 0 : cells_.starts[cell.level][cell.number];
        const size_t last = cell.level < 0 ? cells_.n_first : cells_.starts[cell.level][cell.number + 1];
        for (size_t i = first; i < last; ++i)
            use(Waiting{cell.bound + bounds_.above_lowest(m, cells_.words[level][i]), uint32_t(i), level});
    }

    void wait_inside(const Waiting& cell, float cut) {
        for_inside(cell, [&](const Waiting& inside) {
            work_ += kCellWork;
            if (!(inside.bound < cut)) return;
            waiting_.push_back(inside);
            std::push_heap(waiting_.begin(), waiting_.end(), later);
        });
    }

    // Makes the most promising cell of the last level the current one. Returns false if none may hold a row below the
    // cut.
    bool open_next(float cut) {
        while (!waiting_.empty() && waiting_.front().bound < cut) {
            std::pop_heap(waiting_.begin(), waiting_.end(), later);
            const Waiting next = waiting_.back();
            waiting_.pop_back();
            if (next.level + 1 < cells_.depth) {
                wait_inside(next, cut);
                continue;
            }
            begin_ = uint32_t(codes_before(next.level, next.number));
            end_ = uint32_t(codes_before(next.level, next.number + 1));
            return true;
        }
        return false;
    }

    // Returns the number of codes in the cells of a level before cell i.
    size_t codes_before(int level, size_t i) const {
        for (; level < cells_.depth; ++level) i = cells_.starts[level][i];
        return i;
    }

    // Returns the number of codes in those cells of the last level, inside a cell, that may hold a row below the cut.
    size_t needed_inside(const Waiting& cell, float cut) const {
        size_t needed = 0;
        for_inside(cell, [&](const Waiting& inside) {
            if (!(inside.bound < cut)) return;
            if (inside.level + 1 < cells_.depth)
                needed += needed_inside(inside, cut);
            else
                needed += codes_before(inside.level, inside.number + 1) - codes_before(inside.level, inside.number);
        });
        return needed;
    }

    static constexpr size_t kCellWork = 8;    // codes that are read in the time that the bound of a cell takes
    static constexpr size_t kLookedInto = 16;  // `left` looks into one of so many cells

    const CellTree& cells_;
    const Bounds& bounds_;
    std::vector<Waiting> waiting_;  // a heap, the lowest bound first
    uint32_t begin_ = 0, end_ = 0;  // the codes of the current cell that were not handed out yet
    size_t work_ = 0;
    uint32_t numbers_[kScanBlocks];
    uint64_t masks_[kScanBlocks];
    BlockList list_;
};

}  // namespace supquant
