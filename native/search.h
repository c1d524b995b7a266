// The search of one query: bytes exclude rows, and float32 sums decide on the others.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "answers.h"
#include "block_reader.h"
#include "bounds.h"
#include "choice.h"
#include "dispatch.h"
#include "scan.h"

namespace supquant {

// A table of bytes is made anew when the cut has fallen so far that the limit is below so many of its 254 steps.
constexpr int kRefit = 160;

// The search of one query. What is done once for each list of blocks is not inlined: it is called at many places, and a call
// takes no time compared with a list.
class Search {
  public:
    Search(const ScanSpace& space, const ScanQueries& queries, size_t query, bool prune, Answers answers)
        : space_(space),
          M_(queries.M),
          K_(queries.K),
          bits_(queries.bits ? queries.bits + query * M_ : nullptr),
          bounds_(queries.tables + query * M_ * K_, M_, K_, space.used),
          choice_(best_way(prune), active_kernels().coarse_rows, answers.warm_up() == 0),
          answers_(std::move(answers)) {}

    Answers& answers() { return answers_; }
    const Answers& answers() const { return answers_; }
    const Bounds& bounds() const { return bounds_; }

    // Whether there is a cut, and enough rows were added up for bytes to rule out most of the others.
    bool warm() const { return has_cut() && summed_ >= answers_.warm_up(); }
    bool has_cut() const { return answers_.cut() < std::numeric_limits<float>::infinity(); }

    // Whether no row can be below the cut.
    bool finished() const { return has_cut() && !(bounds_.reach(answers_.cut()) > 0); }

    // Takes all eligible rows of a code whose sum is below the cut.
    void take(uint32_t code, float sum) {
        if (!space_.starts) {
            const uint32_t row = space_.members ? space_.members[code] : code;
            if (!space_.members || eligible(row)) answers_.take(make_key(sum, row));
            return;
        }
        size_t left = answers_.most();
        for (uint32_t i = space_.starts[code]; left && i < space_.starts[code + 1]; ++i) {
            const uint32_t row = space_.members[i];
            if (!eligible(row)) continue;
            if (!answers_.take(make_key(sum, row))) return;
            --left;
        }
        answers_.tighten();  // one code may have brought k rows
    }

    // Adds up the table at one code in float32. Takes the code if the sum is below the cut.
    void consider(uint32_t code) {
        if (space_.eligible && space_.members && !space_.starts && !eligible(space_.members[code])) return;
        const uint8_t* codes = at(code);
        const float* table = bounds_.table();
        float sum = table[codes[0]];
        for (int m = 1; m < M_; ++m) sum += table[m * K_ + codes[m * kBlockRows]];
        if (sum < answers_.cut()) take(code, sum);
    }

    // Considers the rows that the reader listed one by one. Every byte of a code lies in a cache line of its own, so
    // codes are prefetched.
    template <class Reader>
    [[gnu::noinline]] void consider_rows(const Reader& reader) {
        constexpr int kAhead = 4;  // rows between a prefetch and the sum
        for (const uint32_t* row = reader.rows_begin(); row != reader.rows_end(); ++row) {
            if (row + kAhead < reader.rows_end())
                for (int m = 0; m < M_; ++m) __builtin_prefetch(at(row[kAhead]) + m * kBlockRows);
            consider(*row);
        }
    }

    // Adds up all rows of the listed blocks in float32 and takes those below the cut.
    template <class Reader>
    [[gnu::noinline]] void sum_blocks(const Reader& reader) {
        const BlockList& blocks = reader.list();
        float sums[kScanBlocks * kBlockRows];  // on the stack, which searches in turn share and the cache keeps
        active_kernels().block_sums(blocks, bounds_.table(), K_, answers_.cut(), sums, marks_);
        summed_ += size_t(blocks.count) * kBlockRows;
        for_marked(reader, [&](uint32_t code, size_t place) { take(code, sums[place]); });
    }

    // Searches the blocks begin .. end.
    [[gnu::noinline]] void run(size_t begin, size_t end) {
        BlockReader reader(space_, M_, begin, end);
        run(reader, [] { return false; });
    }

    // Searches the blocks that a reader hands out, until stop() is true.
    template <class Reader, class Stop>
    [[gnu::noinline]] void run(Reader& reader, Stop stop) {
        while (!reader.done(answers_.cut()) && !finished() && !stop()) {
            const BlockList& blocks = reader.read(answers_.cut());
            consider_rows(reader);
            if (!warm() || choice_.way() == Choice::kFloat) {
                sum_blocks(reader);
                if (warm()) choice_.saw(0, 0);
            } else {
                const size_t rows = size_t(blocks.count) * kBlockRows;
                size_t passed = mark(reader);
                if (choice_.way() == Choice::kCoarse && many(passed, rows)) {  // fine bytes take less time than sums
                    choice_.saw(rows, passed);
                    passed = mark(reader);
                }
                if (many(passed, rows))
                    sum_blocks(reader);
                else
                    consider_marked(blocks);
                choice_.saw(rows, passed);
            }
            answers_.tighten();
        }
    }

