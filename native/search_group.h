// The searches of several queries over the same blocks, which are read once for all of them.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "search.h"

namespace supquant {

// The searches of several queries over the same rows. Their tables of bytes are interleaved: a vector holds one entry
// of each query.
class Group {
  public:
    using Searches = std::vector<std::unique_ptr<Search>>;

    Group(const ScanSpace& space, int M, Searches& searches) : space_(space), M_(M), searches_(searches) {}

    // Searches the blocks begin .. end for all queries.
    void run(size_t begin, size_t end) {
        const KernelTable& kernels = active_kernels();
        BlockReader reader(space_, M_, begin, end);
        while (!reader.done() && !all_warm()) {
            reader.read();
            for (auto& search : searches_) {
                search->consider_rows(reader);
                search->sum_blocks(reader);
                search->answers().tighten();
            }
        }
        int crowded = 0;
        size_t separate = kSeparateBlocks;
        while (!reader.done()) {
            const BlockList& blocks = reader.read();
            for (auto& search : searches_) search->consider_rows(reader);
            fit();
            const size_t found = kernels.mark_many(blocks, table_.data(), limits_, rows_, lanes_);
            size_t passed = 0;
            for (size_t i = 0; i < found; ++i) passed += std::popcount(lanes_[i]);
            if (many(passed, size_t(blocks.count) * kBlockRows * searches_.size())) {
                for (auto& search : searches_) search->sum_blocks(reader);
                ++crowded;
            } else {
                consider_found(reader, found);
                crowded = 0;
            }
            for (auto& search : searches_) search->answers().tighten();
            if (crowded == kCrowdedLists) {  // bytes rule out too few rows
                const size_t from = reader.next(), to = std::min(end, from + separate);
                for (auto& search : searches_) search->run(from, to);
                reader.skip_to(to);
                --crowded;
                separate *= 4;
            }
        }
    }

  private:
    // Lets each query consider the rows that passed its limit.
    void consider_found(const BlockReader& reader, size_t found) {
        for (size_t i = 0; i < found; ++i) {
            if (!(reader.allowed_in(rows_[i] / kBlockRows) >> (rows_[i] % kBlockRows) & 1)) continue;
            for (uint64_t left = lanes_[i]; left; left &= left - 1)
                searches_[std::countr_zero(left)]->consider(rows_[i]);
        }
    }

    bool all_warm() const {
        return std::all_of(searches_.begin(), searches_.end(), [](auto& search) { return search->warm(); });
    }

    // Brings the limits up to date, and the tables of queries whose cut has fallen far.
    void fit() {
        const size_t width = active_kernels().query_lanes;
        if (table_.empty()) {
            table_.assign(size_t(M_) * kMaxCodewords * width, 255);
            std::fill_n(limits_, kMaxLanes, 0);
            reach_.assign(searches_.size(), 0);
        }
        for (size_t lane = 0; lane < searches_.size(); ++lane) {
            const Search& search = *searches_[lane];
            const float cut = search.answers().cut();
            if (search.finished()) {  // entries of 255 let no row pass
                if (reach_[lane] == kNone) continue;
                for (size_t entry = 0; entry < size_t(M_) * kMaxCodewords; ++entry) table_[entry * width + lane] = 255;
                limits_[lane] = 0;
                reach_[lane] = kNone;
                continue;
            }
            if (reach_[lane] == 0 || search.bounds().limit(cut, reach_[lane]) < kRefit) {
                reach_[lane] = search.bounds().reach(cut);
                search.bounds().fill(reach_[lane], &table_[lane], width);
            }
            limits_[lane] = uint8_t(search.bounds().limit(cut, reach_[lane]));
        }
    }

    static constexpr double kNone = -1;  // the reach of a lane whose search is finished

    // If too many rows pass in kCrowdedLists lists of blocks, one after the other, each query is searched on its own
    // for the next kSeparateBlocks blocks. The next time it is four times as many.
    static constexpr int kCrowdedLists = 4;
    static constexpr size_t kSeparateBlocks = 8 * kScanBlocks;

    const ScanSpace& space_;
    const int M_;
    Searches& searches_;
    std::vector<uint8_t> table_;                // (M, 256, query_lanes)
    uint8_t limits_[kMaxLanes];                 // (query_lanes,)
    uint32_t rows_[kScanBlocks * kBlockRows];   // rows that passed at least one limit
    uint64_t lanes_[kScanBlocks * kBlockRows];  // bit j: the row passed the limit of query j
    std::vector<double> reach_;                 // the reach for which the table of each lane was made; 0 before
};

}  // namespace supquant