  private:
    Choice::Way best_way(bool prune) const {
        const KernelTable& kernels = active_kernels();
        if (!prune || (!bits_ && !kernels.fast_lookup)) return Choice::kFloat;
        return !bits_ && kernels.coarse_rows ? Choice::kCoarse : Choice::kFine;
    }

    bool eligible(uint32_t row) const {
        return !space_.eligible || (space_.eligible[row / kBlockRows] >> (row % kBlockRows) & 1);
    }

    // The first byte of a code; the byte of codebook m is m * kBlockRows further.
    const uint8_t* at(uint32_t code) const {
        return space_.blocks + size_t(code / kBlockRows) * M_ * kBlockRows + code % kBlockRows;
    }

    // Marks the codes of the listed blocks that may be below the cut, exist and are eligible. Returns their number.
    template <class Reader>
    [[gnu::noinline]] size_t mark(const Reader& reader) {
        const BlockList& blocks = reader.list();
        mark_blocks(blocks);
        size_t count = 0;
        for (int b = 0; b < blocks.count; ++b) count += std::popcount(marks_[b] &= reader.allowed(b));
        return count;
    }

    // Marks in marks_ the codes of the listed blocks that may be below the cut.
    [[gnu::noinline]] void mark_blocks(const BlockList& blocks) {
        const float cut = answers_.cut();
        if (bits_) return mark_bits(blocks, std::ceil(cut) - 1);
        if (fine_.empty() || bounds_.limit(cut, reach_) < kRefit) {
            reach_ = bounds_.reach(cut);
            fine_.assign(size_t(M_) * kMaxCodewords, 255);
            bounds_.fill(reach_, fine_.data(), 1);
            coarse_.clear();
        }
        const bool coarse = choice_.way() == Choice::kCoarse;
        if (coarse && coarse_.empty()) {  // entry k / 2 is the lower one of codewords k and k + 1, k even
            coarse_.assign(size_t(M_) * kMaxCodewords, 255);
            for (int m = 0; m < M_; ++m)
                for (int k = 0; k < kMaxCodewords / 2; ++k) {
                    const uint8_t* pair = &fine_[m * kMaxCodewords + 2 * k];
                    coarse_[m * kMaxCodewords + k] = std::min(pair[0], pair[1]);
                }
        }
        active_kernels().mark_by_tables(blocks, coarse ? coarse_.data() : fine_.data(), coarse,
                                        uint8_t(bounds_.limit(cut, reach_)), marks_);
    }

    // Marks the codes that differ from the query in at most `most` bits. Sums of bytes saturate at 255, so from there
    // on all codes are marked.
    void mark_bits(const BlockList& blocks, float most) {
        if (most >= 255)
            std::fill_n(marks_, blocks.count, ~uint64_t(0));
        else if (most < 0)
            std::fill_n(marks_, blocks.count, uint64_t(0));
        else
            active_kernels().mark_by_bits(blocks, bits_, uint8_t(most), marks_);
    }

    // Adds up the table at the marked codes in float32. Takes those whose sum is below the cut.
    [[gnu::noinline]] void consider_marked(const BlockList& blocks) {
        uint32_t codes[kListedRows];
        float sums[kScanBlocks * kBlockRows];
        const size_t count = active_kernels().list_marked(blocks, marks_, codes);
        active_kernels().row_sums(blocks, codes, count, bounds_.table(), K_, sums);
        for (size_t i = 0; i < count; ++i)
            if (sums[i] < answers_.cut()) take(codes[i], sums[i]);
    }

    // Calls use(code, place among the rows of the listed blocks) for the marked codes that exist and are eligible.
    template <class Reader, class Use>
    void for_marked(const Reader& reader, Use use) {
        const BlockList& blocks = reader.list();
        for (int b = 0; b < blocks.count; ++b) {
            if (!marks_[b]) continue;
            uint64_t marks = marks_[b] & reader.allowed(b);
            for (; marks; marks &= marks - 1) {
                const int i = std::countr_zero(marks);
                use(blocks.numbers[b] * kBlockRows + i, size_t(b) * kBlockRows + i);
            }
        }
    }

    const ScanSpace& space_;
    const int M_, K_;
    const uint8_t* bits_;
    Bounds bounds_;
    Choice choice_;
    Answers answers_;
    std::vector<uint8_t> fine_, coarse_;    // (M, 256) tables of bytes, empty until they are needed
    double reach_ = 0;                      // the reach for which they were made
    size_t summed_ = 0;                     // rows that were added up in whole blocks
    uint64_t marks_[kScanBlocks];           // bit i of marks_[b]: row i of the b-th listed block
};

}  // namespace supquant
